"""Answers about a cluster as rows: a list for an assertion, and a pandas DataFrame for whoever has pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import msgspec

from fairlead.api.meta import Object, View
from fairlead.api.pods import Pod
from fairlead.runtime.clock import parse_timestamp
from fairlead.sim.admission import wants

if TYPE_CHECKING:
    import pandas

T = TypeVar("T", bound=msgspec.Struct)


class PodRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pod at one moment. Times are seconds since the epoch."""

    namespace: str
    name: str
    node: str  # empty: it has none
    phase: str
    priority: int
    cpu_milli: int  # what it requests
    memory_bytes: int
    created: float
    waited_seconds: float  # until it got a node, or until now
    restarts: int
    is_gone: bool = False
    reason: str = ""  # why it waits, or why it failed
    message: str = ""

    @property
    def is_waiting(self) -> bool:
        return not self.node and self.phase == "Pending" and not self.is_gone


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a component told, and how often."""

    at: float  # the last time, in seconds since the epoch
    type: str
    reason: str
    namespace: str
    object: str  # `Pod/web`
    message: str
    count: int


class Table(list[T], Generic[T]):
    """A list of rows; what selects from it gives a table again."""

    row: type[T]

    def empty(self) -> bool:
        return not self

    def where(self, is_wanted: Callable[[T], bool]) -> Self:
        """The rows for which it is true."""
        return type(self)(row for row in self if is_wanted(row))

    def to_frame(self) -> pandas.DataFrame:
        """A DataFrame with a column for each field of the rows. Raises ImportError without pandas."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame() needs pandas: pip install 'fairlead[frames]'") from None
        records: list[dict[str, Any]] = [msgspec.structs.asdict(row) for row in self]
        return pandas.DataFrame.from_records(records, columns=list(self.row.__struct_fields__))


class Pods(Table[PodRow]):
    row = PodRow

    def waiting(self) -> Pods:
        """Those that have no node."""
        return self.where(lambda pod: pod.is_waiting)

    def on(self, node: str) -> Pods:
        return self.where(lambda pod: pod.node == node)

    def running(self) -> Pods:
        return self._in_phase("Running")

    def succeeded(self) -> Pods:
        return self._in_phase("Succeeded")

    def failed(self) -> Pods:
        return self._in_phase("Failed")

    def _in_phase(self, phase: str) -> Pods:
        return self.where(lambda pod: pod.phase == phase and not pod.is_gone)


class Events(Table[EventRow]):
    row = EventRow

    def of(self, reason: str) -> Events:
        return self.where(lambda event: event.reason == reason)


def pod_row(pod: Pod, until: float, *, is_gone: bool = False) -> PodRow:
    """`until`: now, or when it went."""
    scheduled = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    created = parse_timestamp(pod.metadata.creation_timestamp)
    placed = until
    if pod.spec.node_name and scheduled is not None and scheduled.last_transition_time:
        placed = parse_timestamp(scheduled.last_transition_time)
    why = scheduled if scheduled is not None and not pod.spec.node_name else pod.status
    amounts = wants(pod)
    return PodRow(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name,
        phase=pod.status.phase,
        priority=pod.spec.priority or 0,
        cpu_milli=amounts.get("cpu", 0),
        memory_bytes=amounts.get("memory", 0),
        created=created,
        waited_seconds=max(placed - created, 0.0),
        restarts=sum(each.restart_count for each in pod.status.container_statuses),
        is_gone=is_gone,
        reason=why.reason,
        message=why.message,
    )


class _Involved(View):
    kind: str = ""
    name: str = ""


class _Series(View):
    count: int | None = None
    last_observed_time: str | None = None


class Event(Object):
    """Of the core kind, whichever library wrote it."""

    type: str = ""
    reason: str = ""
    message: str = ""
    involved_object: _Involved = _Involved()
    count: int | None = None
    series: _Series | None = None
    last_timestamp: str | None = None
    event_time: str | None = None


def event_row(event: Event) -> EventRow:
    series, about = event.series or _Series(), event.involved_object
    at = series.last_observed_time or event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    return EventRow(
        at=parse_timestamp(at),
        type=event.type,
        reason=event.reason,
        namespace=event.metadata.namespace,
        object=f"{about.kind}/{about.name}",
        message=event.message,
        count=series.count or event.count or 1,
    )
