"""`jsonpatch.escapeKey("a/b")`: a key as it stands in the path of a JSON patch (library/jsonpatch.go)."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload, functions
from fairlead.cel.types import STRING


def overloads() -> Iterator[Overload]:
    yield from functions(("jsonpatch.escapeKey", [STRING], STRING, _escaped), cost=costs.target)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
