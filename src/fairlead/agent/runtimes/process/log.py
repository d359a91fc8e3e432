"""The log of a container, in CRI's format: each line with its time and stream, and whether it is whole."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_NAMES: Final = {2: b"stdout", 3: b"stderr"}


class Log:
    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _opened(path)

    def write(self, stream: int, data: bytes) -> None:
        """What was read at once: what does not end in a newline is part of a line."""
        lines = data.split(b"\n")
        begin = b"%s %s " % (_now(), _NAMES[stream])
        written = b"".join(b"%sF %s\n" % (begin, line) for line in lines[:-1])
        if lines[-1]:
            written += b"%sP %s\n" % (begin, lines[-1])
        while written:
            written = written[os.write(self._file, written) :]

    def reopen(self) -> None:
        """Go on in a new file of that name."""
        os.close(self._file)
        self._file = _opened(self._path)


def _opened(path: str) -> int:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _now() -> bytes:
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{nanoseconds:09d}Z".encode()
