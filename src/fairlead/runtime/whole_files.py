"""Files that are written whole or not at all: under the name that a user gave them, or of what is to outlive us."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def written_whole(target: Path) -> Iterator[IO[bytes]]:
    """What is written appears when the block ends, or what was there before stays if it fails.

    A device or a pipe (`/dev/stdout`) is written to as it is: a file in its place would take it from everybody. Of a
    link, the file behind it is replaced. Raises OSError.
    """
    target = target.resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def replace_durably(path: Path, content: bytes) -> None:
    """Replace a file of ours, which is on disk then. A crash leaves the old one or the new one. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
