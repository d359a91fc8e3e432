"""Pods that could be evicted: what they ask for, worked out once, and what was measured of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.podresources import has_pod_level_resources, parsed, pod_limits
from fairlead.api.quantity import ZERO, Quantity, parse
from fairlead.node.critical import is_critical
from fairlead.node.eviction.signals import MEMORY, STORAGE
from fairlead.node.requests import resource_request
from fairlead.node.volume_media import Medium, medium_of


class Candidate(msgspec.Struct, frozen=True):
    """A pod that runs. Its amounts do not change while it does: a resized pod is another candidate."""

    uid: str
    name: str
    namespace: str
    priority: int
    is_critical: bool
    #: `terminationGracePeriodSeconds`, if it has one.
    grace_seconds: int | None
    memory_request: Quantity
    storage_request: Quantity
    #: What the pod level requests of memory, where there is a pod level.
    pod_level_memory: Quantity | None
    #: By container: what it requests, by resource.
    container_requests: Mapping[str, Mapping[str, Quantity]]
    #: Of the containers together, if any has one.
    storage_limit: Quantity | None
    container_storage_limits: Mapping[str, Quantity]
    #: Names of the volumes that lie on the node's disk.
    local_volumes: tuple[str, ...]
    #: Volume and size of each `emptyDir` that has a limit.
    empty_dir_limits: tuple[tuple[str, Quantity], ...]
    #: Whether it can exceed any of these limits; hardly any pod has one.
    has_storage_limits: bool


def candidate(pod: Obj) -> Candidate:
    metadata, spec = pod["metadata"], pod["spec"]
    volumes = spec.get("volumes") or ()
    storage_limit = pod_limits(spec).get(STORAGE)
    empty_dir_limits = tuple(_empty_dir_limits(volumes))
    return Candidate(
        uid=metadata.get("uid", ""),
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        priority=spec.get("priority") or 0,
        is_critical=is_critical(pod),
        grace_seconds=spec.get("terminationGracePeriodSeconds"),
        memory_request=resource_request(spec, MEMORY),
        storage_request=resource_request(spec, STORAGE),
        pod_level_memory=_pod_level_memory(spec),
        container_requests=_container_requests(spec),
        storage_limit=storage_limit,
        container_storage_limits=dict(_container_storage_limits(spec)),
        local_volumes=tuple(volume["name"] for volume in volumes if medium_of(volume) is Medium.DISK),
        empty_dir_limits=empty_dir_limits,
        has_storage_limits=storage_limit is not None or bool(empty_dir_limits),
    )


def _pod_level_memory(spec: Obj) -> Quantity | None:
    if not has_pod_level_resources(spec):
        return None
    return parsed(spec["resources"].get("requests") or {}).get(MEMORY)


def _container_requests(spec: Obj) -> dict[str, Mapping[str, Quantity]]:
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return {each["name"]: parsed((each.get("resources") or {}).get("requests") or {}) for each in containers}


def _container_storage_limits(spec: Obj) -> Iterator[tuple[str, Quantity]]:
    for container in spec.get("containers") or ():
        limits = parsed((container.get("resources") or {}).get("limits") or {})
        if limit := limits.get(STORAGE, ZERO):
            yield container["name"], limit


def _empty_dir_limits(volumes: Iterable[Obj]) -> Iterator[tuple[str, Quantity]]:
    for volume in volumes:
        size = (volume.get("emptyDir") or {}).get("sizeLimit")
        if size is not None and (limit := parse(size)).nanos > 0:
            yield volume["name"], limit


class DiskUsage(msgspec.Struct, frozen=True):
    """Bytes and inodes that something takes; None is not known."""

    used: int | None = None
    inodes: int | None = None


class ContainerUsage(msgspec.Struct, frozen=True):
    name: str
    #: Working set, in bytes.
    memory: int | None = None
    rootfs: DiskUsage | None = None
    logs: DiskUsage | None = None


class PodUsage(msgspec.Struct, frozen=True):
    """What was measured of a pod."""

    memory: int | None = None
    processes: int = 0
    containers: tuple[ContainerUsage, ...] = ()
    volumes: Mapping[str, DiskUsage] = {}
    #: Of containers, logs and local volumes together, in bytes.
    ephemeral_storage: int = 0


class MeasuredPod(NamedTuple):
    candidate: Candidate
    #: None if nothing was measured of it.
    usage: PodUsage | None
