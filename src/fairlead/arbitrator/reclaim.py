"""Who has to go, and for whom: a pure plan, made anew in every cycle until it is carried out.

Nobody goes for nothing. There must be a pod that its namespace deserves and that waits, and it must fit on a node once
the victims are gone. Victims hold what others deserve; which of them, `fairshare.victims` says, and whoever turns out
not to be needed for that pod stays. So a victim that comes back is not deserved, and the next cycle evicts nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.books import Kind
from fairlead.arbitrator.decide import Amounts, Division, Outcome
from fairlead.arbitrator.spare import Holdings, Spare, Unit
from fairlead.fairshare.claims import dominant
from fairlead.fairshare.orders import Standing, by_need
from fairlead.runtime import clock

#: Placements that are tried in one cycle: each looks at every node.
MOST_TRIALS: Final = 64
#: Nodes that are tried one by one for a pod.
_MOST_NODES: Final = 8
#: After so long, a pod that may start and does not has found no node.
_PATIENCE_SECONDS: Final = 5.0


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
    #: How many deserved pods of each kind no eviction would help: no node has room for them, whoever goes. What they
    #: deserve may be lent meanwhile.
    stuck: dict[str, dict[Kind, int]] = field(default_factory=dict)

    @property
    def victims(self) -> list[Pod]:
        return [pod for one in self.takings.values() for pod in one.victims]


def plan(scene: Holdings, room: Room) -> Plan:
    """Whom to evict so that pods can start that are deserved."""
    overused, wanting = _most_overused_first(scene.division), _wanting(scene)
    if not overused:  # then the scheduler needs no help, but for what it did not manage by itself
        wanting = [pod for pod in wanting if _has_waited(pod)]
    return _Planning(scene, room, overused).run(wanting) if wanting else Plan()


def _has_waited(pod: Pod) -> bool:
    return clock.now() - clock.parse_timestamp(pod.metadata.creation_timestamp) >= _PATIENCE_SECONDS


def _most_overused_first(division: Division) -> list[str]:
    over = {name: one.over for name, one in division.namespaces.items()}
    shares = {name: dominant(amounts, division.capacity) for name, amounts in over.items() if amounts}
    return sorted(shares, key=lambda name: (-shares[name], name))


def _wanting(scene: Holdings) -> list[Pod]:
    """The pods that wait although their namespaces deserve them, the neediest namespace first."""
    found: dict[str, list[Pod]] = {}
    for name, outcome in scene.division.namespaces.items():
        account = scene.books.accounts.get(name)
        if account is not None and any(_is_deserved(kind, outcome.staying, outcome) for kind in account.waiting()):
            found[name] = _deserved(scene, name, outcome)
    capacity = scene.division.capacity
    standings = {
        name: Standing(
            dominant(scene.division.namespaces[name].staying, capacity),
            dominant(scene.division.namespaces[name].deserved, capacity),
        )
        for name in found
    }
    return [pod for name in by_need(standings) for pod in found[name]]


def _deserved(scene: Holdings, namespace: str, outcome: Outcome) -> list[Pod]:
    """The namespace's waiting pods in their order, as far as it deserves them."""
    held, found = dict(outcome.staying), list[Pod]()
    waiting = [pod for pod in scene.waiting(namespace) if not scene.books.is_held(pod)]
    for pod in sorted(waiting, key=lambda one: (-one.priority, one.metadata.creation_timestamp, one.metadata.name)):
        kind = scene.books.kind(pod)
        if _is_deserved(kind, held, outcome):
            for name, amount in kind:
                held[name] = held.get(name, 0) + amount
            found.append(pod)
            if len(found) >= MOST_TRIALS:
                break
    return found


def _is_deserved(kind: Kind, held: Amounts, outcome: Outcome) -> bool:
    """Whether such a pod more is; one that needs nothing of what is divided waits for something else."""
    need = [(name, amount) for name, amount in kind if name in outcome.deserved]
    return bool(need) and all(held.get(name, 0) + amount <= outcome.deserved[name] for name, amount in need)


def _held(scene: Holdings, namespace: str) -> dict[str, int]:
    """What is kept for the namespace while it is idle."""
    outcome = scene.division.namespaces[namespace]
    if scene.consumers[namespace].spec.reserved_policy != "Hold":
        return {}
    kept = {name: min(amount, outcome.deserved.get(name, 0)) for name, amount in outcome.reserved.items()}
    return {name: rest for name, amount in kept.items() if (rest := amount - outcome.used.get(name, 0)) > 0}


