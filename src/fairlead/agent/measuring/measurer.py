"""Measures the machine and all pods, in threads; folders, which may be large, beside everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path

from fairlead.agent.cgroups.usage import memory_limit, usage_of
from fairlead.agent.measuring.disks import disks
from fairlead.agent.measuring.file_systems import file_system, layout, part_of
from fairlead.agent.measuring.folders import Folders
from fairlead.agent.measuring.machine import machine_usage, memory_bytes, started_at, usable_cpus
from fairlead.agent.measuring.network import interfaces
from fairlead.agent.measuring.pods import MeasuredPod, PodMeter, memory_measurements
from fairlead.agent.measuring.pressures import pressures
from fairlead.agent.measuring.rates import Rates
from fairlead.agent.pods.place import Place
from fairlead.agent.pods.real_pod import RealPod
from fairlead.agent.runtimes.base import ContainerStatus, State
from fairlead.node.eviction.candidates import DiskUsage
from fairlead.node.eviction.signals import FileSystems
from fairlead.node.stats.measurements import (
    ContainerMeasurements,
    CpuMeasurements,
    FilesystemMeasurements,
    NodeMeasurements,
    PodMeasurements,
)
from fairlead.runtime.clock import ClockSteps, now
from fairlead.runtime.offload import offload


class Measurer:
    """`cgroup` is that of the machine; `system` are cgroups by the names under which they are shown."""

    def __init__(
        self,
        place: Place,
        cgroup: str,
        system: Mapping[str, str],
        pods: Callable[[], Sequence[RealPod]],
        seconds: float,
        volume_seconds: float,
    ) -> None:
        """`pods` are those that are looked after; `seconds`: how often anybody measures; `volume_seconds`: how often
        folders are walked that have no limit, negative: volumes never are (KubeletConfiguration)."""
        self._place, self._cgroup, self._system, self._pods = place, cgroup, system, pods
        self._seconds, self._volume_seconds = seconds, volume_seconds
        self._cpus = len(usable_cpus(place.cgroups, cgroup))
        self._images = place.root / "images"
        self._known: dict[str, MeasuredPod] = {}  # by uid
        self._folders, self._rates = Folders(), Rates(seconds / 2)
        self._started_at, self._clock_steps = started_at(), ClockSteps()
        self._look = asyncio.Lock()
        self._wanted = asyncio.Event()  # a walk, by those who wait for the next one
        self._is_for_all = False  # that walk
        self._waiting: list[asyncio.Future[None]] = []
        #: None: nothing yet.
        self.last: NodeMeasurements | None = None

    async def run(self) -> None:
        """Walk folders when somebody asks, as each look of the node does, or nobody has for long; until cancelled.

        Whoever wants to know what was found calls `measure`.
        """
        while True:
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            folders, self._is_for_all = self._to_walk(is_for_all=self._is_for_all), False
            await offload(partial(self._folders.walk, folders), is_long=True)
            for each in waiting:
                if not each.done():
                    each.set_result(None)
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * self._seconds):
                    await self._wanted.wait()

    def _to_walk(self, *, is_for_all: bool) -> dict[Path, float]:
        """How often, in seconds, by folder."""
        found: dict[Path, float] = {}
        for pod, statuses in self._running():
            every = 0.0 if is_for_all or pod.has_storage_limits else abs(self._volume_seconds)
            has_volumes = self._volume_seconds >= 0
            found |= dict.fromkeys(pod.folders(statuses, self._place.runtime, with_volumes=has_volumes), every)
        return found

    async def walk(self, seconds: float, *, is_for_all: bool = False) -> None:
        """Have folders of pods with limits walked now, or all of them, but for those that took long the last time.

        Waits for it, but no longer than that.
        """
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._is_for_all = self._is_for_all or is_for_all
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await done

    async def measure(self) -> NodeMeasurements:
        """Everything, now; of folders what was found the last time."""
        async with self._look:
            running, at, set_by = self._running(), now(), self._clock_steps.since_last()
            self._started_at += set_by
            self.last = await asyncio.to_thread(self._measured, running, at, set_by)
            return self.last

    @property
    def file_systems(self) -> FileSystems:
        return layout(self._place.root, self._images)

    @property
    def pods_with_containers(self) -> Set[str]:
        """Their uids, whether anything runs or not."""
        return {status.pod_uid for status in self._place.runtime.containers()}

    def _running(self) -> list[tuple[MeasuredPod, list[ContainerStatus]]]:
        """The pods of which something runs, with what that is."""
        running: dict[str, list[ContainerStatus]] = {}
        for status in self._place.runtime.containers():
            if status.state is State.RUNNING:
                running.setdefault(status.pod_uid, []).append(status)
        before, self._known = self._known, {}
        for real in self._pods():
            uid = real.pod.metadata.uid
            if uid in running:
                pod = before.get(uid)
                self._known[uid] = pod if pod is not None and pod.manifest is real.manifest else MeasuredPod.of(real)
        return [(pod, running[uid]) for uid, pod in self._known.items()]

    def _measured(
        self, running: Sequence[tuple[MeasuredPod, list[ContainerStatus]]], at: float, set_by: float
    ) -> NodeMeasurements:
        cgroups = self._place.cgroups
        self._rates.begin(set_by)
        nodefs, network = file_system(self._place.root), interfaces()
        of_drivers = self._place.claims.csi.stats.last
        meter = PodMeter(cgroups, self._place.runtime, self._folders, self._rates, nodefs, network, at, of_drivers)
        measured = (meter.measured(pod, statuses) for pod, statuses in running)
        pods = tuple(pod for pod in measured if pod is not None)
        machine, capacity = machine_usage(cgroups, self._cgroup), memory_bytes(cgroups, self._cgroup)
        return NodeMeasurements(
            name=self._place.node_name,
            started_at=self._started_at,
            measured_at=at,
            cpu=self._cpu(self._cgroup, machine.usage.cpu_nanoseconds, at),
            memory=memory_measurements(machine.usage, capacity),
            processes=machine.processes,
            nodefs=nodefs,
            imagefs=self._imagefs(nodefs),
            containerfs=part_of(nodefs, _layers(pods)),
            system_containers=tuple(self._system_containers(at)),
            pods=pods,
            network=network,
            disks=disks(cgroups, self._cgroup),
            pressures=pressures(cgroups, self._cgroup),
            window_seconds=self._seconds,
            cpus=self._cpus,
        )

    def _imagefs(self, nodefs: FilesystemMeasurements) -> FilesystemMeasurements:
        whole = file_system(self._images) if self.file_systems is FileSystems.SPLIT else nodefs
        return part_of(whole, self._place.images.disk_usage())

    def _system_containers(self, at: float) -> list[ContainerMeasurements]:
        cgroups, found = self._place.cgroups, []
        for name, cgroup in self._system.items():
            if cgroup and (usage := usage_of(cgroups, cgroup)) is not None:
                cpu = self._cpu(cgroup, usage.cpu_nanoseconds, at)
                memory = memory_measurements(usage, memory_limit(cgroups, cgroup))
                used, waits = disks(cgroups, cgroup), pressures(cgroups, cgroup)
                found.append(
                    ContainerMeasurements(
                        name, self._started_at, cpu, memory, cgroup=cgroup, disks=used, pressures=waits
                    )
                )
        return found

    def _cpu(self, cgroup: str, nanoseconds: int, at: float) -> CpuMeasurements:
        return CpuMeasurements(self._rates.nano_cores(cgroup, nanoseconds, at, self._started_at), nanoseconds)


def _layers(pods: Sequence[PodMeasurements]) -> DiskUsage:
    """What running containers have written to their layers."""
    layers = [container.rootfs for pod in pods for container in pod.containers if container.rootfs is not None]
    return DiskUsage(sum(layer.used for layer in layers), sum(layer.inodes_used or 0 for layer in layers))
