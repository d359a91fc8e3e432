"""`/metrics/resource`: what metrics-server scrapes (pkg/kubelet/metrics/collectors/resource_metrics.go, 1.36)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from fairlead.node.stats.exposition import COUNTER, GAUGE, Family, Sample, text_of
from fairlead.node.stats.measurements import CpuMeasurements, NodeMeasurements, PodMeasurements

_NANOS: Final = 10**9

_NODE_CPU = Family(
    "node_cpu_usage_seconds_total", COUNTER, "[STABLE] Cumulative cpu time consumed by the node in core-seconds"
)
_NODE_MEMORY = Family("node_memory_working_set_bytes", GAUGE, "[STABLE] Current working set of the node in bytes")
_NODE_SWAP = Family(
    "node_swap_usage_bytes",
    GAUGE,
    "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems",
)
_CONTAINER_CPU = Family(
    "container_cpu_usage_seconds_total",
    COUNTER,
    "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
)
_CONTAINER_MEMORY = Family(
    "container_memory_working_set_bytes", GAUGE, "[STABLE] Current working set of the container in bytes"
)
_CONTAINER_SWAP = Family(
    "container_swap_usage_bytes",
    GAUGE,
    "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems",
)
_CONTAINER_SWAP_LIMIT = Family(
    "container_swap_limit_bytes",
    GAUGE,
    "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems",
)
_CONTAINER_START = Family(
    "container_start_time_seconds", GAUGE, "[STABLE] Start time of the container since unix epoch in seconds"
)
_POD_CPU = Family(
    "pod_cpu_usage_seconds_total", COUNTER, "[STABLE] Cumulative cpu time consumed by the pod in core-seconds"
)
_POD_MEMORY = Family("pod_memory_working_set_bytes", GAUGE, "[STABLE] Current working set of the pod in bytes")
_POD_SWAP = Family(
    "pod_swap_usage_bytes",
    GAUGE,
    "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems",
)
_ERROR = Family(
    "resource_scrape_error", GAUGE, "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise"
)


def exposition(node: NodeMeasurements) -> bytes:
    found = sorted(_samples(node), key=lambda entry: entry[0].name)
    grouped = groupby(found, key=lambda entry: entry[0])
    return text_of([(family, [sample for _, sample in entries]) for family, entries in grouped])


def _samples(node: NodeMeasurements) -> Iterator[tuple[Family, Sample]]:
    at = node.measured_at
    yield _NODE_CPU, Sample({}, _seconds(node.cpu), at)
    yield _NODE_MEMORY, Sample({}, node.memory.working_set, at)
    yield _NODE_SWAP, Sample({}, node.swap.usage, at)
    yield _ERROR, Sample({}, 0)
    for pod in node.pods:
        yield from _of_containers(pod, at)
        labels = {"pod": pod.name, "namespace": pod.namespace}
        yield _POD_CPU, Sample(labels, _seconds(pod.cpu), at)
        yield _POD_MEMORY, Sample(labels, pod.memory.working_set, at)
        yield _POD_SWAP, Sample(labels, pod.swap.usage, at)


def _of_containers(pod: PodMeasurements, at: float) -> Iterator[tuple[Family, Sample]]:
    for container in pod.containers:
        labels = {"container": container.name, "pod": pod.name, "namespace": pod.namespace}
        yield _CONTAINER_START, Sample(labels, container.started_at)
        yield _CONTAINER_CPU, Sample(labels, _seconds(container.cpu), at)
        yield _CONTAINER_MEMORY, Sample(labels, container.memory.working_set, at)
        yield _CONTAINER_SWAP, Sample(labels, container.swap.usage, at)
        if container.swap.available is not None:
            yield _CONTAINER_SWAP_LIMIT, Sample(labels, container.swap.available + container.swap.usage, at)


def _seconds(cpu: CpuMeasurements) -> float:
    return cpu.usage_core_nano_seconds / _NANOS
