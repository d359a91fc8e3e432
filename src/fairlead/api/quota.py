"""What an object counts for in a ResourceQuota: the arithmetic that admission and the quota controller share.

Admission charges an object before it is stored, the controller recounts what is there; if the two did not agree to
the last unit, every recount would take back or give away something. All of it is pure.

A quota names its resources in one flat list, and each name is counted on objects of one kind: `requests.cpu` on pods,
`services.nodeports` on services, `count/deployments.apps` on deployments. `counted_on` knows which.
Sources: pkg/quota/v1/evaluator/core, pkg/quota/v1/install, k8s.io/apiserver/pkg/quota/v1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from fairlead.api.devices import CLASS_RESOURCE_PREFIX, EXTENDED_RESOURCE_CLAIM
from fairlead.api.objects import Obj, metadata
from fairlead.api.podresources import (
    Amounts,
    has_pod_level_resources,
    is_hugepages,
    is_native,
    pod_limits,
    pod_requests,
)
from fairlead.api.quantity import ZERO, Quantity, parse
from fairlead.api.quota_scopes import CLAIMS, DEVICE_CLAIMS, PODS, SERVICES
from fairlead.api.volumes import storage_class_of
from fairlead.caches import bounded_cache

T = TypeVar("T")

_ONE: Final = Quantity.of_units(1)
_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
_REQUESTS: Final = "requests."
_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
#: So many devices a claim gets at most, and may get where it asks for all that there are.
_MOST_DEVICES: Final = 32

_COMPUTE = ("cpu", "memory", "ephemeral-storage")

#: Which names of a quota are counted on which kind; `counted_on` adds the open-ended families of names.
_COUNTED_ON: Mapping[str, str] = {
    **dict.fromkeys((PODS, *_COMPUTE), PODS),
    **dict.fromkeys((f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE), PODS),
    **dict.fromkeys((SERVICES, "services.nodeports", "services.loadbalancers"), SERVICES),
    **dict.fromkeys((CLAIMS, "requests.storage"), CLAIMS),
    **{name: name for name in ("configmaps", "secrets", "replicationcontrollers", "resourcequotas")},
}

#: Kinds that no quota counts: those that are never stored, and events, of which nobody may run out.
IGNORED: Final = frozenset({
    "bindings",
    "componentstatuses",
    "events",
    "events.events.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "tokenreviews.authentication.k8s.io",
})  # fmt: skip

#: If a quota limits one of these, every container has to say how much it wants. Upstream calls that a mistake which
#: must not be repeated for other resources.
_MUST_BE_SPECIFIED = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"),
)


# -- names


@bounded_cache(maxsize=1024)
def counted_on(name: str) -> str:
    """`Resource.qualified` of the kind on which a quota's name is counted; empty if nobody counts it."""
    if known := _COUNTED_ON.get(name):
        return known
    if name.startswith("count/"):
        kind = name.removeprefix("count/")
        return "" if kind in IGNORED else kind
    if name.endswith((f"{_STORAGE_CLASS}requests.storage", f"{_STORAGE_CLASS}{CLAIMS}")):
        return CLAIMS
    if name.endswith(_DEVICES):
        return DEVICE_CLAIMS
    asked = name.removeprefix(_REQUESTS)
    return PODS if is_hugepages(asked) or (asked != name and _may_be_devices(asked)) else ""


def _may_be_devices(name: str) -> bool:
    """Whether pods ask by that name for extended resources, for which a class of devices may stand."""
    return not is_native(name) or name.startswith(CLASS_RESOURCE_PREFIX)


@bounded_cache(maxsize=1024)
def counted_kinds(name: str) -> tuple[str, ...]:
    """The same of those that are counted on several kinds, too: extended resources are claimed as devices as well."""
    on, asked = counted_on(name), name.removeprefix(_REQUESTS)
    if on == PODS and asked != name and _may_be_devices(asked):
        return PODS, DEVICE_CLAIMS
    return (on,) if on else ()


def counted(resource: str, names: Iterable[str]) -> list[str]:
    """Those of a quota's names which are counted on this kind, sorted."""
    return sorted(name for name in names if resource in counted_kinds(name))


# -- usage


class DeviceFacts(NamedTuple):
    """What it takes besides to count a claim of devices."""

    #: The extended resource for which a class of that name stands, "" if for none.
    extended_name: Callable[[str], str] = lambda class_: ""
    #: A pod of the claim's namespace.
    pod: Callable[[str], Obj | None] = lambda name: None


