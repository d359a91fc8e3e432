"""A group-version in which a kind is served: how what is sent becomes what is stored, and how that is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.api.encoded import Encoded, encode
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource

Convert = Callable[[Obj], Obj]
#: Makes a dict normal in place and returns the paths of what it dropped.
Normalise = Callable[[Obj], list[str]]


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """One group-version in which a kind is served."""

    resource: Resource
    normalise: Normalise
    to_stored: Convert | None = None  # None: this is the stored form
    from_stored: Convert | None = None
    prefix: bytes = b""  # how every encoded object of this version begins, up to its metadata
    deprecation: str = ""  # the warning that every request to this version gets

    def shown(self, entry: Encoded) -> Encoded:
        """A stored object as this version shows it."""
        if self.from_stored is None:
            return entry
        return _Converted(entry, self.from_stored)


class _Converted(Encoded):
    """A stored object in another version, made whenever it is read: a list of thousands is never held as such."""

    __slots__ = ("_convert", "_stored")

    def __init__(self, stored: Encoded, convert: Convert) -> None:
        self._stored, self._convert, self._kept = stored, convert, None

    @property
    def raw(self) -> bytes:  # type: ignore[override]
        return encode(self.obj())

    def obj(self) -> Obj:
        return self._convert(self._stored.obj())
