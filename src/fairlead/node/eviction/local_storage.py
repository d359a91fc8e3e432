"""Limits of local storage: a pod above one goes whether or not the node is short of anything (S3-80).

Several pods may go in one pass. Looked at in this order: `emptyDir` volumes, the pod as a whole, its containers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairlead.api.quantity import Quantity
from fairlead.node.eviction.candidates import Candidate, MeasuredPod, PodUsage
from fairlead.node.eviction.messages import (
    container_over_storage_limit,
    empty_dir_over_limit,
    pod_over_storage_limit,
)
from fairlead.node.eviction.ranking import LOGS, ROOTFS, container_disk_usage
from fairlead.node.eviction.signals import FileSystems

_LOGS = frozenset({LOGS})
_LOGS_AND_LAYERS = frozenset({LOGS, ROOTFS})


class Excess(NamedTuple):
    """What is above a limit: what is said of it, and both in bytes."""

    message: str
    used: int
    limit: Quantity
    #: By which name kubelet counts it.
    signal: str


def over_limits(pods: Iterable[MeasuredPod], filesystems: FileSystems) -> Iterable[tuple[Candidate, Excess]]:
    """The pods that are above a limit, and by how much each."""
    for candidate, usage in pods:
        if candidate.is_critical or usage is None:
            continue
        excess = (
            _empty_dir_excess(candidate, usage)
            or _pod_excess(candidate, usage)
            or _container_excess(candidate, usage, filesystems)
        )
        if excess is not None:
            yield candidate, excess


def _empty_dir_excess(candidate: Candidate, usage: PodUsage) -> Excess | None:
    for volume, limit in candidate.empty_dir_limits:
        measured = usage.volumes.get(volume)
        if measured is not None and _bytes(measured.used) > limit:
            return Excess(empty_dir_over_limit(volume, limit), measured.used or 0, limit, "emptydirfs.limit")
    return None


def _pod_excess(candidate: Candidate, usage: PodUsage) -> Excess | None:
    limit = candidate.storage_limit
    if limit is None or _bytes(usage.ephemeral_storage) <= limit:
        return None
    return Excess(pod_over_storage_limit(limit), usage.ephemeral_storage, limit, "ephemeralpodfs.limit")


def _container_excess(candidate: Candidate, usage: PodUsage, filesystems: FileSystems) -> Excess | None:
    """Writable layers count only where they lie on the node's file system with everything else."""
    parts = _LOGS_AND_LAYERS if filesystems is FileSystems.SHARED else _LOGS
    for container in usage.containers:
        limit = candidate.container_storage_limits.get(container.name)
        used = container_disk_usage(container, parts).used
        if limit is not None and _bytes(used) > limit:
            return Excess(
                container_over_storage_limit(container.name, limit), used or 0, limit, "ephemeralcontainerfs.limit"
            )
    return None


def _bytes(used: int | None) -> Quantity:
    return Quantity.of_units(used or 0)
