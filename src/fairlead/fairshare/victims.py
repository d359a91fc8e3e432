"""Which pods of an overused consumer have to go.

Only what is needed: pods that hold something of which there is too much, the least important and youngest first, and
what turns out not to be needed is put back. Never below what is reserved, never against a budget, never what runs too
short a time to be taken; gangs go as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from gmpy2 import mpq

from fairlead.fairshare.claims import Amounts, dominant

_NOTHING: Final[Amounts] = {}


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod and what it holds."""

    name: str
    requests: Amounts
    priority: int = 0
    age_seconds: float = 0.0
    #: Pods of one gang go together.
    gang: str = ""
    #: It is ending already: it counts as gone.
    is_terminating: bool = False
    #: DaemonSet pods, mirror pods: nobody takes them.
    is_protected: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """How many of these pods may be disrupted."""

    pods: frozenset[str]
    allowed: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Who goes, and how much too much is used even then, as a dominant share."""

    victims: tuple[str, ...]
    residual: mpq


@dataclass(slots=True, eq=False)
class _Unit:
    """What goes in one piece: a pod, or a gang."""

    pods: list[Holder]
    requests: dict[str, mpq] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for pod in self.pods:
            for name, amount in pod.requests.items():
                self.requests[name] = self.requests.get(name, mpq(0)) + amount

    @property
    def rank(self) -> tuple[int, float]:
        """The first to go has the least."""
        return max(pod.priority for pod in self.pods), max(pod.age_seconds for pod in self.pods)


def choose(
    pods: Iterable[Holder],
    deserved: Amounts,
    capacity: Amounts,
    *,
    reserved: Amounts = _NOTHING,
    budgets: Sequence[Budget] = (),
    min_runtime_seconds: float = 0.0,
) -> Choice:
    """The victims that bring a consumer down to what it deserves, or as far as may be. A resource that `deserved` does
    not name has no bound.
    """
    staying = [pod for pod in pods if not pod.is_terminating]
    used = _sum(staying)
    units = [unit for unit in _units(staying) if _may_go(unit, min_runtime_seconds)]
    allowed = {budget: budget.allowed for budget in budgets}
    chosen: list[_Unit] = []
    for _ in range(len(units) + 1):  # whoever is put back makes room in budgets and guarantees for another
        before = list(chosen)
        used = _take(units, chosen, used, deserved, reserved, allowed)
        for unit in _needless(chosen, used, deserved):
            chosen.remove(unit)
            used = _more(used, unit.requests)
            _spend(unit, allowed, sign=-1)
        if chosen == before:
            break
    victims = chosen
    names = sorted(pod.name for unit in victims for pod in unit.pods)
    return Choice(tuple(names), dominant(_over(used, deserved), capacity))


def _take(
    units: Sequence[_Unit],
    chosen: list[_Unit],
    used: dict[str, mpq],
    deserved: Amounts,
    reserved: Amounts,
    allowed: dict[Budget, int],
) -> dict[str, mpq]:
    """Choose on, in order, until nothing is overused or nobody is left; returns what is used then."""
    for _, equals in groupby(sorted(units, key=lambda unit: unit.rank), key=lambda unit: unit.rank):
        candidates = [unit for unit in equals if unit not in chosen]
        while candidates and (over := _over(used, deserved)):
            unit = min(candidates, key=lambda one: _fit(one, over))
            candidates.remove(unit)
            if _relieves(unit, over) and _keeps(used, unit, reserved) and _spend(unit, allowed):
                chosen.append(unit)
                used = _less(used, unit.requests)
    return used


def _units(pods: Sequence[Holder]) -> list[_Unit]:
    gangs: dict[str, list[Holder]] = {}
    for pod in pods:
        gangs.setdefault(f"gang {pod.gang}" if pod.gang else f"pod {pod.name}", []).append(pod)
    return [_Unit(members) for members in gangs.values()]


def _may_go(unit: _Unit, min_runtime_seconds: float) -> bool:
    return all(not pod.is_protected and pod.age_seconds >= min_runtime_seconds for pod in unit.pods)


def _over(used: Mapping[str, mpq], deserved: Amounts) -> dict[str, mpq]:
    """By how much each resource is overused."""
    return {
        name: amount - deserved[name] for name, amount in used.items() if name in deserved and amount > deserved[name]
    }


def _relieves(unit: _Unit, over: Mapping[str, mpq]) -> bool:
    return any(unit.requests.get(name) for name in over)


def _fit(unit: _Unit, over: Mapping[str, mpq]) -> tuple[mpq, mpq, str]:
    """Among equals: whoever leaves least overused, and of those whoever takes least else along."""
    rest = sum((max(amount - unit.requests.get(name, 0), mpq(0)) / amount for name, amount in over.items()), mpq(0))
    waste = sum((max(unit.requests.get(name, 0) - amount, mpq(0)) / amount for name, amount in over.items()), mpq(0))
    return rest, waste, min(pod.name for pod in unit.pods)


def _keeps(used: Mapping[str, mpq], unit: _Unit, reserved: Amounts) -> bool:
    """Whether what is reserved is still held without it, where it was before."""
    return all(
        used.get(name, mpq(0)) - unit.requests.get(name, 0) >= amount
        for name, amount in reserved.items()
        if unit.requests.get(name)
    )


def _spend(unit: _Unit, allowed: dict[Budget, int], sign: int = 1) -> bool:
    """Take the pods off every budget over them (-1: give them back); not at all if one of those is used up."""
    cost = {budget: sum(pod.name in budget.pods for pod in unit.pods) for budget in allowed}
    if any(sign * count > allowed[budget] for budget, count in cost.items() if count):
        return False
    for budget, count in cost.items():
        allowed[budget] -= sign * count
    return True


def _needless(chosen: Sequence[_Unit], used: Mapping[str, mpq], deserved: Amounts) -> list[_Unit]:
    """Who can be put back, the most important first, without anything becoming overused that is not."""
    needless, now = list[_Unit](), dict(used)
    for unit in reversed(chosen):
        again = _more(now, unit.requests)
        if _over(again, deserved) == _over(now, deserved):
            needless.append(unit)
            now = again
    return needless


def _sum(pods: Iterable[Holder]) -> dict[str, mpq]:
    total: dict[str, mpq] = {}
    for pod in pods:
        total = _more(total, pod.requests)
    return total


def _more(used: Mapping[str, mpq], amounts: Amounts) -> dict[str, mpq]:
    return dict(used) | {name: used.get(name, mpq(0)) + amount for name, amount in amounts.items()}


def _less(used: Mapping[str, mpq], amounts: Amounts) -> dict[str, mpq]:
    return dict(used) | {name: used.get(name, mpq(0)) - amount for name, amount in amounts.items()}
