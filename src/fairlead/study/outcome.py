"""What came of one variant: the numbers of the run, and the history of each pod to which something happened."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity, parse
from fairlead.sim.attribution import Attribution
from fairlead.sim.histories import PREEMPTED, PodHistory
from fairlead.sim.pod_workloads import SINGLE_JOBS
from fairlead.study.changes.changed_cluster import HeldUp

#: What the scheduler says of a preemption; by whom is known by name then.
_PREEMPTED_BY: Final = re.compile(r"Preempted by pod \S+ on node \S+")
#: A pod that was placed within this much of its creation has waited for nothing.
AT_ONCE_SECONDS: Final = 1.0
#: The pods of a workload that is deleted go within this much.
_TOGETHER_SECONDS: Final = 60.0


class Waits(msgspec.Struct):
    """How long pods of one namespace and priority waited, in seconds."""

    namespace: str
    priority: int
    pods: int
    still_waiting: int
    #: Of the pods that waited at all, the shortest first; the others waited for nothing.
    seconds: list[float]

    def quantile(self, part: float) -> float:
        """The wait that this part of the pods did not exceed: 0.5 is the median."""
        return quantile([self], part)

    @property
    def longest(self) -> float:
        return self.seconds[-1] if self.seconds else 0.0


class QuotaState(msgspec.Struct):
    """A bound that is exceeded at the end, or for which pods were refused; and how often its quota refused."""

    namespace: str
    quota: str
    resource: str
    used: str
    hard: str
    is_exceeded: bool
    refusals: int


class Shortfall(msgspec.Struct):
    """Pods that an owner could not create when it tried; and of which workload it is."""

    namespace: str
    owner: str
    message: str
    workload: str = ""


class Came(msgspec.Struct):
    """How many pods there were of a workload, one after another; without those that failed or were driven away, which
    others replace.
    """

    namespace: str
    workload: str
    pods: int


class GoneWorkload(msgspec.Struct):
    """A workload, or a pod that nobody makes, whose pods were deleted while they were there, until none was left."""

    namespace: str
    workload: str
    #: That were deleted together with the last one.
    pods: int
    at: float  # seconds since the epoch


class Fairness(msgspec.Struct):
    """A namespace's part of the cluster (its dominant share), on average over the run and in equal parts of it."""

    namespace: str
    deserved: float
    used: float
    deserved_over_time: list[float] = []
    used_over_time: list[float] = []


class StepDone(msgspec.Struct):
    at: float  # seconds since the epoch
    text: str
    #: Whether all of it was done when the run ended, as far as it ever is.
    has_ended: bool = True
    #: The one node that it is about.
    node: str = ""


class Outcome(msgspec.Struct):
    """One variant, played. Times are seconds since the epoch."""

    name: str
    began: float
    ended: float
    #: The figures of `sim/report.py`.
    summary: dict[str, Any]
    pods: list[PodHistory]
    #: Pods that have a node at the end or came to a good one; and that wait for one.
    placed: int
    waiting: int
    waits: list[Waits]
    disruptions: dict[str, int]
    oom_kills: int
    quotas: list[QuotaState] = []
    shortfalls: list[Shortfall] = []
    came: list[Came] = []
    gone: list[GoneWorkload] = []
    steps: list[StepDone] = []
    #: Pods that a drain could not evict, and that are still there at the end.
    held_up: list[HeldUp] = []
    node_hours: float = 0.0
    cost: float | None = None
    fragmentation: dict[str, float] = {}
    fairness: list[Fairness] = []

    @property
    def digest(self) -> str:
        return str(self.summary["digest"])


def attributed(histories: Iterable[PodHistory], attribution: Attribution) -> list[PodHistory]:
    """The histories, with the names of those who are behind what happened."""
    found = list(histories)
    for pod in found:
        by, message = attribution.by.get(pod.uid, ("", ""))
        for disruption in pod.disruptions if by or message else ():
            if disruption.kind == PREEMPTED or not disruption.by:
                disruption.by, disruption.message = by, message or disruption.message
            if disruption.kind == PREEMPTED and by and _PREEMPTED_BY.fullmatch(disruption.message):
                disruption.message = ""  # of a uid and the pod's node
    return found


