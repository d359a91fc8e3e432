"""The cgroups of the QoS classes: how the classes share cpu, and how much memory higher ones have reserved.

Burstable weighs as much as its pods request, BestEffort next to nothing, and Guaranteed pods stand beside both (S1-12).
With `qosReserved` the memory of lower classes is limited, so that a part of what higher ones request is there before
they ask for it (S1-01). Huge pages stay unlimited here (S1-14).
Source: pkg/kubelet/cm/qos_container_manager_linux.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from fairlead.api.objects import Obj
from fairlead.api.podresources import pod_requests
from fairlead.api.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from fairlead.api.quantity import ZERO
from fairlead.node.cgroups.cpu import MIN_SHARES, shares
from fairlead.node.cgroups.values import MEMORY_LOW, MEMORY_MIN, CgroupSettings, CgroupValues


class ClassRequests(msgspec.Struct, frozen=True):
    """What the pods of a node request, by class."""

    burstable_milli_cpu: int = 0
    burstable_memory: int = 0
    guaranteed_memory: int = 0


class QosReservation(msgspec.Struct, frozen=True):
    """What part of their requests higher classes have reserved, of a memory without the eviction threshold (S1-03)."""

    percent: int
    allocatable_memory: int


def class_requests(specs: Iterable[Obj]) -> ClassRequests:
    milli_cpu = 0
    memory = dict.fromkeys((GUARANTEED, BURSTABLE, BEST_EFFORT), 0)
    for spec in specs:
        class_, requests = qos_class(spec), pod_requests(spec)
        memory[class_] += requests.get("memory", ZERO).units
        if class_ == BURSTABLE:
            milli_cpu += requests.get("cpu", ZERO).milli
    return ClassRequests(milli_cpu, memory[BURSTABLE], memory[GUARANTEED])


def qos_values(
    requests: ClassRequests, settings: CgroupSettings, reservation: QosReservation | None = None
) -> Mapping[str, CgroupValues]:
    """By class, the lowest first: there must be room before a higher class has its pod (S1-08).

    That of Guaranteed is kubepods itself, and there only if something is written besides the node's own values.
    """
    limits = _memory_limits(requests, reservation)
    burstable = CgroupValues(
        cpu_shares=shares(requests.burstable_milli_cpu),
        memory_limit=limits.get(BURSTABLE),
        unified=_protected(MEMORY_LOW, requests.burstable_memory, settings),
    )
    best_effort = CgroupValues(cpu_shares=MIN_SHARES, memory_limit=limits.get(BEST_EFFORT))
    classes = {BEST_EFFORT: best_effort, BURSTABLE: burstable}
    every_request = requests.guaranteed_memory + requests.burstable_memory
    if protected := _protected(MEMORY_MIN, every_request, settings):
        classes[GUARANTEED] = CgroupValues(unified=protected)
    return classes


def spared(values: CgroupValues, usage: int) -> CgroupValues:
    """The same with a memory limit that nothing in the cgroup is killed for.

    Where the kernel refused a limit below the usage (version 1), a kubelet sets the usage instead, so that it grows no
    more. Version 2 takes such a limit and kills, so there the usage has to be asked before (S1-09).
    """
    if values.memory_limit is None or usage <= values.memory_limit:
        return values
    return replace(values, memory_limit=usage)


def _memory_limits(requests: ClassRequests, reservation: QosReservation | None) -> Mapping[str, int]:
    if reservation is None or reservation.allocatable_memory == 0:
        return {}
    burstable = reservation.allocatable_memory - requests.guaranteed_memory * reservation.percent // 100
    best_effort = burstable - requests.burstable_memory * reservation.percent // 100
    return {BURSTABLE: burstable, BEST_EFFORT: best_effort}


def _protected(file: str, memory: int, settings: CgroupSettings) -> Mapping[str, str]:
    if not settings.has_memory_qos:
        return {}
    return {file: str(memory if settings.reserves_memory else 0)}
