"""Who has to go, and for whom: a pure plan, made anew in every cycle until it is carried out.

Nobody goes for nothing. There must be a pod that its namespace deserves and that waits, and it must fit on a node once
the victims are gone. Victims hold what others deserve; which of them, `fairshare.victims` says, and whoever turns out
not to be needed for that pod stays. So a victim that comes back is not deserved, and the next cycle evicts nobody.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.durations import seconds_of
from fairlead.api.scheduling import Pod
from fairlead.arbitrator.books import Books
from fairlead.arbitrator.decide import Amounts, Division, Outcome
from fairlead.arbitrator.objects import Consumer, PolicySpec
from fairlead.fairshare.claims import dominant
from fairlead.fairshare.orders import Standing, by_need
from fairlead.fairshare.victims import Budget, Holder, choose
from fairlead.runtime import clock

GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
MIRROR: Final = "kubernetes.io/config.mirror"
#: Placements that are tried in one cycle: each looks at every node.
MOST_TRIALS: Final = 64


class Room(Protocol):
    """The scheduler's view of the nodes."""

    def fits(self, pod: Pod, without: Sequence[Pod], beside: Sequence[tuple[Pod, str]]) -> str:
        """A node on which the pod would fit if those were gone and these there; empty if there is none."""
        ...


@dataclass(slots=True)
class Taking:
    """What is to be taken back from one namespace."""

    victims: list[Pod] = field(default_factory=list)
    #: The pods, `namespace/name`, that could start then.
    beneficiaries: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """By namespace."""

    takings: dict[str, Taking] = field(default_factory=dict)
    #: Why nothing can be taken, although somebody waits for it: reason and message.
    blocked: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def victims(self) -> list[Pod]:
        return [pod for one in self.takings.values() for pod in one.victims]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a plan is made from."""

    division: Division
    consumers: Mapping[str, Consumer]
    policy: PolicySpec
    books: Books
    pods: Callable[[str], Sequence[Pod]]  # of a namespace
    budgets: Sequence[PodDisruptionBudget]
    room: Room
    #: Uids of pods whose eviction was refused a moment ago.
    spared: frozenset[str] = frozenset()


def plan(scene: Scene) -> Plan:
    """Whom to evict so that pods can start that are deserved."""
    overused = _most_overused_first(scene.division)
    if not overused:
        return Plan()
    wanting = _wanting(scene)
    return _Planning(scene, overused).run(wanting) if wanting else Plan()


def _most_overused_first(division: Division) -> list[str]:
    over = {name: one.over for name, one in division.namespaces.items()}
    shares = {name: dominant(amounts, division.capacity) for name, amounts in over.items() if amounts}
    return sorted(shares, key=lambda name: (-shares[name], name))


def _wanting(scene: Scene) -> list[Pod]:
    """The pods that wait although their namespaces deserve them, the neediest namespace first."""
    found: dict[str, list[Pod]] = {}
    for name, outcome in scene.division.namespaces.items():
        account = scene.books.accounts.get(name)
        if account is not None and account.waiting() and (deserved := _deserved(scene, name, outcome)):
            found[name] = deserved
    capacity = scene.division.capacity
    standings = {
        name: Standing(
            dominant(scene.division.namespaces[name].staying, capacity),
            dominant(scene.division.namespaces[name].deserved, capacity),
        )
        for name in found
    }
    return [pod for name in by_need(standings) for pod in found[name]]


def _deserved(scene: Scene, namespace: str, outcome: Outcome) -> list[Pod]:
    """The namespace's waiting pods in their order, as far as it deserves them."""
    held, found = dict(outcome.staying), list[Pod]()
    waiting = [
        pod
        for pod in scene.pods(namespace)
        if not (pod.is_finished or pod.metadata.is_terminating or scene.books.is_held(pod))
    ]
    for pod in sorted(waiting, key=lambda one: (-one.priority, one.metadata.creation_timestamp, one.metadata.name)):
        need = [(name, amount) for name, amount in scene.books.kind(pod) if name in outcome.deserved]
        if need and all(held.get(name, 0) + amount <= outcome.deserved[name] for name, amount in need):
            for name, amount in need:
                held[name] = held.get(name, 0) + amount
            found.append(pod)
            if len(found) >= MOST_TRIALS:
                break
    return found


