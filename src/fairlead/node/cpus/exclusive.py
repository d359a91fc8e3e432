"""Which containers are to have CPUs to themselves, where the policy is `static`."""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.podresources import has_pod_level_resources
from fairlead.api.qos import GUARANTEED, qos_class
from fairlead.node.requests import stated_request

STATIC: Final = "static"


def exclusive_cpus(spec: Obj, container: Obj) -> int:
    """How many a container of such a pod has to itself."""
    if qos_class(spec) != GUARANTEED or has_pod_level_resources(spec):
        return 0
    requested = stated_request(container, "cpu").milli
    return 0 if requested % 1000 else requested // 1000


def has_exclusive_cpus(spec: Obj) -> bool:
    """Whether any of its containers has."""
    every = (*(spec.get("initContainers") or ()), *spec["containers"])
    return any(exclusive_cpus(spec, container) for container in every)
