"""Who fares worse after a change than before, and what led to it.

Pods are matched by lineage (`sim/histories.py`). A pod of which one run says nothing had nothing to complain of there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Final

import msgspec

from fairlead.sim.histories import Disruption, PodHistory
from fairlead.study.outcome import AT_ONCE_SECONDS, Outcome

#: Waiting so much longer than before counts.
_LONGER_SECONDS: Final = AT_ONCE_SECONDS
#: A replacement follows the end of the pod before it within this.
_SOON_SECONDS: Final = 60.0


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
    """In the order in which their first pods come."""
    groups: dict[tuple[str, ...], Group] = {}
    for pod in hurt:
        namespace = pod.pod.partition("/")[0]
        steps = [cause for cause in pod.causes if cause.startswith(_AFTER)]
        key = (namespace, pod.owner or pod.pod, pod.how, pod.reason, *steps)
        groups.setdefault(key, Group([])).pods.append(pod)
    return list(groups.values())


#: How the cause begins that is a step of the change.
_AFTER: Final = "after: "
_WAITING: Final = "waits"
_LONGER: Final = "waited longer"


def _rank(hurt: Hurt) -> tuple[int, float, str]:
    order = {_WAITING: 0, _LONGER: 2}.get(hurt.how, 1)
    return order, hurt.waited_before - hurt.waited, hurt.lineage


def _hurt(pod: PodHistory, known: PodHistory | None, before: Outcome, after: Outcome, chains: _Chains) -> Hurt | None:
    waited = pod.waited(after.ended)
    waited_before = known.waited(before.ended) if known is not None else 0.0
    new = _more_disruptions(pod, known)
    if pod.is_waiting and not (known is not None and known.is_waiting):
        how, since, reason = _WAITING, pod.created, pod.waits_for
    elif new:
        how, since, reason = new[0].kind, new[0].at, _said(new[0])
    elif pod.oom_kills > (known.oom_kills if known is not None else 0):
        how, since, reason = pod.disruptions[-1].kind, pod.disruptions[-1].at, _said(pod.disruptions[-1])
    elif waited > waited_before + _LONGER_SECONDS:
        how, since, reason = _LONGER, pod.created, pod.waits_for
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
        chains.causes(pod, since),
    )


def _more_disruptions(pod: PodHistory, known: PodHistory | None) -> list[Disruption]:
    """Those of a kind that did not come to it before."""
    kinds = {disruption.kind for disruption in known.disruptions} if known is not None else set()
    return [disruption for disruption in pod.disruptions if disruption.kind not in kinds]


def _said(disruption: Disruption) -> str:
    by = f" by {disruption.by}" if disruption.by else ""
    return f"{disruption.kind}{by}: {disruption.message}" if disruption.message else f"{disruption.kind}{by}"


class _Chains:
    """Causes of one outcome: the disruption of the pod that this one replaces, and the step that came just before."""

    def __init__(self, outcome: Outcome) -> None:
        self._steps = outcome.steps
        #: By namespace and owner, in the order of time: an owner may have lost very many pods.
        self._lost: dict[tuple[str, str], list[tuple[float, str, PodHistory]]] = {}
        for pod in outcome.pods:
            for disruption in pod.disruptions if pod.owner else ():
                self._lost.setdefault((pod.namespace, pod.owner), []).append((disruption.at, pod.lineage, pod))
        for lost in self._lost.values():
            lost.sort(key=_when)

    def causes(self, pod: PodHistory, since: float) -> list[str]:
        found: list[str] = []
        first = since
        before = self._replaced(pod)
        if before is not None:
            lost = before.disruptions[0]
            first = min(first, lost.at)
            found.append(f"it replaces {before.pod}, {_said(lost)}")
        step = next((step for step in reversed(self._steps) if step.at <= first), None)
        if step is not None:
            found.insert(0, f"{_AFTER}{step.text}")
        return found

    def _replaced(self, pod: PodHistory) -> PodHistory | None:
        lost = self._lost.get((pod.namespace, pod.owner), ()) if pod.owner else ()
        latest = bisect_right(lost, pod.created + 1, key=itemgetter(0))
        for at, _, other in reversed(lost[max(latest - len(pod.disruptions) - 1, 0) : latest]):
            if other.uid != pod.uid:
                return other if pod.created - at + 1 <= _SOON_SECONDS else None
        return None


#: An order of losses: by time, and those of one moment by lineage.
_when = itemgetter(0, 1)
