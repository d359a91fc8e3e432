"""Which containers are to have CPUs to themselves, where the policy is `static`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.podresources import has_pod_level_resources
from fairlead.api.qos import GUARANTEED, qos_class
from fairlead.node.requests import most_at_once, stated_request

STATIC: Final = "static"


def exclusive_cpus(spec: Obj, container: Obj) -> int:
    """How many a container of such a pod has to itself."""
    if qos_class(spec) != GUARANTEED or has_pod_level_resources(spec):
        return 0
    requested = stated_request(container, "cpu").milli
    return 0 if requested % 1000 else requested // 1000


def containers_of(spec: Obj) -> Sequence[Obj]:
    """In the order in which they are given CPUs."""
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def exclusive_cpus_of_pod(spec: Obj) -> int:
    """How many its containers have at once, at most."""
    return most_at_once(spec, lambda container: {"cpu": exclusive_cpus(spec, container)}).get("cpu", 0)
