"""What the tests of the mathematics make up: claims and capacities, small enough to read and as large as bytes are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gmpy2 import mpq
from hypothesis import settings
from hypothesis import strategies as st

from fairlead.fairshare.claims import Amount, Amounts, Claim, Model, Share, Surplus
from fairlead.fairshare.tree import ShareGroup
from tests.examples import examples

RESOURCES = ("cpu", "gpu", "mem")
NAMES = "abcdefgh"
SMALL, LARGE = 12, 1 << 44
#: What very long fractions may be rounded by, as a part of the capacity.
ROUNDING = mpq(1, 1 << 90)

often = settings(max_examples=examples(40))
surpluses = st.sampled_from(Surplus)
weights = st.one_of(st.just(1), st.integers(1, 5), st.fractions(Fraction(1, 4), 4, max_denominator=4))


@dataclass(frozen=True)
class Problem:
    claims: tuple[Claim, ...]
    capacity: dict[str, int]

    @property
    def by_name(self) -> dict[str, Claim]:
        return {claim.name: claim for claim in self.claims}


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    models: tuple[Model, ...] = tuple(Model),
    resources: int = 3,
    most: int = 5,
    has_guarantees: bool = True,
    has_caps: bool = True,
    has_unlimited: bool = False,
    has_weightless: bool = False,
    has_holders: bool = False,
    is_large: bool | None = None,
    smallest: int = 0,
    demands_everything: bool = False,
    has_parts: bool = False,
    reserved: int | None = None,
) -> Problem:
    """Some claims of some capacity; what the options do not ask for does not occur, and at most `reserved` is reserved
    of anything: with little, there is often enough for all guarantees.
    """
    names = RESOURCES[: draw(st.integers(1, resources))]
    large = draw(st.booleans()) if is_large is None else is_large
    amounts = st.integers(smallest, LARGE if large else SMALL)

    def some() -> dict[str, int]:
        return draw(st.dictionaries(st.sampled_from(names), amounts))

    def demand() -> dict[str, int]:
        if demands_everything:
            return {name: 1 + draw(amounts) for name in names}
        return {name: draw(amounts) for name in draw(st.lists(st.sampled_from(names), min_size=1, unique=True))}

    def claim(name: str) -> Claim:
        is_unlimited = has_unlimited and draw(st.integers(0, 5)) == 0
        model = draw(st.sampled_from(models))
        is_weightless = has_weightless and not is_unlimited and draw(st.integers(0, 4)) == 0
        is_holder = has_holders and not is_unlimited and draw(st.booleans())
        parts = draw(st.lists(st.builds(demand), min_size=1, max_size=3)) if has_parts and draw(st.booleans()) else []
        return Claim(
            name,
            summed(parts) if parts else demand(),
            0 if is_weightless else draw(weights),
            {name: amount if reserved is None else min(amount, reserved) for name, amount in some().items()}
            if has_guarantees
            else {},
            some() if has_caps and draw(st.booleans()) else {},
            is_unlimited=is_unlimited,
            lends=not is_holder,
            model=model,
            parts=parts,
        )

    capacity = {name: 1 + draw(st.integers(smallest, 2 * (LARGE if large else SMALL))) for name in names}
    count = draw(st.integers(1, most))
    return Problem(tuple(claim(name) for name in NAMES[:count]), capacity)


@st.composite
def trees(draw: st.DrawFn, /, claimed: st.SearchStrategy[Problem]) -> tuple[ShareGroup, dict[str, int]]:
    """Claims in zones, and zones in zones; zones have guarantees and caps if a claim has."""
    problem = draw(claimed)
    has_guarantees = any(claim.reserved for claim in problem.claims)
    has_caps = any(claim.hard for claim in problem.claims)
    members: list[ShareGroup | Claim] = list(problem.claims)
    for number in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, len(members)))
        reserved = {"cpu": draw(st.integers(0, 12))} if has_guarantees and draw(st.booleans()) else {}
        hard = {"cpu": draw(st.integers(0, 12))} if has_caps and draw(st.booleans()) else {}
        group = ShareGroup(f"zone-{number}", members[:size], draw(weights), reserved, hard, draw(st.booleans()))
        members = [*members[size:], group]
    return ShareGroup("root", members), problem.capacity


def zones_of(group: ShareGroup) -> list[ShareGroup]:
    return [group, *(inner for member in group.members if isinstance(member, ShareGroup) for inner in zones_of(member))]


def claims_of(group: ShareGroup) -> list[Claim]:
    return [member for inner in zones_of(group) for member in inner.members if isinstance(member, Claim)]


#: Everything that may be claimed.
anything = problems(has_unlimited=True, has_weightless=True, has_holders=True, has_parts=True)


def summed(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(part.get(name, 0) for part in parts) for part in parts for name in part}


def demand_of(claim: Claim, capacity: Amounts) -> dict[str, Amount]:
    """What it demands of resources that there are."""
    return {name: amount for name, amount in claim.demand.items() if amount and name in capacity}


def parts_of(claim: Claim, capacity: Amounts) -> list[set[str]]:
    """The resources that each part of its demand needs at once."""
    demand = set(demand_of(claim, capacity))
    if claim.parts:
        return [{name for name in demand if part.get(name)} for part in claim.parts]
    return [demand] if claim.model is Model.TOGETHER else [{name} for name in demand]


def wanted(claim: Claim, name: str) -> Amount:
    """What it is guaranteed of a resource, as far as it may and wants to have it; idle parts only if it holds them."""
    reserved = claim.reserved.get(name, 0)
    most = min(reserved, claim.hard.get(name, reserved))
    return min(most, claim.demand.get(name, 0)) if claim.lends else most


def capped(claim: Claim, name: str) -> Amount:
    """The most it may have of a resource that it demands."""
    return min(claim.demand.get(name, 0), claim.hard.get(name, claim.demand.get(name, 0)))


def total(found: dict[str, Share], resource: str) -> mpq:
    return sum((share.deserved[resource] for share in found.values()), mpq(0))


def utility(demand: Amounts, bundle: Amounts) -> mpq:
    """Which part of its pods a consumer could run with these amounts, when they need all their resources at once."""
    return min((mpq(bundle.get(name, 0)) / amount for name, amount in demand.items() if amount), default=mpq(1))
