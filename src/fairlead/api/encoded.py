"""Encoded objects: bytes are the truth, everything else is a lens on them.

An object is encoded once, when it is stored; the watch cache, every watcher and every reader share those
bytes. A component reads them through a small frozen view (`fairlead.api.meta`), which costs a third of a dict.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from fairlead.api.objects import Obj

T = TypeVar("T")

encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict).decode
_decoders: dict[type, msgspec.json.Decoder[object]] = {}


class Encoded:
    """One version of one object as JSON bytes."""

    __slots__ = ("_kept", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._kept: dict[type, object] | None = None

    def obj(self) -> Obj:
        """A fresh dict, the caller's to change."""
        found: Obj = _decode_object(self.raw)
        return found

    def view(self, type_: type[T]) -> T:
        """The object through a view type; fields that the view does not declare are skipped."""
        decoder = _decoders.get(type_)
        if decoder is None:
            decoder = _decoders[type_] = msgspec.json.Decoder(type_)
        return decoder.decode(self.raw)  # type: ignore[return-value]

    def kept_view(self, type_: type[T]) -> T:
        """The same, decoded once and kept with the object: for the few objects that are read at every request."""
        if self._kept is None:
            self._kept = {}
        found = self._kept.get(type_)
        if found is None:
            found = self._kept[type_] = self.view(type_)
        return found  # type: ignore[return-value]


def encoded(obj: Obj) -> Encoded:
    return Encoded(encode(obj))
