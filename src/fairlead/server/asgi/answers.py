"""Answers: a code, a body and how it is written. Everything that leaves the server is made here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import yaml

from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import ApiError, NotAcceptable
from fairlead.api.objects import Obj
from fairlead.api.verbs import Listing
from fairlead.server.asgi.negotiate import JSON, YAML, Form
from fairlead.server.asgi.request import Request
from fairlead.server.versions import Version

#: How many characters the warnings of an answer may have; beyond that each is cut.
MAX_WARNINGS_LENGTH = 4096
CUT_WARNING_LENGTH = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

#: How many items of a list are written at once.
ITEMS_A_CHUNK = 100
_END: Final = b"]}"

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer."""

    code: int
    body: bytes
    media_type: str = JSON
    headers: Headers = field(default_factory=list)
    #: What follows the body, and how long it is; a long list is never held, or encrypted, in one piece.
    rest: Iterable[bytes] = ()
    rest_length: int = 0

    @property
    def length(self) -> int:
        return len(self.body) + self.rest_length

    @classmethod
    def of_raw(cls, raw: bytes, form: Form, code: int = 200) -> Answer:
        """JSON bytes in the form that the client asked for."""
        if form.media_type == YAML:
            return cls(code, _yaml(Encoded(raw).obj()), YAML)
        return cls(code, raw)

    @classmethod
    def of_obj(cls, obj: Obj, form: Form, code: int = 200) -> Answer:
        return cls.of_raw(encode(obj), form, code)

    @classmethod
    def of_text(cls, text: str, code: int = 200) -> Answer:
        return cls(code, text.encode(), "text/plain; charset=utf-8")

    @classmethod
    def of_error(cls, error: ApiError, request: Request) -> Answer:
        """The `Status` of a refusal: as JSON or YAML, whatever else was asked for."""
        try:
            form = Form(request.form.media_type)
        except NotAcceptable:
            form = Form()
        answer = cls.of_obj(error.status(), form, error.code)
        if error.retry_after_seconds:
            answer.headers.append((b"retry-after", b"%d" % error.retry_after_seconds))
        return answer


def _yaml(obj: Obj) -> bytes:
    text: str = yaml.dump(obj, Dumper=yaml.CSafeDumper, default_flow_style=False, allow_unicode=True)
    return text.encode()


def list_meta(listing: Listing) -> Obj:
    """The ListMeta of a page."""
    meta: Obj = {"resourceVersion": listing.resource_version}
    if listing.continue_token:
        meta["continue"] = listing.continue_token
        if listing.remaining is not None:
            meta["remainingItemCount"] = listing.remaining
    return meta


def of_list(version: Version, listing: Listing, form: Form) -> Answer:
    """A list. Its items carry no kind of their own, so their common beginning is cut off."""
    row, cut = version.resource, len(version.prefix)
    head = {"kind": f"{row.kind}List", "apiVersion": row.api_version, "metadata": list_meta(listing)}
    beginning = encode(head)[:-1] + b',"items":['
    raws = [item.raw for item in listing.items]
    rest = _rest_of_list(raws, cut)
    if form.media_type == YAML:
        return Answer.of_raw(beginning + b"".join(rest), form)
    between = max(2 * len(raws) - 1, 0)  # a brace for each, and commas
    return Answer(200, beginning, rest=rest, rest_length=sum(map(len, raws)) - cut * len(raws) + between + len(_END))


def _rest_of_list(raws: Sequence[bytes], cut: int) -> Iterator[bytes]:
    """The items without their first `cut` bytes. A chunk is made when the one before has left, where that was."""
    for start in range(0, len(raws), ITEMS_A_CHUNK):
        items = [memoryview(raw)[cut:] for raw in raws[start : start + ITEMS_A_CHUNK]]
        yield (b",{" if start else b"{") + b",{".join(items)
    yield _END


def warning_headers(texts: Iterable[str]) -> Headers:
    """RFC 7234 `Warning` headers, each text once; a text with control characters cannot be said in a header.

    Should they get too long together, each is cut, and what is too much even then is left out (apiserver
    `endpoints/filters/warning.go`).
    """
    told = [text for text in dict.fromkeys(texts) if text and not _CONTROL.search(text)]
    if sum(map(len, told)) > MAX_WARNINGS_LENGTH:
        told = list(_cut(told))
    return [(b"warning", f'299 - "{_quoted(text)}"'.encode()) for text in told]


def _cut(texts: Iterable[str]) -> Iterator[str]:
    length = 0
    for text in texts:
        if length >= MAX_WARNINGS_LENGTH:
            return
        yield text[:CUT_WARNING_LENGTH]
        length += min(len(text), CUT_WARNING_LENGTH)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
