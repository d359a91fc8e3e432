"""The reclaim plan: which pods are evicted, and for which waiting pods. Made anew in every cycle; others have turns
between two trials of a placement, and what they change meanwhile counts.

A pod is evicted only for a waiting pod that its namespace deserves and that fits on a node once the victims are gone.
Victims come from namespaces that use more than they deserve; `fairshare.victims` orders them, and those that the pod
does not need after all are kept. A victim that is recreated is over its share, so the next cycle evicts nobody for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Protocol, TypeAlias

import msgspec

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.accounting import RequestVector, queue_order
from fairlead.arbitrator.outcomes import Amounts, Division
from fairlead.arbitrator.reclaimable import ReclaimablePods, ReclaimInputs, Unit
from fairlead.arbitrator.trials import Trials
from fairlead.fairshare.claims import dominant
from fairlead.fairshare.orders import GuaranteeUse, by_need
from fairlead.runtime import clock
from fairlead.runtime.turns import Turn

#: Placements that are tried in one cycle: each looks at every node.
MOST_TRIALS: Final = 128
#: Of the equivalence classes that were stuck, so many are tried again in one cycle.
_MOST_TRIED_AGAIN: Final = 64
#: Nodes that are tried one by one for a pod.
_MOST_NODES: Final = 8
#: A pod that may start and has waited for so long is taken to have found no node.
_PATIENCE_SECONDS: Final = 5.0
#: Reasons against a reclaim that do not go away with time.
_FOR_EVER: Final = frozenset({"NotHelpful", "Reserved"})


#: Pods that fit on the same nodes: namespace, controller (or the scheduling constraints), requests.
EquivalenceClass: TypeAlias = tuple[str, str, RequestVector]


class FitChecker(Protocol):
    """Asks the scheduler's model whether a pod would fit."""

    def fits(self, pod: Pod, without: Sequence[Pod], beside: Sequence[tuple[Pod, str]]) -> str:
        """A node on which the pod fits, without those pods and beside these; empty if there is none."""
        ...


class NamespaceReclaim(msgspec.Struct):
    """What is taken back from one namespace."""

    victims: list[Pod] = msgspec.field(default_factory=list)
    #: The pods, `namespace/name`, that could start then.
    beneficiaries: list[str] = msgspec.field(default_factory=list)


class ReclaimPlan(msgspec.Struct):
    """What one cycle wants to evict, and why it cannot evict more. All maps are by namespace unless they say
    otherwise.
    """

    reclaims: dict[str, NamespaceReclaim] = msgspec.field(default_factory=dict)
    #: Why nothing can be taken back although a pod waits for it: reason and message.
    blocked: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    #: How many pods fit on no node whatever is evicted. What they deserve is lent to other namespaces meanwhile.
    stuck: dict[str, dict[RequestVector, int]] = msgspec.field(default_factory=dict)
    #: The equivalence classes of those pods; those that were looked at longest ago first.
    stuck_classes: tuple[EquivalenceClass, ...] = ()

    #: By the victim's uid: the pod that it is evicted for, and how many victims that pod needs in all.
    for_whom: dict[str, tuple[Pod, int]] = msgspec.field(default_factory=dict)
    #: Where the reclaimed room went to others: the beneficiary's key, and the uids of pods that lost theirs with it.
    futile: dict[str, tuple[str, list[str]]] = msgspec.field(default_factory=dict)
    #: Whether the plan may change as time passes, without an event. (`Trials` knows when back-offs end.)
    is_early: bool = False

    @property
    def victims(self) -> list[Pod]:
        return [pod for reclaim in self.reclaims.values() for pod in reclaim.victims]


