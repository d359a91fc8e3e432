"""Lists and watch events as protobuf.

A message begins with its length, so every item of a list is written before the first byte is sent. The messages of
stored objects are kept with them: the next list and every watcher share them. An event is a frame: four bytes of
length, then a WatchEvent without an envelope, in which the object has one.

Source: apimachinery `runtime/serializer/protobuf`, apiserver `endpoints/handlers/watch.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.api.verbs import EventType
from fairlead.server.codec import wire
from fairlead.server.codec.protobuf_writer import (
    delimited,
    delimited_head,
    envelope,
    enveloped,
    message_of,
    message_type,
    message_writer,
)
from fairlead.server.http.answers import Answer
from fairlead.server.http.negotiate import PARTIAL, PROTOBUF
from fairlead.server.http.pieces import pieces
from fairlead.server.storage.entries import EventWriter


def of_list(head: Obj, items: Sequence[Encoded], definition: str) -> Answer:
    """A list: `head` with the messages of the items, each of that type."""
    kind, api_version = head["kind"], head["apiVersion"]
    list_type = message_type(kind, api_version)
    fields = wire.fields(list_type)
    meta, number = message_writer(list_type)(head), fields["items"].number
    parts: list[bytes] = []
    for item in items:
        message = message_of(item, definition)
        parts += (delimited_head(number, len(message)), message)
    parts.insert(0 if fields["metadata"].number < number else len(parts), meta)
    size = sum(map(len, parts))
    beginning, end = envelope(kind, api_version, size)
    return Answer(200, beginning, PROTOBUF, rest=pieces([*parts, end]), rest_length=size + len(end))


@cache
def event_writer(definition: str, kind: str, api_version: str) -> EventWriter:
    """Writes events with objects of a type as frames. One type has one writer, so that its watchers share them."""

    def write(type_: EventType, item: Encoded) -> bytes:
        return event_frame(type_, enveloped(kind, api_version, message_of(item, definition)))

    return write


def event_frame(type_: EventType, body: bytes) -> bytes:
    """One event of a stream; the object is a body as an answer would have it."""
    event = delimited(1, type_.encode()) + delimited(2, delimited(1, body))
    return len(event).to_bytes(4, "big") + event


def partial_type() -> str:
    """The type of an object's metadata alone."""
    return message_type(PARTIAL, "meta.k8s.io/v1")
