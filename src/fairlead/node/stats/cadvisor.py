"""`/metrics/cadvisor`: the names and labels under which kubelet shows cgroups, as far as they are measured.

Cgroups of the system have an id alone; those of pods are named by their pod, and containers by themselves as well. What
a kubelet shows as the network of a pod's sandbox is that of the pod here: not all runtimes have a sandbox to measure.
Source: github.com/google/cadvisor `metrics/prometheus.go`, pkg/kubelet/server/server.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from fairlead.node.stats.exposition import COUNTER, GAUGE, Family, Sample, text_of
from fairlead.node.stats.measurements import (
    ContainerMeasurements,
    CpuMeasurements,
    CpuSpec,
    DiskMeasurements,
    FilesystemMeasurements,
    InterfaceMeasurements,
    MemoryMeasurements,
    NodeMeasurements,
    PressureMeasurements,
    Waiting,
)

_NANOS: Final = 10**9

_Part = TypeVar("_Part")


class _Cgroup(NamedTuple):
    labels: dict[str, str]
    cpu: CpuMeasurements
    memory: MemoryMeasurements
    swap: int
    processes: int
    started_at: float
    cpu_spec: CpuSpec | None = None
    filesystems: tuple[FilesystemMeasurements, ...] = ()
    disks: tuple[DiskMeasurements, ...] = ()
    network: tuple[InterfaceMeasurements, ...] = ()
    pressures: PressureMeasurements | None = None


class _Measure(NamedTuple):
    family: Family
    value: Callable[[_Cgroup], float | None]
    labels: dict[str, str] = {}


def _in_seconds(nanos: int | None) -> float | None:
    return None if nanos is None else nanos / _NANOS


_FAILURES = Family("container_memory_failures_total", COUNTER, "Cumulative count of memory allocation failures.")

#: One line each; what is None is not shown.
_MEASURES: Final = (
    _Measure(
        Family("container_cpu_cfs_periods_total", COUNTER, "Number of elapsed enforcement period intervals."),
        lambda it: it.cpu.periods,
    ),
    _Measure(
        Family("container_cpu_cfs_throttled_periods_total", COUNTER, "Number of throttled period intervals."),
        lambda it: it.cpu.throttled_periods,
    ),
    _Measure(
        Family(
            "container_cpu_cfs_throttled_seconds_total",
            COUNTER,
            "Total time duration the container has been throttled.",
        ),
        lambda it: _in_seconds(it.cpu.throttled_nanos),
    ),
    _Measure(
        Family("container_cpu_usage_seconds_total", COUNTER, "Cumulative cpu time consumed in seconds."),
        lambda it: it.cpu.usage_core_nano_seconds / _NANOS,
        {"cpu": "total"},
    ),
    _Measure(
        Family("container_memory_cache", GAUGE, "Number of bytes of page cache memory."), lambda it: it.memory.cache
    ),
    _Measure(_FAILURES, lambda it: it.memory.page_faults, {"failure_type": "pgfault", "scope": "container"}),
    _Measure(_FAILURES, lambda it: it.memory.page_faults, {"failure_type": "pgfault", "scope": "hierarchy"}),
    _Measure(_FAILURES, lambda it: it.memory.major_page_faults, {"failure_type": "pgmajfault", "scope": "container"}),
    _Measure(_FAILURES, lambda it: it.memory.major_page_faults, {"failure_type": "pgmajfault", "scope": "hierarchy"}),
    _Measure(Family("container_memory_rss", GAUGE, "Size of RSS in bytes."), lambda it: it.memory.rss),
    _Measure(Family("container_memory_swap", GAUGE, "Container swap usage in bytes."), lambda it: it.swap),
    _Measure(
        Family(
            "container_memory_usage_bytes",
            GAUGE,
            "Current memory usage in bytes, including all memory regardless of when it was accessed",
        ),
        lambda it: it.memory.usage,
    ),
    _Measure(
        Family("container_memory_working_set_bytes", GAUGE, "Current working set in bytes."),
        lambda it: it.memory.working_set,
    ),
    _Measure(
        Family("container_oom_events_total", COUNTER, "Count of out of memory events observed for the container"),
        lambda it: it.memory.oom_kills,
    ),
    _Measure(
        Family("container_processes", GAUGE, "Number of processes running inside the container."),
        lambda it: it.processes,
    ),
    _Measure(
        Family("container_threads", GAUGE, "Number of threads running inside the container."),
        lambda it: it.processes,
    ),
    _Measure(
        Family("container_spec_memory_limit_bytes", GAUGE, "Memory limit for the container."),
        lambda it: it.memory.limit or 0,
    ),
)
_SPECS: Final[tuple[tuple[Family, Callable[[CpuSpec], int | None]], ...]] = (
    (
        Family("container_spec_cpu_period", GAUGE, "CPU period of the container."),
        lambda spec: spec.period_micros or None,
    ),
    (Family("container_spec_cpu_quota", GAUGE, "CPU quota of the container."), lambda spec: spec.quota_micros or None),
    (Family("container_spec_cpu_shares", GAUGE, "CPU share of the container."), lambda spec: spec.shares),
)
_FILESYSTEMS: Final[tuple[tuple[Family, Callable[[FilesystemMeasurements], int]], ...]] = (
    (
        Family(
            "container_fs_limit_bytes",
            GAUGE,
            "Number of bytes that can be consumed by the container on this filesystem.",
        ),
        lambda filesystem: filesystem.capacity,
    ),
    (
        Family(
            "container_fs_usage_bytes",
            GAUGE,
            "Number of bytes that are consumed by the container on this filesystem.",
        ),
        lambda filesystem: filesystem.used,
    ),
)
_DISKS: Final[tuple[tuple[Family, Callable[[DiskMeasurements], int]], ...]] = (
    (Family("container_fs_reads_bytes_total", COUNTER, "Cumulative count of bytes read"), lambda it: it.read_bytes),
    (Family("container_fs_reads_total", COUNTER, "Cumulative count of reads completed"), lambda it: it.reads),
    (
        Family("container_fs_writes_bytes_total", COUNTER, "Cumulative count of bytes written"),
        lambda it: it.written_bytes,
    ),
    (Family("container_fs_writes_total", COUNTER, "Cumulative count of writes completed"), lambda it: it.writes),
)
_MICROS: Final = 10**6
_WAITED: Final[tuple[tuple[Family, Callable[[PressureMeasurements], Waiting]], ...]] = tuple(
    (Family(f"container_pressure_{resource}_{kind}_seconds_total", COUNTER, f"Total time duration {text}."), waiting)
    for resource, text, kind, waiting in (
        (
            "cpu",
            "no tasks in the container could make progress due to CPU congestion",
            "stalled",
            lambda it: it.cpu.full,
        ),
        ("cpu", "tasks in the container have waited due to CPU congestion", "waiting", lambda it: it.cpu.some),
        (
            "memory",
            "no tasks in the container could make progress due to memory congestion",
            "stalled",
            lambda it: it.memory.full,
        ),
        ("memory", "tasks in the container have waited due to memory congestion", "waiting", lambda it: it.memory.some),
        (
            "io",
            "no tasks in the container could make progress due to IO congestion",
            "stalled",
            lambda it: it.io.full,
        ),
        ("io", "tasks in the container have waited due to IO congestion", "waiting", lambda it: it.io.some),
    )
)
_DEVICE_USAGE = Family("container_blkio_device_usage_total", COUNTER, "Blkio Device bytes usage")
_INTERFACES: Final[tuple[tuple[Family, Callable[[InterfaceMeasurements], int]], ...]] = (
    (
        Family("container_network_receive_bytes_total", COUNTER, "Cumulative count of bytes received"),
        lambda it: it.received_bytes,
    ),
    (
        Family("container_network_receive_packets_total", COUNTER, "Cumulative count of packets received"),
        lambda it: it.received_packets,
    ),
    (
        Family(
            "container_network_receive_packets_dropped_total",
            COUNTER,
            "Cumulative count of packets dropped while receiving",
        ),
        lambda it: it.receive_drops,
    ),
    (
        Family(
            "container_network_receive_errors_total", COUNTER, "Cumulative count of errors encountered while receiving"
        ),
        lambda it: it.receive_errors,
    ),
    (
        Family("container_network_transmit_bytes_total", COUNTER, "Cumulative count of bytes transmitted"),
        lambda it: it.sent_bytes,
    ),
    (
        Family("container_network_transmit_packets_total", COUNTER, "Cumulative count of packets transmitted"),
        lambda it: it.sent_packets,
    ),
    (
        Family(
            "container_network_transmit_packets_dropped_total",
            COUNTER,
            "Cumulative count of packets dropped while transmitting",
        ),
        lambda it: it.send_drops,
    ),
    (
        Family(
            "container_network_transmit_errors_total",
            COUNTER,
            "Cumulative count of errors encountered while transmitting",
        ),
        lambda it: it.send_errors,
    ),
)
_START = Family("container_start_time_seconds", GAUGE, "Start time of the container since unix epoch in seconds.")
_LAST_SEEN = Family("container_last_seen", GAUGE, "Last time a container was seen by the exporter")
_CPUS = Family("machine_cpu_cores", GAUGE, "Number of logical CPU cores.")
_MEMORY = Family("machine_memory_bytes", GAUGE, "Amount of memory installed on the machine.")


def exposition(node: NodeMeasurements) -> bytes:
    at, cgroups = node.measured_at, list(_cgroups(node))
    found: dict[Family, list[Sample]] = {}
    for family, value, further in _MEASURES:
        samples = found.setdefault(family, [])
        for it in cgroups:
            if (amount := value(it)) is not None:
                samples.append(Sample(it.labels | further, amount, at))
    for family, of_spec in _SPECS:
        specs = [(it, of_spec(it.cpu_spec)) for it in cgroups if it.cpu_spec is not None]
        found[family] = [Sample(it.labels, amount, at) for it, amount in specs if amount is not None]
    for family, waiting in _WAITED:
        waits = [(it.labels, it.pressures) for it in cgroups if it.pressures is not None]
        found[family] = [Sample(labels, waiting(of).total_micros / _MICROS, at) for labels, of in waits]
    found |= _of_parts(cgroups, _FILESYSTEMS, "device", lambda it: [(each.device, each) for each in it.filesystems], at)
    found |= _of_parts(cgroups, _DISKS, "device", lambda it: [(each.device, each) for each in it.disks], at)
    found[_DEVICE_USAGE] = [
        Sample(it.labels | _numbered(disk) | {"operation": operation}, amount, at)
        for it in cgroups
        for disk in it.disks
        for operation, amount in (("Read", disk.read_bytes), ("Write", disk.written_bytes))
    ]
    found |= _of_parts(cgroups, _INTERFACES, "interface", lambda it: [(each.name, each) for each in it.network], at)
    found[_START] = [Sample(it.labels, it.started_at, at) for it in cgroups]
    found[_LAST_SEEN] = [Sample(it.labels, int(at), at) for it in cgroups]
    found[_CPUS] = [Sample({}, node.cpus)]
    if node.memory.limit is not None:
        found[_MEMORY] = [Sample({}, node.memory.limit)]
    return text_of(found.items())


def _of_parts(
    cgroups: Sequence[_Cgroup],
    measures: Iterable[tuple[Family, Callable[[_Part], int]]],
    label: str,
    parts: Callable[[_Cgroup], Iterable[tuple[str, _Part]]],
    at: float,
) -> dict[Family, list[Sample]]:
    """What is measured of each of several parts of a cgroup, such as disks: `label` tells them apart, by name."""
    return {
        family: [Sample(it.labels | {label: name}, amount(part), at) for it in cgroups for name, part in parts(it)]
        for family, amount in measures
    }


def _cgroups(node: NodeMeasurements) -> Iterator[_Cgroup]:
    filesystems = tuple({it.device: it for it in (node.imagefs, node.nodefs) if it is not None}.values())
    yield _Cgroup(
        _labels("/"),
        node.cpu,
        node.memory,
        node.swap.usage,
        node.processes.current,
        node.started_at,
        filesystems=filesystems,
        disks=node.disks,
        network=node.network or (),
        pressures=node.pressures,
    )
    for container in node.system_containers:
        if container.cgroup:  # a daemon without a cgroup of its own is seen in no other
            yield _of_container(container, _labels(container.cgroup))
    for pod in node.pods:
        cgroup = pod.cgroup or f"/kubepods/pod{pod.uid}"
        labels = _labels(cgroup, pod=pod.name, namespace=pod.namespace)
        yield _Cgroup(
            labels,
            pod.cpu,
            pod.memory,
            pod.swap.usage,
            pod.processes,
            pod.started_at,
            pod.cpu_spec,
            disks=pod.disks,
            network=pod.network or (),
            pressures=pod.pressures,
        )
        for container in pod.containers:
            path = container.cgroup or f"{cgroup}/{container.container_id or container.name}"
            names = {"container": container.name, "image": container.image, "name": container.container_id}
            yield _of_container(container, _labels(path, pod=pod.name, namespace=pod.namespace, **names))


def _of_container(container: ContainerMeasurements, labels: dict[str, str]) -> _Cgroup:
    return _Cgroup(
        labels,
        container.cpu,
        container.memory,
        container.swap.usage,
        container.processes,
        container.started_at,
        container.cpu_spec,
        () if container.rootfs is None else (container.rootfs,),
        container.disks,
        pressures=container.pressures,
    )


def _numbered(disk: DiskMeasurements) -> dict[str, str]:
    return {"device": disk.device, "major": str(disk.major), "minor": str(disk.minor)}


def _labels(cgroup: str, **known: str) -> dict[str, str]:
    return {"container": "", "id": cgroup, "image": "", "name": "", "namespace": "", "pod": ""} | known
