"""Answers: code, body and encoding. Every complete answer of the server is made here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import msgspec
import yaml

from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import ApiError, NotAcceptable
from fairlead.api.objects import Obj
from fairlead.api.verbs import Listing
from fairlead.runtime.http.pieces import PIECE_BYTES, pieces
from fairlead.server.codec.protobuf_writer import object_message
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.http.negotiate import JSON, YAML, MediaTypeOptions
from fairlead.server.http.request import Request

#: How many characters the warnings of an answer may have; beyond that each is cut.
MAX_WARNINGS_LENGTH = 4096
CUT_WARNING_LENGTH = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

#: So many entries of a map are written as YAML in one go.
_MAP_PART: Final = 500
#: Longer keys are written in a form of their own.
_LONG_KEY: Final = 100

_END: Final = b"]}\n"

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer."""

    code: int
    body: bytes
    media_type: str = JSON
    headers: Headers = field(default_factory=list)
    #: What follows the body, piece by piece, and its length; None: unknown yet.
    rest: Iterable[bytes] = ()
    rest_length: int | None = 0

    @property
    def length(self) -> int | None:
        return None if self.rest_length is None else len(self.body) + self.rest_length

    def pieces(self) -> Iterator[bytes]:
        """The whole answer in pieces of bounded size."""
        body = self.body
        for start in range(0, len(body), PIECE_BYTES):
            yield body[start : start + PIECE_BYTES]
        yield from self.rest

    @classmethod
    def of_raw(cls, raw: bytes, form: MediaTypeOptions, code: int = 200) -> Answer:
        """JSON bytes in the form that the client asked for: as Go writes it, on a line of its own or indented."""
        if form.media_type != JSON:
            return cls._of_decoded(Encoded(raw).obj(), form, code)
        return cls(code, indented(raw) if form.is_pretty else raw + b"\n")

    @classmethod
    def of_obj(cls, obj: Obj, form: MediaTypeOptions, code: int = 200) -> Answer:
        return cls.of_raw(encode(obj), form, code) if form.media_type == JSON else cls._of_decoded(obj, form, code)

    @classmethod
    def _of_decoded(cls, obj: Obj, form: MediaTypeOptions, code: int) -> Answer:
        return cls(code, _yaml(obj) if form.media_type == YAML else object_message(obj), form.media_type)

    @classmethod
    def of_parts(cls, parts: Iterable[bytes], media_type: str) -> Answer:
        """An answer that is made while it is sent; chunked if it is longer than one piece."""
        made = pieces(parts)
        first, second = next(made, b""), next(made, None)
        if second is None:
            return cls(200, first, media_type)
        return cls(200, first, media_type, rest=chain([second], made), rest_length=None)

    @classmethod
    def of_items(cls, head: Obj, key: str, items: Iterable[bytes], form: MediaTypeOptions) -> Answer:
        """The object `head` with a list of encoded objects in it under `key`, which is the last."""
        if form.media_type == YAML:
            return cls.of_parts(_yaml_parts(head, key, items), YAML)
        made = _indented_parts if form.is_pretty else _json_parts
        return cls.of_parts(made(head, key, items), JSON)

    @classmethod
    def of_text(cls, text: str, code: int = 200) -> Answer:
        return cls(code, text.encode(), "text/plain; charset=utf-8", [(b"x-content-type-options", b"nosniff")])

    @classmethod
    def not_found(cls) -> Answer:
        """Go's answer for an unknown path."""
        return cls.of_text("404 page not found\n", 404)

    @classmethod
    def of_error(cls, error: ApiError, request: Request) -> Answer:
        """The `Status` of a refusal; as indented JSON if the client takes a `Status` in no form that we have."""
        try:
            form = request.plain_form(is_routed=False)
        except NotAcceptable:
            form = MediaTypeOptions(is_pretty=True)
        return cls.of_status(error, form)

    @classmethod
    def of_status(cls, error: ApiError, form: MediaTypeOptions) -> Answer:
        """The `Status` of a refusal in a supported format."""
        answer = cls.of_obj(error.status(), form, error.code)
        if error.retry_after_seconds:
            answer.headers.append((b"retry-after", b"%d" % error.retry_after_seconds))
        return answer


def indented(raw: bytes) -> bytes:
    """JSON as Go's `MarshalIndent` writes it, which ends without a newline."""
    return msgspec.json.format(raw, indent=2)


def _yaml(obj: Obj | list[Obj]) -> bytes:
    """A large map in an object (data of a ConfigMap) is written in parts: PyYAML gives way to nobody meanwhile."""
    if isinstance(obj, dict) and any(_is_large(key, value) for key, value in obj.items()):
        return b"".join(_yaml_of_field(key, obj[key]) for key in sorted(obj))
    text: str = yaml.dump(obj, Dumper=yaml.CSafeDumper, default_flow_style=False, allow_unicode=True)
    return text.encode()


