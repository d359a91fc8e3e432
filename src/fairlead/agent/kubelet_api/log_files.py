"""Reads the log of a container while it grows and is rotated: nothing is lost, and nothing shown twice.

A rotated file is renamed, and a new one takes its place once the writer has gone over to it: then the old one is
complete. Whoever was slow goes through all files that came between. Only the newest is read from its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

READ_BYTES: Final = 256 << 10
#: Of files that are none to read: compressed ones, and those that are just being written.
_PASSED_OVER: Final = (".gz", ".tmp")


class LogFiles:
    """The log that is written to that path, from some place on."""

    def __init__(self, path: Path) -> None:
        """Raises OSError: there is none."""
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._is_old = False

    def close(self) -> None:
        self._file.close()

    def skip_to_last(self, lines: int) -> None:
        """Go to where the last so many lines begin, however long the file is."""
        position, missing = self._file.seek(0, os.SEEK_END), lines + 1
        while position > 0:
            start = max(0, position - READ_BYTES)
            self._file.seek(start)
            block = self._file.read(position - start)
            breaks = block.count(b"\n")
            if breaks >= missing:
                self._file.seek(start + _break_from_end(block, missing) + 1)
                return
            missing, position = missing - breaks, start
        self._file.seek(0)

    def read(self) -> bytes:
        """What comes next; b"": nothing yet."""
        while True:
            if data := self._file.read(READ_BYTES):
                return data
            if not self._is_old:
                self._is_old = self._was_rotated()  # from then on it is complete: read on to its end
                if not self._is_old:
                    return b""
            elif not self._goes_on():
                return b""

    def _was_rotated(self) -> bool:
        try:
            return not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except FileNotFoundError:  # the next is not there yet, so this one may still be written
            return False

    def _goes_on(self) -> bool:
        """Open the file that came after this one. False: it is just being rotated itself."""
        opened = next(self._later(), None)
        path = self._path if opened is None else opened
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return False
        self._file.close()
        self._file, self._is_old = file, opened is not None
        return True

    def _later(self) -> Iterator[Path]:
        """Rotated files that are later than the one that is read."""
        own = os.fstat(self._file.fileno())
        rotated = sorted(self._path.parent.glob(f"{self._path.name}.*"), reverse=True)
        later: list[Path] = []
        for path in rotated:
            if path.suffix in _PASSED_OVER:
                continue
            try:
                if os.path.samestat(own, path.stat()):
                    break
            except FileNotFoundError:
                continue
            later.append(path)
        else:
            return  # this one is gone: nobody can say which came after it
        yield from reversed(later)


def _break_from_end(block: bytes, number: int) -> int:
    """Where the line break is that is this one from the end."""
    at = len(block)
    for _ in range(number):
        at = block.rfind(b"\n", 0, at)
    return at
