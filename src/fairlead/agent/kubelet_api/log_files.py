"""Reads the log of a container while it grows and is rotated: nothing is lost, and nothing shown twice.

A rotated file is renamed, and a new one takes its place once the writer has gone over to it: then the old one is
complete. Whoever was slow goes through all files that came between, also those that are compressed by now.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

READ_BYTES: Final = 256 << 10
#: What a rotated file has behind its name once it is compressed, and while it is just being written.
COMPRESSED: Final = ".gz"
_DRAFT: Final = ".tmp"
#: Of a log, which tell it from any other.
_BEGINNING_BYTES: Final = 256


class LogFiles:
    """The log that is written to that path, from some place on."""

    def __init__(self, path: Path) -> None:
        """Raises OSError: there is none."""
        self._path = path
        self._up_to = _newest(path)  # the last rotated file that is not later than the one that is read
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

    def may_go_on(self) -> bool:
        """Whether `read` could find something, for some microseconds of a loop's time: asked after it found nothing."""
        if self._is_old:
            return True
        return os.fstat(self._file.fileno()).st_size > self._file.tell() or self._was_rotated()

    def _was_rotated(self) -> bool:
        try:
            return not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except FileNotFoundError:  # the next is not there yet, so this one may still be written
            return False

    def _goes_on(self) -> bool:
        """Open the file that came after this one. False: it is just being rotated itself."""
        while True:
            later, newest = next(iter(self._later()), None), _newest(self._path)
            try:
                file = self._path.open("rb") if later is None else _opened(later.path)
            except FileNotFoundError:
                if later is None:
                    return False
                continue  # it has just been compressed, or removed
            if later is None and _newest(self._path) != newest:
                file.close()
                continue  # the one that is to be read was rotated before it was opened
            self._file.close()
            self._file, self._is_old = file, later is not None
            self._up_to = newest if later is None else later.name
            return True

    def _later(self) -> list[_Rotated]:
        """Rotated files that are later than the one that is read; if that is gone, all are: the oldest go first."""
        rotated = [file for file in _rotated(self._path) if file.name > self._up_to]
        own = next((index for index, file in enumerate(rotated) if self._is_own(file.path)), -1)
        return rotated[own + 1 :]

    def _is_own(self, path: Path) -> bool:
        """Whether that is what became of the file that is read. Lines tell their time, so two never begin alike."""
        if isinstance(self._file, gzip.GzipFile):
            return False
        descriptor = self._file.fileno()
        try:
            if path.suffix != COMPRESSED:
                return os.path.samestat(os.fstat(descriptor), path.stat())
            with _opened(path) as compressed:
                return compressed.read(_BEGINNING_BYTES) == os.pread(descriptor, _BEGINNING_BYTES, 0)
        except FileNotFoundError:
            return False


class _Rotated(NamedTuple):
    name: str
    path: Path


def _rotated(path: Path) -> list[_Rotated]:
    """The oldest first. While one is being compressed there are two of it, of which the first stays for now."""
    found: dict[str, Path] = {}
    for file in sorted(path.parent.glob(f"{path.name}.*")):
        if file.suffix != _DRAFT:
            found.setdefault(file.name.removesuffix(COMPRESSED), file)
    return [_Rotated(name, found[name]) for name in sorted(found)]


def _newest(path: Path) -> str:
    rotated = _rotated(path)
    return rotated[-1].name if rotated else ""


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.GzipFile(path, "rb")) if path.suffix == COMPRESSED else path.open("rb")


def _break_from_end(block: bytes, number: int) -> int:
    """Where the line break is that is this one from the end."""
    at = len(block)
    for _ in range(number):
        at = block.rfind(b"\n", 0, at)
    return at
