"""Events of both API groups, in one table; a client that uses the newer API leaves most of the older fields empty."""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj
from fairlead.kinds.events import to_core
from fairlead.server.tables.base import NAME, Column, PrinterOf, Subject


def _series(event: Subject) -> Obj | None:
    return event.obj.get("series")


def _first_seen(event: Subject) -> str:
    return event.since(event.obj.get("firstTimestamp") or event.obj.get("eventTime"))


def _last_seen(event: Subject) -> str:
    if (series := _series(event)) is not None:
        return event.since(series.get("lastObservedTime"))
    last = event.obj.get("lastTimestamp")
    return event.since(last) if last else _first_seen(event)


def _count(event: Subject) -> int:
    """An event of the newer API that happened once has no count."""
    if (series := _series(event)) is not None:
        return int(series.get("count", 0))
    return event.obj.get("count") or 1


def _involved(event: Subject, key: str) -> str:
    return str((event.obj.get("involvedObject") or {}).get(key, ""))


def _object(event: Subject) -> str:
    kind, name = _involved(event, "kind").lower(), _involved(event, "name")
    return f"{kind}/{name}" if name else kind


def _source(event: Subject) -> str:
    source = event.obj.get("source") or {}
    component = source.get("component") or event.obj.get("reportingComponent", "")
    instance = source.get("host") or event.obj.get("reportingInstance")
    return f"{component}, {instance}" if instance else str(component)


_COLUMNS: Final = (
    Column("Last Seen", _last_seen, "Time since it happened last."),
    Column("Type", lambda it: it.obj.get("type", ""), "Normal or Warning."),
    Column("Reason", lambda it: it.obj.get("reason", ""), "Why it happened, in a word."),
    Column("Object", _object, "What it is about."),
    Column("Subobject", lambda it: _involved(it, "fieldPath"), "Which part of that.", priority=1),
    Column("Source", _source, "Who tells it.", priority=1),
    Column("Message", lambda it: it.obj.get("message", "").strip(), "What happened."),
    Column("First Seen", _first_seen, "Time since it happened first.", priority=1),
    Column("Count", _count, "How often it happened.", priority=1),
    Column("Name", NAME.value, NAME.description, format="name", priority=1),
)

EVENTS: Final = PrinterOf(Subject, _COLUMNS)


class _NewSubject(Subject):
    """An event in the form of `events.k8s.io`."""

    def __init__(self, obj: Obj, now: float) -> None:
        super().__init__(to_core(obj), now)


EVENTS_K8S_IO: Final = PrinterOf(_NewSubject, _COLUMNS)
