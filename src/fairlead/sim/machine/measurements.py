"""A simulated machine as its kubelet would measure it.

Memory, disks and processes are what usage says at that moment; cpu is what comes of the division (`cpu.py`). What a
node uses outside its pods is nobody's in particular: it is the system container `misc`, and `kubelet` and `runtime`
use nothing (S1-27).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fairlead.api.nodes import Node
from fairlead.api.pods import Container
from fairlead.node.cgroups.cpu_time import UNLIMITED
from fairlead.node.cgroups.names import (
    CgroupDriver,
    CgroupName,
    container_path,
    kubepods,
    path_of,
    pod_cgroup,
    qos_cgroup,
)
from fairlead.node.containers import container_id
from fairlead.node.eviction.candidates import DiskUsage
from fairlead.node.eviction.signals import FileSystems
from fairlead.node.stats.measurements import (
    ContainerMeasurements,
    CpuMeasurements,
    CpuSpec,
    FilesystemMeasurements,
    MemoryMeasurements,
    NodeMeasurements,
    PodMeasurements,
    ProcessMeasurements,
    VolumeMeasurements,
)
from fairlead.runtime.clock import parse_timestamp
from fairlead.sim.machine.cpu import CpuAccount
from fairlead.sim.machine.figures import Figures
from fairlead.sim.machine.load import read_at
from fairlead.sim.machine.machine import SimulatedMachine
from fairlead.sim.machine.machine_pod import MachinePod
from fairlead.sim.machine.own_limit import memory_limit
from fairlead.sim.machine.volume_measurements import ClaimCapacity, volume_measurements
from fairlead.sim.usage.measures import Measure, NodeMeasure

#: metrics-server's resolution.
WINDOW_SECONDS: Final = 15.0
_PERIODS_PER_SECOND: Final = 10
#: What the file systems of a simulated machine are on.
_NODEFS: Final = "/dev/nodefs"
_IMAGEFS: Final = "/dev/imagefs"
_NO_CPU: Final = CpuMeasurements(0, 0)
_NO_MEMORY: Final = MemoryMeasurements(0, 0, 0)


def node_measurements(
    node: Node, machine: SimulatedMachine, account: CpuAccount, now: float, capacity_of_claim: ClaimCapacity
) -> NodeMeasurements:
    return _Measuring(node, machine, account, now, capacity_of_claim).measured()


class _Measuring:
    """One look at one machine."""

    def __init__(
        self,
        node: Node,
        machine: SimulatedMachine,
        account: CpuAccount,
        now: float,
        capacity_of_claim: ClaimCapacity,
    ) -> None:
        self._capacity_of_claim = capacity_of_claim
        self._node, self._machine, self._account, self._now = node, machine, account, now
        self._read = read_at(now)
        self._figures = machine.figures(self._read)
        account.advance(machine, now)
        self._rates, self._node_rate = account.rates(machine, now, WINDOW_SECONDS)
        self._capacity = machine.hardware.machine.memory_bytes
        self._room = max(self._capacity - self._figures.anonymous, 0)
        config = machine.configured.configuration
        self._driver = CgroupDriver(config.cgroup_driver or CgroupDriver.CGROUPFS)
        self._root = kubepods(config.cgroup_root, per_qos=config.cgroups_per_qos)
        self._born = parse_timestamp(node.metadata.creation_timestamp)

    def measured(self) -> NodeMeasurements:
        figures, hardware = self._figures, self._machine.hardware
        pods = tuple(self._pod(pod) for pod in self._machine.pods.values() if pod.started)
        return NodeMeasurements(
            name=self._node.metadata.name,
            started_at=self._born,
            measured_at=self._now,
            cpu=_cpu(self._node_rate, self._account.node_nanos),
            memory=self._memory(figures.memory, figures.working_set, figures.anonymous, self._capacity or None),
            processes=ProcessMeasurements(figures.processes, hardware.machine.max_pid),
            nodefs=self._nodefs(figures),
            imagefs=self._imagefs(figures, self._machine.disks.image_bytes),
            containerfs=self._imagefs(figures, self._machine.disks.dead_bytes)
            if hardware.filesystems is FileSystems.IMAGEFS
            else self._nodefs(figures),
            system_containers=self._system_containers(pods),
            pods=pods,
            window_seconds=WINDOW_SECONDS,
            cpus=hardware.machine.cpus,
        )

    def _pod(self, pod: MachinePod) -> PodMeasurements:
        first = min(pod.started.values())
        cgroup = pod_cgroup(self._class_cgroup(pod), pod.uid)
        spec, metadata = pod.pod.spec, pod.pod.metadata
        specs = {container.name: container for container in (*spec.containers, *spec.init_containers)}
        cpu_spec, cpu_specs = self._account.specs(self._machine, pod.uid)
        containers = tuple(self._container(pod, specs[name], cgroup, cpu_specs[name]) for name in pod.started)
        used = pod.measured(self._read, self._room)
        return PodMeasurements(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=pod.uid,
            started_at=first,
            cpu=_sum_of_cpu(containers),
            memory=self._sum_of_memory(containers, pod.pod_level_memory_limit),
            containers=containers,
            volumes=tuple(self._volumes(pod, used.volumes)),
            ephemeral_storage=self._on_nodefs(used.ephemeral_storage or 0, None),
            processes=used.processes or 0,
            cgroup=path_of(cgroup, self._driver),
            cpu_spec=cpu_spec,
        )

    def _volumes(self, pod: MachinePod, used: Mapping[str, DiskUsage]) -> Iterator[VolumeMeasurements]:
        return volume_measurements(pod.manifest, used, self._on_nodefs, self._capacity, self._capacity_of_claim)

    def _container(
        self, pod: MachinePod, spec: Container, cgroup: CgroupName, cpu_spec: CpuSpec
    ) -> ContainerMeasurements:
        name = spec.name
        id_ = _container_id(pod, name)
        anonymous = pod.anonymous(name, self._read)
        shared = pod.in_memory_volumes(name, self._read)
        active = min(pod.amount(name, Measure.ACTIVE_FILE, self._read), self._room)
        inactive = min(pod.amount(name, Measure.INACTIVE_FILE, self._read), self._room - active)
        layer = pod.amount(name, Measure.ROOTFS, self._read)
        is_on_imagefs = self._machine.hardware.filesystems is FileSystems.IMAGEFS
        rootfs = self._on_imagefs if is_on_imagefs else self._on_nodefs
        return ContainerMeasurements(
            name=name,
            started_at=pod.started[name],
            cpu=self._container_cpu(pod.uid, name),
            memory=self._memory(
                anonymous + shared + active + inactive,
                anonymous + shared + active,
                anonymous,
                memory_limit(pod.pod, spec),
                oom_kills=name in pod.without_children,
            ),
            rootfs=rootfs(layer, pod.amount(name, Measure.INODES, self._read)),
            logs=self._on_nodefs(pod.amount(name, Measure.LOGS, self._read), None),
            processes=pod.processes(self._read)[name],
            cgroup=container_path(cgroup, id_, self._driver),
            container_id=id_,
            image=spec.image,
            cpu_spec=cpu_spec,
        )

    def _container_cpu(self, uid: str, name: str) -> CpuMeasurements:
        counters, rate = self._account.counters[uid, name], self._rates.get((uid, name), 0.0)
        if self._account.quota((uid, name)) == UNLIMITED:
            return _cpu(rate, counters.nanos)
        return CpuMeasurements(
            round(rate * 1e6),
            int(counters.nanos),
            int(counters.seconds_with_quota * _PERIODS_PER_SECOND),
            int(counters.throttled_seconds * _PERIODS_PER_SECOND),
            int(counters.throttled_nanos),
        )

    def _system_containers(self, pods: tuple[PodMeasurements, ...]) -> tuple[ContainerMeasurements, ...]:
        figures, moment = self._figures, self._born
        of_pods = _sum_of_cpu(pods)
        in_pods = self._sum_of_memory(pods, self._machine.pods_limit or None)
        anonymous = figures.anonymous - figures.pods_anonymous
        outside = self._memory(
            max(figures.memory - in_pods.usage, 0),
            max(figures.working_set - figures.pods_working_set, 0),
            anonymous,
            None,
        )
        rate = 1000.0 * self._machine.outside(NodeMeasure.CPU, self._read)
        rest = _cpu(rate, max(self._account.node_nanos - of_pods.usage_core_nano_seconds, 0.0))
        return (
            ContainerMeasurements("kubelet", moment, _NO_CPU, _NO_MEMORY),
            ContainerMeasurements("runtime", moment, _NO_CPU, _NO_MEMORY),
            ContainerMeasurements("pods", moment, of_pods, in_pods, cgroup=path_of(self._root, self._driver)),
            ContainerMeasurements("misc", moment, rest, outside),
        )

    def _class_cgroup(self, pod: MachinePod) -> CgroupName:
        if not self._machine.configured.configuration.cgroups_per_qos:
            return self._root
        return qos_cgroup(self._root, pod.qos_class)

    def _memory(
        self, usage: int, working_set: int, anonymous: int, limit: int | None, *, oom_kills: int = 0
    ) -> MemoryMeasurements:
        available, cache = None if limit is None else max(limit - working_set, 0), max(usage - anonymous, 0)
        return MemoryMeasurements(usage, working_set, anonymous, available, limit, cache, oom_kills=oom_kills)

    def _sum_of_memory(
        self, parts: tuple[ContainerMeasurements, ...] | tuple[PodMeasurements, ...], limit: int | None
    ) -> MemoryMeasurements:
        sums = [
            sum(amounts) for amounts in zip(*((m.usage, m.working_set, m.rss) for m in _memories(parts)), strict=True)
        ]
        usage, working_set, anonymous = sums or (0, 0, 0)
        return self._memory(usage, working_set, anonymous, limit)

    def _nodefs(self, figures: Figures) -> FilesystemMeasurements:
        return self._on_nodefs(figures.nodefs, figures.nodefs_inodes)

    def _imagefs(self, figures: Figures, used: int) -> FilesystemMeasurements:
        if self._machine.hardware.filesystems is FileSystems.SHARED:
            return self._on_nodefs(used, figures.nodefs_inodes)
        return self._on_imagefs(figures.imagefs, figures.imagefs_inodes)

    def _on_nodefs(self, used: int, inodes: int | None) -> FilesystemMeasurements:
        hardware, figures = self._machine.hardware, self._figures
        capacity = hardware.machine.ephemeral_storage_bytes
        left, free = max(capacity - figures.nodefs, 0), max(hardware.inodes - figures.nodefs_inodes, 0)
        return FilesystemMeasurements(capacity, left, used, hardware.inodes, free, inodes, _NODEFS)

    def _on_imagefs(self, used: int, inodes: int | None) -> FilesystemMeasurements:
        hardware, figures = self._machine.hardware, self._figures
        capacity = hardware.imagefs_bytes
        left, free = max(capacity - figures.imagefs, 0), max(hardware.imagefs_inodes - figures.imagefs_inodes, 0)
        return FilesystemMeasurements(capacity, left, used, hardware.imagefs_inodes, free, inodes, _IMAGEFS)


def _container_id(pod: MachinePod, name: str) -> str:
    """As its runtime calls it, as far as the pod's status has told; a first run is known before that."""
    status = pod.pod.status
    reported = (it for it in (*status.container_statuses, *status.init_container_statuses) if it.name == name)
    found = next((it.container_id for it in reported), "") or container_id(pod.uid, name, 0)
    return found.partition("://")[2]


def _memories(parts: tuple[ContainerMeasurements, ...] | tuple[PodMeasurements, ...]) -> list[MemoryMeasurements]:
    return [part.memory for part in parts]


def _sum_of_cpu(parts: tuple[ContainerMeasurements, ...] | tuple[PodMeasurements, ...]) -> CpuMeasurements:
    return CpuMeasurements(
        sum(part.cpu.usage_nano_cores for part in parts), sum(part.cpu.usage_core_nano_seconds for part in parts)
    )


def _cpu(rate_milli: float, nanos: float) -> CpuMeasurements:
    return CpuMeasurements(round(rate_milli * 1e6), int(nanos))
