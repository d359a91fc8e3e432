"""Stateful sets: pods with names and storage of their own, that come and go in order.

`identity.py` says who a pod is, `update.py` what happens to it when, `retention.py` what becomes of its claims.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fairlead.api.errors import ApiError
from fairlead.api.pods import Pod
from fairlead.api.workloads import ControllerRevision, StatefulSet, template_of
from fairlead.controllers.actions import Actions, Requeue, update_status
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import candidates, claim, owner_of
from fairlead.controllers.history import Wanted, forget_old, known_revisions, newest
from fairlead.controllers.kinds import CLAIMS, CONTROLLER_REVISIONS, PODS, STATEFUL_SETS
from fairlead.controllers.pods import next_available
from fairlead.controllers.statefulset.identity import ordinal_of
from fairlead.controllers.statefulset.update import Revisions, StatefulSetUpdate, names_in_use

#: The label under which a revision carries its own hash.
_HASH_LABEL = "controller.kubernetes.io/hash"


class StatefulSets(Controller[StatefulSet]):
    name = "statefulset-controller"
    queue_name = "statefulset"
    account = "statefulset-controller"
    kind = STATEFUL_SETS
    watches = (
        Watch(PODS, owner_of(STATEFUL_SETS, lambda owner: owner.selector), wakes_known=True),
        Watch(CONTROLLER_REVISIONS, owner_of(STATEFUL_SETS)),
        Watch(CLAIMS),
    )

    def reconcile(self, obj: StatefulSet, world: World) -> Actions:
        selector = obj.selector

        def is_member(pod: Pod) -> bool:
            return selector.matches(pod.metadata.labels) and ordinal_of(obj, pod) is not None

        known = yield from known_revisions(world, STATEFUL_SETS, obj, selector)
        pods = yield from claim(STATEFUL_SETS, obj, PODS, candidates(world, PODS, obj, selector), is_member)
        update, collisions = yield from newest(_wanted(obj, known), known)
        current = next(
            (revision for revision in known if revision.metadata.name == obj.status.current_revision), update
        )
        revisions = Revisions(current, update)
        by_ordinal = {ordinal: pod for pod in pods if (ordinal := ordinal_of(obj, pod)) is not None}
        turn = StatefulSetUpdate(obj, by_ordinal, revisions, world)
        failure: ApiError | None = None
        try:
            yield from turn.run()
        except ApiError as error:
            failure = error
        yield from update_status(STATEFUL_SETS, obj, obj.status, turn.status(collisions))
        if failure is not None:
            raise failure
        yield from forget_old(known, names_in_use(pods, revisions), obj.spec.revision_history_limit)
        wait = next_available(pods, obj.spec.min_ready_seconds, world.now)
        if wait is not None:
            yield Requeue(wait)


def _wanted(obj: StatefulSet, known: Sequence[ControllerRevision]) -> Wanted:
    """The revision of the present template, which the status may know already."""
    status, collisions = obj.status, obj.status.collision_count or 0
    wanted = Wanted(STATEFUL_SETS, obj, template_of(obj.spec.template), _HASH_LABEL, collisions)
    prefix, name = wanted.name(""), status.update_revision
    is_lost = name.startswith(prefix) and all(revision.metadata.name != name for revision in known)
    if is_lost and status.observed_generation == obj.metadata.generation:
        return replace(wanted, known_as=name.removeprefix(prefix))
    return wanted
