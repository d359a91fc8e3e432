"""The table that `kubectl get` prints of a custom kind: its printer columns, or name and age."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from fairlead.api.fields import HTML
from fairlead.api.objects import Obj
from fairlead.server.crds.paths import Finder, PathError, compile_path
from fairlead.server.crds.values import number_text
from fairlead.server.tables.base import AGE, NAME

#: Turns a time stamp into `5s`, `2d3h`.
Age: TypeAlias = Callable[[str], str]

_AGE: Obj = {
    "name": "Age",
    "type": "date",
    "description": AGE.description,
    "jsonPath": ".metadata.creationTimestamp",
}
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d?\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)").fullmatch
_json = msgspec.json.Encoder(order="sorted").encode


class Columns:
    """The columns of one version of a custom kind."""

    def __init__(self, version: Obj) -> None:
        columns = version.get("additionalPrinterColumns") or [_AGE]
        self.definitions: list[Obj] = [NAME.definition]
        self._finders: list[tuple[str, Finder]] = []
        for column in columns:
            try:
                finder = compile_path(column["jsonPath"])
            except PathError:
                break  # upstream shows the columns before the first one that it cannot read
            self.definitions.append(
                _definition(
                    column["name"],
                    column["type"],
                    column.get("format", ""),
                    column.get("description")
                    or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
                    column.get("priority", 0),
                )
            )
            self._finders.append((column["type"], finder))

    def cells(self, obj: Obj, age: Age) -> list[Any]:
        """One row."""
        return [obj["metadata"].get("name", ""), *(_cell(type_, find(obj), age) for type_, find in self._finders)]


def _definition(name: str, type_: str, format_: str, description: str, priority: int) -> Obj:
    return {"name": name, "type": type_, "format": format_, "description": description, "priority": priority}


def _cell(type_: str, found: list[Any], age: Age) -> Any:
    """The first value found, if it is of the column's type; a string column takes anything."""
    if not found:
        return None
    value = found[0]
    if type_ == "string":
        return _text(value)
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if type_ == "date":
        return _age(value, age)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if type_ == "integer" else float(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    return number_text(value) if isinstance(value, float) else _json(value).decode().translate(HTML)


def _age(value: Any, age: Age) -> str | None:
    if not isinstance(value, str):
        return None
    if not value:
        return "<unknown>"
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return "<invalid>"
    return age(value) if _RFC_3339(value) else "<invalid>"
