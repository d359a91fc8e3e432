"""Conditions keep their transition time while their status stays."""

from __future__ import annotations

from fairlead.api import conditions

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
READY = {"type": "Ready", "status": "True", "reason": "Up", "lastTransitionTime": THEN}


def test_transition_time_stays_while_the_status_stays() -> None:
    [changed] = conditions.with_condition([READY], {"type": "Ready", "status": "True", "reason": "Other"}, NOW)
    assert changed == READY | {"reason": "Other"}


def test_transition_time_moves_with_the_status() -> None:
    found = conditions.with_condition(
        [{"type": "A", "status": "True"}, READY], {"type": "Ready", "status": "False"}, NOW
    )
    assert found[1] == READY | {"status": "False", "lastTransitionTime": NOW}
    assert READY["status"] == "True", "inputs are not changed"


def test_new_condition_goes_to_the_end() -> None:
    found = conditions.with_condition([READY], {"type": "B", "status": "False"}, NOW)
    assert found == [READY, {"type": "B", "status": "False", "lastTransitionTime": NOW}]


def test_only_the_text_true_is_true() -> None:
    assert conditions.is_true([READY], "Ready")
    assert not conditions.is_true([{"type": "Ready", "status": "Unknown"}], "Ready")
    assert not conditions.is_true(None, "Ready")
    assert conditions.without_condition([READY], "Ready") == []
