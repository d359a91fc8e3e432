"""What a running conmon can be told, by its pipe `ctl`: the size of a terminal, and to begin a new log.

Source: conmon 2.1, `src/ctrl.c`.
"""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.runtime.streaming.remote_command import Size


def resize(folder: Path, size: Size) -> None:
    """OSError: nobody listens, so the container has ended."""
    _tell(folder, f"1 {size.height} {size.width}\n")


def reopen_log(folder: Path) -> None:
    """Go over to a new file at the path of the log, soon; OSError as above."""
    _tell(folder, "2 0 0\n")


def _tell(folder: Path, message: str) -> None:
    descriptor = os.open(folder / "ctl", os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(descriptor, message.encode())
    finally:
        os.close(descriptor)
