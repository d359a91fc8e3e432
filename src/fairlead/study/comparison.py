"""Who fares worse after a change than before, and what led to it.

Pods are matched by lineage (`sim/histories.py`). A pod of which one run says nothing had nothing to complain of there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from fairlead.sim.histories import DRAINED, LOST, OOM, Disruption, PodHistory
from fairlead.sim.pod_workloads import SINGLE_JOBS
from fairlead.study.outcome import AT_ONCE_SECONDS, Outcome, StepDone

#: Waiting so much longer than before counts.
_LONGER_SECONDS: Final = AT_ONCE_SECONDS
#: A replacement follows the end of the pod before it within this.
_SOON_SECONDS: Final = 60.0
#: What is done to pods because of something that was done with their node, and how steps that do it begin.
_WITH_NODE: Final = {
    DRAINED: ("drain ", "upgrade "),
    LOST: ("remove node ", "fail node ", "declare out of service ", "upgrade ", "set nodes="),
}
#: So many preemptions after one another are followed back.
_LONGEST_CHAIN: Final = 5


#: What a pod suffers that waits at the end, and one that waited longer than before: for a node; or it has one, to which
#: its volumes are not attached.
WAITING: Final = ("waits", "waits for its volumes")
LONGER: Final = ("waited longer", "waited longer for its volumes")


class Hurt(msgspec.Struct, omit_defaults=True):
    """A pod that fares worse than before."""

    pod: str
    lineage: str
    owner: str
    priority: int
    #: Waits at the end, was disrupted, waited longer: the worst that it suffered more of.
    how: str
    waited: float  # seconds
    waited_before: float
    since: float  # seconds since the epoch
    reason: str = ""
    #: What led to it, the first cause first.
    causes: list[str] = []


def worse(before: Outcome, after: Outcome) -> list[Hurt]:
    """The pods that fare worse, the hardest hit first."""
    known = {pod.lineage: pod for pod in before.pods}
    chains = _Chains(after)
    found = [
        hurt for pod in after.pods if (hurt := _hurt(pod, known.get(pod.lineage), before, after, chains)) is not None
    ]
    return sorted(found, key=_rank)


class Group(msgspec.Struct):
    """Pods of one owner to which the same happened, the hardest hit first."""

    pods: list[Hurt]

    @property
    def first(self) -> Hurt:
        return self.pods[0]


def grouped(hurt: Iterable[Hurt]) -> list[Group]:
    """In the order in which their first pods come. Where a pod waits, why counts, too; else who drove it away and how
    much was used then differs from pod to pod.
    """
    groups: dict[tuple[str, ...], Group] = {}
    for pod in hurt:
        namespace = pod.pod.partition("/")[0]
        steps = [cause for cause in pod.causes if cause.startswith(_AFTER)]
        key = (namespace, pod.owner or pod.pod, pod.how, pod.reason if pod.how in WAITING else "", *steps)
        groups.setdefault(key, Group([])).pods.append(pod)
    return list(groups.values())


class Missing(msgspec.Struct, omit_defaults=True):
    """A workload of which fewer pods came than before: what refused them, or kept its controller from making them."""

    namespace: str
    workload: str
    pods: int
    pods_before: int
    #: Why some could not be created, in the last words of their controller.
    reason: str = ""


def missing(before: Outcome, after: Outcome) -> list[Missing]:
    """The workloads of which pods are missing, those of which most are missing first.

    What is scaled may have fewer pods because it needs no more: there something must have refused them.
    """
    came = {(it.namespace, it.workload): it.pods for it in after.came}
    reasons = {(short.namespace, short.workload): short.message for short in after.shortfalls}
    found = []
    for it in before.came:
        key = (it.namespace, it.workload)
        reason, is_scaled = reasons.get(key, ""), not it.workload.startswith(_RUN_ONCE)
        if (pods := came.get(key, 0)) < it.pods and (reason or not is_scaled):
            found.append(Missing(*key, pods, it.pods, reason))
    return sorted(found, key=lambda it: (it.pods - it.pods_before, it.namespace, it.workload))


class LostWorkload(msgspec.Struct, omit_defaults=True):
    """A workload of which nothing is there any more: it, or all of its namespace, was deleted, or scaled to nothing."""

    namespace: str
    workload: str
    pods: int
    since: float  # seconds since the epoch
    causes: list[str] = []


def lost(before: Outcome, after: Outcome) -> list[LostWorkload]:
    """The workloads that are gone, and were not before."""
    known = {(it.namespace, it.workload) for it in before.gone}
    chains = _Chains(after)
    return [
        LostWorkload(it.namespace, it.workload, it.pods, it.at, chains.of_moment(it.at, it.workload))
        for it in after.gone
        if (it.namespace, it.workload) not in known
    ]


#: How workloads are called whose pods end by themselves.
_RUN_ONCE: Final = ("CronJob/", SINGLE_JOBS)
#: How the cause begins that is a step of the change.
_AFTER: Final = "after: "


def _rank(hurt: Hurt) -> tuple[int, float, str]:
    order = 0 if hurt.how in WAITING else 2 if hurt.how in LONGER else 1
    return order, hurt.waited_before - hurt.waited, hurt.lineage


def _hurt(pod: PodHistory, known: PodHistory | None, before: Outcome, after: Outcome, chains: _Chains) -> Hurt | None:
    waited, for_volumes = pod.waited(after.ended), pod.waited_for_volumes(after.ended)
    waited_before = known.waited(before.ended) if known is not None else 0.0
    for_volumes_before = known.waited_for_volumes(before.ended) if known is not None else 0.0
    new = _more_disruptions(pod, known)
    suffered = new[0] if new else None
    if suffered is None and pod.oom_kills > (known.oom_kills if known is not None else 0):
        suffered = pod.disruptions[-1]
    if pod.is_waiting and not (known is not None and known.is_waiting):
        how, since, reason, causes = WAITING[0], pod.created, pod.waits_for, chains.of_wait(pod)
    elif pod.is_without_volumes and for_volumes > for_volumes_before + _LONGER_SECONDS:
        how, since, reason, causes = WAITING[1], pod.created, _on_node(pod), chains.of_wait(pod)
        waited, waited_before = for_volumes, for_volumes_before
    elif suffered is not None:
        how, since, reason = suffered.kind, suffered.at, in_words(suffered) + _for_good(pod, suffered)
        causes = chains.of_disruption(suffered, pod.node)
    elif waited > waited_before + _LONGER_SECONDS:
        how, since, reason, causes = LONGER[0], pod.created, pod.waits_for, chains.of_wait(pod)
    elif for_volumes > for_volumes_before + _LONGER_SECONDS:
        how, since, reason, causes = LONGER[1], pod.created, _on_node(pod), chains.of_wait(pod)
        waited, waited_before = for_volumes, for_volumes_before
    else:
        return None
    return Hurt(
        pod.pod,
        pod.lineage,
        pod.owner,
        pod.priority,
        how,
        round(waited, 3),
        round(waited_before, 3),
        since,
        reason,
        causes,
    )


def _on_node(pod: PodHistory) -> str:
    return f"its volumes were not attached to {pod.node}"


def _for_good(pod: PodHistory, suffered: Disruption) -> str:
    is_for_good = not pod.owner and pod.ended is not None and suffered.kind != OOM
    return "; nobody makes it anew" if is_for_good else ""


def _more_disruptions(pod: PodHistory, known: PodHistory | None) -> list[Disruption]:
    """Those of a kind that did not come to it before."""
    kinds = {disruption.kind for disruption in known.disruptions} if known is not None else set()
    return [disruption for disruption in pod.disruptions if disruption.kind not in kinds]


def in_words(disruption: Disruption) -> str:
    """What was done to a pod, by whom, and what was said of it."""
    by = f" by {disruption.by}" if disruption.by else ""
    return f"{disruption.kind}{by}: {disruption.message}" if disruption.message else f"{disruption.kind}{by}"


class _Chains:
    """Causes in one outcome: whose place a pod takes and why that was free, who drove it away and where that came from,
    and the step of the change that came just before all that; of what is done with a node, the step about that node.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._steps = outcome.steps
        self._named = {pod.pod: pod for pod in outcome.pods}  # the last of each name
        self._replaced = _replaced(outcome.pods)

    def of_moment(self, at: float, workload: str) -> list[str]:
        """The step before it; of several at once that which names the workload."""
        by_then = [step for step in reversed(self._steps) if step.at <= at]
        at_once = [step for step in by_then if step.at == by_then[0].at]
        name = workload.rpartition("/")[2]
        naming = [step for step in at_once if name in step.text.split()]
        return [f"{_AFTER}{step.text}" for step in [*naming, *by_then][:1]]

    def of_wait(self, pod: PodHistory) -> list[str]:
        """What led to it that the pod has to look for a node, the first cause first."""
        replaced = self._replaced.get(pod.uid)
        if replaced is None:
            return self._with_step([], pod.created)
        return self._led_to(replaced.lost, replaced.node, [f"it replaces {replaced.pod}, {in_words(replaced.lost)}"])

    def of_disruption(self, disruption: Disruption, node: str) -> list[str]:
        """What led to it on that node, the first cause first."""
        return self._led_to(disruption, node, [])

    def _led_to(self, disruption: Disruption, node: str, found: list[str]) -> list[str]:
        """The causes of a disruption before those that were found."""
        first = disruption.at
        for _ in range(_LONGEST_CHAIN):
            preemptor = self._named.get(disruption.by)
            if preemptor is None or not 0 <= disruption.at - preemptor.created <= _SOON_SECONDS:
                break
            first = min(first, preemptor.created)
            replaced = self._replaced.get(preemptor.uid)
            if replaced is None:
                break
            disruption, node = replaced.lost, replaced.node
            first = min(first, disruption.at)
            found.insert(0, f"{preemptor.pod} replaces {replaced.pod}, {in_words(disruption)}")
        return self._with_step(found, first, node, disruption.kind)

    def _with_step(self, found: list[str], at: float, node: str = "", kind: str = "") -> list[str]:
        step = self._step(at, node, kind)
        return found if step is None else [f"{_AFTER}{step.text}", *found]

    def _step(self, at: float, node: str, kind: str) -> StepDone | None:
        """The last one by then that does that to the pods of the node, or of several, else about the node, else the
        last one.
        """
        by_then = [step for step in reversed(self._steps) if step.at <= at]
        verbs = _WITH_NODE.get(kind)
        doing = [step for step in by_then if verbs and step.text.startswith(verbs) and step.node in ("", node)]
        about = [step for step in by_then if verbs and step.node == node]
        return next(iter([*doing, *about, *by_then]), None)