class _Planning:
    """One plan in the making."""

    def __init__(self, scene: Scene, overused: Sequence[str]) -> None:
        self._scene, self._overused = scene, overused
        self._plan = Plan()
        self._placed: list[tuple[Pod, str]] = []
        self._leaving = [
            pod
            for name in scene.division.namespaces
            if (account := scene.books.accounts.get(name)) is not None and account.leaving
            for pod in scene.pods(name)
            if scene.books.is_leaving(pod.metadata.uid)
        ]
        self._trials = 0
        self._candidates: dict[str, list[list[Pod]]] = {}
        self._hopeless: set[tuple[str, tuple[tuple[str, int], ...]]] = set()

    def run(self, wanting: Sequence[Pod]) -> Plan:
        for pod in wanting:
            kind = (pod.metadata.namespace, self._scene.books.kind(pod))
            if kind in self._hopeless:
                continue
            if self._trials >= MOST_TRIALS or len(self._plan.victims) >= self._scene.policy.max_evictions_per_cycle:
                break
            if not self._make_room(pod):
                self._hopeless.add(kind)
        return self._plan

    def _make_room(self, pod: Pod) -> bool:
        """Find the fewest that have to go for this pod; False if that cannot be."""
        if node := self._fits(pod, []):
            self._placed.append((pod, node))  # the scheduler will see to it
            return True
        units = [unit for unit in self._all_candidates(pod) if self._helps(unit, pod)]
        if not units or not self._fits(pod, units):
            self._tell_why(pod)
            return False
        few, enough = 0, len(units)  # the first `enough` units suffice, the first `few` do not
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if self._fits(pod, units[:middle]) else (middle, enough)
        chosen = units[:enough]
        for unit in list(reversed(chosen)):
            without = [one for one in chosen if one is not unit]
            if without and self._fits(pod, without):
                chosen = without
        self._placed.append((pod, self._fits(pod, chosen)))
        for unit in chosen:
            taking = self._plan.takings.setdefault(unit[0].metadata.namespace, Taking())
            taking.victims += unit
            if pod.metadata.key not in taking.beneficiaries:
                taking.beneficiaries.append(pod.metadata.key)
        return True

    def _fits(self, pod: Pod, units: Iterable[list[Pod]]) -> str:
        self._trials += 1
        gone = [*self._leaving, *self._plan.victims, *(one for unit in units for one in unit)]
        return self._scene.room.fits(pod, gone, self._placed)

    def _helps(self, unit: Sequence[Pod], pod: Pod) -> bool:
        """Whether it holds anything that the pod needs."""
        needed = {name for name, _ in self._scene.books.kind(pod)}
        return any(name in needed for one in unit for name, _ in self._scene.books.kind(one))

    def _all_candidates(self, pod: Pod) -> list[list[Pod]]:
        """Who could go, most overused namespaces first; pods of one gang together. Nobody goes for his own."""
        taken = {one.metadata.uid for one in self._plan.victims}
        return [
            unit
            for name in self._overused
            if name != pod.metadata.namespace
            for unit in self._candidates_of(name)
            if unit[0].metadata.uid not in taken
        ]

    def _candidates_of(self, namespace: str) -> list[list[Pod]]:
        if namespace not in self._candidates:
            chosen = set(self._choice(namespace))
            members = [pod for pod in self._scene.pods(namespace) if pod.metadata.name in chosen]
            units: dict[str, list[Pod]] = {}
            for pod in sorted(members, key=self._first_to_go):
                units.setdefault(_gang(pod) or pod.metadata.uid, []).append(pod)
            self._candidates[namespace] = list(units.values())
        return self._candidates[namespace]

    def _first_to_go(self, pod: Pod) -> tuple[int, float, str]:
        return pod.priority, self._age(pod), pod.metadata.name

    def _age(self, pod: Pod) -> float:
        """The youngest go first, or whoever the lot falls on: the same lot in every cycle (S2-37)."""
        if self._scene.policy.victim_order == "Random":
            return float(zlib.crc32(pod.metadata.uid.encode()))
        return clock.now() - _since(pod)

    # --- whom the consumer can spare --------------------------------------------------------------------------------

    def _choice(
        self, namespace: str, *, budgets: bool = True, runtime: bool = True, reserved: bool = True
    ) -> tuple[str, ...]:
        """Names of the pods that bring the namespace down to what it deserves."""
        outcome = self._scene.division.namespaces[namespace]
        consumer = self._scene.consumers[namespace]
        least = seconds_of(consumer.spec.min_runtime) if runtime else 0.0
        pods = [pod for pod in self._scene.pods(namespace) if self._scene.books.is_held(pod) and not pod.is_finished]
        found = choose(
            [self._holder(pod, outcome.deserved, least) for pod in pods],
            outcome.deserved,
            self._scene.division.capacity,
            reserved=outcome.reserved if reserved else {},
            budgets=_budgets(self._scene.budgets, namespace, pods) if budgets else (),
        )
        return found.victims

    def _holder(self, pod: Pod, counted: Amounts, least_seconds: float) -> Holder:
        owner = pod.metadata.controller
        is_kept = (owner is not None and owner.kind == "DaemonSet") or MIRROR in pod.metadata.annotations
        is_young = clock.now() - _since(pod) < least_seconds
        is_guarded_twice = len(_guards(self._scene.budgets, pod)) > 1  # the Eviction API refuses such pods
        return Holder(
            pod.metadata.name,
            {name: amount for name, amount in self._scene.books.kind(pod) if name in counted},
            pod.priority,
            self._age(pod),
            _gang(pod),
            is_terminating=self._scene.books.is_leaving(pod.metadata.uid),
            is_protected=is_kept or is_young or is_guarded_twice or pod.metadata.uid in self._scene.spared,
        )

    def _tell_why(self, pod: Pod) -> None:
        """Why the overused keep what the pod needs."""
        for name in self._overused:
            if name != pod.metadata.namespace and name not in self._plan.blocked:
                self._plan.blocked[name] = self._obstacle(name, pod)

    def _obstacle(self, namespace: str, pod: Pod) -> tuple[str, str]:
        known, key = len(self._choice(namespace)), pod.metadata.key
        if len(self._choice(namespace, budgets=False)) > known:
            return "DisruptionBudget", f"disruption budgets keep the pods that would make room for {key}"
        if any(one.metadata.uid in self._scene.spared for one in self._scene.pods(namespace)):
            return "DisruptionBudget", f"the API server refused evictions that would make room for {key}"
        if len(self._choice(namespace, runtime=False)) > known:
            return "MinRuntime", f"the pods that would make room for {key} have not run for long enough"
        if len(self._choice(namespace, reserved=False)) > known:
            return "Reserved", f"without the pods that would make room for {key}, less than reserved would be held"
        return "NotHelpful", f"no eviction here would make room for {key}"


def _budgets(budgets: Iterable[PodDisruptionBudget], namespace: str, pods: Sequence[Pod]) -> list[Budget]:
    return [
        Budget(
            frozenset(pod.metadata.name for pod in pods if _guards([one], pod)),
            max(one.status.disruptions_allowed, 0),
        )
        for one in budgets
        if one.metadata.namespace == namespace
    ]


def _guards(budgets: Iterable[PodDisruptionBudget], pod: Pod) -> list[PodDisruptionBudget]:
    """The budgets over a pod; one without a selector guards nobody, an empty selector everybody (S3-106)."""
    return [
        one
        for one in budgets
        if one.metadata.namespace == pod.metadata.namespace
        and one.spec.selector is not None
        and one.spec.selector.matches(pod.metadata.labels)
    ]


def _gang(pod: Pod) -> str:
    return pod.metadata.labels.get(GROUP_LABEL, "")


def _since(pod: Pod) -> float:
    return clock.parse_timestamp(pod.status.start_time or pod.metadata.creation_timestamp)
