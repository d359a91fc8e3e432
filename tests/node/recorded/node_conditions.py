"""The conditions of a node over time, with their events (S3-60)."""

from __future__ import annotations

from fairlead.api.objects import Obj
from fairlead.node.conditions import REQUIRED_CAPACITY, NodeHealth, node_conditions
from tests.node.golden import Row, expected, rows

_ERRORS = ("runtimeErrors", "networkErrors", "storageErrors", "shutdownErrors")


def _health(step: Row) -> NodeHealth:
    return NodeHealth(
        pressures=step.get("pressure", ()),
        errors=[error for part in _ERRORS for error in step.get(part, ())],
        capacity=[name for name in REQUIRED_CAPACITY if name not in step.get("capacityUnknown", ())],
        warnings=step.get("containerManagerErrors", ()),
    )


@rows("node_conditions")
def test_a_node_shows_the_conditions_that_were_recorded(row: Row) -> None:
    conditions: list[Obj] = []
    answers = []
    for step in row["steps"]:
        conditions, events = node_conditions(conditions, _health(step), step["at"])
        shown = [_renamed(condition) for condition in conditions]
        answers.append({"conditions": shown, "events": [f"Normal {reason}" for reason in events]})
    assert answers in expected(row)


def _renamed(condition: Obj) -> Obj:
    names = {"lastHeartbeatTime": "lastHeartbeat", "lastTransitionTime": "lastTransition"}
    return {names.get(key, key): value for key, value in condition.items()}