class _Replaced(NamedTuple):
    """A pod whose place another takes, and how it lost it."""

    pod: str
    uid: str
    node: str
    lost: Disruption


def _replaced(pods: Iterable[PodHistory]) -> dict[str, _Replaced]:
    """By uid of the pod that replaces it: each takes the place of the former pod of its name, as those of StatefulSets
    do, else that which its owner lost last before, and nobody else did.
    """
    known = list(pods)
    named = Counter(pod.pod for pod in known)
    owned: dict[tuple[str, str], list[PodHistory]] = {}  # by namespace and owner, or by owner and name
    for pod in known:
        if pod.owner:
            key = (pod.owner, pod.pod) if named[pod.pod] > 1 else (pod.namespace, pod.owner)
            owned.setdefault(key, []).append(pod)
    found: dict[str, _Replaced] = {}
    for group in owned.values():
        losses = sorted(_losses(group), key=_when)
        places: list[_Replaced] = []  # that were lost and are free, the latest last
        count = 0
        for pod in sorted(group, key=_created):
            while count < len(losses) and losses[count].lost.at <= pod.created + 1:
                places.append(losses[count])
                count += 1
            index = len(places) - 1
            if index >= 0 and places[index].uid == pod.uid:
                index -= 1
            if index >= 0 and pod.created - places[index].lost.at + 1 <= _SOON_SECONDS:
                found[pod.uid] = places.pop(index)
    return found


def _losses(pods: Iterable[PodHistory]) -> Iterator[_Replaced]:
    """A pod loses its place once, to whatever came first; who is killed keeps it."""
    for pod in pods:
        lost = next((disruption for disruption in pod.disruptions if disruption.kind != OOM), None)
        if lost is not None:
            yield _Replaced(pod.pod, pod.uid, pod.node, lost)


def _when(place: _Replaced) -> tuple[float, str]:
    return place.lost.at, place.pod


def _created(pod: PodHistory) -> tuple[float, str]:
    return pod.created, pod.lineage