async def plan_reclaim(
    inputs: ReclaimInputs, fit_checker: FitChecker, history: Trials, stuck: Sequence[EquivalenceClass] = ()
) -> ReclaimPlan:
    """What to evict so that pods can start that their namespaces deserve. `history`: how earlier evictions turned out;
    `stuck`: the classes that the last plan found stuck, in its order.
    """
    wanting = _neediest_first(inputs)
    if not wanting and not stuck:
        return ReclaimPlan()
    return await _Planning(inputs, fit_checker, history, _most_overused_first(inputs.division)).run(wanting, stuck)


def _most_overused_first(division: Division) -> list[str]:
    overused = [name for name, outcome in division.namespaces.items() if outcome.over]
    return sorted(overused, key=lambda name: (-division.overuse(name), name))


def _neediest_first(inputs: ReclaimInputs) -> list[str]:
    """The namespaces with waiting pods that they deserve or are lent room for."""
    found: dict[str, GuaranteeUse] = {}
    for name, outcome in inputs.division.namespaces.items():
        limit = outcome.fair_or_lent
        if any(_is_within(limit, vector, outcome.staying) for vector in inputs.accounting.account(name).waiting()):
            capacity = inputs.division.capacity
            found[name] = GuaranteeUse(dominant(outcome.staying, capacity), dominant(outcome.deserved, capacity))
    return by_need(found)


def _is_within(limit: Amounts, vector: RequestVector, held: Amounts) -> bool:
    """Whether one pod more stays within the limit; False for a pod that requests nothing of what is divided."""
    need = [(name, amount) for name, amount in vector if name in limit]
    return bool(need) and all(held.get(name, 0) + amount <= limit[name] for name, amount in need)


def _held(inputs: ReclaimInputs, namespace: str) -> dict[str, int]:
    """What the `Hold` policy keeps free for the namespace although it does not use it."""
    outcome = inputs.division.namespaces[namespace]
    if inputs.consumers[namespace].spec.reserved_policy != "Hold":
        return {}
    kept = {name: min(amount, outcome.deserved.get(name, 0)) for name, amount in outcome.reserved.items()}
    return {name: rest for name, amount in kept.items() if (rest := amount - outcome.used.get(name, 0)) > 0}


def _has_waited(pod: Pod) -> bool:
    return clock.now() - clock.parse_timestamp(pod.metadata.creation_timestamp) >= _PATIENCE_SECONDS


