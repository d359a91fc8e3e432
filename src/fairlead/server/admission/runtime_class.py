"""RuntimeClass: gives a pod the overhead and the node constraints of its runtime class.

Overhead that is not in the pod's spec would be invisible to scheduler, quota and cgroups alike.
Source: plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.server.admission.base import CREATE_ONLY, AdmissionPlugin, Attributes
from fairlead.server.admission.toleration_sets import merged_tolerations

_UNLIKE_CLASS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_WITHOUT_CLASS = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClass(AdmissionPlugin):
    name = "RuntimeClass"
    resources = frozenset({"pods"})
    operations = CREATE_ONLY

    async def admit(self, attributes: Attributes) -> None:
        runtime = self._class_of(attributes)
        if runtime is None:
            return
        spec = attributes.spec
        if overhead := _pod_overhead(runtime):
            if spec.get("overhead", overhead) != overhead:
                raise attributes.forbidden(_UNLIKE_CLASS)
            spec["overhead"] = overhead
        if scheduling := runtime.get("scheduling"):
            self._constrain(attributes, scheduling)

    async def validate(self, attributes: Attributes) -> None:
        if "overhead" not in attributes.spec and "runtimeClassName" not in attributes.spec:
            return
        runtime = self._class_of(attributes)
        overhead = _pod_overhead(runtime) if runtime else None
        if attributes.spec.get("overhead") != overhead:
            raise attributes.forbidden(_WITHOUT_CLASS if overhead is None else _UNLIKE_CLASS)

    def _class_of(self, attributes: Attributes) -> Obj | None:
        name = attributes.spec.get("runtimeClassName")
        if name is None:
            return None
        found = self._reader.find("runtimeclasses.node.k8s.io", name)
        if found is None:
            raise attributes.forbidden(f"pod rejected: RuntimeClass {go_quote(name)} not found")
        return found.obj()

    def _constrain(self, attributes: Attributes, scheduling: Obj) -> None:
        spec = attributes.spec
        selector = spec.get("nodeSelector") or {}
        for key, required in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, required) != required:
                raise attributes.forbidden(
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {required}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}"
                )
            selector[key] = required
        if selector:
            spec["nodeSelector"] = selector
        if tolerations := scheduling.get("tolerations"):
            spec["tolerations"] = merged_tolerations([*(spec.get("tolerations") or ()), *tolerations])


def _pod_overhead(runtime: Obj) -> Obj | None:
    overhead = runtime.get("overhead")
    return None if overhead is None else overhead.get("podFixed") or None
