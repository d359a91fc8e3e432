"""Which pods of an overused namespace can be evicted.

`fairshare.victims` chooses them; this module collects what it needs to know about each pod. Pods of DaemonSets and
mirror pods are protected because they would be recreated on the same node, and so are pods younger than `minRuntime`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.pods import MIRROR
from fairlead.api.scheduling import GROUP_LABEL, Pod
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.objects import Consumer, PolicySpec
from fairlead.arbitrator.outcomes import Amounts, Division
from fairlead.fairshare.victims import Budget, VictimCandidate, choose_victims
from fairlead.golang.durations import non_negative_seconds
from fairlead.runtime import clock

#: Pods that are evicted together or not at all: a gang, or a single pod.
Unit = list[Pod]


class ReclaimInputs(msgspec.Struct, frozen=True):
    """What a reclaim plan is made from: the division of this cycle, and lookups into the informers' caches."""

    division: Division
    consumers: Mapping[str, Consumer]
    policy: PolicySpec
    accounting: Accounting
    pods: Callable[[str], Sequence[Pod]]  # of a namespace
    waiting: Callable[[str], Sequence[Pod]]  # of them, those without a node
    pods_on: Callable[[str], Sequence[Pod]]  # a node
    budgets: Callable[[str], Sequence[PodDisruptionBudget]]  # of a namespace
    #: Uids of pods whose eviction was refused a moment ago.
    spared: frozenset[str] = frozenset()
    #: Uids of the pods that a published eviction notice names.
    on_notice: frozenset[str] = frozenset()