def usage(resource: str, obj: Obj, now: float, facts: DeviceFacts | None = None) -> Amounts:
    """What the object counts for, by the names of a quota. `now` (seconds since 1970) ends overdue pods.

    Without `facts` a claim of devices counts as one whose classes have no other names.
    """
    count = {f"count/{resource}": _ONE}
    if resource == PODS:
        return count | _pod_usage(obj, now)
    if resource == SERVICES:
        return count | _service_usage(obj.get("spec") or {})
    if resource == CLAIMS:
        return count | _claim_usage(obj)
    if resource == DEVICE_CLAIMS:
        return count | _device_usage(obj, facts or DeviceFacts())
    return count | {resource: _ONE} if resource in _COUNTED_ON else count


def is_alive(pod: Obj, now: float) -> bool:
    """Whether the pod still holds compute resources: not finished, and not overdue on a node that may be lost."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    meta = metadata(pod)
    since, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    return since is None or grace is None or now <= datetime.fromisoformat(since).timestamp() + grace


def _pod_usage(pod: Obj, now: float) -> Amounts:
    if not is_alive(pod, now):
        return {}
    requests, limits = effective_resources(pod)
    used = {PODS: _ONE}
    for name, amount in requests.items():
        for quota_name in _names_of_request(name):
            used[quota_name] = amount
    for name in _COMPUTE:
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    return used


@bounded_cache(maxsize=1024)
def _names_of_request(name: str) -> tuple[str, ...]:
    """`cpu` counts as `cpu` and as `requests.cpu`, an extended resource only as the latter."""
    prefixed = f"requests.{name}"
    if name in _COMPUTE or is_hugepages(name):
        return (name, prefixed)
    return (prefixed,) if _may_be_devices(name) and not name.startswith(_REQUESTS) else ()


def _service_usage(spec: Obj) -> Amounts:
    ports = spec.get("ports") or ()
    kind = spec.get("type")
    is_balanced = kind == "LoadBalancer"
    node_ports = len(ports) if is_balanced or kind == "NodePort" else 0
    if is_balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    return {
        SERVICES: _ONE,
        "services.nodeports": Quantity.of_units(node_ports),
        "services.loadbalancers": _ONE if is_balanced else ZERO,
    }


def _claim_usage(claim: Obj) -> Amounts:
    used = {CLAIMS: _ONE}
    if (storage := _storage(claim)) is not None:
        used["requests.storage"] = storage
    if storage_class := storage_class_of(claim):
        used |= {f"{storage_class}{_STORAGE_CLASS}{name}": amount for name, amount in used.items()}
    return used


def _device_usage(claim: Obj, facts: DeviceFacts) -> Amounts:
    """How many devices of each class the claim may get, by all names of the class.

    What the pod counts for that asked for them as extended resources, its claim does not.
    """
    classes = _devices_by_class(claim)
    used = {f"{name}{_DEVICES}": Quantity.of_units(count) for name, count in classes.items()}
    of_pod = _asked_by_pod(claim, facts)
    extended: Counter[str] = Counter()
    for class_, count in classes.items():
        extended[f"{_REQUESTS}{CLASS_RESOURCE_PREFIX}{class_}"] += count
        if name := facts.extended_name(class_):
            extended[f"{_REQUESTS}{name}"] += count
    for name, count in extended.items():
        left = Quantity.of_units(count) - of_pod.get(name, ZERO)
        if left > ZERO:
            used[name] = left
    return used


def is_of_extended_resources(claim: Obj) -> bool:
    """Whether the scheduler has made the claim for a pod that asks for extended resources."""
    return (metadata(claim).get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) == "true"


def _asked_by_pod(claim: Obj, facts: DeviceFacts) -> Amounts:
    """What the pod counts for that this claim stands for."""
    if not is_of_extended_resources(claim):
        return {}
    meta = metadata(claim)
    owner: Obj = next((each for each in meta.get("ownerReferences") or () if each.get("controller")), {})
    pod = facts.pod(owner.get("name", "")) if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Pod") else None
    if pod is None or metadata(pod).get("uid") != owner.get("uid"):
        return {}
    named = ((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    if named is not None and named != meta.get("name"):
        return {}
    return {f"{_REQUESTS}{name}": amount for name, amount in pod_requests(pod["spec"]).items()}


def _devices_by_class(claim: Obj) -> Counter[str]:
    """Of alternatives, the most of each class."""
    used: Counter[str] = Counter()
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        if alternatives := request.get("firstAvailable"):
            most: Counter[str] = Counter()
            for asked in alternatives:
                most |= Counter({asked.get("deviceClassName", ""): _devices(asked)})
            used += most
        elif (asked := request.get("exactly")) is not None:
            used[asked.get("deviceClassName", "")] += _devices(asked)
    return used


def _devices(asked: Obj) -> int:
    match asked.get("allocationMode"):
        case "ExactCount":
            return int(asked.get("count") or 0)
        case "All":
            return _MOST_DEVICES
    return 0


def _storage(claim: Obj) -> Quantity | None:
    """Whole bytes that were asked for, or that are allocated if a shrinking has not happened yet."""
    resources = (claim.get("spec") or {}).get("resources") or {}
    asked = (resources.get("requests") or {}).get("storage")
    if asked is None:
        return None
    allocated = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage", asked)
    amount = max(parse(asked), parse(allocated))
    whole = Quantity.of_units(amount.units, amount.format)
    return amount if amount == whole else whole


# -- pods that are being resized


def effective_resources(pod: Obj) -> tuple[Amounts, Amounts]:
    """Requests and limits of a pod; during a resize the greatest of what is wanted, allocated and in force.

    A resize that can never succeed is not wanted any more (component-helpers, UseStatusResources).
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    reported = {
        container_status.get("name"): container_status
        for field in ("containerStatuses", "initContainerStatuses")
        for container_status in status.get(field) or ()
        if "allocatedResources" in container_status or "resources" in container_status
    }
    if not reported:
        return pod_requests(spec), pod_limits(spec)
    is_infeasible = any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )
    views = [
        _as_reported(spec, reported, resources_of, is_infeasible=is_infeasible)
        for resources_of in (_allocated, _actual)
    ]
    if not is_infeasible:
        views.append(spec)
    return _greatest([pod_requests(view) for view in views]), _greatest([pod_limits(view) for view in views[1:]])


