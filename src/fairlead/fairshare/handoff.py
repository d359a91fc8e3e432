"""What may be used now, while what is deserved is still being freed (S2-35).

A consumer that has too much is granted no more than it deserves. One that has too little is granted what it has and
its part of what is free: never what somebody else still holds, or it could be taken twice.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gmpy2 import mpq

from fairlead.fairshare.claims import Amount, dominant
from fairlead.fairshare.filling import Strand, fill

_ONLY = "amount"

#: What one pod needs, and how many of them there are.
_Pods: TypeAlias = "tuple[Mapping[str, int], int]"


@dataclass(frozen=True, slots=True)
class Holding:
    """One consumer and one resource; `used` counts pods that are ending, too."""

    deserved: Amount
    used: Amount
    weight: Amount = 1
    #: What is free is for it first (S2-28).
    is_unlimited: bool = False

    @property
    def turn(self) -> tuple[bool, bool]:
        """Who has the least is served before the others are."""
        return not self.is_unlimited, not self.weight


def granted(holdings: Mapping[str, Holding], capacity: Amount) -> dict[str, mpq]:
    """What each may use of one resource; together with what is still held beyond that, never more than there is."""
    free = max(mpq(capacity) - sum(mpq(holding.used) for holding in holdings.values()), mpq(0))
    lacking = {
        name: mpq(holding.deserved) - holding.used
        for name, holding in sorted(holdings.items())
        if holding.deserved > holding.used
    }
    left = {_ONLY: free}
    more: dict[str, mpq] = {}
    for turn in sorted({holdings[name].turn for name in lacking}):
        strands = {
            name: _strand(lacking[name], holdings[name].weight) for name in lacking if holdings[name].turn == turn
        }
        fill(list(strands.values()), left)
        more |= {name: strand.position for name, strand in strands.items()}
    return {
        name: mpq(holding.used) + more[name] if name in more else mpq(holding.deserved)
        for name, holding in holdings.items()
    }


def _strand(amount: mpq, weight: Amount) -> Strand:
    return Strand({_ONLY: mpq(1)}, mpq(weight or 1), mpq(0), amount)


@dataclass(frozen=True, slots=True)
class Queue:
    """A consumer and its pods that wait; amounts in whole numbers."""

    name: str
    used: Mapping[str, int]
    #: What `granted` found, and what it is a part of.
    granted: Mapping[str, int]
    deserved: Mapping[str, int]
    #: Never more than this, whatever is idle.
    hard: Mapping[str, int]
    #: What one pod needs, and how many such pods wait.
    waiting: Sequence[tuple[Mapping[str, int], int]]
    #: Pods that would find no node: they are served last, and nothing is kept for them.
    stuck: Sequence[tuple[Mapping[str, int], int]] = ()
    weight: Amount = 1
    #: What of it is granted is kept from others while it is idle.
    held: Mapping[str, int] = field(default_factory=dict)
    is_unlimited: bool = False


def startable(
    queues: Iterable[Queue], free: Mapping[str, int], capacity: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """What each may use on top of what it uses, in whole pods: parts of a pod are of no use to anybody.

    First the pods for which what is granted suffices; then one pod after the other that is deserved, the unlimited
    before the others, and the largest part granted first. What those need for whom there is no room yet is kept for
    them, and what nobody deserves is lent, pod by pod, to whoever has the smallest dominant share. What is held for one
    is for nobody else at any time.
    """
    left = dict(free)
    turns = [_Turn(queue) for queue in sorted(queues, key=lambda queue: queue.name)]
    for turn in turns:
        turn.start(turn.queue.granted, left)
    for turn in turns:
        turn.hold(left)
    _one_by_one(turns, left, lambda turn: turn.queue.deserved, _Turn.by_part)
    for turn in turns:
        turn.keep(left)
    _one_by_one(turns, left, lambda turn: turn.queue.hard, lambda turn: turn.by_share(capacity))
    for turn in turns:
        turn.waiting = _pods(turn.queue.stuck)
    _one_by_one(turns, left, lambda turn: turn.queue.deserved, _Turn.by_part)
    return {turn.queue.name: turn.more for turn in turns}


def _pods(told: Iterable[tuple[Mapping[str, int], int]]) -> list[_Pods]:
    """Those that need anything at all."""
    pods = [({name: amount for name, amount in need.items() if amount}, count) for need, count in told]
    return [(need, count) for need, count in pods if need and count]


class _Turn:
    """One consumer being served."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.more: dict[str, int] = {}
        self.waiting = _pods(queue.waiting)
        #: What is held for it and not used yet.
        self._held: dict[str, int] = {}

    def start(self, limit: Mapping[str, int], left: dict[str, int], most: int = sys.maxsize) -> bool:
        """Start as many pods (or `most`) as the limit and what is left allow; whether there was any."""
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
        """What is held for it goes first."""
        own = min(self._held.get(name, 0), amount)
        if own:
            self._held[name] -= own
        if amount:
            left[name] -= amount - own
            self.more[name] = self.more.get(name, 0) + amount

    def _room(self, name: str, limit: Mapping[str, int]) -> int:
        """How much more the limit allows; of a resource that it does not name, anything."""
        if name not in limit:
            return sys.maxsize
        return limit[name] - self.queue.used.get(name, 0) - self.more.get(name, 0)

    def by_part(self) -> tuple[bool, mpq]:
        """The unlimited first, then the largest part of a waiting pod that is granted beyond what has been started."""
        parts = (
            min(mpq(self._room(name, self.queue.granted), amount) for name, amount in need.items())
            for need, _ in self.waiting
        )
        return not self.queue.is_unlimited, -max(parts, default=mpq(0))

    def by_share(self, capacity: Mapping[str, int]) -> tuple[bool, mpq]:
        """The smallest dominant share goes first, and those without weight go last."""
        weight = mpq(self.queue.weight)
        used = {name: self.queue.used.get(name, 0) + self.more.get(name, 0) for name in capacity}
        return not weight, dominant(used, capacity) / (weight or 1)

    def hold(self, left: dict[str, int]) -> None:
        """Take off what is left what it has been granted and does not lend."""
        for name, amount in self.queue.held.items():
            self._held[name] = max(self._room(name, {name: min(amount, self.queue.granted.get(name, 0))}), 0)
            left[name] = left.get(name, 0) - self._held[name]

    def keep(self, left: dict[str, int]) -> None:
        """Take off what is left what its deserved pods need that still wait."""
        deserved, kept = self.queue.deserved, dict[str, int]()
        for need, count in self.waiting:
            fitting = min(self._room(name, deserved) // amount for name, amount in need.items())
            for name, amount in need.items():
                kept[name] = kept.get(name, 0) + max(min(count, fitting), 0) * amount
        for name, amount in kept.items():  # each size by itself may be deserved, but not all of them together
            left[name] = left.get(name, 0) - max(min(amount, self._room(name, deserved)) - self._held.get(name, 0), 0)


def _one_by_one(
    turns: Sequence[_Turn],
    left: dict[str, int],
    limit: Callable[[_Turn], Mapping[str, int]],
    rank: Callable[[_Turn], tuple[bool, mpq]],
) -> None:
    """One pod after the other for whoever is first in line then, while there is room for any."""
    line = [(rank(turn), number) for number, turn in enumerate(turns) if turn.waiting]
    heapq.heapify(line)
    while line:
        _, number = heapq.heappop(line)
        turn = turns[number]
        if turn.start(limit(turn), left, most=1 if line else sys.maxsize) and turn.waiting:
            heapq.heappush(line, (rank(turn), number))
