"""Which pods of an overused consumer have to go.

Only what is needed: pods that hold something of which there is too much, the least important and youngest first, and
what turns out not to be needed is put back. Never below what is reserved, never against a budget, never what runs too
short a time to be taken; gangs go as a whole or not at all.
"""

from __future__ import annotations

from collections import Counter, deque
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
    #: Its owner was told: among pods of one priority it goes before the younger ones that have come since.
    is_on_notice: bool = False


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

    name: str
    pods: list[Holder]
    requests: dict[str, mpq]
    #: The budgets over its pods, by number, and over how many of them each is.
    cost: Counter[int] = field(default_factory=Counter)

    @property
    def rank(self) -> tuple[int, bool, float]:
        """The first to go has the least."""
        is_fresh = not any(pod.is_on_notice for pod in self.pods)
        return max(pod.priority for pod in self.pods), is_fresh, max(pod.age_seconds for pod in self.pods)


@dataclass(slots=True, eq=False)
class _Alike:
    """Units of one rank that hold the same: only the first of them need be looked at."""

    units: deque[_Unit]
    fit: tuple[mpq, mpq] = mpq(0), mpq(0)

    @property
    def requests(self) -> Mapping[str, mpq]:
        return self.units[0].requests

    @property
    def order(self) -> tuple[tuple[mpq, mpq], str]:
        return self.fit, self.units[0].name


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
    units = [unit for unit in _units(staying, budgets) if _may_go(unit, min_runtime_seconds)]
    ranks = [list(equals) for _, equals in groupby(sorted(units, key=lambda unit: unit.rank), lambda unit: unit.rank)]
    allowed = [budget.allowed for budget in budgets]
    chosen: dict[_Unit, None] = {}
    for _ in range(len(units) + 1):  # whoever is put back makes room in budgets and guarantees for another
        before = list(chosen)
        for equals in ranks:
            used = _take(equals, chosen, used, deserved, reserved, allowed)
        for unit in _needless(list(chosen), used, deserved):
            del chosen[unit]
            used = _more(used, unit.requests)
            _spend(unit, allowed, sign=-1)
        if list(chosen) == before:
            break
    names = sorted(pod.name for unit in chosen for pod in unit.pods)
    return Choice(tuple(names), dominant(_over(used, deserved), capacity))


def _take(
    equals: Sequence[_Unit],
    chosen: dict[_Unit, None],
    used: dict[str, mpq],
    deserved: Amounts,
    reserved: Amounts,
    allowed: list[int],
) -> dict[str, mpq]:
    """Choose on, among equals, until nothing is overused or nobody is left; returns what is used then."""
    over = _over(used, deserved)
    kinds = _alike(unit for unit in equals if unit not in chosen) if over else []
    seen: Mapping[str, mpq] = {}
    while kinds and over:
        if over != seen:
            seen = over
            for kind in kinds:
                kind.fit = _fit(kind.requests, over)
        best = min(kinds, key=lambda kind: kind.order)
        if not (_relieves(best.requests, over) and _keeps(used, best.requests, reserved)):
            kinds.remove(best)  # nor will it when even more have gone
            continue
        unit = best.units.popleft()
        if not best.units:
            kinds.remove(best)
        if _spend(unit, allowed):
            chosen[unit] = None
            used = _less(used, unit.requests)
            over = _over(used, deserved)
    return used


def _units(pods: Sequence[Holder], budgets: Sequence[Budget]) -> list[_Unit]:
    gangs: dict[str, list[Holder]] = {}
    for pod in pods:
        gangs.setdefault(f"gang {pod.gang}" if pod.gang else f"pod {pod.name}", []).append(pod)
    units = [_Unit(min(pod.name for pod in members), members, _sum(members)) for members in gangs.values()]
    unit_of = {pod.name: unit for unit in units for pod in unit.pods}
    for number, budget in enumerate(budgets):
        for name in budget.pods & unit_of.keys():
            unit_of[name].cost[number] += 1
    return units


def _alike(units: Iterable[_Unit]) -> list[_Alike]:
    kinds: dict[tuple[tuple[str, mpq], ...], _Alike] = {}
    for unit in sorted(units, key=lambda unit: unit.name):
        kinds.setdefault(tuple(sorted(unit.requests.items())), _Alike(deque())).units.append(unit)
    return list(kinds.values())


def _may_go(unit: _Unit, min_runtime_seconds: float) -> bool:
    return all(not pod.is_protected and pod.age_seconds >= min_runtime_seconds for pod in unit.pods)


def _over(used: Mapping[str, mpq], deserved: Amounts) -> dict[str, mpq]:
    """By how much each resource is overused."""
    return {
        name: amount - deserved[name] for name, amount in used.items() if name in deserved and amount > deserved[name]
    }


def _relieves(requests: Mapping[str, mpq], over: Mapping[str, mpq]) -> bool:
    return any(requests.get(name) for name in over)


def _fit(requests: Mapping[str, mpq], over: Mapping[str, mpq]) -> tuple[mpq, mpq]:
    """Among equals: whoever leaves least overused, and of those whoever takes least too much."""
    rest = waste = mpq(0)
    for name, amount in over.items():
        more = amount - requests.get(name, 0)
        if more > 0:
            rest += more / amount
        else:
            waste -= more / amount
    return rest, waste


def _keeps(used: Mapping[str, mpq], requests: Mapping[str, mpq], reserved: Amounts) -> bool:
    """Whether what is reserved is still held without it, where it was before."""
    return all(
        used.get(name, mpq(0)) - requests.get(name, 0) >= amount
        for name, amount in reserved.items()
        if requests.get(name)
    )


def _spend(unit: _Unit, allowed: list[int], sign: int = 1) -> bool:
    """Take the pods off every budget over them (-1: give them back); not at all if one of those is used up."""
    if any(sign * count > allowed[budget] for budget, count in unit.cost.items()):
        return False
    for budget, count in unit.cost.items():
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
        for name, amount in pod.requests.items():
            total[name] = total.get(name, mpq(0)) + amount
    return total


def _more(used: Mapping[str, mpq], amounts: Amounts) -> dict[str, mpq]:
    return dict(used) | {name: used.get(name, mpq(0)) + amount for name, amount in amounts.items()}


def _less(used: Mapping[str, mpq], amounts: Amounts) -> dict[str, mpq]:
    return dict(used) | {name: used.get(name, mpq(0)) - amount for name, amount in amounts.items()}