def _as_reported(
    spec: Obj, reported: Mapping[str, Obj], resources_of: Callable[[Obj, Obj], Obj], *, is_infeasible: bool
) -> Obj:
    """The spec with the resources of its containers replaced by those that the node reports."""

    def replaced(container: Obj) -> Obj:
        wanted = {} if is_infeasible else container.get("resources") or {}
        return container | {"resources": resources_of(reported.get(container.get("name", ""), {}), wanted)}

    return spec | {
        field: [replaced(container) for container in spec.get(field) or ()]
        for field in ("containers", "initContainers")
    }


def _allocated(reported: Obj, wanted: Obj) -> Obj:
    return {"requests": reported.get("allocatedResources", wanted.get("requests"))}


def _actual(reported: Obj, wanted: Obj) -> Obj:
    resources = reported.get("resources") or {}
    fallback = _allocated(reported, wanted)["requests"]
    return {"requests": resources.get("requests", fallback), "limits": resources.get("limits", wanted.get("limits"))}


def _greatest(lists: Iterable[Amounts]) -> Amounts:
    result: Amounts = {}
    for amounts in lists:
        for name, amount in amounts.items():
            if name not in result or amount > result[name]:
                result[name] = amount
    return result


# -- comparing


def unspecified(pod: Obj, names: Iterable[str]) -> str:
    """`must specify limits.cpu for: a,b; …` if a quota limits what containers leave open; else empty."""
    required = _MUST_BE_SPECIFIED.intersection(names)
    spec = pod.get("spec") or {}
    if not required or has_pod_level_resources(spec):
        return ""
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for name in required - _specified(container.get("resources") or {}):
            missing.setdefault(name, set()).add(container.get("name", ""))
    listed = "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {listed}" if listed else ""


def _specified(resources: Obj) -> set[str]:
    requests, limits = resources.get("requests") or (), resources.get("limits") or ()
    return {*(q for name in requests for q in _names_of_request(name)), *(f"limits.{name}" for name in limits)}


def increase(new: Amounts, old: Amounts) -> Amounts:
    """What `new` counts for beyond `old`, never negative; what does not grow is left out."""
    grown = {name: amount - old[name] if name in old else amount for name, amount in new.items()}
    return {name: amount for name, amount in grown.items() if amount > ZERO}


def added(used: Amounts, more: Amounts) -> Amounts:
    return used | {name: used.get(name, ZERO) + amount for name, amount in more.items()}


def taken_back(used: Amounts, less: Amounts) -> Amounts:
    """The usage without `less`, never negative; names that are not in use stay out."""
    return {name: max(amount - less.get(name, ZERO), ZERO) for name, amount in used.items()}


def limited(amounts: Amounts, names: Container[str]) -> Amounts:
    """Those of names that a quota limits, of which there may be thousands: they are not gone through."""
    return {name: amount for name, amount in amounts.items() if name in names}


def masked(amounts: Mapping[str, T], names: Iterable[str]) -> dict[str, T]:
    """Those of the names, in their order."""
    return {name: amounts[name] for name in names if name in amounts}


def joined(amounts: Amounts) -> str:
    """`limits.cpu=1,pods=2`, sorted."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def texts(amounts: Amounts) -> dict[str, str]:
    """The amounts as they are stored."""
    return {name: str(amount) for name, amount in amounts.items()}
