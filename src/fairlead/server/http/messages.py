"""Lists as protobuf, and the events of watches.

A message begins with its length, so every item of a list is written before the first byte is sent. The messages of
stored objects are kept with them: the next list and every watcher share them. Those of objects in another version than
the stored one are not: what clients leave unread must not be held for each of them. An event is a frame: four bytes of
length, then a WatchEvent without an envelope, in which the object has one.

Source: apimachinery `runtime/serializer/protobuf`, apiserver `endpoints/handlers/watch.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import EventType
from fairlead.runtime.http.pieces import pieces
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
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.http.answers import Answer
from fairlead.server.http.negotiate import PARTIAL, PROTOBUF, MediaTypeOptions
from fairlead.server.http.partials import PARTIAL_TYPE, encoded_partial
from fairlead.server.storage.entries import EventWriter, event_line


def of_list(head: Obj, version: ServedVersion, items: Sequence[Encoded], definition: str) -> Answer:
    """A list: `head` with the messages of the items, each of that type. What is not kept is made again to be sent."""
    list_type = message_type(head["kind"], head["apiVersion"])
    fields = wire.fields(list_type)
    meta, number = message_writer(list_type)(head), fields["items"].number
    sizes = [len(message_of(item, definition)) for item in items]
    heads = [delimited_head(number, size) for size in sizes]
    size = len(meta) + sum(map(len, heads)) + sum(sizes)
    messages = chain.from_iterable(
        (start, message_of(item, definition)) for start, item in zip(heads, items, strict=True)
    )
    beginning, end = envelope(head["kind"], head["apiVersion"], size)
    parts = chain([meta], messages) if fields["metadata"].number < number else chain(messages, [meta])
    if version.from_stored is not None:
        return Answer.of_parts(chain([beginning], parts, [end]), PROTOBUF)
    return Answer(200, beginning, PROTOBUF, rest=pieces(chain(parts, [end])), rest_length=size + len(end))


def event_writer(row: Resource, form: MediaTypeOptions) -> EventWriter:
    """Writes events with objects of a kind in a form that is no Table. For one form there is one writer, to share."""
    is_protobuf = form.media_type == PROTOBUF
    if form.transform:
        return _partial_writer(form.version, is_protobuf)
    return _message_writer(row) if is_protobuf else _line


def _line(type_: EventType, item: Encoded) -> bytes:
    return event_line(type_, item.raw)


@cache
def _partial_writer(version: str, is_protobuf: bool) -> EventWriter:
    if is_protobuf:
        return _writer(PARTIAL, f"meta.k8s.io/{version}", PARTIAL_TYPE)
    return lambda type_, item: event_line(type_, encoded_partial(item, version))


@cache
def _message_writer(row: Resource) -> EventWriter:
    return _writer(row.kind, row.api_version, row.definition)


def _writer(kind: str, api_version: str, definition: str) -> EventWriter:
    return lambda type_, item: event_frame(type_, enveloped(kind, api_version, message_of(item, definition)))


def event_frame(type_: EventType, body: bytes) -> bytes:
    """One event of a stream; the object is a body as an answer would have it."""
    event = delimited(1, type_.encode()) + delimited(2, delimited(1, body))
    return len(event).to_bytes(4, "big") + event
