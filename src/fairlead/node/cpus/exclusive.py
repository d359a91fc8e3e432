"""Which containers are to have CPUs to themselves, where the policy is `static`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.podresources import has_pod_level_resources
from fairlead.api.qos import GUARANTEED, qos_class
from fairlead.node.requests import most_at_once, stated_request

STATIC: Final = "static"


def has_own(spec: Obj) -> bool:
    """Whether containers of such a pod may have anything to themselves."""
    return qos_class(spec) == GUARANTEED and not has_pod_level_resources(spec)


def exclusive_cpus(spec: Obj) -> Mapping[str, int]:
    """How many a container of such a pod has to itself, by name; those that have none are left out."""
    if not has_own(spec):
        return {}
    requested = {each["name"]: stated_request(each, "cpu").milli for each in containers_of(spec)}
    return {name: milli // 1000 for name, milli in requested.items() if milli and not milli % 1000}


def containers_of(spec: Obj) -> Sequence[Obj]:
    """In the order in which they are given CPUs."""
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def exclusive_cpus_of_pod(spec: Obj) -> int:
    """How many its containers have at once, at most."""
    counts = exclusive_cpus(spec)
    return most_at_once(spec, lambda container: {"cpu": counts.get(container["name"], 0)}).get("cpu", 0)
