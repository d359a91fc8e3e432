"""What a pod or a container says of one resource, and what a kubelet takes a pod to request of it.

Source: GetResourceRequestQuantity of pkg/api/v1/resource/helpers.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from fairlead.api.objects import Obj
from fairlead.api.podresources import has_pod_level_resources, is_sidecar, parsed, pod_requests
from fairlead.api.quantity import ZERO, Quantity, parse


def stated_request(holder: Obj, name: str) -> Quantity:
    """Of a container, or of a pod's specification as a whole; zero if it says nothing."""
    return _stated(holder, "requests", name)


def stated_limit(holder: Obj, name: str) -> Quantity:
    return _stated(holder, "limits", name)


def _stated(holder: Obj, kind: str, name: str) -> Quantity:
    text = ((holder.get("resources") or {}).get(kind) or {}).get(name)
    return ZERO if text is None else parse(text)


def resource_request(spec: Obj, name: str) -> Quantity:
    """For eviction, preemption and resizes, which look at the pod level alone where there is one.

    Unlike for the scheduler, then; overhead comes on top.
    """
    if has_pod_level_resources(spec):
        requests = parsed(spec["resources"].get("requests") or {})
    else:
        requests = pod_requests(spec, with_overhead=False)
    request = requests.get(name, ZERO)
    overhead = parsed(spec.get("overhead") or {}).get(name)
    return request + overhead if request and overhead is not None else request


def most_at_once(spec: Obj, wanted: Callable[[Obj], Mapping[str, int]]) -> dict[str, int]:
    """How much the containers have at once, at most: init containers are before the others, sidecars stay."""
    sidecars, most, apps = Counter[str](), Counter[str](), Counter[str]()
    for container in spec.get("initContainers") or ():
        if is_sidecar(container):
            sidecars.update(wanted(container))
        else:
            for name, amount in wanted(container).items():
                most[name] = max(most[name], sidecars[name] + amount)
    for container in spec["containers"]:
        apps.update(wanted(container))
    return dict(most | (apps + sidecars))
