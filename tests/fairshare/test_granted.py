"""What may be used now is free or held already, and no more than is deserved."""

from __future__ import annotations

from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.fairshare.claims import Amount
from fairlead.fairshare.grants import Holding, granted
from tests.fairshare.generated import NAMES, ROUNDING, often, weights

amounts = st.one_of(st.integers(0, 12), st.integers(0, 1 << 44), st.fractions(0, 12, max_denominator=6))
holdings = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(amounts, amounts, st.one_of(st.just(0), weights)).map(lambda parts: Holding(*parts)),
    min_size=1,
)


@often
@given(holdings, amounts)
def test_what_is_granted_is_free_or_held_already(rows: dict[str, Holding], capacity: Amount) -> None:
    found = granted(rows, capacity)
    used = sum((mpq(row.used) for row in rows.values()), mpq(0))
    promised = sum((max(found[name], mpq(row.used)) for name, row in rows.items()), mpq(0))
    assert promised <= max(mpq(capacity), used)


@often
@given(holdings, amounts)
def test_nobody_is_granted_more_than_it_deserves(rows: dict[str, Holding], capacity: Amount) -> None:
    assert all(amount <= rows[name].deserved for name, amount in granted(rows, capacity).items())


@often
@given(holdings, amounts)
def test_nobody_who_has_too_little_is_granted_less_than_it_has(rows: dict[str, Holding], capacity: Amount) -> None:
    found = granted(rows, capacity)
    assert all(found[name] >= min(mpq(row.used), mpq(row.deserved)) for name, row in rows.items())


@often
@given(holdings, amounts)
def test_all_that_is_free_is_granted_if_it_is_deserved(rows: dict[str, Holding], capacity: Amount) -> None:
    found = granted(rows, capacity)
    free = max(mpq(capacity) - sum((mpq(row.used) for row in rows.values()), mpq(0)), mpq(0))
    lacking = sum((max(mpq(row.deserved) - row.used, mpq(0)) for row in rows.values()), mpq(0))
    more = sum((max(found[name] - row.used, mpq(0)) for name, row in rows.items()), mpq(0))
    assert more >= min(free, lacking) - free * ROUNDING


@often
@given(holdings, amounts)
def test_what_is_free_is_divided_by_weight(rows: dict[str, Holding], capacity: Amount) -> None:
    """Who lacks something still has been given no less by weight than anybody else; who has no weight comes last."""
    found = granted(rows, capacity)
    more = {name: found[name] - row.used for name, row in rows.items() if row.deserved > row.used}
    short = [name for name in more if found[name] < rows[name].deserved]
    for name in short:
        for peer in more:
            if rows[name].weight and rows[peer].weight:
                assert more[peer] / rows[peer].weight <= more[name] / rows[name].weight + ROUNDING * capacity
            elif rows[name].weight:
                assert more[peer] <= ROUNDING * capacity


@often
@given(holdings, amounts)
def test_what_was_granted_can_be_used_without_changing_what_is_granted(
    rows: dict[str, Holding], capacity: Amount
) -> None:
    """Whoever starts all the pods that it may leaves the others what they were granted, and no more is granted."""
    found = granted(rows, capacity)
    started = {name: replace(row, used=max(mpq(row.used), found[name])) for name, row in rows.items()}
    again = granted(started, capacity)
    assert all(abs(again[name] - amount) <= ROUNDING * capacity for name, amount in found.items())


def test_what_is_free_is_for_the_unlimited_first() -> None:
    """Whatever the weights are, and even for those of them that have none (S2-28)."""
    rows = {
        "hungry": Holding(deserved=6, used=0, weight=10**9),
        "large": Holding(deserved=10, used=10, weight=1),
        "system": Holding(deserved=3, used=1, weight=1, is_unlimited=True),
        "weightless": Holding(deserved=1, used=0, weight=0, is_unlimited=True),
    }
    assert granted(rows, 15) == {"hungry": 1, "large": 10, "system": 3, "weightless": 1}
