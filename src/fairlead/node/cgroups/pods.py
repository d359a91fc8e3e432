"""The cgroup of a pod: what all its containers share.

A limit stands there only if every container has one, for otherwise some container is unlimited (S1-31).
Source: ResourceConfigForPod of pkg/kubelet/cm/helpers_linux.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api.objects import Obj
from fairlead.api.podresources import pod_limits, pod_requests
from fairlead.api.qos import BEST_EFFORT, GUARANTEED, qos_class
from fairlead.api.quantity import ZERO
from fairlead.node.cgroups.cpu import MIN_SHARES, quota_micros, shares
from fairlead.node.cgroups.values import (
    MEMORY_LOW,
    MEMORY_MIN,
    UNLIMITED,
    CgroupSettings,
    CgroupValues,
    huge_page_limits,
)
from fairlead.node.cpus.exclusive import exclusive_cpus_of_pod
from fairlead.node.requests import stated_limit


def pod_values(spec: Obj, settings: CgroupSettings) -> CgroupValues:
    requests, limits = pod_requests(spec), pod_limits(spec)
    class_ = qos_class(spec)
    huge_pages = huge_page_limits(requests)
    pids = settings.pod_pids_limit if settings.pod_pids_limit > 0 else None
    if class_ == BEST_EFFORT:
        return CgroupValues(cpu_shares=MIN_SHARES, pids_limit=pids, huge_page_limits=huge_pages)
    has_cpu_limit = class_ == GUARANTEED or _is_limited(spec, "cpu")
    has_memory_limit = class_ == GUARANTEED or _is_limited(spec, "memory")
    is_bounded = settings.enforces_cpu_limits and not (settings.spares_exclusive_cpus and exclusive_cpus_of_pod(spec))
    quota = quota_micros(limits.get("cpu", ZERO).milli, settings.cpu_period_micros)
    return CgroupValues(
        cpu_shares=shares(requests.get("cpu", ZERO).milli),
        cpu_quota=(quota if is_bounded else UNLIMITED) if has_cpu_limit else None,
        cpu_period=settings.cpu_period_micros if has_cpu_limit else None,
        memory_limit=limits.get("memory", ZERO).units if has_memory_limit else None,
        pids_limit=pids,
        huge_page_limits=huge_pages,
        unified=_protected(class_, requests.get("memory", ZERO).units, settings),
    )


def _is_limited(spec: Obj, resource: str) -> bool:
    """By the pod, or by each of its containers, init containers too."""
    if stated_limit(spec, resource):
        return True
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return all(stated_limit(container, resource) for container in containers)


def _protected(class_: str, memory_request: int, settings: CgroupSettings) -> Mapping[str, str]:
    """What the kernel must not take back: never from a Guaranteed pod, only in need from a Burstable one."""
    if not settings.reserves_memory or memory_request <= 0:
        return {}
    return {MEMORY_MIN if class_ == GUARANTEED else MEMORY_LOW: str(memory_request)}
