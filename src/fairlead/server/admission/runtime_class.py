"""RuntimeClass: gives a pod the overhead and the node constraints of its runtime class.

Overhead that is not in the pod's spec would be invisible to scheduler, quota and cgroups alike.
Source: plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.server.admission.base import CREATE_ONLY, AdmissionPlugin, Attributes

_UNLIKE_CLASS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_WITHOUT_CLASS = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"

_NO_EXECUTE: Final = "NoExecute"
#: The operator of a toleration of every value.
_EVERY: Final = "Exists"


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


class _Reach(NamedTuple):
    """Which taints a toleration tolerates."""

    key: str
    effect: str
    values: Hashable  # every value, one, or what only an equal toleration does

    def wider(self) -> Iterator[_Reach]:
        """All reaches that include this one, itself first."""
        for values in dict.fromkeys((self.values, _EVERY)):
            for key in dict.fromkeys((self.key, "" if values == _EVERY else self.key)):
                for effect in dict.fromkeys((self.effect, "")):
                    yield _Reach(key, effect, values)


def merged_tolerations(tolerations: Iterable[Obj]) -> list[Obj]:
    """Without those that another one covers: tolerates all that they do, for at least as long (pkg/util/tolerations).

    Of those that cover each other the last stays, of equal ones the first.
    """
    kept: dict[tuple[_Reach, float], Obj] = {}
    longest: dict[_Reach, float] = {}
    for toleration in tolerations:
        reach, seconds = identity = _reach(toleration), _seconds(toleration)
        if kept.get(identity) != toleration:
            kept.pop(identity, None)
            kept[identity] = toleration
        longest[reach] = max(seconds, longest.get(reach, -inf))
    return [toleration for (reach, seconds), toleration in kept.items() if not _is_covered(reach, seconds, longest)]


def _is_covered(reach: _Reach, seconds: float, longest: Mapping[_Reach, float]) -> bool:
    own, *wider = reach.wider()
    if longest[own] > seconds:
        return True
    return any(
        candidate in longest and (candidate.effect != _NO_EXECUTE or longest[candidate] >= seconds)
        for candidate in wider
    )


def _reach(toleration: Obj) -> _Reach:
    operator = toleration.get("operator") or "Equal"
    values: Hashable = ("Equal", toleration.get("value", ""))
    if operator != "Equal":
        values = _EVERY if operator == _EVERY else tuple(sorted(toleration.items()))
    return _Reach(toleration.get("key", ""), toleration.get("effect", ""), values)


def _seconds(toleration: Obj) -> float:
    """How long it tolerates; limited for NoExecute alone."""
    limit = toleration.get("tolerationSeconds")
    return inf if limit is None or toleration.get("effect") != _NO_EXECUTE else limit
