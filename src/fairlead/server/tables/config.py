"""Namespaces and the small things that pods are configured with."""

from __future__ import annotations

from typing import Final

from fairlead.server.tables.base import AGE, NAME, Column, count, field, printer

NAMESPACES: Final = printer(NAME, Column("Status", field("status", "phase"), "Active, or on its way out."), AGE)

_BINARY: Final = count("binaryData")
_TEXT: Final = count("data")

CONFIG_MAPS: Final = printer(NAME, Column("Data", lambda it: _TEXT(it) + _BINARY(it), "How many entries it has."), AGE)

SECRETS: Final = printer(
    NAME,
    Column("Type", field("type"), "What its data is for."),
    Column("Data", _TEXT, "How many entries it has."),
    AGE,
)

SERVICE_ACCOUNTS: Final = printer(NAME, AGE)
