"""How fast nodes are given up depends on how many of their zone are silent (X-10)."""

from __future__ import annotations

import pytest

from fairlead.api.meta import ObjectMeta
from fairlead.api.nodes import Node, NodeCondition, NodeStatus
from fairlead.controllers.nodes.zones import Zones, ZoneState


def node(name: str, ready: bool, zone: str = "z") -> Node:
    meta = ObjectMeta(name=name, labels={"topology.kubernetes.io/zone": zone})
    return Node(metadata=meta, status=NodeStatus(conditions=(NodeCondition(type="Ready", status=str(ready)),)))


@pytest.mark.parametrize(
    ("ready", "unready", "state", "wait_after_one"),
    [
        (10, 0, ZoneState.NORMAL, 10.0),
        (2, 2, ZoneState.NORMAL, 10.0),  # up to two may always be silent
        (2, 3, ZoneState.PARTIAL, None),
        (20, 40, ZoneState.PARTIAL, 100.0),
        (0, 1, ZoneState.FULL, 10.0),
    ],
)
def test_the_rate_of_a_zone(ready: int, unready: int, state: ZoneState, wait_after_one: float | None) -> None:
    zones = Zones()
    for number in range(ready + unready):
        zones.change(None, node(f"n{number}", number < ready))
    zone = zones.of(node("n0", True))
    assert zone.state is state
    if zone.wait_seconds(0.0) == 0.0:
        zone.give_up(0.0)
    assert zone.wait_seconds(0.0) == wait_after_one


def test_all_are_silent_only_if_every_zone_is() -> None:
    zones = Zones()
    zones.change(None, node("a", False, "y"))
    assert zones.are_all_silent
    zones.change(None, node("b", True, "z"))
    assert not zones.are_all_silent
    assert zones.change(node("b", True, "z"), node("b", False, "z"))
    assert zones.are_all_silent
    zones.change(node("b", False, "z"), None)
    zones.change(node("a", False, "y"), None)
    assert not zones.are_all_silent
