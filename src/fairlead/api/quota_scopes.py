"""A ResourceQuota as its readers see it, and which objects it is about.

A quota without scopes is about everything in its namespace; each scope narrows it to some pods or claims. Only pods
and claims can be in a scope at all, so a scoped quota counts nothing else.
Sources: pkg/quota/v1/evaluator/core/{pods,persistent_volume_claims}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fairlead.api.meta import Object, View
from fairlead.api.objects import Obj
from fairlead.api.qos import BEST_EFFORT, qos_class

PODS, SERVICES, CLAIMS = "pods", "services", "persistentvolumeclaims"
DEVICE_CLAIMS = "resourceclaims.resource.k8s.io"


class ScopeCondition(View):
    """One condition of a scoped quota."""

    scope_name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ScopeSelector(View):
    match_expressions: tuple[ScopeCondition, ...] = ()


class QuotaSpec(View):
    hard: dict[str, str] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None

    @property
    def selectors(self) -> tuple[ScopeCondition, ...]:
        """All conditions, each once; an object must meet every one to be counted."""
        expressions = self.scope_selector.match_expressions if self.scope_selector else ()
        return tuple(dict.fromkeys((*(ScopeCondition(scope_name=scope) for scope in self.scopes), *expressions)))


class QuotaStatus(View):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class ResourceQuota(Object):
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


def in_scope(selectors: Iterable[ScopeCondition], resource: str, obj: Obj) -> bool:
    """Whether the object meets every condition of a quota."""
    return all(_meets(selector, resource, obj) for selector in selectors)


def met(selectors: Iterable[ScopeCondition], resource: str, obj: Obj) -> list[ScopeCondition]:
    """Those conditions that the object meets."""
    return [selector for selector in selectors if _meets(selector, resource, obj)]


def _meets(selector: ScopeCondition, resource: str, obj: Obj) -> bool:
    if resource == PODS and (simple := _POD_SCOPES.get(selector.scope_name)):
        return simple(obj.get("spec") or {})
    names_of = _NAMED_SCOPES.get((resource, selector.scope_name))
    return names_of is not None and _selects(selector, names_of(obj))


def _selects(selector: ScopeCondition, names: list[str]) -> bool:
    """A label selector on a single label, which may have several values at once; see `_attribute_classes`."""
    match selector.operator:
        case "Exists":
            return bool(names)
        case "DoesNotExist":
            return not names
        case "In":
            return any(name in selector.values for name in names)
        case "NotIn":
            return not names or any(name not in selector.values for name in names)
    return False


def _has_deadline(spec: Obj) -> bool:
    return int(spec.get("activeDeadlineSeconds", -1)) >= 0


def _reaches_other_namespaces(spec: Obj) -> bool:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms = [
            *(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()),
            *(weighted.get("podAffinityTerm") or {} for weighted in preferred),
        ]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def _priority_class(pod: Obj) -> list[str]:
    name = (pod.get("spec") or {}).get("priorityClassName")
    return [name] if name else []


def _attribute_classes(claim: Obj) -> list[str]:
    """The class that the claim wants, the one it has and the one it is changing to."""
    status = claim.get("status") or {}
    names = (
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return [name for name in names if name]


_POD_SCOPES: Mapping[str, Callable[[Obj], bool]] = {
    "Terminating": _has_deadline,
    "NotTerminating": lambda spec: not _has_deadline(spec),
    "BestEffort": lambda spec: qos_class(spec) == BEST_EFFORT,
    "NotBestEffort": lambda spec: qos_class(spec) != BEST_EFFORT,
    "CrossNamespacePodAffinity": _reaches_other_namespaces,
}
_NAMED_SCOPES: Mapping[tuple[str, str], Callable[[Obj], list[str]]] = {
    (PODS, "PriorityClass"): _priority_class,
    (CLAIMS, "VolumeAttributesClass"): _attribute_classes,
}
