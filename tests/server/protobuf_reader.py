"""Reads answers in protobuf: envelopes and frames by a decoder that knows no types, messages by the project's."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.objects import Obj
from fairlead.server.codec import protobuf
from fairlead.server.codec.normalise import normalise
from fairlead.server.codec.protobuf_writer import message_type


def fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """Number and content of each field of a message."""
    found: list[tuple[int, int | bytes]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
            continue
        size = {1: 8, 5: 4}[key & 7] if key & 7 != 2 else varint()
        assert at + size <= len(message)
        found.append((key >> 3, message[at : at + size]))
        at += size
    return found


def contents(message: bytes, number: int) -> list[bytes]:
    return [content for found, content in fields(message) if found == number and isinstance(content, bytes)]


def opened(body: bytes) -> tuple[str, str, bytes]:
    """apiVersion, kind and message of a body; everything in it is where Go puts it."""
    assert body.startswith(b"k8s\0")
    (first, type_meta), (second, message), *rest = fields(body[4:])
    assert (first, second, rest) == (1, 2, [(3, b""), (4, b"")])
    assert isinstance(type_meta, bytes) and isinstance(message, bytes)
    (_, api_version), (_, kind) = fields(type_meta)
    assert isinstance(api_version, bytes) and isinstance(kind, bytes)
    return api_version.decode(), kind.decode(), message


def decoded(body: bytes) -> Obj:
    """The object in a body, in normal form."""
    api_version, kind, message = opened(body)
    definition = message_type(kind, api_version)
    obj = {"kind": kind, "apiVersion": api_version} | protobuf.read(message, definition)
    normalise(obj, definition)
    return obj


def frames(stream: bytes) -> Iterator[tuple[str, Obj]]:
    """The events of a watch."""
    while stream:
        size = int.from_bytes(stream[:4], "big")
        event, stream = stream[4 : 4 + size], stream[4 + size :]
        assert len(event) == size
        (_, type_), (_, extension) = fields(event)
        assert isinstance(type_, bytes) and isinstance(extension, bytes)
        ((_, body),) = fields(extension)
        assert isinstance(body, bytes)
        yield type_.decode(), decoded(body)


def without_kind(items: list[Obj]) -> list[Obj]:
    """Items of a list as protobuf shows them."""
    return [{key: item[key] for key in item if key not in ("kind", "apiVersion")} for item in items]
