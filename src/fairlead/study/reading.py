"""Reads what a dump may have in any form: what is not there, or is something else, is empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.api.objects import Obj, metadata
from fairlead.runtime.clock import parse_timestamp


def mapping_at(value: Any, *path: str) -> dict[str, Any]:
    """The mapping at the end of the path."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, Any]]:
    """The mappings of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def moment(text: object) -> float:
    """Seconds since the epoch; 0 for what is no time."""
    try:
        return parse_timestamp(text) if isinstance(text, str) else 0.0
    except (ValueError, OverflowError):
        return 0.0


def number_of(value: object, default: int) -> int:
    """A whole number; the default for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def key_of(obj: dict[str, Any]) -> str:
    """`Job batch/load`."""
    meta = metadata(obj)
    return f"{obj['kind']} {meta.get('namespace', 'default')}/{meta.get('name')}"


def controller_of(obj: dict[str, Any]) -> dict[str, Any]:
    """The reference to its controller."""
    owners = mappings(metadata(obj).get("ownerReferences"))
    return next((owner for owner in owners if owner.get("controller")), {})


def pod_specs(obj: Obj) -> Iterator[Obj]:
    """Of the pod, or of those that the object makes; a ControllerRevision has a template, too."""
    if obj["kind"] == "Pod":
        yield mapping_at(obj, "spec")
    for path in (("spec",), ("spec", "jobTemplate", "spec"), ("data", "spec")):
        yield mapping_at(obj, *path, "template", "spec")
