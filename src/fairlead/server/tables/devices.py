"""Dynamic resource allocation: devices, and claims on them."""

from __future__ import annotations

from typing import Final

from fairlead.server.tables.base import AGE, NAME, Column, Subject, field, printer


def _state(claim: Subject) -> str:
    is_allocated = claim.status.get("allocation") is not None
    conditions = (
        ("deleted", claim.is_deleted),
        ("pending", not is_allocated and not claim.is_deleted),
        ("allocated", is_allocated),
        ("reserved", is_allocated and bool(claim.status.get("reservedFor"))),
    )
    return ",".join(word for word, is_so in conditions if is_so)


DEVICE_CLASSES: Final = printer(NAME, AGE)

RESOURCE_CLAIMS: Final = printer(NAME, Column("State", _state, "What has become of it."), AGE)

RESOURCE_CLAIM_TEMPLATES: Final = printer(NAME, AGE)

RESOURCE_SLICES: Final = printer(
    NAME,
    Column("Node", field("spec", "nodeName"), "The node that has the devices."),
    Column("Driver", field("spec", "driver"), "The driver that manages them."),
    Column("Pool", field("spec", "pool", "name"), "The pool they belong to."),
    AGE,
)
