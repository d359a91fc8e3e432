"""The queues of one priority level.

Each flow has a hand of the queues (shuffle sharding): two flows rarely share all of theirs, so one that floods its own
leaves the others a way. A request joins the shortest queue of its flow's hand. The next turn is that of the queue with
the fewest seats at work, then of the one that has had least: as the fair queuing of KEP-1040, with the work that is not
done yet estimated at a second a seat.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.api.flow_control import Queuing
from fairlead.runtime.clock import monotonic
from fairlead.server.access import AccessRequest
from fairlead.server.fairness.seats import Allotment

#: What a seat at work counts, in seconds, until it is known how long it took.
ASSUMED_SECONDS: Final = 1.0
#: The number of the queue of a level that has none.
_QUEUELESS: Final = -1
#: So many queues of a level are kept while nobody is in them.
_MOST_IDLE: Final = 256


class Origin(msgspec.Struct, frozen=True):
    """Whose request it is, and when it came: as a time of day, and on the clock by which it waits."""

    request: AccessRequest
    schema: str
    distinguisher: str
    arrived: float
    asked_at: float


class Refused(Exception):
    """A request is not carried out; `reason` is the label of kube-apiserver's metric."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Queue(msgspec.Struct, eq=False):
    """Some of the requests of some flows."""

    number: int
    waiting: OrderedDict[Turn, None] = msgspec.field(default_factory=OrderedDict)
    seats_waiting: int = 0
    seats_at_work: int = 0
    #: How many seat-seconds it has had, counted from where the others were when it became busy.
    served: float = 0.0

    @property
    def is_idle(self) -> bool:
        return not self.seats_waiting and not self.seats_at_work

    @property
    def rank(self) -> tuple[float, float]:
        """The least is next; among equals the one that has had least."""
        return self.served + self.seats_at_work * ASSUMED_SECONDS, self.served


class Turn(msgspec.Struct, eq=False):
    """A request's place: in a queue, then at work."""

    level: Level
    queue: Queue
    seats: int
    origin: Origin
    granted: asyncio.Future[None] | None = None
    began: float = 0.0


class Level:
    """A priority level: what of it waits, and what is at work."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.uid = ""
        self.is_exempt = False
        self.allotment = Allotment(0, 0, 0)
        self._queuing: Queuing | None = None
        self._queues: dict[int, Queue] = {}
        #: Those in which somebody waits.
        self._busy: dict[Queue, None] = {}
        #: What the queue that had a turn last has had: whoever comes anew begins there.
        self._served = 0.0
        self.at_work: dict[Turn, None] = {}
        self.waiting = 0
        #: What has become of the requests so far.
        self.dispatched = self.rejected = self.timed_out = self.cancelled = 0

    def set_queuing(self, queuing: Queuing | None) -> None:
        """From now on; whoever waits already keeps its place. None: nobody waits."""
        if queuing is None or self._queuing is None or queuing.queues != self._queuing.queues:
            self._queues = {}
        self._queuing = queuing

    @property
    def executing(self) -> int:
        return len(self.at_work)

    def queues(self) -> list[Queue]:
        """Those that have been used, and those of before in which somebody still waits; by their numbers."""
        return sorted({*self._queues.values(), *self._busy}, key=lambda queue: queue.number)

    @property
    def is_unused(self) -> bool:
        return not self.executing and not self.waiting

    def join(self, flow: int, seats: int, origin: Origin) -> Turn:
        """A place in the shortest queue of the flow's hand; `flow` is its hash. An exempt request takes no seat."""
        queue = self._shortest(flow)
        if queue.is_idle:
            queue.served = max(queue.served, self._served)
        return Turn(self, queue, 0 if self.is_exempt else min(seats, self.allotment.widest), origin)

    def enqueue(self, turn: Turn, granted: asyncio.Future[None]) -> None:
        """Let it wait. Raises `Refused` where there is no room."""
        if self._queuing is None:
            raise Refused("concurrency-limit")
        if len(turn.queue.waiting) >= self._queuing.queue_length_limit:
            raise Refused("queue-full")
        turn.granted = granted
        turn.queue.waiting[turn] = None
        turn.queue.seats_waiting += turn.seats
        self._busy[turn.queue] = None
        self.waiting += 1

    def next_turn(self) -> Turn | None:
        """Who is to work next, of those who wait."""
        if not self._busy:
            return None
        return next(iter(min(self._busy, key=lambda queue: queue.rank).waiting))

    def leave(self, turn: Turn) -> None:
        """It waits no longer."""
        queue = turn.queue
        del queue.waiting[turn]
        queue.seats_waiting -= turn.seats
        self.waiting -= 1
        if not queue.waiting:
            del self._busy[queue]

    def begin(self, turn: Turn) -> None:
        """It works; its seats are taken already."""
        turn.began = monotonic()
        turn.queue.seats_at_work += turn.seats
        self._served = max(self._served, turn.queue.served)
        self.at_work[turn] = None
        self.dispatched += 1

    def finish(self, turn: Turn) -> None:
        """It is done; its seats are free."""
        turn.queue.seats_at_work -= turn.seats
        turn.queue.served += turn.seats * (monotonic() - turn.began)
        self.allotment.in_use -= turn.seats
        del self.at_work[turn]
        if turn.queue.is_idle and len(self._queues) > _MOST_IDLE:
            self._queues.pop(turn.queue.number, None)

    def _shortest(self, flow: int) -> Queue:
        queuing = self._queuing
        hand = deal(flow, queuing.queues, queuing.hand_size) if queuing else (_QUEUELESS,)
        best: Queue | None = None
        for number in hand:
            queue = self._queues.get(number)
            if queue is None:  # nobody has ever been there
                queue = self._queues[number] = Queue(number)
            if best is None or _length(queue) < _length(best):
                best = queue
                if queue.is_idle:
                    break
        assert best is not None
        return best


def _length(queue: Queue) -> int:
    return queue.seats_waiting + queue.seats_at_work


def deal(flow: int, deck: int, hand: int) -> Sequence[int]:
    """Which of the queues 0 to `deck` - 1 are those of a flow: `hand` different ones, by its hash alone."""
    dealt: list[int] = []
    for number in range(hand):
        flow, card = divmod(flow, deck - number)
        for taken in sorted(dealt):
            if card >= taken:
                card += 1
        dealt.append(card)
    return dealt
