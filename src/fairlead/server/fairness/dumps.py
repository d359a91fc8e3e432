"""What the priority levels do at this moment, as kube-apiserver's `/debug/api_priority_and_fairness/dump_…` show it.

Source: apiserver, util/flowcontrol/apf_controller_debug.go (1.36). Queues that nobody has used yet are not listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from fairlead.runtime.clock import micro_timestamp
from fairlead.runtime.offload import offload
from fairlead.server.access import AccessRequest
from fairlead.server.fairness.fairness import Fairness
from fairlead.server.fairness.queues import ASSUMED_SECONDS, Level, Queue, Turn

_Row: TypeAlias = Sequence[object]

_LEVEL_COLUMNS: Final = (
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
)
_QUEUE_COLUMNS: Final = (
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
)
_REQUEST_COLUMNS: Final = (
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",  # as upstream spells it
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
)
_DETAIL_COLUMNS: Final = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
_NEVER: Final = "0001-01-01T00:00:00Z"
#: A cell is as wide as the widest of its column; what strangers say has its bounds.
_LONGEST_CELL: Final = 256
_NARROWEST: Final = 8
_MANY_REQUESTS: Final = 500


def dump_priority_levels(fairness: Fairness) -> str:
    return _table(_LEVEL_COLUMNS, (_level_row(fairness, level) for level in _sorted(fairness.levels)))


def dump_queues(fairness: Fairness) -> str:
    rows = (_queue_row(level, queue) for level in _sorted(fairness.levels) for queue in level.queues())
    return _table(_QUEUE_COLUMNS, rows)


async def dump_requests(fairness: Fairness, *, has_details: bool) -> str:
    """Those that there are now; many are written down beside the loop."""
    columns = (*_REQUEST_COLUMNS, *(_DETAIL_COLUMNS if has_details else ()))
    present = [(level, turn, index) for level in _sorted(fairness.levels) for turn, index in _turns(level)]
    rows = ([*_request_row(*each), *(_details(each[1]) if has_details else ())] for each in present)
    return await offload(lambda: _table(columns, rows), is_long=len(present) > _MANY_REQUESTS)


def _sorted(levels: Mapping[str, Level]) -> list[Level]:
    return [levels[name] for name in sorted(levels)]


def _level_row(fairness: Fairness, level: Level) -> _Row:
    active = sum(bool(queue.waiting) for queue in level.queues())
    is_quiescing = not fairness.has_level(level.name)
    return (
        level.name,
        active,
        level.is_unused,
        is_quiescing,
        level.waiting,
        level.executing,
        level.dispatched,
        level.rejected,
        level.timed_out,
        level.cancelled,
    )


def _queue_row(level: Level, queue: Queue) -> _Row:
    executing = sum(turn.queue is queue for turn in level.at_work)
    seats, work = queue.seats_waiting, queue.seats_waiting * ASSUMED_SECONDS
    served = _seat_seconds(queue.rank[0])
    return (
        level.name,
        queue.number,
        len(queue.waiting),
        executing,
        queue.seats_at_work,
        served,
        seats,
        seats,
        _seat_seconds(work),
    )


def _turns(level: Level) -> Iterator[tuple[Turn, int]]:
    """Those who wait, with their place, then those at work."""
    for queue in level.queues():
        yield from ((turn, index) for index, turn in enumerate(queue.waiting))
    yield from ((turn, -1) for turn in level.at_work)


def _request_row(level: Level, turn: Turn, index: int) -> _Row:
    origin = turn.origin
    arrived = micro_timestamp(origin.arrived)
    started = _NEVER if index >= 0 else micro_timestamp(origin.arrived + max(turn.began - origin.asked_at, 0))
    return (
        level.name,
        origin.schema,
        turn.queue.number,
        index,
        origin.distinguisher,
        arrived,
        turn.seats,
        0,
        "0s",
        started,
    )


def _details(turn: Turn) -> _Row:
    asked = turn.origin.request
    version = f"{asked.group}/{asked.version}" if asked.group else asked.version
    return (
        asked.user.name,
        asked.verb,
        _path(asked),
        asked.namespace,
        asked.name,
        version,
        asked.resource,
        asked.subresource,
    )


def _path(asked: AccessRequest) -> str:
    if asked.path:
        return asked.path
    parts = ["apis", asked.group, asked.version] if asked.group else ["api", asked.version]
    if asked.namespace and asked.resource != "namespaces":  # which are in themselves
        parts += ["namespaces", asked.namespace]
    return "/" + "/".join([*parts, *filter(None, (asked.resource, asked.name, asked.subresource))])


def _seat_seconds(amount: float) -> str:
    return f"{amount:.8f}ss"


def _table(columns: Sequence[str], rows: Iterator[_Row]) -> str:
    """As Go's tabwriter does it: cells end with a comma, and are as wide as the widest of their column."""
    cells = [list(columns), *([_cell(value) for value in row] for row in rows)]
    *columns_but_last, _ = zip(*cells, strict=True)
    widths = [max(_NARROWEST, *(len(cell) + 2 for cell in column)) for column in columns_but_last]
    return "".join(
        "".join(f"{cell},".ljust(width) for cell, width in zip(row, widths, strict=False)) + f"{row[-1]}\n"
        for row in cells
    )


def _cell(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
