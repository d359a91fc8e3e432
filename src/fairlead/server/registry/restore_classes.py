"""Priority and runtime classes that pods of a dump name and the dump lacks: without them no pod could be replaced.

Their values are taken from the pods that were admitted with them. A class that only pod templates name gets priority 0
and no overhead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.api.builtin import PRIORITY_CLASSES, RUNTIME_CLASSES
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.kinds.scheduling import HIGHEST_USER_PRIORITY, SYSTEM_PREFIX


class ClassesOfPods:
    """The classes that pods name, with the fields that can be inferred from these pods."""

    def __init__(self) -> None:
        self._priorities: dict[str, Obj] = {}
        self._runtimes: dict[str, Obj] = {}

    def note(self, spec: Obj) -> None:
        """Collect the classes that a pod spec (or that of a template) names."""
        if name := _text(spec, "priorityClassName"):
            fields: Obj = {}
            if isinstance(value := spec.get("priority"), int):
                fields = {"value": min(value, HIGHEST_USER_PRIORITY)}
                if policy := _text(spec, "preemptionPolicy"):
                    fields["preemptionPolicy"] = policy
            self._priorities[name] = self._priorities.get(name) or fields
        if name := _text(spec, "runtimeClassName"):
            overhead = {"overhead": {"podFixed": spec["overhead"]}} if spec.get("overhead") else {}
            self._runtimes[name] = self._runtimes.get(name) or overhead

    def objects(self) -> Iterator[tuple[Resource, Obj]]:
        """The classes as objects, without the system priority classes, which every cluster has."""
        for name, fields in sorted(self._priorities.items()):
            if not name.startswith(SYSTEM_PREFIX):
                yield PRIORITY_CLASSES, _object(PRIORITY_CLASSES, name) | {"value": 0} | fields
        for name, fields in sorted(self._runtimes.items()):
            yield RUNTIME_CLASSES, _object(RUNTIME_CLASSES, name) | {"handler": name.replace(".", "-")} | fields


def _object(resource: Resource, name: str) -> Obj:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}


def _text(spec: Obj, field: str) -> str:
    value: Any = spec.get(field)
    return value if isinstance(value, str) else ""
