"""What eviction makes of a node's measurements."""

from __future__ import annotations

from fairlead.node.eviction.candidates import ContainerUsage, DiskUsage, PodUsage
from fairlead.node.eviction.measured import node_stats, pod_usage
from fairlead.node.eviction.signals import FileSystems, Observation, Signal
from fairlead.node.stats.measurements import (
    ContainerMeasurements,
    CpuMeasurements,
    FilesystemMeasurements,
    MemoryMeasurements,
    NodeMeasurements,
    PodMeasurements,
    ProcessMeasurements,
    VolumeMeasurements,
)

_CPU = CpuMeasurements(0, 0)


def _memory(working_set: int, limit: int | None = None) -> MemoryMeasurements:
    available = None if limit is None else limit - working_set
    return MemoryMeasurements(working_set + 5, working_set, working_set, available, limit)


def _disk(used: int, inodes_used: int = 1) -> FilesystemMeasurements:
    return FilesystemMeasurements(1000, 400, used, 100, 60, inodes_used)


def _node(**fields: object) -> NodeMeasurements:
    pods = ContainerMeasurements("pods", 0.0, _CPU, _memory(30, 80))
    measured = {"nodefs": _disk(600), "imagefs": FilesystemMeasurements(50, 10, 40), "system_containers": (pods,)}
    return NodeMeasurements("n", 0.0, 9.0, _CPU, _memory(40, 100), ProcessMeasurements(20, 50), **measured | fields)  # type: ignore[arg-type]


def test_every_signal_is_what_is_left() -> None:
    found = node_stats(_node(), FileSystems.SHARED).observations(FileSystems.SHARED)
    assert found == {
        Signal.MEMORY: Observation(60, 100),
        Signal.ALLOCATABLE_MEMORY: Observation(50, 80),
        Signal.NODEFS: Observation(400, 1000),
        Signal.NODEFS_INODES: Observation(60, 100),
        Signal.IMAGEFS: Observation(400, 1000),
        Signal.IMAGEFS_INODES: Observation(60, 100),
        Signal.CONTAINERFS: Observation(400, 1000),
        Signal.CONTAINERFS_INODES: Observation(60, 100),
        Signal.PIDS: Observation(30, 50),
    }


def test_images_on_a_file_system_of_their_own_have_their_own_figures() -> None:
    found = node_stats(_node(), FileSystems.SPLIT).observations(FileSystems.SPLIT)
    assert found[Signal.IMAGEFS] == Observation(10, 50)
    assert Signal.IMAGEFS_INODES not in found  # such as btrfs tells of none
    assert found[Signal.CONTAINERFS] == Observation(400, 1000)


def test_a_pod_uses_what_was_measured_of_its_parts() -> None:
    container = ContainerMeasurements("c", 0.0, _CPU, _memory(7), rootfs=_disk(11, 2))
    pod = PodMeasurements(
        "p", "default", "u", 0.0, _CPU, _memory(9), (container,), (VolumeMeasurements("v", _disk(13, 3)),), _disk(24), 4
    )
    assert pod_usage(pod) == PodUsage(
        9, 4, (ContainerUsage("c", 7, DiskUsage(11, 2), None),), {"v": DiskUsage(13, 3)}, 24
    )
