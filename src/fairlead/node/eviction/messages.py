"""What is said about an eviction: in the pod's status, its condition and its event. Trailing blanks are upstream's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fairlead.api.quantity import ZERO, Quantity
from fairlead.node.eviction.candidates import Candidate, ContainerUsage, PodUsage
from fairlead.node.eviction.signals import MEMORY, RESOURCE, STORAGE, Observations, amount
from fairlead.node.eviction.thresholds import Threshold

#: Reason of the pod's status and event.
EVICTED: Final = "Evicted"
#: Reason of the node's event.
THRESHOLD_MET: Final = "EvictionThresholdMet"

#: Finds the conditions in what is said of them.
NODE_HAD_CONDITION: Final = re.compile(r"The node had condition: \[([^\]]*)\]")

OFFENDING_CONTAINERS: Final = "offending_containers"
OFFENDING_CONTAINERS_USAGE: Final = "offending_containers_usage"
OFFENDING_POD: Final = "offending_pod"
OFFENDING_POD_USAGE: Final = "offending_pod_usage"
STARVED_RESOURCE: Final = "starved_resource"


class EvictionMessage(NamedTuple):
    """The message, and the annotations of the event."""

    message: str
    annotations: dict[str, str]


def attempting_to_reclaim(resource: str) -> str:
    return f"Attempting to reclaim {resource}"


def node_had_condition(conditions: Sequence[str]) -> str:
    return f"The node had condition: [{' '.join(conditions)}]. "


def empty_dir_over_limit(volume: str, limit: Quantity) -> str:
    return f'Usage of EmptyDir volume "{volume}" exceeds the limit "{limit}". '


def pod_over_storage_limit(limit: Quantity) -> str:
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "


def container_over_storage_limit(container: str, limit: Quantity) -> str:
    return f'Container {container} exceeded its local ephemeral storage limit "{limit}". '


def eviction_message(
    resource: str,
    candidate: Candidate,
    usage: PodUsage | None,
    thresholds: Sequence[Threshold],
    observations: Observations,
) -> EvictionMessage:
    """Why this pod goes because that resource is short; `thresholds` are those that are due, the first counts most."""
    parts = [f"The node was low on resource: {resource}. ", _shortage(resource, thresholds, observations)]
    if usage is None:
        return EvictionMessage("".join(parts), {})
    annotations: dict[str, str] = {}
    if resource == MEMORY and candidate.pod_level_memory is not None and usage.memory is not None:
        used = str(amount(MEMORY, usage.memory))
        parts.append(_larger("Pod", candidate.name, used, candidate.pod_level_memory, resource))
        annotations |= {OFFENDING_POD: candidate.name, OFFENDING_POD_USAGE: used}
    offenders = list(_offenders(resource, candidate, usage))
    for name, consumed, request in offenders:
        parts.append(_larger("Container", name, consumed, request, resource))
    annotations |= {
        OFFENDING_CONTAINERS: ",".join(name for name, _, _ in offenders),
        OFFENDING_CONTAINERS_USAGE: ",".join(consumed for _, consumed, _ in offenders),
        STARVED_RESOURCE: resource,
    }
    return EvictionMessage("".join(parts), annotations)


def _shortage(resource: str, thresholds: Sequence[Threshold], observations: Observations) -> str:
    for threshold in thresholds:
        observation = observations.get(threshold.signal)
        if RESOURCE[threshold.signal] == resource and observation is not None:
            quantity, available = threshold.of(observation), amount(resource, observation.available)
            return f"Threshold quantity: {quantity}, available: {available}. "
    return ""


def _offenders(resource: str, candidate: Candidate, usage: PodUsage) -> Iterator[tuple[str, str, Quantity]]:
    """The containers that use more than they request, with both."""
    for container in usage.containers:
        requests = candidate.container_requests.get(container.name)
        used = _consumed(resource, container)
        if requests is None or used is None:
            continue
        consumed, request = amount(resource, used), requests.get(resource, ZERO)
        if consumed > request:
            yield container.name, str(consumed), request


def _consumed(resource: str, container: ContainerUsage) -> int | None:
    if resource == MEMORY:
        return container.memory
    rootfs, logs = container.rootfs, container.logs
    if resource != STORAGE or rootfs is None or logs is None or rootfs.used is None or logs.used is None:
        return None
    return rootfs.used + logs.used


def _larger(kind: str, name: str, used: str, request: Quantity, resource: str) -> str:
    return f"{kind} {name} was using {used}, request is {request}, has larger consumption of {resource}. "
