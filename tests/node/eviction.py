"""Nodes, pods and measurements of the recorded evictions, in the form in which our functions take them."""

from __future__ import annotations

from typing import Any

from fairlead.api.quantity import units
from fairlead.node.eviction.candidates import Candidate, ContainerUsage, DiskUsage, PodUsage, candidate
from fairlead.node.eviction.signals import FileSystemStats, NodeStats, Observation
from tests.node.golden import Row, with_uids


def candidates(manifests: list[Row]) -> list[Candidate]:
    return [candidate(pod) for pod in with_uids(manifests)]


def pod_usages(usage: Row) -> dict[str, PodUsage]:
    return {name: _pod_usage(measured) for name, measured in usage.items() if measured is not None}


def _amount(value: Any) -> int | None:
    return None if value is None else units(str(value))


def _pod_usage(measured: Row) -> PodUsage:
    return PodUsage(
        memory=_amount(measured.get("memory")),
        processes=_amount(measured.get("pids")) or 0,
        containers=tuple(_container_usage(container) for container in measured.get("containers", ())),
        volumes={
            volume["name"]: DiskUsage(_amount(volume.get("used")), _amount(volume.get("inodes")))
            for volume in measured.get("volumes", ())
        },
        ephemeral_storage=_amount(measured.get("ephemeralStorage")) or 0,
    )


def _container_usage(measured: Row) -> ContainerUsage:
    return ContainerUsage(
        measured["name"],
        _amount(measured.get("memory")),
        _disk_usage(measured, "rootfs"),
        _disk_usage(measured, "logs"),
    )


def _disk_usage(measured: Row, part: str) -> DiskUsage | None:
    used, inodes = _amount(measured.get(part)), _amount(measured.get(f"{part}Inodes"))
    return None if used is None and inodes is None else DiskUsage(used, inodes)


def node_stats(capacity: Row, available: Row, measured_at: float) -> NodeStats:
    """What is observed of a node; a signal that is not among `available` was not."""

    def of(signal: str, name: str) -> Observation | None:
        if signal not in available:
            return None
        return Observation(units(str(available[signal])), units(str(capacity[name])), measured_at)

    return NodeStats(
        memory=of("memory.available", "memory"),
        allocatable_memory=of("allocatableMemory.available", "allocatableMemory"),
        nodefs=FileSystemStats(of("nodefs.available", "nodefs"), of("nodefs.inodesFree", "nodefsInodes")),
        imagefs=FileSystemStats(of("imagefs.available", "imagefs"), of("imagefs.inodesFree", "imagefsInodes")),
        pids=of("pid.available", "pids"),
    )