def _is_large(key: str, value: Any) -> bool:
    """A map with many entries, under a key that takes one line, however it is written."""
    return isinstance(value, dict) and len(value) > _MAP_PART and key.isidentifier() and len(key) < _LONG_KEY


def _yaml_of_field(key: str, value: Any) -> bytes:
    if not _is_large(key, value):
        return _yaml({key: value})
    names = sorted(value)
    parts = (names[start : start + _MAP_PART] for start in range(0, len(names), _MAP_PART))
    texts = [_yaml({key: {name: value[name] for name in part}}) for part in parts]
    return texts[0] + b"".join(text.partition(b"\n")[2] for text in texts[1:])


def list_head(version: ServedVersion, listing: Listing) -> Obj:
    """A list but for its items."""
    row = version.resource
    return {"kind": row.list_kind, "apiVersion": row.api_version, "metadata": list_meta(listing)}


def list_meta(listing: Listing) -> Obj:
    """The ListMeta of a page. What is not stored has no version."""
    meta: Obj = {"resourceVersion": listing.resource_version} if listing.resource_version else {}
    if listing.continue_token:
        meta["continue"] = listing.continue_token
        if listing.remaining is not None:
            meta["remainingItemCount"] = listing.remaining
    return meta


def of_list(version: ServedVersion, listing: Listing, form: MediaTypeOptions) -> Answer:
    """A list. Items of built-in kinds carry no kind of their own, so their common beginning is cut off."""
    head, cut = list_head(version, listing), len(version.prefix) if version.resource.definition else len(b"{")
    if form.media_type == YAML or form.is_pretty or version.from_stored is not None:  # made as they are sent
        return Answer.of_items(head, "items", (b"{" + item.raw[cut:] for item in listing.items), form)
    beginning = _beginning(head, "items")
    raws = [item.raw for item in listing.items]
    between = max(2 * len(raws) - 1, 0)  # a brace for each, and commas
    length = sum(map(len, raws)) - cut * len(raws) + between + len(_END)
    return Answer(200, beginning, rest=_rest_of_list(raws, cut), rest_length=length)


def _beginning(head: Obj, key: str) -> bytes:
    return b'%b,"%b":[' % (encode(head)[:-1], key.encode())


def _rest_of_list(raws: Sequence[bytes], cut: int) -> Iterator[bytes]:
    """The items without their first `cut` bytes. A piece is made when the one before has left."""
    start = size = 0
    for end, raw in enumerate(raws, 1):
        size += len(raw)
        if size >= PIECE_BYTES or end == len(raws):
            items = [memoryview(raw)[cut:] for raw in raws[start:end]]
            yield (b",{" if start else b"{") + b",{".join(items)
            start, size = end, 0
    yield _END


def _json_parts(head: Obj, key: str, items: Iterable[bytes]) -> Iterator[bytes]:
    yield _beginning(head, key)
    for number, item in enumerate(items):
        if number:
            yield b","
        yield item
    yield _END


def _indented_parts(head: Obj, key: str, items: Iterable[bytes]) -> Iterator[bytes]:
    """What `indented` would write of the whole."""
    yield b'%b,\n  "%b": [' % (indented(encode(head)).removesuffix(b"\n}"), key.encode())
    before = b""
    for item in items:
        yield before + b"\n    " + indented(item).replace(b"\n", b"\n    ")
        before = b","
    yield b"\n  ]\n}" if before else b"]\n}"


def _yaml_parts(head: Obj, key: str, items: Iterable[bytes]) -> Iterator[bytes]:
    """What `_yaml` would write of the whole: keys in order, and no indentation in front of a list."""
    if before := {name: value for name, value in head.items() if name < key}:
        yield _yaml(before)
    is_empty = True
    for item in items:
        yield (b"%b:\n" % key.encode() if is_empty else b"") + _yaml([Encoded(item).obj()])
        is_empty = False
    after = {name: value for name, value in head.items() if name > key} | ({key: []} if is_empty else {})
    if after:
        yield _yaml(after)


def warning_headers(texts: Iterable[str]) -> Headers:
    """RFC 7234 `Warning` headers, each text once; texts with control characters are left out.

    If they are too long together, each is cut, and the rest beyond the limit is left out (apiserver
    `endpoints/filters/warning.go`).
    """
    sendable = [text for text in dict.fromkeys(texts) if text and not _CONTROL.search(text)]
    if sum(map(len, sendable)) > MAX_WARNINGS_LENGTH:
        sendable = list(_cut(sendable))
    return [(b"warning", f'299 - "{_quoted(text)}"'.encode()) for text in sendable]


def _cut(texts: Iterable[str]) -> Iterator[str]:
    length = 0
    for text in texts:
        if length >= MAX_WARNINGS_LENGTH:
            return
        yield text[:CUT_WARNING_LENGTH]
        length += min(len(text), CUT_WARNING_LENGTH)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
