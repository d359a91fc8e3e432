"""Whom a node sends away for a critical pod that has no room (S3-43).

As few Guaranteed pods as possible, then as few Burstable, then BestEffort; of one class, again and again the pod that
comes closest to what is missing, and of several that are as close, the smaller. Each keeps
its own grace period.
Source: pkg/kubelet/preemption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from fairlead.node.allocation import PODS
from fairlead.node.critical import is_critical
from fairlead.node.disruption import disruption
from fairlead.node.requests import resource_request

#: Reason of the pod's status and event.
PREEMPTING: Final = "Preempting"
MESSAGE: Final = "Preempted in order to admit critical pod"

#: How much is missing, by resource: cpu in milli-cores, the rest in units.
Missing: TypeAlias = Mapping[str, int]


class NobodyToPreempt(Exception):
    """Even without all pods that may be sent away there is not enough."""


def preempted_status() -> Obj:
    return {"phase": "Failed", "reason": PREEMPTING, "message": MESSAGE}


def preempted_condition() -> Obj:
    return disruption("Pod was preempted by Kubelet to accommodate a critical pod.")


class _Victim(msgspec.Struct, frozen=True):
    """A pod that may be sent away, and what that would free."""

    pod: Obj
    cpu: int
    memory: int
    frees: Mapping[str, int]


def pods_to_preempt(critical: Obj, running: Sequence[Obj], missing: Missing) -> list[Obj]:
    """The pods to send away, in order; raises `NobodyToPreempt`."""
    classes: dict[str, list[_Victim]] = {BEST_EFFORT: [], BURSTABLE: [], GUARANTEED: []}
    for pod in running:
        if _may_preempt(critical, pod):
            classes[qos_class(pod["spec"])].append(_victim(pod, missing))
    best_effort, burstable, guaranteed = classes.values()
    if unmet := _without(missing, [*best_effort, *burstable, *guaranteed]):
        raise NobodyToPreempt(f"preemption: error finding a set of pods to preempt: {_nobody(unmet)}")
    from_guaranteed = _closest(guaranteed, _without(missing, [*best_effort, *burstable]))
    from_burstable = _closest(burstable, _without(missing, [*best_effort, *from_guaranteed]))
    from_best_effort = _closest(best_effort, _without(missing, [*from_burstable, *from_guaranteed]))
    return [victim.pod for victim in (*from_best_effort, *from_burstable, *from_guaranteed)]


def _may_preempt(critical: Obj, pod: Obj) -> bool:
    if is_critical(critical) and not is_critical(pod):
        return True
    priority, floor = critical["spec"].get("priority"), pod["spec"].get("priority")
    return priority is not None and floor is not None and priority > floor


def _victim(pod: Obj, missing: Missing) -> _Victim:
    frees = {name: _request(pod, name) for name in missing}
    return _Victim(pod, _request(pod, "cpu"), _request(pod, "memory"), frees)


def _request(pod: Obj, name: str) -> int:
    if name == PODS:
        return 1
    request = resource_request(pod["spec"], name)
    return request.milli if name == "cpu" else request.units


def _without(missing: Missing, victims: Sequence[_Victim]) -> dict[str, int]:
    """What is still missing once these pods are gone."""
    left = {name: amount - sum(victim.frees[name] for victim in victims) for name, amount in missing.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _closest(candidates: Sequence[_Victim], missing: Missing) -> list[_Victim]:
    left, chosen = list(candidates), []
    while missing:
        best = 0
        for index, victim in enumerate(left):
            distance, least = _distance(missing, victim), _distance(missing, left[best])
            # Of equals the later one is taken, if it is not the larger: that is upstream's order.
            if distance < least or (distance == least and _is_not_larger(victim, left[best])):
                best = index
        missing = _without(missing, [left[best]])
        chosen.append(left[best])
        left[best] = left[-1]
        left.pop()
    return chosen


def _distance(missing: Missing, victim: _Victim) -> float:
    """How much of each missing amount the pod leaves, in parts of it, squared and added up."""
    rests = ((amount - victim.frees[name], amount) for name, amount in missing.items())
    return sum((float(rest) / float(amount)) ** 2 for rest, amount in rests if rest > 0)


def _is_not_larger(victim: _Victim, other: _Victim) -> bool:
    return (victim.memory, victim.cpu) <= (other.memory, other.cpu)


def _nobody(missing: Missing) -> str:
    listed = "".join(f"(res: {name}, q: {amount}), " for name, amount in missing.items())
    return f"no set of running pods found to reclaim resources: [{listed}]"
