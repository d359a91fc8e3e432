"""What may be used now, while what is deserved is still being freed (S2-35).

A consumer that has too much is granted no more than it deserves. One that has too little is granted what it has and
its part of what is free: never what somebody else still holds, or it could be taken twice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gmpy2 import mpq

from fairlead.fairshare.claims import Amount, dominant
from fairlead.fairshare.filling import Strand, fill

_ONLY = "amount"


@dataclass(frozen=True, slots=True)
class Holding:
    """One consumer and one resource; `used` counts pods that are ending, too."""

    deserved: Amount
    used: Amount
    weight: Amount = 1


def granted(holdings: Mapping[str, Holding], capacity: Amount) -> dict[str, mpq]:
    """What each may use of one resource; together with what is still held beyond that, never more than there is."""
    free = max(mpq(capacity) - sum(mpq(one.used) for one in holdings.values()), mpq(0))
    lacking = {name: mpq(one.deserved) - one.used for name, one in sorted(holdings.items()) if one.deserved > one.used}
    left = {_ONLY: free}
    first = {name: _strand(lacking[name], mpq(holdings[name].weight)) for name in lacking if holdings[name].weight > 0}
    fill(list(first.values()), left)
    last = {name: _strand(lacking[name], mpq(1)) for name in lacking if name not in first}
    fill(list(last.values()), left)
    more = {name: strand.position for name, strand in (first | last).items()}
    return {name: mpq(one.used) + more[name] if name in more else mpq(one.deserved) for name, one in holdings.items()}


def _strand(amount: mpq, weight: mpq) -> Strand:
    return Strand({_ONLY: mpq(1)}, weight, mpq(0), amount)


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
    #: Whether what is granted and not used is kept from others.
    holds: bool = False


def startable(
    queues: Iterable[Queue], free: Mapping[str, int], capacity: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """What each may use on top of what it uses, in whole pods: parts of a pod are of no use to anybody.

    First the pods for which what is granted suffices; then one pod after the other that is deserved, the largest part
    granted first. What those need for whom there is no room yet is kept for them, and what nobody deserves is lent,
    pod by pod, to whoever has the smallest dominant share.
    """
    left = dict(free)
    turns = [_Turn(queue) for queue in sorted(queues, key=lambda one: one.name)]
    for turn in turns:
        turn.take(turn.queue.granted, left)
    _one_by_one(turns, left, lambda turn: turn.queue.deserved, lambda turn: -turn.part())
    for turn in turns:
        turn.keep(left)
    _one_by_one(turns, left, lambda turn: turn.queue.hard, lambda turn: turn.share(capacity))
    for turn in turns:
        turn.waiting = [(need, count) for need, count in turn.queue.stuck if need and count]
    _one_by_one(turns, left, lambda turn: turn.queue.deserved, lambda turn: -turn.part())
    return {turn.queue.name: turn.more for turn in turns}


class _Turn:
    """One consumer being served."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.more: dict[str, int] = {}
        self.waiting = [(need, count) for need, count in queue.waiting if need and count]

    def take(self, limit: Mapping[str, int], left: dict[str, int], most: int | None = None) -> bool:
        """Start as many pods (or `most`) as the limit and what is left allow; whether there was any."""
        still, started = list[tuple[Mapping[str, int], int]](), 0
        for need, count in self.waiting:
            room = min(
                min(self._room(name, amount, limit), left.get(name, 0) // amount) for name, amount in need.items()
            )
            fitting = max(min(count, room, sys.maxsize if most is None else most - started), 0)
            for name, amount in need.items():
                left[name] = left.get(name, 0) - fitting * amount
                self.more[name] = self.more.get(name, 0) + fitting * amount
            started += fitting
            if count > fitting:
                still.append((need, count - fitting))
        self.waiting = still
        return started > 0

    def _room(self, name: str, amount: int, limit: Mapping[str, int]) -> int:
        """How many such pods more the limit allows; a resource that it does not name has none."""
        if name not in limit:
            return sys.maxsize
        return (limit[name] - self.queue.used.get(name, 0) - self.more.get(name, 0)) // amount

    def part(self) -> mpq:
        """The largest part of a waiting pod that is granted beyond what has been started."""
        queue = self.queue
        return max(
            (
                min(
                    mpq(queue.granted.get(name, 0) - queue.used.get(name, 0) - self.more.get(name, 0), amount)
                    for name, amount in need.items()
                )
                for need, _ in self.waiting
            ),
            default=mpq(0),
        )

    def share(self, capacity: Mapping[str, int]) -> mpq:
        used = {name: self.queue.used.get(name, 0) + self.more.get(name, 0) for name in capacity}
        return dominant(used, capacity) / mpq(self.queue.weight) if self.queue.weight else mpq(len(capacity) + 1)

    def keep(self, left: dict[str, int]) -> None:
        """Take off what is left what the deserved pods need that still wait, and what is not lent anyway."""
        queue, kept = self.queue, dict(self.more)
        for need, count in self.waiting:
            fitting = min(self._room(name, amount, queue.deserved) for name, amount in need.items())
            for name, amount in need.items():
                kept[name] = kept.get(name, 0) + max(min(count, fitting), 0) * amount
        for name in left:
            held = queue.granted.get(name, 0) - queue.used.get(name, 0) if queue.holds else 0
            left[name] -= max(kept.get(name, 0), held) - self.more.get(name, 0)


def _one_by_one(
    turns: Sequence[_Turn],
    left: dict[str, int],
    limit: Callable[[_Turn], Mapping[str, int]],
    rank: Callable[[_Turn], mpq],
) -> None:
    """One pod for each, in that order, and again while there is room for any."""
    hungry = list(turns)
    while hungry:
        hungry = [turn for turn in sorted(hungry, key=rank) if turn.waiting and turn.take(limit(turn), left, most=1)]
