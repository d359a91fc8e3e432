"""The turn of a request: a seat of its priority level, at once or after a while in a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from fairlead.api.flow_control import (
    EXEMPT,
    GROUP,
    FlowSchema,
    PriorityLevelConfiguration,
)
from fairlead.api.objects import Obj
from fairlead.kinds.flow_defaults import MANDATORY, flow_schemas, priority_levels
from fairlead.runtime.clock import monotonic, now, running_loop
from fairlead.server.access import AccessRequest
from fairlead.server.fairness.flows import Flow, Flows
from fairlead.server.fairness.queues import Level, Origin, Refused, Turn
from fairlead.server.fairness.seats import Seats
from fairlead.server.metrics.fairness import FairnessMetrics

#: How many requests are carried out at once, of all levels together (--max-requests-inflight and its mutating sister).
DEFAULT_SEATS: Final = 120
#: How long a request waits: a quarter of kube-apiserver's --request-timeout.
WAIT_SECONDS: Final = 15.0
_TIME_OUT: Final = "time-out"
#: What a long list costs: a seat for so many objects.
OBJECTS_PER_SEAT: Final = 100

View = TypeVar("View", FlowSchema, PriorityLevelConfiguration)
ChangeObserver = Callable[[str, str, bytes | None], None]


class Admitted(msgspec.Struct):
    """A request that may be carried out, until `end`."""

    flow: Flow
    _end: Callable[[], None] | None

    def end(self) -> None:
        """It is done, or goes on without a seat, as a watch does once it has begun."""
        if self._end is not None:
            end, self._end = self._end, None
            end()


class Fairness:
    """The priority levels and flows of a server, as its objects say."""

    def __init__(self, seats: int = DEFAULT_SEATS, metrics: FairnessMetrics | None = None) -> None:
        self._seats = Seats(seats)
        self._metrics = metrics or FairnessMetrics()
        self._metrics.watch_seats(lambda: [(name, level.allotment) for name, level in self.levels.items()])
        self._schemas: dict[str, FlowSchema] = {}
        self._configurations: dict[str, PriorityLevelConfiguration] = {}
        self._levels: dict[str, Level] = {}
        self._is_stale = False
        self._flows = Flows(())
        #: Told when a FlowSchema or a level has changed.
        self.changed = asyncio.Event()
        self._digest()

    @property
    def observers(self) -> dict[str, ChangeObserver]:
        """Who is to hear of changes of which kind."""
        return {
            f"flowschemas.{GROUP}": self._observe_schema,
            f"prioritylevelconfigurations.{GROUP}": self._observe_level,
        }

    @property
    def levels(self) -> Mapping[str, Level]:
        """By name; levels that are gone remain until nobody is in them."""
        if self._is_stale:
            self._digest()
        return self._levels

    async def admit(self, request: AccessRequest, objects: int = 0) -> Admitted:
        """Wait for a turn. `objects` is how many it will list. Raises `Refused`, whose `flow` tells where it waited."""
        if self._is_stale:
            self._digest()
        flow = self._flows.of(request)
        level = flow.level
        names = level.name, flow.schema.metadata.name
        asked = monotonic()
        origin = Origin(request, names[1], flow.distinguisher, now(), asked)
        turn = level.join(flow.hash, max(-(-objects // OBJECTS_PER_SEAT), 1), origin)
        if level.is_exempt:
            level.begin(turn)
            return self._begun(flow, names, 0.0, turn)
        if level.waiting or not self._seats.take(level.allotment, turn.seats):
            self._metrics.queued(names)
            try:
                await self._wait(level, turn)
            except Refused as refusal:
                if refusal.reason == _TIME_OUT:
                    level.timed_out += 1
                else:
                    level.rejected += 1
                self._metrics.rejected(names, refusal.reason, monotonic() - asked)
                raise Rejected(flow, refusal.reason) from None
            finally:
                self._metrics.left(names)
        level.begin(turn)
        return self._begun(flow, names, turn.began - asked, turn)

    def has_level(self, name: str) -> bool:
        """Whether there is an object of that name, or must be."""
        return name in self._configurations or name in MANDATORY

    def _begun(self, flow: Flow, names: tuple[str, str], waited: float, turn: Turn) -> Admitted:
        """A request is carried out."""
        self._metrics.began(names, waited)

        def end() -> None:
            self._metrics.ended(names)
            flow.level.finish(turn)
            if turn.seats:
                self._grant()

        return Admitted(flow, end)

    async def _wait(self, level: Level, turn: Turn) -> None:
        """Until it has its seats. Raises `Refused`."""
        granted = running_loop().create_future()
        level.enqueue(turn, granted)
        self._grant()  # others of its level may wait for more seats than it needs
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await granted
        except TimeoutError:
            self._give_up(level, turn)
            raise Refused(_TIME_OUT) from None
        except asyncio.CancelledError:
            level.cancelled += 1
            self._give_up(level, turn)
            raise

    def _give_up(self, level: Level, turn: Turn) -> None:
        """Nobody waits for it any more, though its seats may just have been taken."""
        if turn in turn.queue.waiting:
            level.leave(turn)
        else:
            level.allotment.in_use -= turn.seats
            self._grant()

    def _grant(self) -> None:
        """Give free seats to those who wait: first to the level that has the least of what is its own."""
        waiting = [level for level in self._levels.values() if level.waiting]
        waiting.sort(key=lambda level: level.allotment.in_use / max(level.allotment.nominal, 1))
        for level in waiting:
            while (turn := level.next_turn()) is not None and self._seats.take(level.allotment, turn.seats):
                level.leave(turn)
                assert turn.granted is not None
                if not turn.granted.done():
                    turn.granted.set_result(None)

    def _observe_schema(self, namespace: str, name: str, raw: bytes | None) -> None:
        if raw is None:
            self._schemas.pop(name, None)
        else:
            self._schemas[name] = msgspec.json.decode(raw, type=FlowSchema)
        self._note_change()

    def _observe_level(self, namespace: str, name: str, raw: bytes | None) -> None:
        if raw is None:
            self._configurations.pop(name, None)
        else:
            self._configurations[name] = msgspec.json.decode(raw, type=PriorityLevelConfiguration)
        self._note_change()

    def _note_change(self) -> None:
        self._is_stale = True
        self.changed.set()

    def _digest(self) -> None:
        """Make levels and flows anew. Schemas whose level is missing do not count; the mandatory ones always do."""
        self._is_stale = False
        configurations = {
            level.metadata.name: level for level in _mandatory(priority_levels(), PriorityLevelConfiguration)
        }
        configurations |= self._configurations
        self._drop_unused(configurations)
        for name, configuration in configurations.items():
            level = self._levels.setdefault(name, Level(name))
            limited = configuration.spec.limited
            level.uid, level.is_exempt = configuration.metadata.uid, configuration.spec.type == EXEMPT
            level.set_queuing(limited.limit_response.queuing if limited else None)
        self._seats.divide((configurations[name], self._levels[name].allotment) for name in configurations)
        schemas = {schema.metadata.name: schema for schema in _mandatory(flow_schemas(), FlowSchema)} | self._schemas
        self._flows = Flows(
            (schema, self._levels[schema.spec.priority_level_configuration.name])
            for schema in schemas.values()
            if schema.spec.priority_level_configuration.name in configurations
        )
        self._grant()

    def _drop_unused(self, configurations: dict[str, PriorityLevelConfiguration]) -> None:
        """A level without an object keeps what it has until nobody is in it."""
        for name, level in list(self._levels.items()):
            if name not in configurations and level.is_unused:
                del self._levels[name]


class Rejected(Exception):
    """A request has to come again later."""

    def __init__(self, flow: Flow, reason: str) -> None:
        super().__init__(reason)
        self.flow, self.reason = flow, reason


def _mandatory(objects: list[Obj], type_: type[View]) -> list[View]:
    return [msgspec.convert(obj, type_) for obj in objects if obj["metadata"]["name"] in MANDATORY]
