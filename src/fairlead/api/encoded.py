"""Encoded objects: bytes are the truth, everything else is a lens on them.

An object is encoded once, when it is stored; the watch cache, every watcher and every reader share those
bytes. A component reads them through a small frozen view (`fairlead.api.meta`), which costs a third of a dict.

Everything that relies on how these bytes are laid out is in this module: where an object says of what kind it is, where
it carries its revision, and what its bytes contain if it has a key or a text. At rest an object looks like this:

    {"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","name":"p",…},…}
    └──────── beginning ─────────┘             └───── stamp ──────┘

No user wrote anything before the stamp, so the first match of a search for it is the right one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from fairlead.api.objects import Obj, metadata

T = TypeVar("T")

encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
#: `float` is as fast for all numbers; see `golang.json.finite`.
_decode = msgspec.json.Decoder(float_hook=float).decode
_decode_object = msgspec.json.Decoder(dict, float_hook=float).decode
_decoders: dict[type, msgspec.json.Decoder[object]] = {}

#: What the bytes of an object hold where its revision belongs, until a store has given it one.
_MARKER: Final = b'"resourceVersion":""'
_DIGITS: Final = tuple(b"%d" % digit for digit in range(10))


class _Keeping(msgspec.Struct, eq=False, gc=False, kw_only=True):
    _kept: dict[object, object] | None = None


class Encoded(_Keeping):
    """One version of one object as JSON bytes.

    There are hundreds of thousands, so the garbage collector does not look at them: what is kept with one must not
    refer to it.
    """

    raw: bytes

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

    def metadata(self) -> Obj:
        """A fresh dict of the metadata alone; the rest is skipped."""
        return self.view(_Metadata).metadata

    def kept_view(self, type_: type[T]) -> T:
        """The same, decoded once and kept with the object: for the few objects that are read at every request."""
        return self._keep(type_, lambda: self.view(type_))

    def kept(self, make: Callable[[Encoded], T]) -> T:
        """What `make` makes of the object, made once and kept with it."""
        return self._keep(make, lambda: make(self))

    def _keep(self, key: object, make: Callable[[], T]) -> T:
        kept = self._kept
        if kept is None:
            kept = self._kept = {}
        found = kept.get(key)
        if found is None:
            found = kept[key] = make()
        return found  # type: ignore[return-value]

    def release(self) -> None:
        """Keep nothing any more: another version is in its place. Whoever still asks has it made anew."""
        self._kept = None


class _Metadata(msgspec.Struct):
    metadata: Obj = {}


def encoded(obj: Obj) -> Encoded:
    return Encoded(encode(obj))


def copied(value: T) -> T:
    """A deep copy of a JSON value; twice as fast as walking over a large one."""
    found: T = _decode(encode(value))
    return found


# --- how the bytes of an object begin -------------------------------------------------------------------------------


def beginning(kind: str, api_version: str) -> bytes:
    """How every encoded object of a kind begins. In a list of the kind, items are written without it."""
    return b'{"kind":"%b","apiVersion":"%b",' % (kind.encode(), api_version.encode())


def with_beginning(item: bytes, start: bytes) -> bytes:
    """An item of a list as an object of its own."""
    return start + item.lstrip()[1:]


# --- the revision that they carry -----------------------------------------------------------------------------------


def storable(obj: Obj, kind: str, api_version: str) -> bytes:
    """An object as a store takes it: canonical, with a marker where its revision belongs."""
    meta = {"resourceVersion": "", **metadata(obj)}
    meta["resourceVersion"] = ""
    head = {"kind": kind, "apiVersion": api_version, "metadata": meta}
    return encode(head | {key: value for key, value in obj.items() if key not in head})


def stamp(value: bytes, revision: int) -> bytes:
    """A storable object at that revision."""
    return value.replace(_MARKER, _stamp(revision), 1)


def unstamped(raw: bytes, revision: int) -> bytes:
    """The object without the revision that it has, as it was before `stamp`."""
    return raw.replace(_stamp(revision), _MARKER, 1)


def restamped(raw: bytes, revision: int, new: int) -> bytes:
    """The same object under another revision: a deleted object is shown under that of its deletion."""
    return raw.replace(_stamp(revision), _stamp(new), 1)


def without_marker(value: bytes) -> bytes:
    """A storable object that nobody is going to store: there is no revision that it could have."""
    return value.replace(_MARKER + b",", b"", 1)


def _stamp(revision: int) -> bytes:
    return b'"resourceVersion":"%d"' % revision


# --- comparing and searching without decoding -----------------------------------------------------------------------


def is_same(first: bytes, second: bytes) -> bool:
    """Whether two encoded objects say the same; clients are free to order keys as they like."""
    if first == second:
        return True
    if len(first) != len(second) or any(first.count(digit) != second.count(digit) for digit in _DIGITS):
        return False  # most writes that leave the length change a number or a time
    one, two = _decode_object(first), _decode_object(second)
    return one == two and _encode_sorted(one) == _encode_sorted(two)  # Python takes true for 1


def key_bytes(key: str) -> bytes:
    """What the bytes of a value contain if there is such a key anywhere in it. They may contain it without, too."""
    return encode(key) + b":"


def key_start_bytes(start: str) -> bytes:
    """The same of a key that starts so."""
    return encode(start)[:-1]


def text_bytes(text: str) -> bytes:
    """The same of a text that is a string in it, or a part of one."""
    return encode(text)[1:-1]


#: The same of a null.
NULL_BYTES: Final = b"null"
