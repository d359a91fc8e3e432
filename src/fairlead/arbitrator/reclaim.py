"""Who has to go, and for whom: a pure plan, made anew in every cycle until it is carried out.

Nobody goes for nothing. There must be a pod that its namespace deserves and that waits, and it must fit on a node once
the victims are gone. Victims hold what others deserve; which of them, `fairshare.victims` says, and whoever turns out
not to be needed for that pod stays. So a victim that comes back is not deserved, and the next cycle evicts nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol, TypeAlias

import msgspec

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.books import Kind, in_line
from fairlead.arbitrator.outcomes import Amounts, Division
from fairlead.arbitrator.spare import Holdings, Spare, Unit
from fairlead.arbitrator.trials import Trials
from fairlead.fairshare.claims import dominant
from fairlead.fairshare.orders import Standing, by_need
from fairlead.runtime import clock

#: Placements that are tried in one cycle: each looks at every node.
MOST_TRIALS: Final = 128
#: Nodes that are tried one by one for a pod.
_MOST_NODES: Final = 8
#: After so long, a pod that may start and does not has found no node.
_PATIENCE_SECONDS: Final = 5.0
#: Reasons for which nothing is taken back, and which time does not change.
_FOR_EVER: Final = frozenset({"NotHelpful", "Reserved"})


#: Pods that no node tells from each other, but for what is on it: namespace, controller or constraints, requests.
Alike: TypeAlias = tuple[str, str, Kind]


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
    #: How many pods of each kind no eviction would help: no node has room for them, whoever goes. What they deserve, or
    #: were lent, may be lent to others meanwhile.
    stuck: dict[str, dict[Kind, int]] = field(default_factory=dict)
    #: Which they are.
    stuck_alike: frozenset[Alike] = frozenset()

    #: For whom each victim goes, by its uid, and with how many others.
    for_whom: dict[str, tuple[Pod, int]] = field(default_factory=dict)
    #: The namespaces for which room was made in vain: for which of their pods, and who else lost it (uids).
    futile: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    #: Whether it may be another one in a moment, although nothing happens. (When a back-off ends, `Trials` knows.)
    is_early: bool = False

    @property
    def victims(self) -> list[Pod]:
        return [pod for taking in self.takings.values() for pod in taking.victims]


def plan(scene: Holdings, room: Room, history: Trials, stuck: frozenset[Alike] = frozenset()) -> Plan:
    """Whom to evict so that pods can start that are deserved. `history`: what came of it before, `stuck`: who was so in
    the last plan.
    """
    wanting = _neediest_first(scene)
    if not wanting and not stuck:
        return Plan()
    return _Planning(scene, room, history, _most_overused_first(scene.division)).run(wanting, stuck)


def _most_overused_first(division: Division) -> list[str]:
    over = {name: account.over for name, account in division.namespaces.items()}
    shares = {name: dominant(amounts, division.capacity) for name, amounts in over.items() if amounts}
    return sorted(shares, key=lambda name: (-shares[name], name))


def _neediest_first(scene: Holdings) -> list[str]:
    """The namespaces in which pods wait that are deserved, or lent."""
    found: dict[str, Standing] = {}
    for name, outcome in scene.division.namespaces.items():
        limit = outcome.fair_or_lent
        if any(_is_within(limit, kind, outcome.staying) for kind in scene.books.account(name).waiting()):
            capacity = scene.division.capacity
            found[name] = Standing(dominant(outcome.staying, capacity), dominant(outcome.deserved, capacity))
    return by_need(found)


def _is_within(limit: Amounts, kind: Kind, held: Amounts) -> bool:
    """Whether such a pod more is; one that needs nothing of what is divided waits for something else."""
    need = [(name, amount) for name, amount in kind if name in limit]
    return bool(need) and all(held.get(name, 0) + amount <= limit[name] for name, amount in need)


def _held(scene: Holdings, namespace: str) -> dict[str, int]:
    """What is kept for the namespace while it is idle."""
    outcome = scene.division.namespaces[namespace]
    if scene.consumers[namespace].spec.reserved_policy != "Hold":
        return {}
    kept = {name: min(amount, outcome.deserved.get(name, 0)) for name, amount in outcome.reserved.items()}
    return {name: rest for name, amount in kept.items() if (rest := amount - outcome.used.get(name, 0)) > 0}


def _has_waited(pod: Pod) -> bool:
    return clock.now() - clock.parse_timestamp(pod.metadata.creation_timestamp) >= _PATIENCE_SECONDS


class _Planning:
    """One plan in the making."""

    def __init__(self, scene: Holdings, room: Room, history: Trials, overused: Sequence[str]) -> None:
        self._scene, self._room, self._history, self._overused = scene, room, history, overused
        self._spare = Spare(scene)
        self._plan = Plan()
        self._placed: list[tuple[Pod, str]] = []
        #: By namespace: for how many pods room is made, or was; and for how many there was room anyway.
        self._made, self._found = Counter[str](), Counter[str]()
        self._leaving = [
            pod
            for name in scene.division.namespaces
            if scene.books.account(name).leaving
            for pod in scene.pods(name)
            if scene.books.is_leaving(pod.metadata.uid)
        ]
        self._held = {name: held for name in scene.consumers if (held := _held(scene, name))}
        self._trials = 0
        self._held_on: dict[str, dict[str, int]] | None = None
        self._hopeless: set[Alike] = set()
        self._stuck: set[Alike] = set()

    def run(self, wanting: Sequence[str], stuck: frozenset[Alike]) -> Plan:
        """For the pods of these namespaces in their order, as far as they are deserved."""
        for name in wanting:
            self._serve(name)
        for alike in sorted(stuck - self._stuck):
            self._look_again(alike)
        self._plan.stuck_alike = frozenset(self._stuck)
        served = {pod.metadata.uid for pod, _ in self._placed}
        for name, (_, lost) in self._plan.futile.items():
            lost += [uid for uid in self._history.of(name) if uid not in served]
        for name in {name for name, _, _ in self._stuck}:
            self._plan.stuck[name] = self._left_over(name)
        return self._plan

    def _look_again(self, alike: Alike) -> None:
        """Who was stuck, and is lent nothing for that reason, stays so until there is room."""
        served = {pod.metadata.uid for pod, _ in self._placed}
        waiting = [pod for pod in self._scene.waiting(alike[0]) if self._alike(pod) == alike]
        if waiting and not any(pod.metadata.uid in served for pod in waiting) and not self._fits(waiting[0], []):
            self._stuck.add(alike)

    def _left_over(self, namespace: str) -> dict[Kind, int]:
        """The pods that are like those that are stuck, but for those for whom there is room, or will be."""
        served = {pod.metadata.uid for pod, _ in self._placed}
        left = (self._alike(pod) for pod in self._scene.waiting(namespace) if pod.metadata.uid not in served)
        return dict(Counter(alike[-1] for alike in left if alike in self._stuck))

    def _serve(self, namespace: str) -> None:
        scene, outcome = self._scene, self._scene.division.namespaces[namespace]
        held, kinds, limit = dict(outcome.staying), scene.books.account(namespace).waiting(), outcome.fair_or_lent
        waiting = [pod for pod in scene.waiting(namespace) if not scene.books.is_held(pod)]
        for pod in sorted(waiting, key=in_line):
            kind = scene.books.kind(pod)
            is_deserved = _is_within(outcome.deserved, kind, held)
            if not is_deserved and not _is_within(limit, kind, held):
                continue
            if self._is_given_up(pod, is_deserved=is_deserved):
                continue
            for name, amount in kind:
                held[name] = held.get(name, 0) + amount
            if not any(_is_within(limit, kind, held) for kind in kinds):
                return

    def _is_given_up(self, pod: Pod, *, is_deserved: bool) -> bool:
        """Make room for the pod, if that can be done and is deserved; whether what it was to get is of no use to it."""
        alike = self._alike(pod)
        if alike in self._hopeless or self._trials >= MOST_TRIALS:
            return alike in self._stuck
        if not (self._overused and is_deserved) and not _has_waited(pod):  # the scheduler needs no help yet
            self._plan.is_early = True
            return False
        if not (self._make_room(pod) if is_deserved else self._place(pod)):
            self._hopeless.add(alike)
            if not is_deserved or self._is_stuck(pod):
                self._stuck.add(alike)
        return alike in self._stuck

    def _alike(self, pod: Pod) -> Alike:
        owner, spec = pod.metadata.controller, pod.spec
        where = (spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints, spec.volumes)
        told = owner.uid if owner is not None else msgspec.json.encode(where).decode()
        return pod.metadata.namespace, told, self._scene.books.kind(pod)

    def _is_stuck(self, pod: Pod) -> bool:
        """Whether it waits for ever: budgets and the time may give way one day, guarantees and nodes do not."""
        others = [self._plan.blocked.get(name) for name in self._overused if name != pod.metadata.namespace]
        return all(why is not None and why[0] in _FOR_EVER for why in others)

    def _make_room(self, pod: Pod) -> bool:
        """Find the fewest that have to go for this pod; False if that cannot be."""
        if self._place(pod):
            return True
        on_node, units = self._enough(pod)
        if not units:
            self._tell_why(pod)
            return False
        chosen, node = self._fewest(pod, units)
        count = sum(len(unit) for unit in chosen)
        if self._is_to_wait(pod, count):
            return False
        self._made[pod.metadata.namespace] += 1
        self._placed.append((pod, node))
        self._spare.send(chosen, from_one_node=on_node)
        for unit in chosen:
            taking = self._plan.takings.setdefault(unit[0].metadata.namespace, Taking())
            taking.victims += unit
            self._plan.for_whom |= {member.metadata.uid: (pod, count) for member in unit}
            if pod.metadata.key not in taking.beneficiaries:
                taking.beneficiaries.append(pod.metadata.key)
        return True

    def _is_to_wait(self, pod: Pod, count: int) -> bool:
        """Whether so many do not go for this pod now, for what was taken back for its namespace did not help."""
        namespace = pod.metadata.namespace
        caution = self._history.caution(namespace)
        if namespace not in self._plan.futile and self._has_lost(pod, count):
            self._plan.futile[namespace] = pod.metadata.key, []
        if namespace in self._plan.futile or (caution is not None and clock.now() < caution.until):
            why = f"what was taken back for {namespace} went to others: its Allocation says until when nothing is"
            for name in self._overused:
                if name != namespace:
                    self._plan.blocked.setdefault(name, ("BackingOff", why))
            return True
        return caution is not None and self._made[namespace] >= caution.width

    def _has_lost(self, pod: Pod, count: int) -> bool:
        """Whether others have the room that was made for it; not just other plans for it."""
        is_lost = self._history.is_lost(pod, count, self._found[pod.metadata.namespace])
        return is_lost and not self._room.fits(pod, self._leaving, ())

    def _fewest(self, pod: Pod, units: Sequence[Unit]) -> tuple[Sequence[Unit], str]:
        """Those of the first that have to go, and the node on which the pod fits then. All of them together suffice."""
        few, size = 0, 1  # the first `few` do not suffice
        while size < len(units) and not self._fits(pod, units[:size]):
            few, size = size, 2 * size
        enough = min(size, len(units))
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if self._fits(pod, units[:middle]) else (middle, enough)
        chosen = units[:enough]
        for unit in reversed(chosen):
            without = [chosen_unit for chosen_unit in chosen if chosen_unit is not unit]
            if without and self._fits(pod, without):
                chosen = without
        return chosen, self._fits(pod, chosen)

    def _place(self, pod: Pod) -> bool:
        """Whether there is room for it as it is; then the scheduler will see to it."""
        node = self._fits(pod, [])
        if node:
            self._placed.append((pod, node))
            (self._made if self._history.is_on_trial(pod) else self._found)[pod.metadata.namespace] += 1
        return bool(node)

    def _enough(self, pod: Pod) -> tuple[bool, list[Unit]]:
        """Who can be spared and would make room for this one, in the order in which they should go; nobody if that
        cannot be. If those that should go first are on too many nodes, then it is those of one node.
        """
        others = [name for name in self._overused if name != pod.metadata.namespace]  # nobody goes for his own
        for node in chain([""], self._nodes_to_try(pod)):
            units, look_at = list[Unit](), 1
            for count, name in enumerate(others, 1):
                units += [unit for unit in self._spare.units(name, node) if self._helps(unit, pod)]
                if count in (look_at, len(others)):
                    look_at *= 2
                    if units and self._fits(pod, units):
                        return bool(node), units
        return False, []

    def _nodes_to_try(self, pod: Pod) -> Iterator[str]:
        """Where the overused hold most of what the pod needs."""
        if self._held_on is None:
            self._held_on = self._held_by_overused()
        held, need = self._held_on, self._scene.books.kind(pod)

        def part(node: str) -> float:
            return sum(min(held[node].get(name, 0) / amount, 1.0) for name, amount in need)

        yield from sorted(held, key=lambda node: (-part(node), node))[:_MOST_NODES]

    def _held_by_overused(self) -> dict[str, dict[str, int]]:
        """By node and resource."""
        books, held = self._scene.books, dict[str, dict[str, int]]()
        for name in self._overused:
            for pod in self._scene.pods(name):
                if pod.spec.node_name and books.is_held(pod):
                    here = held.setdefault(pod.spec.node_name, {})
                    for resource, amount in books.kind(pod):
                        here[resource] = here.get(resource, 0) + amount
        return held

    def _fits(self, pod: Pod, units: Iterable[Unit]) -> str:
        self._trials += 1
        gone = [*self._leaving, *self._plan.victims, *(pod for unit in units for pod in unit)]
        return self._room.fits(pod, gone, self._placed) if self._is_free(pod, gone) else ""

    def _is_free(self, pod: Pod, gone: Sequence[Pod]) -> bool:
        """Whether there is enough for it beside what is held for others."""
        held = [amounts for name, amounts in self._held.items() if name != pod.metadata.namespace]
        if not held:
            return True
        books, capacity = self._scene.books, self._scene.division.capacity
        free = {name: amount - books.occupied.get(name, 0) for name, amount in capacity.items()}
        changes = [(1, dict(books.kind(victim))) for victim in gone]
        changes += [(-1, dict(books.kind(placed_pod))) for placed_pod, _ in self._placed]
        changes += [(-1, amounts) for amounts in held]
        for sign, amounts in changes:
            for name in amounts.keys() & free.keys():
                free[name] += sign * amounts[name]
        return all(free.get(name, amount) >= amount for name, amount in books.kind(pod))

    def _helps(self, unit: Unit, pod: Pod) -> bool:
        """Whether it holds anything that the pod needs."""
        needed = {name for name, _ in self._scene.books.kind(pod)}
        return any(name in needed for victim in unit for name, _ in self._scene.books.kind(victim))

    def _tell_why(self, pod: Pod) -> None:
        """Why the overused keep what the pod needs. Most of that ends with time: pods grow older, budgets give way."""
        self._plan.is_early = True
        for name in self._overused:
            if name != pod.metadata.namespace and name not in self._plan.blocked:
                self._plan.blocked[name] = self._spare.obstacle(name, pod.metadata.key)
