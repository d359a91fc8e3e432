"""RuntimeClass: a pod pays for the sandbox it runs in and goes where that sandbox exists.

Overhead that is not in the pod's spec would be invisible to scheduler, quota and cgroups alike.
Source: plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.fields import go_quote
from fairlead.api.objects import Obj
from fairlead.server.admission.base import CREATE_ONLY, AdmissionPlugin, Attributes, Reader

_UNLIKE_CLASS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_WITHOUT_CLASS = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClass(AdmissionPlugin):
    name = "RuntimeClass"
    resources = frozenset({"pods"})
    operations = CREATE_ONLY

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

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
        wanted = _pod_overhead(runtime) if runtime else None
        if attributes.spec.get("overhead") != wanted:
            raise attributes.forbidden(_WITHOUT_CLASS if wanted is None else _UNLIKE_CLASS)

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
        for key, wanted in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, wanted) != wanted:
                raise attributes.forbidden(
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}"
                )
            selector[key] = wanted
        if selector:
            spec["nodeSelector"] = selector
        if tolerations := scheduling.get("tolerations"):
            spec["tolerations"] = merged_tolerations([*(spec.get("tolerations") or ()), *tolerations])


def _pod_overhead(runtime: Obj) -> Obj | None:
    overhead = runtime.get("overhead")
    return None if overhead is None else overhead.get("podFixed") or None


def merged_tolerations(tolerations: Iterable[Obj]) -> list[Obj]:
    """Without those that another one covers; of equal ones the first stays (pkg/util/tolerations)."""
    listed = list(tolerations)
    merged: list[Obj] = []
    for index, one in enumerate(listed):
        later = (other for other in listed[index + 1 :] if other != one)
        if not any(_covers(other, one) for other in [*merged, *later]):
            merged.append(one)
    return merged


def _covers(wide: Obj, narrow: Obj) -> bool:
    """Whether `wide` tolerates every taint that `narrow` does, and for at least as long."""
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    key, effect = wide.get("key", ""), wide.get("effect", "")
    if key != narrow.get("key", "") and not (key == "" and operator == "Exists"):
        return False
    if effect not in ("", narrow.get("effect", "")):
        return False
    if effect == "NoExecute" and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator == "Exists":
        return True
    narrow_operator = narrow.get("operator") or "Equal"
    return bool(narrow_operator == operator == "Equal" and wide.get("value", "") == narrow.get("value", ""))
