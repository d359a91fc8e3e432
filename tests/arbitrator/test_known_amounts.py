"""Amounts are read once, however many cycles ask for them, and again where their meaning changes."""

from __future__ import annotations

from fairlead.arbitrator.amounts import LIMITS, REQUESTS, KnownAmounts
from tests.work import calls


def test_the_next_cycle_does_not_read_them_again() -> None:
    known, many = KnownAmounts(), {f"requests.example.com/r{number}": "1" for number in range(100)}
    few = {"requests.cpu": "1"}
    known.parse(many, {}, REQUESTS)
    known.parse(few, {}, REQUESTS)
    known.begin()
    assert calls(lambda: known.parse(many, {}, REQUESTS)) == calls(lambda: known.parse(few, {}, REQUESTS))


def test_they_are_read_again_for_another_cluster_and_where_limits_are_divided() -> None:
    known, amounts = KnownAmounts(), {"requests.cpu": "50%", "limits.cpu": "1"}
    assert known.parse(amounts, {"cpu": 4000}, REQUESTS) == {"cpu": 2000}
    known.begin()
    assert known.parse(amounts, {"cpu": 8000}, REQUESTS) == {"cpu": 4000}
    known.begin()
    assert known.parse(amounts, {"cpu": 8000}, LIMITS) == {"cpu": 1000}


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    known, amounts = KnownAmounts(), {"requests.cpu": "1"}
    known.parse(amounts, {}, REQUESTS)
    known.begin()
    known.begin()
    assert known.parse(amounts | {"requests.memory": "1"}, {}, REQUESTS) == {"cpu": 1000, "memory": 1}