class _Planning:
    """One plan in the making."""

    def __init__(self, scene: Holdings, room: Room, overused: Sequence[str]) -> None:
        self._scene, self._room, self._overused = scene, room, overused
        self._spare = Spare(scene)
        self._plan = Plan()
        self._placed: list[tuple[Pod, str]] = []
        self._leaving = [
            pod
            for name in scene.division.namespaces
            if (account := scene.books.accounts.get(name)) is not None and account.leaving
            for pod in scene.pods(name)
            if scene.books.is_leaving(pod.metadata.uid)
        ]
        self._held = {name: held for name in scene.consumers if (held := _held(scene, name))}
        self._trials = 0
        self._held_on: dict[str, dict[str, int]] | None = None
        self._hopeless: set[tuple[str, Kind]] = set()  # controllers, or pods of their own

    def run(self, wanting: Sequence[Pod]) -> Plan:
        for pod in wanting:
            if len(self._plan.victims) >= self._scene.policy.max_evictions_per_cycle:
                break
            owner = pod.metadata.controller
            alike = (owner.uid if owner is not None else pod.metadata.uid, self._scene.books.kind(pod))
            if alike not in self._hopeless and self._trials < MOST_TRIALS and not self._make_room(pod):
                self._hopeless.add(alike)
            if alike in self._hopeless and self._is_stuck(pod):
                stuck = self._plan.stuck.setdefault(pod.metadata.namespace, {})
                stuck[alike[1]] = stuck.get(alike[1], 0) + 1
        return self._plan

    def _is_stuck(self, pod: Pod) -> bool:
        """Whether there is no room for the pod that only budgets, guarantees or the time keep from it."""
        others = [self._plan.blocked.get(name) for name in self._overused if name != pod.metadata.namespace]
        return all(why is not None and why[0] == "NotHelpful" for why in others)

    def _make_room(self, pod: Pod) -> bool:
        """Find the fewest that have to go for this pod; False if that cannot be."""
        if node := self._fits(pod, []):
            self._placed.append((pod, node))  # the scheduler will see to it
            return True
        node, units = self._enough(pod)
        if not units:
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
        self._spare.send(chosen, from_one_node=bool(node))
        for unit in chosen:
            taking = self._plan.takings.setdefault(unit[0].metadata.namespace, Taking())
            taking.victims += unit
            if pod.metadata.key not in taking.beneficiaries:
                taking.beneficiaries.append(pod.metadata.key)
        return True

    def _enough(self, pod: Pod) -> tuple[str, list[Unit]]:
        """Who can be spared and would make room for this one, in the order in which they should go; nobody if that
        cannot be. If those that should go first are on too many nodes, then it is those of the node that is told.
        """
        others = [name for name in self._overused if name != pod.metadata.namespace]  # nobody goes for his own
        for node in chain([""], self._nodes_to_try(pod)):
            units, look_at = list[Unit](), 1
            for count, name in enumerate(others, 1):
                units += [unit for unit in self._spare.units(name, node) if self._helps(unit, pod)]
                if count in (look_at, len(others)):
                    look_at *= 2
                    if units and self._fits(pod, units):
                        return node, units
        return "", []

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
        gone = [*self._leaving, *self._plan.victims, *(one for unit in units for one in unit)]
        return self._room.fits(pod, gone, self._placed) if self._is_free(pod, gone) else ""

    def _is_free(self, pod: Pod, gone: Sequence[Pod]) -> bool:
        """Whether there is enough for it beside what is held for others."""
        held = [amounts for name, amounts in self._held.items() if name != pod.metadata.namespace]
        if not held:
            return True
        books, capacity = self._scene.books, self._scene.division.capacity
        free = {name: amount - books.occupied.get(name, 0) for name, amount in capacity.items()}
        changes = [(1, dict(books.kind(one))) for one in gone]
        changes += [(-1, dict(books.kind(one))) for one, _ in self._placed]
        changes += [(-1, amounts) for amounts in held]
        for sign, amounts in changes:
            for name in amounts.keys() & free.keys():
                free[name] += sign * amounts[name]
        return all(free.get(name, amount) >= amount for name, amount in books.kind(pod))

    def _helps(self, unit: Unit, pod: Pod) -> bool:
        """Whether it holds anything that the pod needs."""
        needed = {name for name, _ in self._scene.books.kind(pod)}
        return any(name in needed for one in unit for name, _ in self._scene.books.kind(one))

    def _tell_why(self, pod: Pod) -> None:
        """Why the overused keep what the pod needs."""
        for name in self._overused:
            if name != pod.metadata.namespace and name not in self._plan.blocked:
                self._plan.blocked[name] = self._spare.obstacle(name, pod.metadata.key)
