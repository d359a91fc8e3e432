"""The usage player: a small static program that uses what a plan says (player.c).

It is compiled when it is first needed, and kept. A wheel with a program in it would have to be built for each
processor and C library; a machine that runs containers has a compiler, or gets one from PyPI (`ziglang`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("player.c")
_OPTIONS: Final = ("-O2", "-s", "-static", "-pthread")
#: zig makes its C library first.
_COMPILE_SECONDS: Final = 900.0


class NoPlayer(Exception):
    """The player cannot be made here; the text says what is missing."""


def player(cache: Path) -> Path:
    """The program, made if it is not there yet. It is as new as its source."""
    source = SOURCE.read_bytes()
    found = cache / f"player-{os.uname().machine}-{hashlib.sha256(source).hexdigest()[:16]}"
    if found.is_file():
        return found
    cache.mkdir(parents=True, exist_ok=True)
    problems = []
    for compiler in _compilers():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            made = Path(scratch, "player")
            try:
                done = subprocess.run(
                    [*compiler, *_OPTIONS, "-o", str(made), str(SOURCE)],
                    capture_output=True,
                    text=True,
                    timeout=_COMPILE_SECONDS,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                problems.append(str(error))
                continue
            if done.returncode == 0:
                made.replace(found)
                return found
            problems.append(done.stderr.strip()[-500:])
    said = f": {problems[-1]}" if problems else ""
    raise NoPlayer(f"the usage player cannot be compiled (apt-get install gcc libc6-dev, or pip install ziglang){said}")


def _compilers() -> list[Sequence[str]]:
    """The machine's own first: it needs no cache and no minute."""
    found: list[Sequence[str]] = [[path] for name in ("cc", "gcc", "clang") if (path := shutil.which(name))]
    if importlib.util.find_spec("ziglang") is not None:
        found.append([sys.executable, "-m", "ziglang", "cc", "-target", f"{os.uname().machine}-linux-musl"])
    return found
