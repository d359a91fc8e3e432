"""Which pods of an overused consumer are evicted.

As few as needed: pods that hold an overused resource, the lowest priority and youngest first; those that turn out not
to be needed are kept. Reserved amounts, disruption budgets and the minimum runtime are respected, and gangs are evicted
as a whole or not at all.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec
from gmpy2 import mpq

from fairlead.fairshare.claims import Amounts, dominant

_NOTHING: Final[Amounts] = {}


class VictimCandidate(msgspec.Struct, frozen=True):
    """A pod of the consumer and what it holds."""

    name: str
    requests: Amounts
    priority: int = 0
    age_seconds: float = 0.0
    #: Pods of one gang are evicted together.
    gang: str = ""
    #: Terminating already: counts as gone.
    is_terminating: bool = False
    #: Never evicted (pods of DaemonSets, mirror pods).
    is_protected: bool = False
    #: Its owner was given notice: within a priority it is evicted before younger pods.
    is_on_notice: bool = False


class Budget(msgspec.Struct, frozen=True):
    """How many of these pods may be disrupted."""

    pods: frozenset[str]
    allowed: int


class VictimChoice(msgspec.Struct, frozen=True):
    """The victims, and what is still overused without them, as a dominant share."""

    victims: tuple[str, ...]
    residual: mpq


class _Unit(msgspec.Struct, eq=False):
    """What is evicted as a whole: a pod, or a gang."""

    name: str
    pods: list[VictimCandidate]
    requests: dict[str, mpq]
    #: How many of its pods each budget covers, by the budget's number.
    cost: Counter[int] = msgspec.field(default_factory=Counter)

    @property
    def rank(self) -> tuple[int, bool, float]:
        """Eviction order: the lowest first."""
        is_fresh = not any(pod.is_on_notice for pod in self.pods)
        return max(pod.priority for pod in self.pods), is_fresh, max(pod.age_seconds for pod in self.pods)


class _EqualUnits(msgspec.Struct, eq=False):
    """Units of one rank with the same requests: only the first of them needs to be looked at."""

    units: deque[_Unit]
    fit: tuple[mpq, mpq] = mpq(0), mpq(0)

    @property
    def requests(self) -> Mapping[str, mpq]:
        return self.units[0].requests

    @property
    def order(self) -> tuple[tuple[mpq, mpq], str]:
        return self.fit, self.units[0].name


def choose_victims(
    pods: Iterable[VictimCandidate],
    deserved: Amounts,
    capacity: Amounts,
    *,
    reserved: Amounts = _NOTHING,
    budgets: Sequence[Budget] = (),
    min_runtime_seconds: float = 0.0,
) -> VictimChoice:
    """The victims that bring a consumer down to what it deserves, or as far as possible. A resource that `deserved`
    does not name has no bound.
    """
    staying = [pod for pod in pods if not pod.is_terminating]
    used = _sum(staying)
    units = [unit for unit in _units(staying, budgets) if _may_go(unit, min_runtime_seconds)]
    ranks = [list(peers) for _, peers in groupby(sorted(units, key=lambda unit: unit.rank), lambda unit: unit.rank)]
    allowed = [budget.allowed for budget in budgets]
    chosen: dict[_Unit, None] = {}
    for _ in range(len(units) + 1):  # a unit that is kept after all frees budget and guarantee for another
        before = list(chosen)
        for peers in ranks:
            used = _take(peers, chosen, used, deserved, reserved, allowed)
        for unit in _needless(list(chosen), used, deserved):
            del chosen[unit]
            used = _more(used, unit.requests)
            _spend(unit, allowed, sign=-1)
        if list(chosen) == before:
            break
    names = sorted(pod.name for unit in chosen for pod in unit.pods)
    return VictimChoice(tuple(names), dominant(_over(used, deserved), capacity))


def _take(
    peers: Sequence[_Unit],
    chosen: dict[_Unit, None],
    used: dict[str, mpq],
    deserved: Amounts,
    reserved: Amounts,
    allowed: list[int],
) -> dict[str, mpq]:
    """Choose from the units of one rank until nothing is overused or no unit is left; returns what is used then."""
    over = _over(used, deserved)
    groups = _by_requests(unit for unit in peers if unit not in chosen) if over else []
    seen: Mapping[str, mpq] = {}
    while groups and over:
        if over != seen:
            seen = over
            for group in groups:
                group.fit = _fit(group.requests, over)
        best = min(groups, key=lambda group: group.order)
        if not (_relieves(best.requests, over) and _keeps(used, best.requests, reserved)):
            groups.remove(best)  # it will not after further evictions either
            continue
        unit = best.units.popleft()
        if not best.units:
            groups.remove(best)
        if _spend(unit, allowed):
            chosen[unit] = None
            used = _less(used, unit.requests)
            over = _over(used, deserved)
    return used


def _units(pods: Sequence[VictimCandidate], budgets: Sequence[Budget]) -> list[_Unit]:
    gangs: dict[str, list[VictimCandidate]] = {}
    for pod in pods:
        gangs.setdefault(f"gang {pod.gang}" if pod.gang else f"pod {pod.name}", []).append(pod)
    units = [_Unit(min(pod.name for pod in members), members, _sum(members)) for members in gangs.values()]
    unit_of = {pod.name: unit for unit in units for pod in unit.pods}
    for number, budget in enumerate(budgets):
        for name in budget.pods & unit_of.keys():
            unit_of[name].cost[number] += 1
    return units


def _by_requests(units: Iterable[_Unit]) -> list[_EqualUnits]:
    groups: dict[tuple[tuple[str, mpq], ...], _EqualUnits] = {}
    for unit in sorted(units, key=lambda unit: unit.name):
        groups.setdefault(tuple(sorted(unit.requests.items())), _EqualUnits(deque())).units.append(unit)
    return list(groups.values())


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
    """Sort key within a rank: what stays overused, then what is evicted beyond need."""
    rest = waste = mpq(0)
    for name, amount in over.items():
        more = amount - requests.get(name, 0)
        if more > 0:
            rest += more / amount
        else:
            waste -= more / amount
    return rest, waste


def _keeps(used: Mapping[str, mpq], requests: Mapping[str, mpq], reserved: Amounts) -> bool:
    """Whether the reserved amounts are still used without it."""
    return all(
        used.get(name, mpq(0)) - requests.get(name, 0) >= amount
        for name, amount in reserved.items()
        if requests.get(name)
    )


def _spend(unit: _Unit, allowed: list[int], sign: int = 1) -> bool:
    """Count the unit against all its budgets (-1: give it back); does nothing and returns False if one is used up."""
    if any(sign * count > allowed[budget] for budget, count in unit.cost.items()):
        return False
    for budget, count in unit.cost.items():
        allowed[budget] -= sign * count
    return True


def _needless(chosen: Sequence[_Unit], used: Mapping[str, mpq], deserved: Amounts) -> list[_Unit]:
    """The units that need not be evicted after all, the most important first."""
    needless, now = list[_Unit](), dict(used)
    for unit in reversed(chosen):
        again = _more(now, unit.requests)
        if _over(again, deserved) == _over(now, deserved):
            needless.append(unit)
            now = again
    return needless


def _sum(pods: Iterable[VictimCandidate]) -> dict[str, mpq]:
    total: dict[str, mpq] = {}
    for pod in pods:
        for name, amount in pod.requests.items():
            total[name] = total.get(name, mpq(0)) + amount
    return total


def _more(used: Mapping[str, mpq], amounts: Amounts) -> dict[str, mpq]:
    return dict(used) | {name: used.get(name, mpq(0)) + amount for name, amount in amounts.items()}


def _less(used: Mapping[str, mpq], amounts: Amounts) -> dict[str, mpq]:
    return dict(used) | {name: used.get(name, mpq(0)) - amount for name, amount in amounts.items()}
