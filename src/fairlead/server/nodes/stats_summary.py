"""What a kubelet says in `/stats/summary`, as measurements: as much of it as `kubectl top` and autoscalers ask for.

Source: kubelet `pkg/apis/stats/v1alpha1/types.go` (1.36).
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from fairlead.api.meta import View
from fairlead.golang.json import UNREADABLE
from fairlead.node.stats.measurements import (
    ContainerMeasurements,
    CpuMeasurements,
    MemoryMeasurements,
    NodeMeasurements,
    PodMeasurements,
    ProcessMeasurements,
)


class _Cpu(View):
    time: str = ""
    usage_nano_cores: int = 0
    usage_core_nano_seconds: int = 0


class _Memory(View):
    usage_bytes: int = 0
    working_set_bytes: int = 0
    rss_bytes: int = 0


class _Used(View):
    start_time: str = ""
    cpu: _Cpu | None = None
    memory: _Memory | None = None


class _Container(_Used):
    name: str = ""


class _Reference(View):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Pod(_Used, kw_only=True):
    pod_ref: _Reference
    containers: tuple[_Container, ...] | None = ()


class _Node(_Used):
    node_name: str = ""


class _Summary(View):
    node: _Node
    pods: tuple[_Pod, ...] | None = ()


_summary_of = msgspec.json.Decoder(_Summary).decode


def measurements(body: bytes) -> NodeMeasurements:
    """ValueError: it is no summary."""
    try:
        summary = _summary_of(body)
    except UNREADABLE as error:
        raise ValueError(str(error)) from None
    node = summary.node
    return NodeMeasurements(
        name=node.node_name,
        started_at=_seconds(node.start_time),
        measured_at=_seconds(node.cpu.time if node.cpu is not None else ""),
        cpu=_cpu(node.cpu),
        memory=_memory(node.memory),
        processes=ProcessMeasurements(0, 0),
        pods=tuple(_pod(pod) for pod in summary.pods or ()),
    )


def _pod(pod: _Pod) -> PodMeasurements:
    reference = pod.pod_ref
    return PodMeasurements(
        name=reference.name,
        namespace=reference.namespace,
        uid=reference.uid,
        started_at=_seconds(pod.start_time),
        cpu=_cpu(pod.cpu),
        memory=_memory(pod.memory),
        containers=tuple(
            ContainerMeasurements(found.name, _seconds(found.start_time), _cpu(found.cpu), _memory(found.memory))
            for found in pod.containers or ()
        ),
    )


def _cpu(cpu: _Cpu | None) -> CpuMeasurements:
    return CpuMeasurements(cpu.usage_nano_cores, cpu.usage_core_nano_seconds) if cpu else CpuMeasurements(0, 0)


def _memory(memory: _Memory | None) -> MemoryMeasurements:
    if memory is None:
        return MemoryMeasurements(0, 0, 0)
    return MemoryMeasurements(memory.usage_bytes, memory.working_set_bytes, memory.rss_bytes)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp() if time else 0.0