class _Planning:
    """One plan while it is being made."""

    def __init__(
        self, inputs: ReclaimInputs, fit_checker: FitChecker, history: Trials, overused: Sequence[str]
    ) -> None:
        self._inputs, self._fit_checker, self._history, self._overused = inputs, fit_checker, history, overused
        self._spare = ReclaimablePods(inputs)
        self._plan = ReclaimPlan()
        self._placed: list[tuple[Pod, str]] = []
        #: By namespace: for how many pods room is made, or was; and for how many there was room anyway.
        self._made, self._found = Counter[str](), Counter[str]()
        self._leaving = [
            pod
            for name in inputs.division.namespaces
            if inputs.accounting.account(name).leaving
            for pod in inputs.pods(name)
            if inputs.accounting.is_leaving(pod.metadata.uid)
        ]
        self._held = {name: held for name in inputs.consumers if (held := _held(inputs, name))}
        self._trials, self._turn = 0, Turn()
        self._held_on: dict[str, dict[str, int]] | None = None
        self._hopeless: set[EquivalenceClass] = set()
        self._stuck: dict[EquivalenceClass, None] = {}
        #: Those that stay stuck without a trial, for now.
        self._resting: dict[EquivalenceClass, None] = {}
        self._members: dict[str, dict[EquivalenceClass, list[Pod]]] = {}

    async def run(self, wanting: Sequence[str], stuck: Sequence[EquivalenceClass]) -> ReclaimPlan:
        """Serve the waiting pods of these namespaces, in this order."""
        still = [pod_class for pod_class in stuck if self._waiting(pod_class)]
        self._resting = dict.fromkeys(still[_MOST_TRIED_AGAIN:])
        self._plan.is_early = bool(self._resting)  # they have their turn soon
        for name in wanting:
            await self._serve(name)
        for pod_class in still[:_MOST_TRIED_AGAIN]:
            if pod_class not in self._stuck:
                await self._look_again(pod_class)
        self._stuck = self._resting | self._stuck
        self._plan.stuck_classes = tuple(self._stuck)
        served = {pod.metadata.uid for pod, _ in self._placed}
        for name, (_, lost) in self._plan.futile.items():
            lost += [uid for uid in self._history.of(name) if uid not in served]
        self._count_stuck(served)
        return self._plan

    async def _look_again(self, pod_class: EquivalenceClass) -> None:
        """A class that was stuck is lent nothing, so it is not among the wanting: it stays stuck until a node has
        room.
        """
        served = {pod.metadata.uid for pod, _ in self._placed}
        waiting = self._waiting(pod_class)
        if not any(pod.metadata.uid in served for pod in waiting) and not await self._fits(waiting[0], []):
            self._stuck[pod_class] = None

    def _waiting(self, pod_class: EquivalenceClass) -> Sequence[Pod]:
        """The pods of that class that wait."""
        namespace = pod_class[0]
        if namespace not in self._members:
            classes: dict[EquivalenceClass, list[Pod]] = {}
            self._members[namespace] = classes
            for pod in self._inputs.waiting(namespace):
                classes.setdefault(self._equivalence_class(pod), []).append(pod)
        return self._members[namespace].get(pod_class, ())

    def _count_stuck(self, served: Container[str]) -> None:
        """How many pods of each stuck class are waiting and get no room in this plan."""
        for pod_class in self._stuck:
            left = self._plan.stuck.setdefault(pod_class[0], {})
            count = sum(pod.metadata.uid not in served for pod in self._waiting(pod_class))
            if count:
                left[pod_class[-1]] = left.get(pod_class[-1], 0) + count

    async def _serve(self, namespace: str) -> None:
        inputs, outcome = self._inputs, self._inputs.division.namespaces[namespace]
        held, vectors, limit = (
            dict(outcome.staying),
            inputs.accounting.account(namespace).waiting(),
            outcome.fair_or_lent,
        )
        waiting = [pod for pod in inputs.waiting(namespace) if not inputs.accounting.is_held(pod)]
        for pod in sorted(waiting, key=queue_order):
            await self._give_way()
            vector = inputs.accounting.vector(pod)
            is_deserved = _is_within(outcome.deserved, vector, held)
            if not is_deserved and not _is_within(limit, vector, held):
                continue
            if await self._is_given_up(pod, is_deserved=is_deserved):
                continue
            for name, amount in vector:
                held[name] = held.get(name, 0) + amount
            if not any(_is_within(limit, candidate, held) for candidate in vectors):
                return

    async def _is_given_up(self, pod: Pod, *, is_deserved: bool) -> bool:
        """Make room for the pod, if it deserves that and it can be done. True: it is stuck, leave its share to
        others.
        """
        pod_class = self._equivalence_class(pod)
        if pod_class in self._resting:
            return True
        if pod_class in self._hopeless or self._trials >= MOST_TRIALS:
            return pod_class in self._stuck
        if not (self._overused and is_deserved) and not _has_waited(pod):  # the scheduler needs no help yet
            self._plan.is_early = True
            return False
        if not (await self._make_room(pod) if is_deserved else await self._place(pod)):
            self._hopeless.add(pod_class)
            if not is_deserved or self._is_stuck(pod):
                self._stuck[pod_class] = None
        return pod_class in self._stuck

    def _equivalence_class(self, pod: Pod) -> EquivalenceClass:
        owner, spec = pod.metadata.controller, pod.spec
        where = (spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints, spec.volumes)
        constraints = owner.uid if owner is not None else msgspec.json.encode(where).decode()
        return pod.metadata.namespace, constraints, self._inputs.accounting.vector(pod)

    def _is_stuck(self, pod: Pod) -> bool:
        """Whether no eviction can ever help: budgets and minRuntime give way with time, guarantees and nodes do not."""
        obstacles = [self._plan.blocked.get(name) for name in self._overused if name != pod.metadata.namespace]
        return all(why is not None and why[0] in _FOR_EVER for why in obstacles)

    async def _make_room(self, pod: Pod) -> bool:
        """Plan the fewest evictions that let this pod start; False if there are none, or it has to wait for them."""
        if await self._place(pod):
            return True
        on_node, units = await self._enough(pod)
        if not units:
            self._tell_why(pod)
            return False
        chosen, node = await self._fewest(pod, units)
        count = sum(len(unit) for unit in chosen)
        if await self._is_to_wait(pod, count):
            return False
        if not node or self._is_overtaken(pod, chosen):
            return True  # the next cycle sees what it needs now
        self._made[pod.metadata.namespace] += 1
        self._placed.append((pod, node))
        self._spare.send(chosen, from_one_node=on_node)
        for unit in chosen:
            reclaim = self._plan.reclaims.setdefault(unit[0].metadata.namespace, NamespaceReclaim())
            reclaim.victims += unit
            self._plan.for_whom |= {victim.metadata.uid: (pod, count) for victim in unit}
            if pod.metadata.key not in reclaim.beneficiaries:
                reclaim.beneficiaries.append(pod.metadata.key)
        return True

    def _is_overtaken(self, pod: Pod, chosen: Iterable[Unit]) -> bool:
        """Whether the pod has got a node or gone while room was looked for, or one of those that were to go for it."""
        inputs, uid = self._inputs, pod.metadata.uid
        is_there = any(other.metadata.uid == uid for other in inputs.waiting(pod.metadata.namespace))
        return not (is_there and all(inputs.accounting.is_held(victim) for unit in chosen for victim in unit))

    async def _is_to_wait(self, pod: Pod, count: int) -> bool:
        """Whether to evict nothing for this pod now, because earlier evictions for its namespace did not help."""
        namespace = pod.metadata.namespace
        back_off = self._history.back_off(namespace)
        if namespace not in self._plan.futile and await self._has_lost(pod, count):
            self._plan.futile[namespace] = pod.metadata.key, []
        if namespace in self._plan.futile or (back_off is not None and clock.now() < back_off.until):
            why = f"what was taken back for {namespace} went to others: its Allocation says until when nothing is"
            for name in self._overused:
                if name != namespace:
                    self._plan.blocked.setdefault(name, ("BackingOff", why))
            return True
        return back_off is not None and self._made[namespace] >= back_off.max_pods

    async def _has_lost(self, pod: Pod, count: int) -> bool:
        """Whether other pods took the room that was made for it (and not just a changed plan)."""
        is_lost = self._history.is_lost(pod, count, self._found[pod.metadata.namespace])
        return is_lost and not self._fit_checker.fits(pod, self._leaving, ())

    async def _fewest(self, pod: Pod, units: Sequence[Unit]) -> tuple[Sequence[Unit], str]:
        """The fewest units that suffice, and the node on which the pod fits then. All of `units` together suffice.

        Doubling and bisection find the shortest prefix; then each unit of it that is not needed is kept.
        """
        few, size = 0, 1  # the first `few` do not suffice
        while size < len(units) and not await self._fits(pod, units[:size]):
            few, size = size, 2 * size
        enough = min(size, len(units))
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if await self._fits(pod, units[:middle]) else (middle, enough)
        chosen = units[:enough]
        for unit in reversed(chosen):
            without = [kept for kept in chosen if kept is not unit]
            if without and await self._fits(pod, without):
                chosen = without
        return chosen, await self._fits(pod, chosen)

    async def _place(self, pod: Pod) -> bool:
        """Whether it fits without evictions; then it is left to the scheduler."""
        node = await self._fits(pod, [])
        if node:
            self._placed.append((pod, node))
            (self._made if self._history.is_on_trial(pod) else self._found)[pod.metadata.namespace] += 1
        return bool(node)

    async def _enough(self, pod: Pod) -> tuple[bool, list[Unit]]:
        """Units whose eviction makes room for the pod, in eviction order, and whether they are all on one node.

        First over all nodes; if that makes no room on any of them, then node by node. Empty if nothing helps.
        """
        donors = [
            name for name in self._overused if name != pod.metadata.namespace
        ]  # no eviction for its own namespace
        for node in chain([""], self._nodes_to_try(pod)):
            units, look_at = list[Unit](), 1
            for count, name in enumerate(donors, 1):
                units += [unit for unit in self._spare.units(name, node) if self._helps(unit, pod)]
                if count in (look_at, len(donors)):
                    look_at *= 2
                    if units and await self._fits(pod, units):
                        return bool(node), units
        return False, []

    def _nodes_to_try(self, pod: Pod) -> Iterator[str]:
        """The nodes on which overused namespaces hold most of what the pod needs."""
        if self._held_on is None:
            self._held_on = self._held_by_overused()
        held, need = self._held_on, self._inputs.accounting.vector(pod)

        def part(node: str) -> float:
            return sum(min(held[node].get(name, 0) / amount, 1.0) for name, amount in need)

        yield from sorted(held, key=lambda node: (-part(node), node))[:_MOST_NODES]

    def _held_by_overused(self) -> dict[str, dict[str, int]]:
        """What the overused namespaces hold, by node and resource."""
        accounting, held = self._inputs.accounting, dict[str, dict[str, int]]()
        for name in self._overused:
            for pod in self._inputs.pods(name):
                if pod.spec.node_name and accounting.is_held(pod):
                    here = held.setdefault(pod.spec.node_name, {})
                    for resource, amount in accounting.vector(pod):
                        here[resource] = here.get(resource, 0) + amount
        return held

    async def _fits(self, pod: Pod, units: Iterable[Unit]) -> str:
        self._trials += 1
        await self._give_way()
        gone = [*self._leaving, *self._plan.victims, *(victim for unit in units for victim in unit)]
        return self._fit_checker.fits(pod, gone, self._placed) if self._is_free(pod, gone) else ""

    async def _give_way(self) -> None:
        if self._turn.is_over:
            await asyncio.sleep(0)
            self._turn = Turn()

    def _is_free(self, pod: Pod, gone: Sequence[Pod]) -> bool:
        """Whether enough is free for it without what `Hold` keeps for other namespaces."""
        held = [amounts for name, amounts in self._held.items() if name != pod.metadata.namespace]
        if not held:
            return True
        accounting, capacity = self._inputs.accounting, self._inputs.division.capacity
        free = {name: amount - accounting.occupied.get(name, 0) for name, amount in capacity.items()}
        changes = [(1, dict(accounting.vector(victim))) for victim in gone]
        changes += [(-1, dict(accounting.vector(placed))) for placed, _ in self._placed]
        changes += [(-1, amounts) for amounts in held]
        for sign, amounts in changes:
            for name in amounts.keys() & free.keys():
                free[name] += sign * amounts[name]
        return all(free.get(name, amount) >= amount for name, amount in accounting.vector(pod))

    def _helps(self, unit: Unit, pod: Pod) -> bool:
        """Whether it holds anything that the pod needs."""
        needed = {name for name, _ in self._inputs.accounting.vector(pod)}
        return any(name in needed for victim in unit for name, _ in self._inputs.accounting.vector(victim))

    def _tell_why(self, pod: Pod) -> None:
        """Note why nothing is taken back for the pod. Most reasons end with time: pods get older, budgets allow
        more.
        """
        self._plan.is_early = True
        for name in self._overused:
            if name != pod.metadata.namespace and name not in self._plan.blocked:
                self._plan.blocked[name] = self._spare.obstacle(name, pod.metadata.key)
