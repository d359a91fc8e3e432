"""Classes that the pods of a dump name and the dump lacks: they were there, and without them no pod could be replaced.

What a class said can be seen of the pods that were admitted with it. A template alone does not say, so there the class
means nothing: priority 0, no overhead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.api.builtin import PRIORITY_CLASSES, RUNTIME_CLASSES
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.kinds.scheduling import HIGHEST_USER_PRIORITY, SYSTEM_PREFIX


class ClassesOfPods:
    """The classes that pods name, by name, with what they said to a pod that names them."""

    def __init__(self) -> None:
        self._priorities: dict[str, Obj] = {}
        self._runtimes: dict[str, Obj] = {}

    def note(self, spec: Obj) -> None:
        """Take in the spec of a pod, or of a template for some."""
        if name := _text(spec, "priorityClassName"):
            said: Obj = {}
            if isinstance(value := spec.get("priority"), int):
                said = {"value": min(value, HIGHEST_USER_PRIORITY)}
                if policy := _text(spec, "preemptionPolicy"):
                    said["preemptionPolicy"] = policy
            self._priorities[name] = self._priorities.get(name) or said
        if name := _text(spec, "runtimeClassName"):
            overhead = {"overhead": {"podFixed": spec["overhead"]}} if spec.get("overhead") else {}
            self._runtimes[name] = self._runtimes.get(name) or overhead

    def objects(self) -> Iterator[tuple[Resource, Obj]]:
        """All of them, as somebody would have written them. Those of the system every cluster has."""
        for name, said in sorted(self._priorities.items()):
            if not name.startswith(SYSTEM_PREFIX):
                yield PRIORITY_CLASSES, _object(PRIORITY_CLASSES, name) | {"value": 0} | said
        for name, said in sorted(self._runtimes.items()):
            yield RUNTIME_CLASSES, _object(RUNTIME_CLASSES, name) | {"handler": name.replace(".", "-")} | said


def _object(resource: Resource, name: str) -> Obj:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}


def _text(spec: Obj, field: str) -> str:
    value: Any = spec.get(field)
    return value if isinstance(value, str) else ""
