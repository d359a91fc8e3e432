"""Enums and declared defaults: what the generated OpenAPI of Kubernetes has and the published definitions lack.

The definitions come from the static swagger file, which is made before enums are filled in and has no defaults. The
facts stand in `facts.txt`; zero values that Go always writes follow from `wire.txt` (kube-openapi, openapi.go).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from fairlead.server.codec import wire
from fairlead.server.codec.wire import WireField, WireType
from fairlead.server.crds.schema import ABSENT

_ZERO: dict[str, Any] = {"string": "", "bool": False, "float64": 0, **dict.fromkeys(wire.INTEGERS, 0)}


def enum_of(shape: WireType, package: str) -> list[str]:
    """The values of a string type, or nothing if it takes any. `package` is where the type is used."""
    if shape.form != "string" or "." not in shape.go:
        return []
    name = shape.go.rpartition(".")[2]
    enums = _facts()[0]
    if wire.is_known(f"{package}.{name}"):
        return enums.get(f"{package}.{name}", [])
    return next((values for type_, values in enums.items() if type_.endswith(f".{shape.go}")), [])


def default_of(struct: str, field: WireField) -> Any:
    """The default that OpenAPI shows for a field, or ABSENT."""
    declared = _facts()[1].get(f"{struct}.{field.name}", ABSENT)
    if declared is not ABSENT or field.shape.pointer:
        return declared
    if field.shape.form == "struct":
        return {}
    return ABSENT if field.omit_empty else _ZERO.get(field.shape.form, ABSENT)


@cache
def _facts() -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Values by type, defaults by field."""
    enums: dict[str, list[str]] = {}
    defaults: dict[str, Any] = {}
    package = ""
    for line in files(__package__).joinpath("facts.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            package = line
        elif " = " in line:
            name, _, value = line.strip().partition(" = ")
            defaults[f"{package}.{name}"] = msgspec.json.decode(value)
        else:
            name, _, values = line.removeprefix(" ").partition(": ")
            enums[f"{package}.{name}"] = values.split("|")
    return enums, defaults