def waits_of(pods: Iterable[PodHistory], end: float) -> list[Waits]:
    """By namespace and priority."""
    groups: dict[tuple[str, int], list[PodHistory]] = defaultdict(list)
    for pod in pods:
        groups[(pod.namespace, pod.priority)].append(pod)
    return [_waits(namespace, priority, group, end) for (namespace, priority), group in sorted(groups.items())]


def _waits(namespace: str, priority: int, pods: Sequence[PodHistory], end: float) -> Waits:
    seconds = sorted(wait for pod in pods if (wait := round(pod.waited(end), 3)) >= AT_ONCE_SECONDS)
    return Waits(namespace, priority, len(pods), sum(pod.is_waiting for pod in pods), seconds)


def quantile(groups: Sequence[Waits], part: float) -> float:
    """The same of several groups together; 0 where there are no pods."""
    count = sum(group.pods for group in groups)
    rank = max(math.ceil(part * count), 1)  # how many pods wait no longer
    waited = sorted(wait for group in groups for wait in group.seconds)
    index = rank - 1 - (count - len(waited))
    return waited[index] if 0 <= index < len(waited) else 0.0


def is_placed(pod: PodHistory) -> bool:
    return pod.bound is not None and (pod.ended is None or pod.phase == "Succeeded")


def notable(pods: Iterable[PodHistory], end: float) -> list[PodHistory]:
    """Those to which something happened, and those that drove them away; of the others the figures tell."""
    known = list(pods)
    doers = {disruption.by for pod in known for disruption in pod.disruptions if disruption.by}
    found = [
        pod
        for pod in known
        if pod.disruptions
        or pod.oom_kills
        or max(pod.waited(end), pod.waited_for_volumes(end)) >= AT_ONCE_SECONDS
        or pod.pod in doers
    ]
    return sorted(found, key=lambda pod: pod.lineage)


def disruptions_of(pods: Iterable[PodHistory]) -> dict[str, int]:
    counts = Counter(disruption.kind for pod in pods for disruption in pod.disruptions)
    return dict(sorted(counts.items()))


def quota_states(quotas: Iterable[Obj], attribution: Attribution) -> list[QuotaState]:
    """The bounds that are exceeded, and those for which something was refused (all of a quota, if none was named)."""
    found = []
    for quota in quotas:
        meta, status = quota["metadata"], quota.get("status") or {}
        key = (meta["namespace"], meta["name"])
        refusals, refused_for = attribution.refusals[key], attribution.refused_for[key]
        for resource, hard in sorted(((quota.get("spec") or {}).get("hard") or {}).items()):
            used = (status.get("used") or {}).get(resource, "0")
            is_exceeded = _amount(used) > _amount(hard)
            if is_exceeded or resource in refused_for or (refusals and not refused_for):
                found.append(
                    QuotaState(meta["namespace"], meta["name"], resource, str(used), str(hard), is_exceeded, refusals)
                )
    return sorted(found, key=lambda state: (state.namespace, state.quota, state.resource))


def _amount(text: object) -> Quantity:
    return parse(str(text))


def came(pods: Iterable[PodHistory]) -> list[Came]:
    counts = Counter(
        (pod.namespace, pod.workload) for pod in pods if pod.workload and not pod.disruptions and pod.phase != "Failed"
    )
    return [Came(*key, count) for key, count in sorted(counts.items())]


def gone(pods: Iterable[PodHistory]) -> list[GoneWorkload]:
    """Not of pods that ended by themselves, nor of those that were driven away: of these the pods are told."""
    there: set[tuple[str, str]] = set()
    ends: dict[tuple[str, str], list[float]] = {}
    for pod in pods:
        workload = pod.owner if pod.workload == SINGLE_JOBS else pod.workload  # one of them may be deleted
        key = (pod.namespace, workload or f"Pod/{pod.pod.partition('/')[2]}")
        if pod.ended is None:
            there.add(key)
        elif pod.deleted and not pod.disruptions:
            ends.setdefault(key, []).append(pod.ended)
    found = []
    for key, moments in sorted(ends.items()):
        if key not in there:
            last = max(moments)
            found.append(GoneWorkload(*key, sum(last - moment <= _TOGETHER_SECONDS for moment in moments), last))
    return found


def shortfalls(attribution: Attribution) -> list[Shortfall]:
    """The owners whose pods were refused, each with the last reason."""
    return [
        Shortfall(namespace, owner, message, workload)
        for (namespace, owner), (workload, message) in sorted(attribution.not_created.items())
    ]
