"""What a pod uses: the pod's cgroup as a whole, its running containers, its volumes.

What does not change while a pod is as it is (names, limits) is worked out once: hundreds are measured at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.usage import CgroupUsage, throttling_of, usage_of
from fairlead.agent.csi.stats import VolumeStats
from fairlead.agent.measuring.disks import disks
from fairlead.agent.measuring.file_systems import file_system, part_of
from fairlead.agent.measuring.folders import Folders
from fairlead.agent.measuring.network import interfaces
from fairlead.agent.measuring.pressures import pressures
from fairlead.agent.measuring.rates import Rates
from fairlead.agent.pods.place import Place
from fairlead.agent.pods.real_pod import RealPod
from fairlead.agent.runtimes.base import ContainerStatus, Runtime
from fairlead.api.objects import Obj
from fairlead.kinds.object_references import claim_name
from fairlead.node.cgroups.containers import ContainerValues
from fairlead.node.cgroups.pods import pod_values
from fairlead.node.eviction.candidates import DiskUsage, candidate
from fairlead.node.stats.measurements import (
    ContainerMeasurements,
    CpuMeasurements,
    CpuSpec,
    FilesystemMeasurements,
    InterfaceMeasurements,
    MemoryMeasurements,
    PodMeasurements,
    VolumeMeasurements,
)
from fairlead.node.volume_media import Medium, medium_of

_NOT_MEASURED: Final = ("hostPath", "image", "csi")


class MeasuredPod(msgspec.Struct, frozen=True):
    """A pod as far as it matters to whoever measures it."""

    name: str
    namespace: str
    uid: str
    #: Which state of the pod this is: resized, it is another.
    manifest: Obj
    cgroup: str
    has_host_network: bool
    memory_limit: int | None
    cpu_spec: CpuSpec | None
    values: Mapping[str, ContainerValues]
    #: Where the logs of its containers lie.
    logs: Path
    #: By name: where it is, and whether it lies on the node's disk.
    volumes: Mapping[str, tuple[Path, bool]]
    #: By name of the volume, that of its claim.
    claims: Mapping[str, str]
    #: Whether it can use more local storage than it may.
    has_storage_limits: bool

    @classmethod
    def of(cls, real: RealPod) -> MeasuredPod:
        place, manifest, meta = real.place, real.manifest, real.pod.metadata
        own = pod_values(real.sized["spec"], place.settings)
        return cls(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            manifest=manifest,
            cgroup=place.cgroup_of(manifest),
            has_host_network=bool(manifest["spec"].get("hostNetwork")),
            memory_limit=own.memory_limit,
            cpu_spec=CpuSpec(own.cpu_shares or 0, max(own.cpu_quota or 0, 0), own.cpu_period or 0),
            values=place.container_values(real.sized),
            logs=place.log_folder(meta.namespace, meta.name, meta.uid),
            volumes=dict(_volumes(place, manifest, real.measured_claims)),
            claims={
                volume["name"]: name
                for volume in manifest["spec"].get("volumes") or ()
                if (name := claim_name(meta.name, volume))
            },
            has_storage_limits=candidate(manifest).has_storage_limits,
        )

    def folders(self, running: Sequence[ContainerStatus], runtime: Runtime, *, with_volumes: bool) -> Iterator[Path]:
        """Those that have to be walked."""
        for status in running:
            yield runtime.writable_layer(status.id)
            yield self.logs / status.name
        for path, is_on_disk in self.volumes.values() if with_volumes else ():
            if is_on_disk:
                yield path


def _volumes(place: Place, manifest: Obj, claimed: Mapping[str, Path]) -> Iterator[tuple[str, tuple[Path, bool]]]:
    """Nobody measures what lies in a folder of the machine itself, or in an image; drivers say of theirs."""
    folder, name = place.folder(manifest["metadata"]["uid"]) / "volumes", manifest["metadata"]["name"]
    for volume in manifest["spec"].get("volumes") or ():
        if (path := claimed.get(volume["name"])) is not None:
            yield volume["name"], (path, False)
        elif not (claim_name(name, volume) or any(volume.get(kind) is not None for kind in _NOT_MEASURED)):
            is_on_disk = volume.get("emptyDir") is not None and medium_of(volume) is Medium.DISK
            yield volume["name"], (folder / volume["name"], is_on_disk)


class PodMeter(msgspec.Struct, frozen=True):
    """Measures at one moment."""

    cgroups: Cgroups
    runtime: Runtime
    folders: Folders
    rates: Rates
    nodefs: FilesystemMeasurements
    #: That of the machine.
    network: tuple[InterfaceMeasurements, ...] | None
    at: float
    #: What drivers say of their volumes.
    of_drivers: VolumeStats

    def measured(self, pod: MeasuredPod, running: Sequence[ContainerStatus]) -> PodMeasurements | None:
        """None if it has just gone."""
        began = min(status.started_at for status in running)
        usage = usage_of(self.cgroups, pod.cgroup)
        if usage is None:
            return None
        used = disks(self.cgroups, pod.cgroup)
        each = (self._container(pod, status, has_disks=bool(used)) for status in running)
        containers = tuple(container for container in each if container is not None)
        volumes = tuple(self._volumes(pod))
        return PodMeasurements(
            name=pod.name,
            namespace=pod.namespace,
            uid=pod.uid,
            started_at=began,
            cpu=self._cpu(pod.cgroup, usage, began),
            memory=memory_measurements(usage, pod.memory_limit),
            containers=containers,
            volumes=volumes,
            ephemeral_storage=part_of(self.nodefs, self._ephemeral_storage(pod, containers)),
            processes=usage.processes,
            cgroup=pod.cgroup,
            cpu_spec=pod.cpu_spec,
            network=self._network(pod, running),
            disks=used,
            pressures=pressures(self.cgroups, pod.cgroup),
        )

    def _network(
        self, pod: MeasuredPod, running: Sequence[ContainerStatus]
    ) -> tuple[InterfaceMeasurements, ...] | None:
        if pod.has_host_network:
            return self.network
        pid = next((status.pid for status in running if status.pid), 0)
        return interfaces(pid) if pid else None

    def _container(self, pod: MeasuredPod, status: ContainerStatus, *, has_disks: bool) -> ContainerMeasurements | None:
        """`has_disks`: there is anything of its pod."""
        cgroup, values = f"{pod.cgroup}/{status.cgroup_name}", pod.values.get(status.name)
        usage = usage_of(self.cgroups, cgroup)
        if usage is None or values is None:
            return None
        return ContainerMeasurements(
            name=status.name,
            started_at=status.started_at,
            cpu=self._cpu(cgroup, usage, status.started_at, has_quota=values.cpu_quota > 0),
            memory=memory_measurements(usage, values.memory_limit or None),
            rootfs=self._part(self.runtime.writable_layer(status.id)),
            logs=self._part(pod.logs / status.name),
            processes=usage.processes,
            cgroup=cgroup,
            container_id=status.id,
            image=status.image,
            cpu_spec=CpuSpec(values.cpu_shares, max(values.cpu_quota, 0), values.cpu_period),
            disks=disks(self.cgroups, cgroup) if has_disks else (),
            pressures=pressures(self.cgroups, cgroup),
        )

    def _cpu(self, cgroup: str, usage: CgroupUsage, began: float, *, has_quota: bool = False) -> CpuMeasurements:
        rate = self.rates.nano_cores(cgroup, usage.cpu_nanoseconds, self.at, began)
        if not has_quota:
            return CpuMeasurements(rate, usage.cpu_nanoseconds)
        return CpuMeasurements(rate, usage.cpu_nanoseconds, *throttling_of(self.cgroups, cgroup))

    def _part(self, folder: Path) -> FilesystemMeasurements | None:
        usage = self.folders.usage(folder)
        return part_of(self.nodefs, usage) if usage is not None else None

    def _volumes(self, pod: MeasuredPod) -> Iterator[VolumeMeasurements]:
        for name, (path, is_on_disk) in pod.volumes.items():
            found = self._part(path) if is_on_disk else _own_file_system(path)
            if found is not None:
                yield VolumeMeasurements(name, found, pod.claims.get(name, ""))
        for said in self.of_drivers.values():
            for name, found in said.get(pod.uid, {}).items():
                yield VolumeMeasurements(name, found, pod.claims.get(name, ""))

    def _ephemeral_storage(self, pod: MeasuredPod, containers: Sequence[ContainerMeasurements]) -> DiskUsage:
        parts = [part for container in containers for part in (container.rootfs, container.logs) if part is not None]
        on_disk = (self.folders.usage(path) for path, is_on_disk in pod.volumes.values() if is_on_disk)
        volumes = [usage for usage in on_disk if usage is not None]
        return DiskUsage(
            sum(part.used for part in parts) + sum(usage.used or 0 for usage in volumes),
            sum(part.inodes_used or 0 for part in parts) + sum(usage.inodes or 0 for usage in volumes),
        )


def memory_measurements(usage: CgroupUsage, limit: int | None) -> MemoryMeasurements:
    working_set = usage.working_set_bytes
    return MemoryMeasurements(
        usage=usage.memory_usage_bytes,
        working_set=working_set,
        rss=usage.rss_bytes,
        available=None if limit is None else max(limit - working_set, 0),
        limit=limit,
        cache=usage.cache_bytes,
        page_faults=usage.page_faults,
        major_page_faults=usage.major_page_faults,
        oom_kills=usage.oom_kills,
    )


def _own_file_system(path: Path) -> FilesystemMeasurements | None:
    """Of a volume in memory; None if it has just gone."""
    try:
        return file_system(path)
    except OSError:
        return None