class ReclaimablePods:
    """The pods that each namespace can give up, beside those that this plan evicts already."""

    def __init__(self, inputs: ReclaimInputs) -> None:
        self._inputs = inputs
        self._going: dict[str, Pod] = {}  # by uid
        self._known: dict[str, list[Unit]] = {}

    def send(self, units: Iterable[Unit], *, from_one_node: bool) -> None:
        """Count these as evicted. If they were not the first in their namespace's order (`from_one_node`), the order
        has to be worked out again.
        """
        self._going.update((pod.metadata.uid, pod) for unit in units for pod in unit)
        if from_one_node:
            self._known.clear()

    def units(self, namespace: str, node: str = "") -> list[Unit]:
        """The candidates of a namespace (on one node), in eviction order; pods of one gang together."""
        if node:
            return self._of(namespace, self._choice_on(node, namespace))
        if namespace not in self._known:
            self._known[namespace] = self._of(namespace, self._choice(namespace))
        return [unit for unit in self._known[namespace] if unit[0].metadata.uid not in self._going]

    def obstacle(self, namespace: str, key: str) -> tuple[str, str]:
        """Reason and message: why no eviction in the namespace makes room for that pod."""
        consumer, count = self._inputs.consumers[namespace], len(self._choice(namespace))
        if self._inputs.budgets(namespace) and len(self._choice(namespace, budgets=False)) > count:
            return "DisruptionBudget", f"disruption budgets keep the pods that would make room for {key}"
        if any(pod.metadata.uid in self._inputs.spared for pod in self._inputs.pods(namespace)):
            return "DisruptionBudget", f"the API server refused evictions that would make room for {key}"
        if non_negative_seconds(consumer.spec.min_runtime) and len(self._choice(namespace, runtime=False)) > count:
            return "MinRuntime", f"the pods that would make room for {key} have not run for long enough"
        if consumer.spec.reserved and len(self._choice(namespace, reserved=False)) > count:
            return "Reserved", f"without the pods that would make room for {key}, less than reserved would be held"
        return "NotHelpful", f"no eviction here would make room for {key}"

    def _of(self, namespace: str, names: Iterable[str]) -> list[Unit]:
        chosen, units = frozenset(names), dict[str, Unit]()
        members = [pod for pod in self._inputs.pods(namespace) if pod.metadata.name in chosen]
        for pod in sorted(members, key=self._turn):
            units.setdefault(_gang(pod) or pod.metadata.uid, []).append(pod)
        return list(units.values())

    def _turn(self, pod: Pod) -> tuple[int, bool, float, str]:
        """Eviction order. Pods on notice go before newer ones, or every new pod would start the notice anew."""
        is_fresh = pod.metadata.uid not in self._inputs.on_notice
        return pod.priority, is_fresh, self._age(pod), pod.metadata.name

    def _age(self, pod: Pod) -> float:
        """The youngest first, or at random: a hash of the uid, so that the order is the same in every cycle (S2-37)."""
        if self._inputs.policy.victim_order == "Random":
            return float(zlib.crc32(pod.metadata.uid.encode()))
        return clock.now() - _since(pod)

    def _choice(
        self, namespace: str, *, budgets: bool = True, runtime: bool = True, reserved: bool = True
    ) -> tuple[str, ...]:
        """Names of the pods whose eviction brings the namespace down to what it deserves."""
        inputs = self._inputs
        least = self._least_seconds(namespace) if runtime else 0.0
        pods = [pod for pod in inputs.pods(namespace) if inputs.accounting.is_held(pod) and not pod.is_finished]
        outcome = inputs.division.namespaces[namespace]
        found = choose_victims(
            [self._holder(pod, outcome.deserved, least) for pod in pods],
            outcome.deserved,
            inputs.division.capacity,
            reserved=outcome.reserved if reserved else {},
            budgets=self._budgets(namespace, pods) if budgets else (),
        )
        return found.victims

    def _choice_on(self, node: str, namespace: str) -> tuple[str, ...]:
        """The same with pods of that node alone. Gangs are protected: they may have members on other nodes."""
        inputs, outcome = self._inputs, self._inputs.division.namespaces[namespace]
        here = [pod for pod in inputs.pods_on(node) if pod.metadata.namespace == namespace and not pod.is_finished]
        elsewhere = dict(outcome.staying)
        gone = [pod for pod in self._going.values() if pod.metadata.namespace == namespace and pod not in here]
        for pod in (*gone, *(member for member in here if not inputs.accounting.is_leaving(member.metadata.uid))):
            for name, amount in inputs.accounting.vector(pod):
                elsewhere[name] = elsewhere.get(name, 0) - amount
        holders = [self._holder(pod, outcome.deserved, self._least_seconds(namespace)) for pod in here]
        found = choose_victims(
            [
                VictimCandidate("", elsewhere, is_protected=True),
                *(replace(holder, is_protected=True) if holder.gang else holder for holder in holders),
            ],
            outcome.deserved,
            inputs.division.capacity,
            reserved=outcome.reserved,
            budgets=self._budgets(namespace, here),
        )
        return found.victims

    def _least_seconds(self, namespace: str) -> float:
        return non_negative_seconds(self._inputs.consumers[namespace].spec.min_runtime)

    def _holder(self, pod: Pod, counted: Amounts, least_seconds: float) -> VictimCandidate:
        inputs, uid, owner = self._inputs, pod.metadata.uid, pod.metadata.controller
        is_kept = (owner is not None and owner.kind == "DaemonSet") or MIRROR in pod.metadata.annotations
        is_young = clock.now() - _since(pod) < least_seconds
        budgets = [budget for budget in inputs.budgets(pod.metadata.namespace) if budget.guards(pod.metadata.labels)]
        is_guarded_twice = len(budgets) > 1  # the Eviction API refuses such pods
        return VictimCandidate(
            pod.metadata.name,
            {name: amount for name, amount in inputs.accounting.vector(pod) if name in counted},
            pod.priority,
            self._age(pod),
            _gang(pod),
            is_terminating=uid in self._going or inputs.accounting.is_leaving(uid),
            is_protected=is_kept or is_young or is_guarded_twice or uid in inputs.spared,
            is_on_notice=uid in inputs.on_notice,
        )

    def _budgets(self, namespace: str, pods: Sequence[Pod]) -> list[Budget]:
        """What the budgets of the namespace still allow."""
        going = [pod for pod in self._going.values() if pod.metadata.namespace == namespace]
        found = []
        for budget in self._inputs.budgets(namespace):
            names = frozenset(pod.metadata.name for pod in pods if budget.guards(pod.metadata.labels))
            spent = sum(budget.guards(pod.metadata.labels) for pod in going)
            found.append(Budget(names, max(budget.status.disruptions_allowed - spent, 0)))
        return found


def _gang(pod: Pod) -> str:
    return pod.metadata.labels.get(GROUP_LABEL, "")


def _since(pod: Pod) -> float:
    return clock.parse_timestamp(pod.status.start_time or pod.metadata.creation_timestamp)
