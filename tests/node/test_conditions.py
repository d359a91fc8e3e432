"""What a node makes of conditions that it finds: its own and those of others (S3-60)."""

from __future__ import annotations

from fairlead.node.conditions import NodeHealth, node_conditions


def test_conditions_of_others_stay_as_and_where_they_are() -> None:
    foreign = {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated"}
    conditions, _ = node_conditions([foreign], NodeHealth(), "2026-01-01T00:00:00Z")
    assert conditions[0] is foreign
    assert [condition["type"] for condition in conditions[1:]] == [
        *("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]


def test_a_node_that_was_written_off_says_that_it_is_back() -> None:
    """The node lifecycle controller writes Unknown when a node falls silent."""
    fresh, _ = node_conditions([], NodeHealth(), "2026-01-01T00:00:00Z")
    silent = [condition | {"status": "Unknown"} for condition in fresh]
    _, events = node_conditions(silent, NodeHealth(), "2026-01-01T00:01:00Z")
    assert events == ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"]
