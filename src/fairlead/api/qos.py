"""The quality of service class of a pod, which decides who is killed and evicted first (S0-118 .. S0-121).

- Guaranteed: every container limits cpu and memory, and asks for exactly that.
- BestEffort: no container says anything about cpu or memory.
- Burstable: everything else.

Amounts of zero say nothing; init containers count like the others; pod-level resources, where given, count alone.
Reference: pkg/apis/core/helper/qos/qos.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.objects import Obj
from fairlead.api.quantity import parse

GUARANTEED = "Guaranteed"
BURSTABLE = "Burstable"
BEST_EFFORT = "BestEffort"

_COMPUTE = ("cpu", "memory")


def qos_class(spec: Obj) -> str:
    """The class of a pod with this specification."""
    if (pod_level := spec.get("resources")) is not None:
        return _class_of([pod_level])
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return _class_of([container.get("resources") or {} for container in containers])


def _class_of(all_resources: Iterable[Obj]) -> str:
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    all_limited = True
    for resources in all_resources:
        _add_positive(requests, resources.get("requests"))
        if _add_positive(limits, resources.get("limits")) < len(_COMPUTE):
            all_limited = False
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if all_limited and requests == limits else BURSTABLE


def _add_positive(total: dict[str, int], amounts: dict[str, str] | None) -> int:
    """Add what is said about cpu and memory; returns how many of the two are mentioned."""
    mentioned = 0
    if amounts:
        for name in _COMPUTE:
            if (text := amounts.get(name)) is not None and (nanos := parse(text).nanos) > 0:
                total[name] = total.get(name, 0) + nanos
                mentioned += 1
    return mentioned
