"""Daemon sets: one pod on every node that they fit.

`placement.py` says which nodes, `turn.py` what to do about it, `rolling.py` in which order templates change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from fairlead.api.nodes import Node
from fairlead.api.pods import Pod
from fairlead.api.workloads import ControllerRevision, DaemonSet, template_of
from fairlead.controllers.actions import Actions, Requeue, update_status
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import candidates, claim, owner_of
from fairlead.controllers.daemonset.backoff import FailureBackoff
from fairlead.controllers.daemonset.placement import Placement, placement_of
from fairlead.controllers.daemonset.turn import DaemonSetTurn
from fairlead.controllers.history import REVISION_LABEL, Wanted, forget_old, known_revisions, newest
from fairlead.controllers.kinds import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from fairlead.controllers.pods import next_available


class DaemonSets(Controller[DaemonSet]):
    name = "daemonset-controller"
    queue_name = "daemonset"
    account = "daemon-set-controller"
    kind = DAEMON_SETS

    def __init__(self) -> None:
        self.watches = (
            Watch(PODS, owner_of(DAEMON_SETS, lambda owner: owner.selector), wakes_known=True),
            Watch(CONTROLLER_REVISIONS, owner_of(DAEMON_SETS)),
            Watch(NODES, self._whose_place_changed),
        )
        self._backoff = FailureBackoff()
        self._placements: dict[str, tuple[str, int, Placement]] = {}

    def reconcile(self, obj: DaemonSet, world: World) -> Actions:
        if obj.metadata.is_terminating:
            return
        selector = obj.selector
        known = yield from known_revisions(world, DAEMON_SETS, obj, selector)
        found = candidates(world, PODS, obj, selector)
        pods = yield from claim(DAEMON_SETS, obj, PODS, found, lambda pod: selector.matches(pod.metadata.labels))
        current, collisions = yield from newest(_wanted(obj, known, pods), known)
        turn = DaemonSetTurn(
            obj, current.metadata.labels[REVISION_LABEL], pods, self._placement(obj), self._backoff, world
        )
        failure = yield from turn.run()
        yield from update_status(DAEMON_SETS, obj, obj.status, turn.status(collisions))
        if failure is not None:
            raise failure
        hashes = {pod.metadata.labels.get(REVISION_LABEL) for pod in pods}
        old = [revision for revision in known if revision.metadata.name != current.metadata.name]
        in_use = {revision.metadata.name for revision in old if revision.metadata.labels.get(REVISION_LABEL) in hashes}
        # Other than with stateful sets, those in use take up room in the history.
        yield from forget_old(old, in_use, max(obj.spec.revision_history_limit - len(in_use), 0))
        wait = next_available(pods, obj.spec.min_ready_seconds, world.now)
        if wait is not None:
            yield Requeue(wait)

    def gone(self, key: str, world: World) -> Actions:
        forgotten = self._placements.pop(key, None)
        if forgotten is not None:
            self._backoff.forget(forgotten[0])
        yield from ()

    def _placement(self, owner: DaemonSet) -> Placement:
        meta = owner.metadata
        known = self._placements.get(meta.key)
        if known is None or known[:2] != (meta.uid, meta.generation):
            known = self._placements[meta.key] = (meta.uid, meta.generation, placement_of(owner))
        return known[2]

    def _whose_place_changed(self, world: World, old: Node | None, new: Node | None) -> Iterator[str]:
        """The sets for which this change of a node makes a difference; heartbeats make none."""
        if old is not None and new is not None and _is_same_place(old, new):
            return
        for owner in world.of(DAEMON_SETS):
            placement = self._placement(owner)
            if _decision(placement, old) != _decision(placement, new):
                yield owner.metadata.key


def _wanted(obj: DaemonSet, known: Sequence[ControllerRevision], pods: Sequence[Pod]) -> Wanted:
    """The revision of the present template, which pods may know already: as many as the status says are up to date."""
    status, collisions = obj.status, obj.status.collision_count or 0
    wanted = Wanted(DAEMON_SETS, obj, template_of(obj.spec.template), REVISION_LABEL, collisions)
    if status.observed_generation != obj.metadata.generation or not status.updated_number_scheduled:
        return wanted
    there = {revision.metadata.labels.get(REVISION_LABEL) for revision in known}
    hashes = Counter(pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods)
    lost = [hash_ for hash_, count in hashes.items() if count == status.updated_number_scheduled and hash_ not in there]
    return replace(wanted, known_as=lost[0]) if len(lost) == 1 else wanted


def _is_same_place(old: Node, new: Node) -> bool:
    return old.metadata.labels == new.metadata.labels and old.spec == new.spec


def _decision(placement: Placement, node: Node | None) -> tuple[bool, bool]:
    if node is None:
        return False, False
    return placement.should_run(node), placement.may_stay(node)
