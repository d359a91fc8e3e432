"""The shares against an independent solver: lexicographic max-min by one linear program after the other.

Of all divisions the fair one has the largest smallest level (dominant share by weight), of those the largest second
smallest, and so on. Raise everybody's level as far as a linear program can, find who cannot be raised any further,
hold those where they are, and go on with the rest: nothing of that knows of strands, moments or rates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gmpy2 import mpq
from hypothesis import given, settings
from scipy.optimize import linprog

from fairlead.fairshare.claims import Claim, Model
from fairlead.fairshare.shares import shares
from tests.fairshare.generated import LARGE, Problem, capped, demand_of, often, problems

TOLERANCE = 1e-6
#: A level that cannot be raised by more than this cannot be raised.
STUCK = 1e-7
#: By how much less is also what was reached: numbers are rounded.
SLACK = 1e-9
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class Row:
    """One consumer to the linear program: its variable is its level."""

    name: str
    #: Of every resource, the part of the capacity that it uses at level 1.
    usage: Sequence[float]
    least: float
    most: float


def row_of(claim: Claim, capacity: Mapping[str, int]) -> Row | None:
    """Nothing for a consumer that demands nothing."""
    demand = demand_of(claim, capacity)
    if not demand:
        return None
    full = max(mpq(amount) / capacity[name] for name, amount in demand.items()) / mpq(claim.weight)
    usage = [float(mpq(demand.get(name, 0)) / amount / full) for name, amount in capacity.items()]
    most = min(mpq(capped(claim, name)) / mpq(amount) for name, amount in demand.items())
    least = max(mpq(claim.reserved.get(name, 0)) / mpq(amount) for name, amount in demand.items())
    # Nobody's dominant share exceeds the whole; said here, the numbers stay small.
    ceiling = min(most * full, 1 / mpq(claim.weight))
    return Row(claim.name, usage, float(min(least * full, ceiling)), float(ceiling))


def highest(
    rows: Sequence[Row], reached: Mapping[str, float], rising: Row | None = None, together: Collection[str] = ()
) -> float:
    """How high one can rise, or several together, if nobody has less than was reached."""
    goal = [-1.0 if row is rising else 0.0 for row in rows] + [0.0 if rising else -1.0]
    usage = [[*(row.usage[number] for row in rows), 0.0] for number in range(len(rows[0].usage))]
    above = [[*(-1.0 if row is one else 0.0 for row in rows), 1.0] for one in rows if one.name in together]
    answer = linprog(
        goal,
        A_ub=usage + above,
        b_ub=[1.0] * len(usage) + [0.0] * len(above),
        bounds=[*((max(row.least, reached.get(row.name, 0.0) - SLACK), row.most) for row in rows), (0.0, None)],
        method="highs",
        options=EXACT,
    )
    assert answer.success, answer.message
    return -float(answer.fun)


def lexicographic(rows: Sequence[Row]) -> dict[str, float]:
    """The level of everybody in the fair division."""
    fixed: dict[str, float] = {}
    while together := [row.name for row in rows if row.name not in fixed]:
        common = highest(rows, fixed, together=together)
        reached = dict.fromkeys(together, common) | fixed
        most = {row.name: highest(rows, reached, row) for row in rows if row.name in together}
        stuck = [name for name, level in most.items() if level <= common + STUCK]
        fixed |= dict.fromkeys(stuck or [min(most, key=most.__getitem__)], common)
    return fixed


def assert_as_fair(problem: Problem) -> None:
    found = shares(problem.claims, problem.capacity)
    rows = [row for row in (row_of(claim, problem.capacity) for claim in problem.claims) if row is not None]
    if rows:
        for name, level in lexicographic(rows).items():
            assert abs(float(found[name].dominant_share) - level) <= TOLERANCE, name


@settings(max_examples=60, deadline=None)
@given(problems(models=(Model.TOGETHER,), has_guarantees=False, has_caps=False, is_large=False))
def test_pods_that_need_everything_at_once_share_as_linear_programs_would(problem: Problem) -> None:
    assert_as_fair(problem)


@often
@given(problems(models=(Model.TOGETHER,), has_guarantees=False, is_large=False))
def test_caps_are_what_they_are_to_linear_programs(problem: Problem) -> None:
    assert_as_fair(problem)


@often
@given(problems(models=(Model.TOGETHER,), has_guarantees=False, most=7, is_large=True, smallest=LARGE >> 4))
def test_bytes_are_shared_as_linear_programs_would(problem: Problem) -> None:
    assert_as_fair(problem)


def is_feasible(problem: Problem) -> bool:
    """Whether everybody can have what is guaranteed."""
    (amount,) = problem.capacity.values()
    return sum(min(claim.reserved.get("cpu", 0), capped(claim, "cpu")) for claim in problem.claims) <= amount


@settings(max_examples=60, deadline=None)
@given(problems(resources=1, is_large=False).filter(is_feasible))
def test_guarantees_of_one_resource_are_floors_to_linear_programs(problem: Problem) -> None:
    assert_as_fair(problem)
