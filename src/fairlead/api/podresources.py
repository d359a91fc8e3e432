"""What a pod asks for as a whole: the one formula that quota, limit ranges, the scheduler and `describe` must share.

Init containers run one after another before the others, sidecars (init containers with `restartPolicy: Always`) run
beside everything that starts after them, so a pod needs

    max(containers + sidecars, each init container + the sidecars started before it) + overhead

and pod-level resources, where given, replace the sum for the resources they name (S0-40).
Reference: k8s.io/component-helpers/resource/helpers.go, pkg/apis/core/helper/helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity, parse

#: Amounts by resource name.
Amounts: TypeAlias = dict[str, Quantity]

HUGEPAGES = "hugepages-"
_POD_LEVEL = frozenset({"cpu", "memory"})
_NOTHING: Mapping[str, str] = {}


def is_hugepages(name: str) -> bool:
    return name.startswith(HUGEPAGES)


def is_native(name: str) -> bool:
    """Kubernetes' own: without a domain, or with one of kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def is_overcommit_allowed(name: str) -> bool:
    """Whether requests may be lower than limits."""
    return is_native(name) and not is_hugepages(name)


def is_pod_level_resource(name: str) -> bool:
    """Whether `spec.resources` of a pod may name it."""
    return name in _POD_LEVEL or is_hugepages(name)


def is_sidecar(init_container: Mapping[str, Any]) -> bool:
    """An init container that keeps running."""
    return init_container.get("restartPolicy") == "Always"


def ending_init_containers(spec: Obj) -> set[str]:
    """The names of those that have ended when the containers after them begin."""
    return {each["name"] for each in spec.get("initContainers") or () if not is_sidecar(each)}


def has_pod_level_resources(spec: Obj) -> bool:
    resources = spec.get("resources") or {}
    return any(is_pod_level_resource(name) for kind in ("requests", "limits") for name in resources.get(kind) or ())


def pod_requests(spec: Obj, *, with_overhead: bool = True) -> Amounts:
    """The effective requests of a pod."""
    total = _with_pod_level(spec, "requests")
    if with_overhead and (overhead := spec.get("overhead")):
        _add(total, parsed(overhead))
    return total


def pod_limits(spec: Obj, *, with_overhead: bool = True) -> Amounts:
    """The effective limits of a pod; overhead counts only where there is a limit."""
    total = _with_pod_level(spec, "limits")
    if with_overhead:
        for name, amount in parsed(spec.get("overhead") or _NOTHING).items():
            if total.get(name):
                total[name] += amount
    return total


def aggregate_container_requests(spec: Obj) -> Amounts:
    """What the containers request together, whatever the pod level says."""
    return _aggregate(spec, "requests")


def aggregate_container_limits(spec: Obj) -> Amounts:
    return _aggregate(spec, "limits")


def parsed(amounts: Mapping[str, str]) -> Amounts:
    """A resource list as quantities."""
    return {name: parse(amount) for name, amount in amounts.items()}


def _with_pod_level(spec: Obj, kind: str) -> Amounts:
    total = _aggregate(spec, kind)
    if resources := spec.get("resources"):
        total |= {
            name: parse(text) for name, text in (resources.get(kind) or {}).items() if is_pod_level_resource(name)
        }
    return total


def _aggregate(spec: Obj, kind: str) -> Amounts:
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _of(container, kind))
    if init_containers := spec.get("initContainers"):
        _raise_to(total, _peak_while_starting(init_containers, kind, total))
    return total


def _peak_while_starting(init_containers: Iterable[Obj], kind: str, total: Amounts) -> Amounts:
    """The most that is needed at once before the containers start; sidecars are added to `total` on the way."""
    peak: Amounts = {}
    sidecars: Amounts = {}
    for container in init_containers:
        amounts = _of(container, kind)
        if is_sidecar(container):
            _add(total, amounts)
            _add(sidecars, amounts)
            _raise_to(peak, sidecars)
        else:
            _add(amounts, sidecars)
            _raise_to(peak, amounts)
    return peak


def _of(container: Obj, kind: str) -> Amounts:
    resources = container.get("resources")
    return parsed(resources.get(kind) or _NOTHING) if resources else {}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        known = total.get(name)
        total[name] = amount if known is None else known + amount


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        known = total.get(name)
        if known is None or amount > known:
            total[name] = amount
