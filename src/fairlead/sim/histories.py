"""What became of each pod of a run: how long it waited and for what, and what was done to it.

Two runs give the same pod different names: what a controller makes anew is named by chance. A pod is therefore known by
its *lineage*: its key if it was there from the start or its name is no chance, else the how-manieth pod of its owner.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead.api.builtin import PODS
from fairlead.api.pods import Pod
from fairlead.client.informer import Informers
from fairlead.runtime.clock import now
from fairlead.sim.behaviour import start_seconds
from fairlead.sim.oom_kills import OomKills
from fairlead.sim.pod_workloads import Workloads

#: What was done to a pod, by the reason of its condition DisruptionTarget.
PREEMPTED, EVICTED_BY_NODE, DRAINED, LOST = "preempted", "evicted by node", "evicted", "lost with its node"
_DISRUPTIONS: Final = {
    "PreemptionByScheduler": PREEMPTED,
    "TerminationByKubelet": EVICTED_BY_NODE,
    "EvictionByEvictionAPI": DRAINED,
    "DeletionByTaintManager": LOST,
    "DeletionByPodGC": LOST,
}
REFUSED_BY_NODE: Final = "refused by node"
OOM: Final = "OOM-killed"
_REJECTED: Final = "Pod was rejected: "
#: The names of these owners' pods are no chance.
_NAMED: Final = frozenset({"StatefulSet"})


class Disruption(msgspec.Struct, omit_defaults=True):
    """Something that was done to a pod."""

    at: float  # seconds since the epoch
    kind: str
    message: str = ""
    #: Whose doing it was, if that is known: the preemptor, the step of a change.
    by: str = ""


class PodHistory(msgspec.Struct, omit_defaults=True):
    """One pod, from its creation on. Times are seconds since the epoch."""

    pod: str
    lineage: str
    uid: str
    priority: int
    created: float
    owner: str = ""  # `ReplicaSet/web-5f6d`, or nothing
    workload: str = ""  # `Deployment/web`, likewise
    bound: float | None = None
    ended: float | None = None
    node: str = ""
    #: From when on a pod with claims could have started there, and when its volumes were there.
    could_start: float | None = None
    mounted: float | None = None
    phase: str = ""
    #: Somebody deleted it before it had ended.
    deleted: bool = False
    #: Why it waits, or did until it was placed, in the scheduler's last words.
    waits_for: str = ""
    oom_kills: int = 0
    disruptions: list[Disruption] = []

    @property
    def namespace(self) -> str:
        return self.pod.partition("/")[0]

    @property
    def is_waiting(self) -> bool:
        return self.bound is None and self.ended is None

    def waited(self, end: float) -> float:
        """For how long it had no node, until `end` at most."""
        until = self.bound if self.bound is not None else self.ended if self.ended is not None else end
        return max(until - self.created, 0.0)

    @property
    def is_without_volumes(self) -> bool:
        """It has a node, and waits until its volumes are there."""
        return self.could_start is not None and self.mounted is None and self.ended is None

    def waited_for_volumes(self, end: float) -> float:
        """For how long that kept it, until `end` at most."""
        if self.could_start is None:
            return 0.0
        until = self.mounted if self.mounted is not None else self.ended if self.ended is not None else end
        return max(until - self.could_start, 0.0)


class PodHistories:
    """Written as pods change. Pods that had a node when the run began have waited for nothing."""

    def __init__(self, informers: Informers) -> None:
        self.began = now()
        self.by_uid: dict[str, PodHistory] = {}
        self._workloads = Workloads(informers)
        self._counts: Counter[str] = Counter()  # by lineage without its number
        self._kills = OomKills()
        self._past: set[tuple[str, str]] = set()  # by uid and kind: what had been done before the run began
        self._is_beginning = True
        informers.of(PODS, Pod).subscribe(self._pod)  # which tells at once of all that are there
        self._is_beginning = False

    def __iter__(self) -> Iterator[PodHistory]:
        return iter(self.by_uid.values())

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        moment = now()
        if new is None:
            assert old is not None
            self._kills.forget(old)
            if (known := self.by_uid.get(old.metadata.uid)) is not None:
                known.deleted = known.deleted or known.ended is None
                self._end(known, moment)
            return
        history = self.by_uid.get(new.metadata.uid)
        if history is None:
            history = self.by_uid[new.metadata.uid] = self._begun(new, moment)
        if new.spec.node_name and history.bound is None:
            history.bound, history.node = moment, new.spec.node_name
            if new.spec.may_have_claims:
                history.could_start = moment + start_seconds(new)
        elif history.bound is None:
            history.waits_for = sys.intern(_reason_to_wait(new)) or history.waits_for
        if history.is_without_volumes and _has_volumes(new):
            history.mounted = moment
        if self._is_beginning:
            self._past |= {(new.metadata.uid, disruption.kind) for disruption in _disruptions(old, new, moment)}
        elif history.ended is None:  # a drain takes pods, too, that are over
            self._disrupted(history, old, new, moment)
        self._count_kills(history, self._kills.news(new), moment, is_past=old is None)
        history.deleted = history.deleted or (new.metadata.is_terminating and history.ended is None)
        if new.is_finished and history.ended is None:
            history.phase = new.status.phase
            self._end(history, moment)

    def _begun(self, pod: Pod, moment: float) -> PodHistory:
        meta, owner = pod.metadata, pod.metadata.controller
        of = f"{owner.kind}/{owner.name}" if owner is not None else ""
        is_new = not self._is_beginning
        base = meta.key if not is_new or owner is None or owner.kind in _NAMED else f"{meta.namespace}/{of}"
        self._counts[base] += 1
        number = self._counts[base]
        lineage = base if base == meta.key and number == 1 else f"{base} #{number}"
        created = moment if is_new else self.began
        workload = self._workloads.of_pod(pod)
        history = PodHistory(meta.key, lineage, meta.uid, pod.spec.priority or 0, created, of, workload)
        if pod.spec.node_name and not is_new:
            history.bound, history.node = history.created, pod.spec.node_name
        return history

    @staticmethod
    def _count_kills(history: PodHistory, killed: list[str], moment: float, *, is_past: bool) -> None:
        """The first is told of; what a pod brings along from before the run does not count."""
        if not killed or is_past:
            return
        if not history.oom_kills:
            history.disruptions.append(Disruption(moment, OOM, f"container {killed[0]}"))
        history.oom_kills += len(killed)

    @staticmethod
    def _end(history: PodHistory, moment: float) -> None:
        if history.ended is None:
            history.ended = moment

    def _disrupted(self, history: PodHistory, old: Pod | None, new: Pod, moment: float) -> None:
        """The first reason counts: what is deleted because it was preempted was preempted."""
        for found in _disruptions(old, new, moment):
            known = any(disruption.kind == found.kind for disruption in history.disruptions)
            if not known and (history.uid, found.kind) not in self._past:
                history.disruptions.append(found)


def _disruptions(old: Pod | None, new: Pod, moment: float) -> Iterator[Disruption]:
    """What the pod itself tells that was done to it."""
    for condition in new.status.conditions:
        kind = _DISRUPTIONS.get(condition.reason) if condition.type == "DisruptionTarget" else None
        if kind is not None and condition.status == "True":
            message = new.status.message if kind == EVICTED_BY_NODE else condition.message
            yield Disruption(moment, kind, message.strip())
    if new.status.phase == "Failed" and new.status.message.startswith(_REJECTED) and not (old and old.is_finished):
        yield Disruption(moment, REFUSED_BY_NODE, new.status.message)


def _has_volumes(pod: Pod) -> bool:
    condition = pod.condition("PodReadyToStartContainers")
    return condition is not None and condition.status == "True"


def _reason_to_wait(pod: Pod) -> str:
    condition = pod.condition("PodScheduled")
    return (condition.message or condition.reason) if condition is not None and condition.status == "False" else ""
