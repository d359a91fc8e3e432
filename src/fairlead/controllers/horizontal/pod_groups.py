"""Whose sample counts, and what each pod requests.

Source: groupPods and calculateRequests in pkg/controller/podautoscaler/replica_calculator.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.podresources import is_pod_level_resource, pod_requests
from fairlead.api.pods import Pod
from fairlead.api.quantity import parse
from fairlead.controllers.horizontal.replicas import Incomputable, PodGroups
from fairlead.controllers.horizontal.samples import Sample
from fairlead.runtime.clock import parse_timestamp

#: After its start a pod may use more CPU than it will (--horizontal-pod-autoscaler-cpu-initialization-period).
CPU_INITIALIZATION_SECONDS: Final = 300.0
#: Who was never ready longer than this after its start counts as never ready (--…-initial-readiness-delay).
INITIAL_READINESS_SECONDS: Final = 30.0

_mapping = msgspec.json.Decoder(dict[str, Any]).decode


def grouped(pods: Iterable[Pod], samples: Mapping[str, Sample], resource: str, now: float) -> PodGroups:
    """The pods by what their samples are worth."""
    ready = 0
    unready, missing, ignored = set[str](), set[str](), set[str]()
    for pod in pods:
        name = pod.metadata.name
        sample = samples.get(name)
        if pod.metadata.is_terminating or pod.status.phase == "Failed":
            ignored.add(name)
        elif pod.status.phase == "Pending":
            unready.add(name)
        elif sample is None:
            missing.add(name)
        elif resource == "cpu" and _is_unready(pod, sample, now):
            unready.add(name)
        else:
            ready += 1
    return PodGroups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_unready(pod: Pod, sample: Sample, now: float) -> bool:
    """Whether what it uses of the CPU says nothing of what it will use."""
    condition = pod.ready_condition
    if condition is None or pod.status.start_time is None:
        return True
    started = parse_timestamp(pod.status.start_time)
    changed = parse_timestamp(condition.last_transition_time) if condition.last_transition_time else 0.0
    if started + CPU_INITIALIZATION_SECONDS > now:
        return condition.status == "False" or sample.at < changed + sample.window_seconds
    return condition.status == "False" and started + INITIAL_READINESS_SECONDS > changed


def requested(pod: Pod, resource: str, container: str = "") -> int:
    """Thousandths of the resource that a pod requests, or one of its containers."""
    if not container and (pod_level := _pod_level(pod)):
        amount = pod_requests(_spec(pod, pod_level)).get(resource)
        if amount is None:
            raise Incomputable(f"missing pod-level request for {resource} in Pod {pod.metadata.name}")
        return amount.milli
    total, found = 0, False
    sidecars = (init for init in pod.spec.init_containers if init.restart_policy == "Always")
    for candidate in (*pod.spec.containers, *sidecars):
        if container in ("", candidate.name):
            amount_text = ((candidate.resources or {}).get("requests") or {}).get(resource)
            if amount_text is None:
                raise Incomputable(
                    f"missing request for {resource} in container {candidate.name} of Pod {pod.metadata.name}"
                )
            total, found = total + parse(amount_text).milli, True
    if container and not found:
        raise Incomputable(f"container {container} not found in Pod {pod.metadata.name}")
    return total


def _pod_level(pod: Pod) -> Obj | None:
    """`spec.resources`, if it requests something."""
    if not pod.spec.raw_resources:
        return None
    resources = _mapping(pod.spec.raw_resources)
    return resources if any(map(is_pod_level_resource, resources.get("requests") or ())) else None


def _spec(pod: Pod, resources: Obj) -> Obj:
    spec: Obj = {"resources": resources}
    raws = (
        ("containers", pod.spec.raw_containers),
        ("initContainers", pod.spec.raw_init_containers),
        ("overhead", pod.spec.raw_overhead),
    )
    return spec | {name: msgspec.json.decode(raw) for name, raw in raws if raw}
