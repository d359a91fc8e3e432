"""Whom a namespace that has too much can spare.

Which of its pods, `fairshare.victims` says; here is what it has to know of them. Pods of DaemonSets and mirror pods
would come back where they are, so they stay, and so does whoever has not run for long enough.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.pods import MIRROR
from fairlead.api.scheduling import GROUP_LABEL, Pod
from fairlead.arbitrator.books import Books
from fairlead.arbitrator.objects import Consumer, PolicySpec
from fairlead.arbitrator.outcomes import Amounts, Division
from fairlead.fairshare.victims import Budget, Holder, choose
from fairlead.golang.durations import non_negative_seconds
from fairlead.runtime import clock

#: Pods that go together, or none of them.
Unit = list[Pod]


@dataclass(frozen=True, slots=True)
class Holdings:
    """What is to be known of who has what."""

    division: Division
    consumers: Mapping[str, Consumer]
    policy: PolicySpec
    books: Books
    pods: Callable[[str], Sequence[Pod]]  # of a namespace
    waiting: Callable[[str], Sequence[Pod]]  # of them, those without a node
    pods_on: Callable[[str], Sequence[Pod]]  # a node
    budgets: Callable[[str], Sequence[PodDisruptionBudget]]  # of a namespace
    #: Uids of pods whose eviction was refused a moment ago.
    spared: frozenset[str] = frozenset()
    #: Of pods whose owners were told that they must go.
    on_notice: frozenset[str] = frozenset()


class Spare:
    """Whom every namespace can spare beside those that are going."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._going: dict[str, Pod] = {}  # by uid
        self._known: dict[str, list[Unit]] = {}

    def send(self, units: Iterable[Unit], *, from_one_node: bool) -> None:
        """These are going. They were found on one node, or else among those that should go first: then nothing
        changes for the others.
        """
        self._going.update((pod.metadata.uid, pod) for unit in units for pod in unit)
        if from_one_node:
            self._known.clear()

    def units(self, namespace: str, node: str = "") -> list[Unit]:
        """Who could go (from one node), in the order in which they should; pods of one gang together."""
        if node:
            return self._of(namespace, self._choice_on(node, namespace))
        if namespace not in self._known:
            self._known[namespace] = self._of(namespace, self._choice(namespace))
        return [unit for unit in self._known[namespace] if unit[0].metadata.uid not in self._going]

    def obstacle(self, namespace: str, key: str) -> tuple[str, str]:
        """Reason and message: why nobody of the namespace can make room for that pod."""
        consumer, known = self._holdings.consumers[namespace], len(self._choice(namespace))
        if self._holdings.budgets(namespace) and len(self._choice(namespace, budgets=False)) > known:
            return "DisruptionBudget", f"disruption budgets keep the pods that would make room for {key}"
        if any(pod.metadata.uid in self._holdings.spared for pod in self._holdings.pods(namespace)):
            return "DisruptionBudget", f"the API server refused evictions that would make room for {key}"
        if non_negative_seconds(consumer.spec.min_runtime) and len(self._choice(namespace, runtime=False)) > known:
            return "MinRuntime", f"the pods that would make room for {key} have not run for long enough"
        if consumer.spec.reserved and len(self._choice(namespace, reserved=False)) > known:
            return "Reserved", f"without the pods that would make room for {key}, less than reserved would be held"
        return "NotHelpful", f"no eviction here would make room for {key}"

    def _of(self, namespace: str, names: Iterable[str]) -> list[Unit]:
        chosen, units = frozenset(names), dict[str, Unit]()
        members = [pod for pod in self._holdings.pods(namespace) if pod.metadata.name in chosen]
        for pod in sorted(members, key=self._turn):
            units.setdefault(_gang(pod) or pod.metadata.uid, []).append(pod)
        return list(units.values())

    def _turn(self, pod: Pod) -> tuple[int, bool, float, str]:
        """Who was told goes before who has come since, or deadlines would be put off for ever."""
        is_fresh = pod.metadata.uid not in self._holdings.on_notice
        return pod.priority, is_fresh, self._age(pod), pod.metadata.name

    def _age(self, pod: Pod) -> float:
        """The youngest go first, or whoever the lot falls on: the same lot in every cycle (S2-37)."""
        if self._holdings.policy.victim_order == "Random":
            return float(zlib.crc32(pod.metadata.uid.encode()))
        return clock.now() - _since(pod)

    def _choice(
        self, namespace: str, *, budgets: bool = True, runtime: bool = True, reserved: bool = True
    ) -> tuple[str, ...]:
        """Names of the pods that bring the namespace down to what it deserves."""
        known = self._holdings
        least = self._least_seconds(namespace) if runtime else 0.0
        pods = [pod for pod in known.pods(namespace) if known.books.is_held(pod) and not pod.is_finished]
        outcome = known.division.namespaces[namespace]
        found = choose(
            [self._holder(pod, outcome.deserved, least) for pod in pods],
            outcome.deserved,
            known.division.capacity,
            reserved=outcome.reserved if reserved else {},
            budgets=self._budgets(namespace, pods) if budgets else (),
        )
        return found.victims

    def _choice_on(self, node: str, namespace: str) -> tuple[str, ...]:
        """As far as pods on that node can. Those elsewhere stay, and so do gangs that may have members there."""
        known, outcome = self._holdings, self._holdings.division.namespaces[namespace]
        here = [pod for pod in known.pods_on(node) if pod.metadata.namespace == namespace and not pod.is_finished]
        elsewhere = dict(outcome.staying)
        gone = [pod for pod in self._going.values() if pod.metadata.namespace == namespace and pod not in here]
        for pod in (*gone, *(pod for pod in here if not known.books.is_leaving(pod.metadata.uid))):
            for name, amount in known.books.kind(pod):
                elsewhere[name] = elsewhere.get(name, 0) - amount
        holders = [self._holder(pod, outcome.deserved, self._least_seconds(namespace)) for pod in here]
        found = choose(
            [
                Holder("", elsewhere, is_protected=True),
                *(replace(holder, is_protected=True) if holder.gang else holder for holder in holders),
            ],
            outcome.deserved,
            known.division.capacity,
            reserved=outcome.reserved,
            budgets=self._budgets(namespace, here),
        )
        return found.victims

    def _least_seconds(self, namespace: str) -> float:
        return non_negative_seconds(self._holdings.consumers[namespace].spec.min_runtime)

    def _holder(self, pod: Pod, counted: Amounts, least_seconds: float) -> Holder:
        known, uid, owner = self._holdings, pod.metadata.uid, pod.metadata.controller
        is_kept = (owner is not None and owner.kind == "DaemonSet") or MIRROR in pod.metadata.annotations
        is_young = clock.now() - _since(pod) < least_seconds
        budgets = [budget for budget in known.budgets(pod.metadata.namespace) if budget.guards(pod.metadata.labels)]
        is_guarded_twice = len(budgets) > 1  # the Eviction API refuses such pods
        return Holder(
            pod.metadata.name,
            {name: amount for name, amount in known.books.kind(pod) if name in counted},
            pod.priority,
            self._age(pod),
            _gang(pod),
            is_terminating=uid in self._going or known.books.is_leaving(uid),
            is_protected=is_kept or is_young or is_guarded_twice or uid in known.spared,
            is_on_notice=uid in known.on_notice,
        )

    def _budgets(self, namespace: str, pods: Sequence[Pod]) -> list[Budget]:
        """What the budgets of the namespace still allow."""
        going = [pod for pod in self._going.values() if pod.metadata.namespace == namespace]
        found = []
        for budget in self._holdings.budgets(namespace):
            names = frozenset(pod.metadata.name for pod in pods if budget.guards(pod.metadata.labels))
            spent = sum(budget.guards(pod.metadata.labels) for pod in going)
            found.append(Budget(names, max(budget.status.disruptions_allowed - spent, 0)))
        return found


def _gang(pod: Pod) -> str:
    return pod.metadata.labels.get(GROUP_LABEL, "")


def _since(pod: Pod) -> float:
    return clock.parse_timestamp(pod.status.start_time or pod.metadata.creation_timestamp)
