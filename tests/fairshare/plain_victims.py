"""Victims the plain and slow way: among equals, look at every pod again whenever one has gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gmpy2 import mpq

from fairlead.fairshare.claims import Amounts
from fairlead.fairshare.victims import Budget, VictimCandidate

Unit = tuple[VictimCandidate, ...]


def used_by(pods: Sequence[VictimCandidate]) -> dict[str, mpq]:
    return {
        name: sum((mpq(pod.requests.get(name, 0)) for pod in pods), mpq(0)) for pod in pods for name in pod.requests
    }


def overused(pods: Sequence[VictimCandidate], deserved: Amounts) -> dict[str, mpq]:
    return {
        name: amount - deserved[name]
        for name, amount in used_by(pods).items()
        if name in deserved and amount > deserved[name]
    }


def plainly_chosen(
    pods: Sequence[VictimCandidate],
    deserved: Amounts,
    reserved: Amounts,
    budgets: Sequence[Budget],
    min_runtime_seconds: float,
) -> tuple[str, ...]:
    """The names of the victims."""
    staying = [pod for pod in pods if not pod.is_terminating]
    gangs: dict[str, list[VictimCandidate]] = {}
    for pod in staying:
        gangs.setdefault(pod.gang or f"alone {pod.name}", []).append(pod)
    units = [
        tuple(members)
        for members in gangs.values()
        if all(not pod.is_protected and pod.age_seconds >= min_runtime_seconds for pod in members)
    ]
    gone: list[Unit] = []

    def rest(without: Sequence[Unit]) -> list[VictimCandidate]:
        return [pod for pod in staying if not any(pod in unit for unit in without)]

    def may_go(unit: Unit) -> bool:
        over, before, after = overused(rest(gone), deserved), used_by(rest(gone)), used_by(rest([*gone, unit]))
        names = [pod.name for members in (*gone, unit) for pod in members]
        return (
            any(pod.requests.get(name) for pod in unit for name in over)
            and all(
                after.get(name, 0) >= amount
                for name, amount in reserved.items()
                if after.get(name, 0) < before.get(name, 0)
            )
            and all(
                sum(name in budget.pods for name in names) <= budget.allowed
                for budget in budgets
                if any(pod.name in budget.pods for pod in unit)
            )
        )

    for _ in range(len(units) + 1):
        before = list(gone)
        for rank in sorted({rank_of(unit) for unit in units}):
            waiting = [unit for unit in units if rank_of(unit) == rank and unit not in gone]
            while waiting and (over := overused(rest(gone), deserved)):
                waiting.sort(key=lambda unit: order(unit, over))
                unit = waiting.pop(0)
                if may_go(unit):
                    gone.append(unit)
        for unit in reversed(list(gone)):
            without = [kept for kept in gone if kept is not unit]
            if overused(rest(without), deserved) == overused(rest(gone), deserved):
                gone = without
        if gone == before:
            break
    return tuple(sorted(pod.name for unit in gone for pod in unit))


def rank_of(unit: Unit) -> tuple[int, float]:
    return max(pod.priority for pod in unit), max(pod.age_seconds for pod in unit)


def order(unit: Unit, over: Mapping[str, mpq]) -> tuple[mpq, mpq, str]:
    """Least left overused, then least too much, then by name."""
    has = used_by(unit)
    lacking = sum((max(amount - has.get(name, mpq(0)), mpq(0)) / amount for name, amount in over.items()), mpq(0))
    too_much = sum((max(has.get(name, mpq(0)) - amount, mpq(0)) / amount for name, amount in over.items()), mpq(0))
    return lacking, too_much, min(pod.name for pod in unit)
