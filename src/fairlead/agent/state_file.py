"""What outlives an agent: one file for each kind of state, replaced as a whole, with a checksum."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from fairlead.runtime.whole_files import replace_durably

T = TypeVar("T", bound=msgspec.Struct)

log = logging.getLogger(__name__)


class _Checked(msgspec.Struct):
    checksum: int
    data: msgspec.Raw


class StateFile(Generic[T]):
    def __init__(self, path: Path, kind: type[T]) -> None:
        self._path, self._kind = path, kind
        self._writing, self._version, self._written = Lock(), 0, 0

    def read(self) -> T | None:
        """None where there is none. One that is damaged is put aside, which is said."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=_Checked)
            if crc32(found.data) != found.checksum:
                raise msgspec.DecodeError("the checksum is that of something else")
            return msgspec.json.decode(found.data, type=self._kind)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as problem:
            aside = self._path.with_name(f"{self._path.name}.unreadable")
            log.warning("%s cannot be read, and is %s now: %s", self._path, aside, problem)
            self._path.replace(aside)
            return None

    async def keep(self, state: T) -> None:
        """OSError where the disk takes it not."""
        self._version += 1
        data = msgspec.json.encode(state)
        await asyncio.to_thread(self._write, self._version, data)

    def _write(self, version: int, data: bytes) -> None:
        """In a thread, which goes on when nobody waits any more: what is newest stays."""
        with self._writing:
            if version > self._written:
                replace_durably(self._path, msgspec.json.encode(_Checked(crc32(data), msgspec.Raw(data))))
                self._written = version
