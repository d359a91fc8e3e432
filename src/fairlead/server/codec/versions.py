"""A group-version in which a kind is served: how what is sent becomes what is stored, and how that is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from fairlead.api.encoded import Encoded, encode
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource

T = TypeVar("T")

Convert = Callable[[Obj], Obj]
#: Makes a dict normal in place and returns the paths of what it dropped.
Normalise = Callable[[Obj], list[str]]


class Converter(Protocol):
    """Somebody outside of this process who turns objects of a kind from one version into another."""

    async def converted(self, obj: Obj, api_version: str) -> Obj:
        """The object in that version; itself if it is in it."""
        ...

    async def shown(self, entries: Sequence[Encoded], api_version: str) -> list[Encoded]:
        """Stored objects in that version."""
        ...


class ServedVersion(msgspec.Struct, frozen=True):
    """One group-version in which a kind is served."""

    resource: Resource
    normalise: Normalise
    to_stored: Convert | None = None  # None: this is the stored form
    from_stored: Convert | None = None
    prefix: bytes = b""  # how every encoded object of this version begins, up to its metadata
    deprecation: str = ""  # the warning that every request to this version gets
    converter: Converter | None = None  # of stored objects, which then have no common version
    normalise_applied: Normalise | None = None  # of what an apply has made; None: the same

    async def present(self, entry: Encoded) -> Encoded:
        """A stored object as this version shows it, whoever has to be asked for it."""
        if self.converter is None:
            return self.shown(entry)
        return (await self.converter.shown([entry], self.resource.api_version))[0]

    async def present_all(self, entries: list[Encoded]) -> list[Encoded]:
        """Objects that `shown` has shown, in this version at last."""
        return await self.converter.shown(entries, self.resource.api_version) if self.converter else entries

    async def converted(self, obj: Obj) -> Obj:
        """A stored object in this version, by whoever converts it."""
        if self.converter is not None:
            return await self.converter.converted(obj, self.resource.api_version)
        return obj if self.from_stored is None else self.from_stored(obj)

    def shown(self, entry: Encoded) -> Encoded:
        """A stored object as this version shows it."""
        if self.from_stored is None:
            return entry
        return _Converted(b"", entry, self.from_stored)


class _Converted(Encoded, gc=True):
    """A stored object in another version, made whenever it is read: a list of thousands is never held as such."""

    _stored: Encoded
    _convert: Convert

    @property  # type: ignore[misc]
    def raw(self) -> bytes:  # type: ignore[override]
        return encode(self.obj())

    def kept(self, make: Callable[[Encoded], T]) -> T:
        return make(self)

    def obj(self) -> Obj:
        return self._convert(self._stored.obj())
