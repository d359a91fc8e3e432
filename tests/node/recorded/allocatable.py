"""What a node publishes and enforces: the kubelet's own answers, row by row."""

from __future__ import annotations

import re

from fairlead.api.podresources import Amounts
from fairlead.api.quantity import units
from fairlead.node.allocatable import Machine
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.load import configure
from fairlead.node.plan import NodePlan, node_plan
from tests.node.cgroup_rows import shown
from tests.node.golden import Row, expected, rows


def machine(row: Row) -> Machine:
    return Machine(
        cpus=row["cpus"],
        memory_bytes=units(row["memory"]),
        ephemeral_storage_bytes=units(row["ephemeralStorage"]),
        max_pid=row["maxPid"],
        huge_pages=row.get("hugepages", {}),
    )


def listed(amounts: Amounts) -> Row:
    return {name: str(amount) for name, amount in amounts.items()}


def published(plan: NodePlan) -> Row:
    found: Row = {
        "capacity": listed(plan.capacity),
        "allocatable": listed(plan.allocatable),
        "cgroups": {"/".join(name): shown(values) for name, values in plan.cgroups.items()},
        "events": [" ".join(event) for event in plan.events],
    }
    return found | ({"error": plan.problem, "stage": Stage.ENFORCEMENT.value} if plan.problem else {})


def refused(refusal: StartupError) -> Row:
    message = re.sub(r"(reservation|capacity) of \S+?(?= but|\. )", r"\1 of <quantity>", str(refusal))
    return {"error": message, "stage": refusal.stage.value}


@rows("node_allocatable")
def test_a_node_publishes_and_enforces_what_a_kubelet_would(row: Row) -> None:
    """S1-16 to S1-26."""
    try:
        configured = configure(row.get("config"), row["flags"])
        plan = node_plan(configured, machine(row["machine"]), row.get("missingCgroups", ()))
    except StartupError as refusal:
        assert refused(refusal) in expected(row)
    else:
        assert published(plan) in expected(row)
