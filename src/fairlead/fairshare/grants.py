"""What each consumer may use now, while deserved amounts are still held by others (S2-35).

A consumer over its share is granted what it deserves. One below it is granted what it uses and its part of what is
free, never what others still hold: that could be used twice.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from gmpy2 import mpq

from fairlead.fairshare.claims import Amount, dominant
from fairlead.fairshare.filling import Flow, fill

_ONLY = "amount"

#: What one pod needs, and how many of them there are.
_Pods: TypeAlias = "tuple[Mapping[str, int], int]"


class Holding(msgspec.Struct, frozen=True):
    """One consumer and one resource; `used` includes terminating pods."""

    deserved: Amount
    used: Amount
    weight: Amount = 1
    #: It is served first from what is free (S2-28).
    is_unlimited: bool = False

    @property
    def turn(self) -> tuple[bool, bool]:
        """Consumers with the smallest value are served first."""
        return not self.is_unlimited, not self.weight


def granted(holdings: Mapping[str, Holding], capacity: Amount) -> dict[str, mpq]:
    """What each may use of one resource. The grants, and what is held beyond them, never exceed the capacity."""
    free = max(mpq(capacity) - sum(mpq(holding.used) for holding in holdings.values()), mpq(0))
    lacking = {
        name: mpq(holding.deserved) - holding.used
        for name, holding in sorted(holdings.items())
        if holding.deserved > holding.used
    }
    left = {_ONLY: free}
    more: dict[str, mpq] = {}
    for turn in sorted({holdings[name].turn for name in lacking}):
        flows = {name: _flow(lacking[name], holdings[name].weight) for name in lacking if holdings[name].turn == turn}
        fill(list(flows.values()), left)
        more |= {name: flow.position for name, flow in flows.items()}
    return {
        name: mpq(holding.used) + more[name] if name in more else mpq(holding.deserved)
        for name, holding in holdings.items()
    }


def _flow(amount: mpq, weight: Amount) -> Flow:
    return Flow({_ONLY: mpq(1)}, mpq(weight or 1), mpq(0), amount)


class ConsumerQueue(msgspec.Struct, frozen=True):
    """A consumer and its waiting pods; amounts in whole numbers."""

    name: str
    used: Mapping[str, int]
    #: The result of `granted`, and the deserved amounts.
    granted: Mapping[str, int]
    deserved: Mapping[str, int]
    #: The upper bound, even of what is lent.
    hard: Mapping[str, int]
    #: What one pod needs, and how many such pods wait.
    waiting: Sequence[tuple[Mapping[str, int], int]]
    #: Waiting pods that fit on no node: they are served last, and nothing is kept for them.
    stuck: Sequence[tuple[Mapping[str, int], int]] = ()
    weight: Amount = 1
    #: Granted amounts up to these are not lent while they are idle.
    held: Mapping[str, int] = msgspec.field(default_factory=dict)
    is_unlimited: bool = False


def startable(
    queues: Iterable[ConsumerQueue], free: Mapping[str, int], capacity: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """What each may use beyond what it uses, in whole pods: a grant for part of a pod would be idle.

    1. Pods that fit into what is granted.
    2. Pods that are deserved, one by one: the unlimited first, then those with the largest part granted.
    3. What the deserved pods that are left over need is kept for them.
    4. The rest is lent, pod by pod, to the smallest dominant share.
    5. Deserved pods that fit on no node.

    What is held for a consumer is given to nobody else in any step.
    """
    left = dict(free)
    turns = [_ConsumerTurn(queue) for queue in sorted(queues, key=lambda queue: queue.name)]
    for turn in turns:
        turn.start(turn.queue.granted, left)
    for turn in turns:
        turn.hold(left)
    _one_by_one(turns, left, lambda turn: turn.queue.deserved, _ConsumerTurn.by_part)
    for turn in turns:
        turn.keep(left)
    _one_by_one(turns, left, lambda turn: turn.queue.hard, lambda turn: turn.by_share(capacity))
    for turn in turns:
        turn.waiting = _pods(turn.queue.stuck)
    _one_by_one(turns, left, lambda turn: turn.queue.deserved, _ConsumerTurn.by_part)
    return {turn.queue.name: turn.more for turn in turns}


def _pods(batches: Iterable[tuple[Mapping[str, int], int]]) -> list[_Pods]:
    """The batches that need anything at all."""
    pods = [({name: amount for name, amount in need.items() if amount}, count) for need, count in batches]
    return [(need, count) for need, count in pods if need and count]


class _ConsumerTurn:
    """The state of one consumer in `startable`."""

    def __init__(self, queue: ConsumerQueue) -> None:
        self.queue = queue
        self.more: dict[str, int] = {}
        self.waiting = _pods(queue.waiting)
        #: The part of `queue.held` that is not used yet.
        self._held: dict[str, int] = {}

    def start(self, limit: Mapping[str, int], left: dict[str, int], most: int = sys.maxsize) -> bool:
        """Start as many pods as the limit and `left` allow, at most `most`; whether any was started."""
        still, started = list[_Pods](), 0
        for need, count in self.waiting:
            room = min(
                min(self._room(name, limit), left.get(name, 0) + self._held.get(name, 0)) // amount
                for name, amount in need.items()
            )
            fitting = max(min(count, room, most - started), 0)
            for name, amount in need.items():
                self._use(name, fitting * amount, left)
            started += fitting
            if count > fitting:
                still.append((need, count - fitting))
        self.waiting = still
        return started > 0

    def _use(self, name: str, amount: int, left: dict[str, int]) -> None:
        """Takes from what is held for it first."""
        own = min(self._held.get(name, 0), amount)
        if own:
            self._held[name] -= own
        if amount:
            left[name] -= amount - own
            self.more[name] = self.more.get(name, 0) + amount

    def _room(self, name: str, limit: Mapping[str, int]) -> int:
        """How much more the limit allows; a resource that it does not name has none."""
        if name not in limit:
            return sys.maxsize
        return limit[name] - self.queue.used.get(name, 0) - self.more.get(name, 0)

    def by_part(self) -> tuple[bool, mpq]:
        """Sort key: the unlimited first, then the largest granted part of a waiting pod."""
        parts = (
            min(mpq(self._room(name, self.queue.granted), amount) for name, amount in need.items())
            for need, _ in self.waiting
        )
        return not self.queue.is_unlimited, -max(parts, default=mpq(0))

    def by_share(self, capacity: Mapping[str, int]) -> tuple[bool, mpq]:
        """Sort key: the smallest dominant share first, consumers without weight last."""
        weight = mpq(self.queue.weight)
        used = {name: self.queue.used.get(name, 0) + self.more.get(name, 0) for name in capacity}
        return not weight, dominant(used, capacity) / (weight or 1)

    def hold(self, left: dict[str, int]) -> None:
        """Subtract from `left` what is granted to it and not lent."""
        for name, amount in self.queue.held.items():
            self._held[name] = max(self._room(name, {name: min(amount, self.queue.granted.get(name, 0))}), 0)
            left[name] = left.get(name, 0) - self._held[name]

    def keep(self, left: dict[str, int]) -> None:
        """Subtract from `left` what its deserved pods need that are still waiting."""
        deserved, kept = self.queue.deserved, dict[str, int]()
        for need, count in self.waiting:
            fitting = min(self._room(name, deserved) // amount for name, amount in need.items())
            for name, amount in need.items():
                kept[name] = kept.get(name, 0) + max(min(count, fitting), 0) * amount
        for name, amount in kept.items():  # each size alone may be deserved, but not all sizes together
            left[name] = left.get(name, 0) - max(min(amount, self._room(name, deserved)) - self._held.get(name, 0), 0)


def _one_by_one(
    turns: Sequence[_ConsumerTurn],
    left: dict[str, int],
    limit: Callable[[_ConsumerTurn], Mapping[str, int]],
    rank: Callable[[_ConsumerTurn], tuple[bool, mpq]],
) -> None:
    """Start one pod at a time of the consumer with the lowest rank, until no more fits."""
    line = [(rank(turn), number) for number, turn in enumerate(turns) if turn.waiting]
    heapq.heapify(line)
    while line:
        _, number = heapq.heappop(line)
        turn = turns[number]
        if turn.start(limit(turn), left, most=1 if line else sys.maxsize) and turn.waiting:
            heapq.heappush(line, (rank(turn), number))
