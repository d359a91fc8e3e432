"""The types of `metrics.k8s.io`, written as definitions of custom kinds are, so that one code describes both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.api.metrics import NODE_METRICS, POD_METRICS
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource

_QUANTITIES: Final[Obj] = {
    "description": "Amounts by resource, measured over the window.",
    "type": "object",
    "additionalProperties": {"type": "string"},
}
_WHEN: Final[Obj] = {
    "timestamp": {"description": "The end of the window.", "type": "string", "format": "date-time"},
    "window": {"description": "How long the window was.", "type": "string"},
}
_CONTAINER: Final[Obj] = {
    "description": "What one container uses.",
    "type": "object",
    "required": ["name", "usage"],
    "properties": {"name": {"type": "string"}, "usage": _QUANTITIES},
}


def _definition(resource: Resource, description: str, **properties: Obj) -> Obj:
    schema: Obj = {
        "description": description,
        "type": "object",
        "required": ["timestamp", "window", *properties],
        "properties": _WHEN | properties,
    }
    version = {"name": resource.version, "schema": {"openAPIV3Schema": schema}}
    return {"spec": {"names": {"plural": resource.plural, "kind": resource.kind}, "versions": [version]}}


#: By `Resource.qualified`.
DEFINITIONS: Final[Mapping[str, Obj]] = {
    POD_METRICS.qualified: _definition(
        POD_METRICS, "What the containers of a pod use.", containers={"type": "array", "items": _CONTAINER}
    ),
    NODE_METRICS.qualified: _definition(NODE_METRICS, "What a node uses.", usage=_QUANTITIES),
}
