"""`/stats/summary`: everything measured, as one document (k8s.io/kubelet/pkg/apis/stats/v1alpha1, 1.36).

With `only_cpu_and_memory` nothing about disks, volumes, networks and processes is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead.api.objects import Obj
from fairlead.node.stats.measurements import (
    ContainerMeasurements,
    CpuMeasurements,
    FilesystemMeasurements,
    InterfaceMeasurements,
    MemoryMeasurements,
    NodeMeasurements,
    PodMeasurements,
    Pressure,
    SwapMeasurements,
    VolumeMeasurements,
    Waiting,
)
from fairlead.runtime.clock import timestamp

#: Which interface a kubelet takes for that of the pod.
_MAIN_INTERFACE: Final = "eth0"


def summary(node: NodeMeasurements, *, only_cpu_and_memory: bool = False) -> Obj:
    return _Summary(node, only_cpu_and_memory=only_cpu_and_memory).document()


class _Summary:
    def __init__(self, node: NodeMeasurements, *, only_cpu_and_memory: bool) -> None:
        self._node, self._has_disks = node, not only_cpu_and_memory
        self._time = timestamp(node.measured_at)

    def document(self) -> Obj:
        node = self._node
        shown: Obj = {
            "nodeName": node.name,
            "systemContainers": [self._container(container) for container in node.system_containers],
            "startTime": timestamp(node.started_at),
            **self._used(node),
        }
        if self._has_disks:
            shown["network"] = self._network(node.network)
            shown["fs"] = self._filesystem(node.nodefs)
            filesystems = {"imageFs": node.imagefs, "containerFs": node.containerfs}
            runtime = {name: self._filesystem(found) for name, found in filesystems.items() if found is not None}
            shown["runtime"] = runtime or None
            processes = node.processes
            shown["rlimit"] = {"time": self._time, "maxpid": processes.maximum, "curproc": processes.current}
        shown["swap"] = self._swap(node.swap)
        return {"node": _present(shown), "pods": [self._pod(pod) for pod in node.pods]}

    def _pod(self, pod: PodMeasurements) -> Obj:
        shown: Obj = {
            "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "startTime": timestamp(pod.started_at),
            "containers": [self._container(container) for container in pod.containers],
            **self._used(pod),
        }
        if self._has_disks:
            volumes = [self._volume(pod, volume) for volume in pod.volumes]
            shown["network"] = self._network(pod.network)
            shown |= {"volume": volumes or None, "ephemeral-storage": self._filesystem(pod.ephemeral_storage)}
            shown["process_stats"] = {"process_count": pod.processes}
        return _present(shown | {"swap": self._swap(pod.swap)})

    def _container(self, container: ContainerMeasurements) -> Obj:
        shown: Obj = {
            "name": container.name,
            "startTime": timestamp(container.started_at),
            **self._used(container),
        }
        if self._has_disks:
            shown |= {"rootfs": self._filesystem(container.rootfs), "logs": self._filesystem(container.logs)}
        return _present(shown | {"swap": self._swap(container.swap)})

    def _volume(self, pod: PodMeasurements, volume: VolumeMeasurements) -> Obj:
        claim = {"name": volume.claim, "namespace": pod.namespace} if volume.claim else None
        return _present({**(self._filesystem(volume.filesystem) or {}), "name": volume.name, "pvcRef": claim})

    def _used(self, measured: NodeMeasurements | PodMeasurements | ContainerMeasurements) -> Obj:
        """With what is waited for, where that is known."""
        cpu, memory, waits = self._cpu(measured.cpu), self._memory(measured.memory), measured.pressures
        if waits is None:
            return {"cpu": cpu, "memory": memory}
        io = {"time": self._time, "psi": _psi(waits.io)} if self._has_disks else None
        return {"cpu": cpu | {"psi": _psi(waits.cpu)}, "memory": memory | {"psi": _psi(waits.memory)}, "io": io}

    def _cpu(self, cpu: CpuMeasurements) -> Obj:
        amounts = {"usageNanoCores": cpu.usage_nano_cores, "usageCoreNanoSeconds": cpu.usage_core_nano_seconds}
        return {"time": self._time} | amounts

    def _memory(self, memory: MemoryMeasurements) -> Obj:
        return _present(
            {
                "time": self._time,
                "availableBytes": memory.available,
                "usageBytes": memory.usage,
                "workingSetBytes": memory.working_set,
                "rssBytes": memory.rss,
                "pageFaults": memory.page_faults,
                "majorPageFaults": memory.major_page_faults,
            }
        )

    def _network(self, found: Sequence[InterfaceMeasurements] | None) -> Obj | None:
        """All interfaces, and once more the main one."""
        if found is None:
            return None
        shown = [_interface(each) for each in found]
        main = next((each for each in shown if each["name"] == _MAIN_INTERFACE), {"name": ""})
        return {"time": self._time, **main, "interfaces": shown}

    def _filesystem(self, found: FilesystemMeasurements | None) -> Obj | None:
        if found is None:
            return None
        return _present(
            {
                "time": self._time,
                "availableBytes": found.available,
                "capacityBytes": found.capacity,
                "usedBytes": found.used,
                "inodesFree": found.inodes_free,
                "inodes": found.inodes,
                "inodesUsed": found.inodes_used,
            }
        )

    def _swap(self, swap: SwapMeasurements) -> Obj:
        return _present({"time": self._time, "swapAvailableBytes": swap.available, "swapUsageBytes": swap.usage})


def _psi(pressure: Pressure) -> Obj:
    return {"full": _waiting(pressure.full), "some": _waiting(pressure.some)}


def _waiting(found: Waiting) -> Obj:
    return {"total": found.total_micros, "avg10": found.avg10, "avg60": found.avg60, "avg300": found.avg300}


def _interface(found: InterfaceMeasurements) -> Obj:
    return {
        "name": found.name,
        "rxBytes": found.received_bytes,
        "rxErrors": found.receive_errors,
        "txBytes": found.sent_bytes,
        "txErrors": found.send_errors,
    }


def _present(shown: Obj) -> Obj:
    """Without what was not measured."""
    return {name: value for name, value in shown.items() if value is not None}
