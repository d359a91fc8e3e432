"""In which order pods are evicted (S3-71 to S3-78).

Memory and disk: those above their request first, then lower priority, then those furthest above it. Process IDs have no
requests: lower priority, then more processes. A pod that nothing was measured of counts as the worst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from fairlead.node.eviction.candidates import Candidate, ContainerUsage, DiskUsage, PodUsage
from fairlead.node.eviction.signals import INODES, MEMORY, PIDS, RESOURCE, STORAGE, FileSystems, Signal

_NANOS: Final = 10**9

#: How far a namespace is above what it deserves; 0 where it is not. Pods of the furthest go first (S2-51).
Overuse: TypeAlias = Callable[[str], float]
Usages: TypeAlias = Mapping[str, PodUsage]
#: Where a pod stands in the order: the least goes first.
Place: TypeAlias = tuple[Any, ...]

ROOTFS: Final = "rootfs"
LOGS: Final = "logs"
VOLUMES: Final = "volumes"
_EVERYTHING: Final = frozenset({ROOTFS, LOGS, VOLUMES})
_WRITTEN: Final = frozenset({LOGS, VOLUMES})
_LAYERS: Final = frozenset({ROOTFS})
_NODEFS: Final = frozenset({Signal.NODEFS, Signal.NODEFS_INODES})
_IMAGEFS: Final = frozenset({Signal.IMAGEFS, Signal.IMAGEFS_INODES})


def measured(signal: Signal, filesystems: FileSystems) -> frozenset[str]:
    """What of a pod lies on the file system of the signal. Images are never counted for a pod."""
    if filesystems is FileSystems.SHARED:
        return _EVERYTHING
    if filesystems is FileSystems.IMAGEFS:
        return _WRITTEN if signal in _NODEFS else _LAYERS
    return frozenset() if signal in _IMAGEFS else _EVERYTHING


def place(candidate: Candidate, usage: PodUsage | None, signal: Signal, filesystems: FileSystems) -> Place:
    return _KEYS[RESOURCE[signal]](candidate, usage, measured(signal, filesystems))


def ranked(
    candidates: Iterable[Candidate],
    usages: Usages,
    signal: Signal,
    filesystems: FileSystems,
    overuse: Overuse | None = None,
) -> list[Candidate]:
    """The pods, first to be evicted first; `usages` by uid. Equals keep their order."""
    return sorted(candidates, key=_places(usages, signal, filesystems, overuse))


def first_victim(
    candidates: Iterable[Candidate],
    usages: Usages,
    signal: Signal,
    filesystems: FileSystems,
    overuse: Overuse | None = None,
) -> Candidate | None:
    """The first of them that may be evicted; None if all are critical."""
    evictable = (candidate for candidate in candidates if not candidate.is_critical)
    return min(evictable, key=_places(usages, signal, filesystems, overuse), default=None)


def _places(
    usages: Usages, signal: Signal, filesystems: FileSystems, overuse: Overuse | None
) -> Callable[[Candidate], Place]:
    def own(candidate: Candidate) -> Place:
        return place(candidate, usages.get(candidate.uid), signal, filesystems)

    return own if overuse is None else lambda candidate: (-overuse(candidate.namespace), *own(candidate))


def _by_memory(candidate: Candidate, usage: PodUsage | None, parts: frozenset[str]) -> Place:
    if usage is None:
        return _unmeasured(candidate)
    return _over_request(candidate, (usage.memory or 0) * _NANOS - candidate.memory_request.nanos)


def _by_storage(candidate: Candidate, usage: PodUsage | None, parts: frozenset[str]) -> Place:
    if usage is None:
        return _unmeasured(candidate)
    used = disk_usage(candidate, usage, parts).used or 0
    return _over_request(candidate, used * _NANOS - candidate.storage_request.nanos)


def _by_inodes(candidate: Candidate, usage: PodUsage | None, parts: frozenset[str]) -> Place:
    """Nobody requests inodes. Upstream takes what is requested of storage off their number all the same."""
    if usage is None:
        return _unmeasured(candidate)
    inodes = disk_usage(candidate, usage, parts).inodes or 0
    return (1, inodes == 0, candidate.priority, candidate.storage_request.nanos - inodes * _NANOS)


def _by_processes(candidate: Candidate, usage: PodUsage | None, parts: frozenset[str]) -> Place:
    if usage is None:
        return (candidate.priority, 0)
    return (candidate.priority, 1, -usage.processes)


def _unmeasured(candidate: Candidate) -> Place:
    return (0, False, candidate.priority, 0)


def _over_request(candidate: Candidate, excess: int) -> Place:
    return (1, excess <= 0, candidate.priority, -excess)


def disk_usage(candidate: Candidate, usage: PodUsage, parts: frozenset[str]) -> DiskUsage:
    """What the pod takes of these parts together."""
    found = [container_disk_usage(container, parts) for container in usage.containers]
    if VOLUMES in parts:
        found += [usage.volumes[name] for name in candidate.local_volumes if name in usage.volumes]
    return _together(found)


def container_disk_usage(container: ContainerUsage, parts: frozenset[str]) -> DiskUsage:
    """What the container takes of these parts together."""
    found = []
    if ROOTFS in parts and container.rootfs is not None:
        found.append(container.rootfs)
    if LOGS in parts and container.logs is not None:
        found.append(container.logs)
    return _together(found)


def _together(usages: Sequence[DiskUsage]) -> DiskUsage:
    return DiskUsage(sum(each.used or 0 for each in usages), sum(each.inodes or 0 for each in usages))


_KEYS: Final[Mapping[str, Callable[[Candidate, PodUsage | None, frozenset[str]], Place]]] = {
    MEMORY: _by_memory,
    STORAGE: _by_storage,
    INODES: _by_inodes,
    PIDS: _by_processes,
}
