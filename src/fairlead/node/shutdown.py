"""What becomes of pods while their machine goes down: in which order they end, how long each has, and what is said.

Sources: pkg/kubelet/nodeshutdown (KEP-2000, KEP-2712).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from fairlead.api.objects import Obj
from fairlead.node.admission import Refusal
from fairlead.node.configuration.load import Configured
from fairlead.node.critical import SYSTEM_CRITICAL_PRIORITY
from fairlead.node.disruption import disruption
from fairlead.node.grace_periods import grace_period, stop_timeout
from fairlead.node.pod_lifecycle import PodKill

#: Why a node is not ready that goes down.
SHUTTING_DOWN: Final = "node is shutting down"
#: The reason of the node's events.
NODE_SHUTDOWN: Final = "NodeShutdown"
DETECTED: Final = "Shutdown manager detected shutdown event"
CANCELLED: Final = "Shutdown manager detected shutdown cancellation"
#: Of a pod that comes meanwhile.
REFUSAL: Final = Refusal(NODE_SHUTDOWN, "Pod was rejected as the node is shutting down.")
_REASON: Final = "Terminated"
_MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."


class Period(NamedTuple):
    """Pods from that priority on have so long."""

    priority: int
    seconds: int


class Turn(msgspec.Struct, frozen=True):
    """Pods that end together."""

    seconds: int
    pods: Sequence[Obj]


def periods_of(configured: Configured) -> tuple[Period, ...]:
    """From the lowest priority on; none: pods end as the machine has it."""
    config, gates = configured.configuration, configured.gates
    if not gates.enabled("GracefulNodeShutdown"):
        return ()
    stated = config.shutdown_grace_period_by_pod_priority
    if stated and gates.enabled("GracefulNodeShutdownBasedOnPodPriority"):
        every = (Period(each.get("priority") or 0, each.get("shutdownGracePeriodSeconds") or 0) for each in stated)
        return tuple(sorted(every, key=lambda period: period.priority))
    whole, critical = config.shutdown_grace_period, config.shutdown_grace_period_critical_pods
    if not whole or critical > whole:
        return ()
    return Period(0, int(whole - critical)), Period(SYSTEM_CRITICAL_PRIORITY, int(critical))


def turns(periods: Sequence[Period], pods: Iterable[Obj]) -> list[Turn]:
    """Who ends together, the least important first; who is below all priorities ends with the lowest."""
    found: list[list[Obj]] = [[] for _ in periods]
    priorities = [period.priority for period in periods]
    for pod in pods:
        found[max(bisect_right(priorities, pod["spec"].get("priority") or 0) - 1, 0)].append(pod)
    return [Turn(period.seconds, those) for period, those in zip(periods, found, strict=True) if those]


def kill_of(pod: Obj, seconds: int, now: float) -> PodKill:
    """It has so long, or as long as it says itself if that is less."""
    own = pod["spec"].get("terminationGracePeriodSeconds")
    grace = grace_period(pod, override=seconds if own is None else min(own, seconds))
    status = {"phase": "Failed", "reason": _REASON, "message": _MESSAGE}
    return PodKill(status, disruption(_MESSAGE), stop_timeout(grace.seconds), now)
