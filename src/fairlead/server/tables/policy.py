"""What limits and ranks workloads and requests: quotas, budgets, priorities, flow control."""

from __future__ import annotations

from typing import Any, Final

from fairlead.api import conditions
from fairlead.server.tables.base import AGE, NAME, Column, Subject, field, printer
from fairlead.server.tables.text import NONE


def _usage(quota: Subject, *, of_limits: bool) -> str:
    hard, used = quota.status.get("hard") or {}, quota.status.get("used") or {}
    return ", ".join(
        f"{name}: {used.get(name, '0')}/{hard[name]}"
        for name in sorted(hard)
        if name.startswith("limits.") is of_limits
    )


RESOURCE_QUOTAS: Final = printer(
    NAME,
    Column("Request", lambda it: _usage(it, of_limits=False), "What is used and allowed, of requests and objects."),
    Column("Limit", lambda it: _usage(it, of_limits=True), "What is used and allowed, of limits."),
    AGE,
)


def _threshold(budget: Subject, key: str) -> str:
    value = budget.spec.get(key)
    return "N/A" if value is None else str(value)


POD_DISRUPTION_BUDGETS: Final = printer(
    NAME,
    Column("Min Available", lambda it: _threshold(it, "minAvailable"), "How many pods must stay."),
    Column("Max Unavailable", lambda it: _threshold(it, "maxUnavailable"), "How many pods may be missing."),
    Column(
        "Allowed Disruptions",
        field("status", "disruptionsAllowed", default=0),
        "How many pods may be evicted now.",
        type="integer",
    ),
    AGE,
)

PRIORITY_CLASSES: Final = printer(
    NAME,
    Column("Value", field("value", default=0), "The priority it gives.", type="integer"),
    Column("Global-Default", field("globalDefault", default=False), "Whether it is the default.", type="boolean"),
    AGE,
    Column("PreemptionPolicy", field("preemptionPolicy"), "Whether its pods push others aside."),
)


def _is_dangling(schema: Subject) -> str:
    found = conditions.find(schema.status.get("conditions"), "Dangling")
    return "?" if found is None else str(found.get("status", ""))


FLOW_SCHEMAS: Final = printer(
    NAME,
    Column("PriorityLevel", field("spec", "priorityLevelConfiguration", "name"), "The level its requests get."),
    Column("MatchingPrecedence", field("spec", "matchingPrecedence", default=0), "Lower numbers are asked first."),
    Column(
        "DistinguisherMethod", field("spec", "distinguisherMethod", "type", default=NONE), "How flows are told apart."
    ),
    AGE,
    Column("MissingPL", _is_dangling, "Whether its level does not exist."),
)


def _limited(name: str, description: str, *path: str) -> Column:
    """A setting of a limited level, or nothing where its part of the spec is missing."""
    *above, last = path
    find = field("spec", "limited", *above, default=None)

    def value(level: Subject) -> Any:
        part = find(level)
        return NONE if part is None else part.get(last, 0)

    return Column(name, value, description)


PRIORITY_LEVEL_CONFIGURATIONS: Final = printer(
    NAME,
    Column("Type", field("spec", "type"), "Limited or exempt."),
    _limited("NominalConcurrencyShares", "Its share of the server's capacity.", "nominalConcurrencyShares"),
    _limited("Queues", "How many queues it has.", "limitResponse", "queuing", "queues"),
    _limited("HandSize", "How many queues a flow is dealt.", "limitResponse", "queuing", "handSize"),
    _limited("QueueLengthLimit", "How many requests a queue takes.", "limitResponse", "queuing", "queueLengthLimit"),
    AGE,
)
