"""CustomResourceDefinitions for tests."""

from __future__ import annotations

from typing import Any

from fairlead.api.objects import Obj
from fairlead.server.crds import naming
from fairlead.server.crds.definition import STRATEGY

STAMP = "2026-01-01T00:00:00Z"
SPEC_AND_STATUS: Obj = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
                "color": {"type": "string", "enum": ["red", "blue"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "replicas": {"type": "integer"},
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
        },
    },
}


def version(name: str = "v1", *, schema: Obj | None = None, storage: bool = True, **more: Any) -> Obj:
    found: Obj = {"name": name, "served": True, "storage": storage}
    return found | {"schema": {"openAPIV3Schema": schema or SPEC_AND_STATUS}} | more


def crd(*versions: Obj, group: str = "example.com", plural: str = "widgets", kind: str = "Widget") -> Obj:
    """A CRD as it is just before it is stored."""
    found: Obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": list(versions) or [version()],
        },
    }
    STRATEGY.default(found)
    STRATEGY.prepare_create(found)
    return found


def established(*versions: Obj) -> Obj:
    found = crd(*versions)
    status = naming.settled(found, naming.NamesInUse([found]), STAMP)
    assert status is not None
    return found | {"status": status}


def spec_of(**properties: Obj) -> Obj:
    """A schema with these fields in its spec."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def widget(spec: Any = None, **more: Any) -> Obj:
    found: Obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    return found | ({} if spec is None else {"spec": spec}) | more
