"""The table of a kind that nobody wrote a printer for (apiserver pkg/registry/rest/table.go)."""

from __future__ import annotations

from typing import Final

from fairlead.server.tables.base import NAME, Column, field, printer

_CREATED_AT: Final = field("metadata", "creationTimestamp", default="0001-01-01T00:00:00Z")  # Go's zero time

GENERIC: Final = printer(NAME, Column("Created At", _CREATED_AT, "When the object was created.", type="date"))
