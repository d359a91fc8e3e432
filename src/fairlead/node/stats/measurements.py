"""What was measured on a node at one moment, whoever measured: a simulated machine, or an agent with real cgroups.

The renderers beside this module make kubelet's documents of it. What is None was not measured, and is left out of them.
Times are seconds since 1970; sizes are bytes; what is cumulative counts from `started_at`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec


class CpuMeasurements(msgspec.Struct, frozen=True, gc=False):
    #: The rate over the last window, and the sum since the start.
    usage_nano_cores: int
    usage_core_nano_seconds: int
    #: Enforcement periods of a quota that have passed, and those in which it was used up; None where there is no quota.
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_nanos: int | None = None


class CpuSpec(msgspec.Struct, frozen=True, gc=False):
    """What a cgroup is given of cpu: its weight as shares; a quota of 0 is none."""

    shares: int
    quota_micros: int = 0
    period_micros: int = 0


class MemoryMeasurements(msgspec.Struct, frozen=True, gc=False):
    usage: int
    #: Usage without inactive pages of files.
    working_set: int
    rss: int
    #: The limit, or a node's capacity, less the working set; None where there is no limit.
    available: int | None = None
    limit: int | None = None
    #: Pages of files.
    cache: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    #: How often the kernel killed a process here because memory was used up.
    oom_kills: int = 0


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """How long there was waiting, in microseconds, and in which part of the last seconds (per cent)."""

    total_micros: int = 0
    avg10: float = 0.0
    avg60: float = 0.0
    avg300: float = 0.0


class Pressure(msgspec.Struct, frozen=True, gc=False):
    #: Of some of the processes, and of all at once.
    some: Waiting
    full: Waiting


class PressureMeasurements(msgspec.Struct, frozen=True, gc=False):
    """What processes wait for (PSI)."""

    cpu: Pressure
    memory: Pressure
    io: Pressure


class SwapMeasurements(msgspec.Struct, frozen=True, gc=False):
    usage: int = 0
    available: int | None = None


class FilesystemMeasurements(msgspec.Struct, frozen=True, gc=False):
    """A file system; or the part of it that somebody uses, with what the whole has left."""

    capacity: int
    available: int
    used: int
    inodes: int | None = None
    inodes_free: int | None = None
    inodes_used: int | None = None
    #: What it is on, where that is known.
    device: str = ""


class InterfaceMeasurements(msgspec.Struct, frozen=True, gc=False):
    """An interface of a network, as who is behind it sees it."""

    name: str
    received_bytes: int
    received_packets: int
    receive_errors: int
    receive_drops: int
    sent_bytes: int
    sent_packets: int
    send_errors: int
    send_drops: int


class DiskMeasurements(msgspec.Struct, frozen=True, gc=False):
    """What went to a disk and came from there."""

    device: str
    major: int
    minor: int
    read_bytes: int
    written_bytes: int
    reads: int
    writes: int


class VolumeMeasurements(msgspec.Struct, frozen=True, gc=False):
    name: str
    filesystem: FilesystemMeasurements
    #: The PersistentVolumeClaim that it comes from, in the pod's namespace.
    claim: str = ""


class ContainerMeasurements(msgspec.Struct, frozen=True, gc=False):
    """A running container, or a cgroup of the system (`kubelet`, `pods`)."""

    name: str
    started_at: float
    cpu: CpuMeasurements
    memory: MemoryMeasurements
    #: The writable layer, and the logs.
    rootfs: FilesystemMeasurements | None = None
    logs: FilesystemMeasurements | None = None
    swap: SwapMeasurements = SwapMeasurements()
    processes: int = 0
    #: The name of the cgroup, the ID in the runtime and the image, where they are known.
    cgroup: str = ""
    container_id: str = ""
    image: str = ""
    cpu_spec: CpuSpec | None = None
    disks: tuple[DiskMeasurements, ...] = ()
    pressures: PressureMeasurements | None = None


class PodMeasurements(msgspec.Struct, frozen=True, gc=False):
    """The sum over the pod's cgroup, and its running containers one by one."""

    name: str
    namespace: str
    uid: str
    started_at: float
    cpu: CpuMeasurements
    memory: MemoryMeasurements
    containers: tuple[ContainerMeasurements, ...] = ()
    volumes: tuple[VolumeMeasurements, ...] = ()
    #: Writable layers, logs and emptyDir volumes that are not in memory.
    ephemeral_storage: FilesystemMeasurements | None = None
    processes: int = 0
    swap: SwapMeasurements = SwapMeasurements()
    cgroup: str = ""
    cpu_spec: CpuSpec | None = None
    network: tuple[InterfaceMeasurements, ...] | None = None
    disks: tuple[DiskMeasurements, ...] = ()
    pressures: PressureMeasurements | None = None


class ContainerUse(msgspec.Struct, frozen=True, gc=False):
    """Of all that is measured of a container, what autoscaling looks at."""

    name: str
    started_at: float
    nano_cores: int
    working_set: int


class PodsUse(msgspec.Struct, frozen=True):
    """What the running containers of some pods of a node use, by the uids of the pods."""

    measured_at: float
    window_seconds: float
    pods: Mapping[str, Sequence[ContainerUse]]


class ProcessMeasurements(msgspec.Struct, frozen=True, gc=False):
    current: int
    maximum: int


class NodeMeasurements(msgspec.Struct, frozen=True, gc=False):
    name: str
    #: When the node's counters began.
    started_at: float
    measured_at: float
    cpu: CpuMeasurements
    memory: MemoryMeasurements
    processes: ProcessMeasurements
    nodefs: FilesystemMeasurements | None = None
    #: The same as `nodefs` where images or layers have no file system of their own.
    imagefs: FilesystemMeasurements | None = None
    containerfs: FilesystemMeasurements | None = None
    swap: SwapMeasurements = SwapMeasurements()
    #: The cgroups of `kubelet`, `runtime`, `pods` and, where it is configured, `misc` (S1-27).
    system_containers: tuple[ContainerMeasurements, ...] = ()
    pods: tuple[PodMeasurements, ...] = ()
    network: tuple[InterfaceMeasurements, ...] | None = None
    disks: tuple[DiskMeasurements, ...] = ()
    pressures: PressureMeasurements | None = None
    #: Over how many seconds rates are taken; and how many cpus there are.
    window_seconds: float = 10.0
    cpus: int = 1

    def pods_use(self) -> PodsUse:
        return PodsUse(
            self.measured_at,
            self.window_seconds,
            {
                pod.uid: [
                    ContainerUse(it.name, it.started_at, it.cpu.usage_nano_cores, it.memory.working_set)
                    for it in pod.containers
                ]
                for pod in self.pods
            },
        )
