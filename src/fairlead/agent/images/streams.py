"""Bytes of a stranger on their way in: counted into a digest, decompressed whatever they are compressed with."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from typing import BinaryIO, Final, cast

from fairlead.agent.images.errors import BadImage
from fairlead.agent.images.limits import PIECE
from fairlead.agent.images.tar import Readable

#: What begins so is refused by name: Python has no zstd yet, and nobody publishes images in the others.
_REFUSED: Final = {b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_GZIP: Final = b"\x1f\x8b"
_MOST_MAGIC: Final = 6


class Hashed:
    """Counts what is read into a digest."""

    def __init__(self, source: Readable, algorithm: str = "sha256") -> None:
        self._source = source
        self._algorithm = algorithm
        self._hash = hashlib.new(algorithm)

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._hash.update(data)
        return data

    def drain(self) -> None:
        while self.read(PIECE):
            pass

    @property
    def digest(self) -> str:
        """Of what was read so far."""
        return f"{self._algorithm}:{self._hash.hexdigest()}"


class Decompressed:
    """The bytes that a source holds, plain or gzip. Raises BadImage for what is damaged, or compressed otherwise."""

    def __init__(self, source: Readable) -> None:
        start = source.read(_MOST_MAGIC)
        for magic, name in _REFUSED.items():
            if start.startswith(magic):
                raise BadImage(f"it is compressed with {name}, which is not understood here: only gzip is")
        whole = _Prepended(start, source)
        self._source: Readable = whole
        self.is_gzip = start.startswith(_GZIP)
        if self.is_gzip:
            self._source = gzip.GzipFile(fileobj=cast(BinaryIO, whole), mode="rb")

    def read(self, size: int, /) -> bytes:
        try:
            return self._source.read(size)
        except EOFError:
            raise BadImage("it is cut off: its gzip data have no end") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise BadImage(f"its gzip data are damaged: {error}") from None


class _Prepended:
    """A source of which the start was read already."""

    def __init__(self, start: bytes, source: Readable) -> None:
        self._start, self._source = start, source

    def read(self, size: int = PIECE, /) -> bytes:
        if self._start:
            data, self._start = self._start[:size], self._start[size:]
            return data
        return self._source.read(size)


class Section:
    """A part of a file, read from its start to its end."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._file, self._at, self._end = file, offset, offset + size

    def read(self, size: int, /) -> bytes:
        self._file.seek(self._at)
        data = self._file.read(min(size, self._end - self._at))
        self._at += len(data)
        return data


def digest_of(data: bytes, algorithm: str = "sha256") -> str:
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"
