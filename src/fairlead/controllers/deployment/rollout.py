"""One turn of one deployment: which set grows, which shrinks, and what is said about it.

       to be rolled back ──▶ roll_back         take an old template over; the rollout follows
       paused or resized ──▶ rescale           keep the proportions of the sets, change nothing else
       Recreate          ──▶ recreate          all old pods go, then the new ones come
       RollingUpdate     ──▶ roll              new pods come and old ones go, within surge and unavailability

Each turn makes one kind of step; the next follows when the replica sets have reported (pkg/controller/deployment).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from fairlead.api.errors import AlreadyExists, ApiError, is_namespace_terminating
from fairlead.api.event_types import WARNING
from fairlead.api.objects import Obj
from fairlead.api.workloads import Deployment, ReplicaSet, template_of
from fairlead.controllers.actions import Action, Actions, Create, Delete, Emit, Patch, Read, Requeue, update_status
from fairlead.controllers.base import World
from fairlead.controllers.claims import is_controlled_by
from fairlead.controllers.conditions import find_condition, with_condition
from fairlead.controllers.deployment import revisions, sizes, status
from fairlead.controllers.deployment.rollback import roll_back, wanted_revision
from fairlead.controllers.deployment.sizes import Sized, total
from fairlead.controllers.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from fairlead.controllers.templates import without_hash

#: A step evaluates to whether it changed something, which ends the turn.
Step = Generator[Action, Any, bool]


class Rollout:
    """The state of one turn: the sets with their sizes by now, and the conditions so far."""

    def __init__(self, deployment: Deployment, sets: Sequence[ReplicaSet], world: World) -> None:
        self._deployment, self._world, self._now = deployment, world, world.now
        self._conditions = status.paused_or_resumed(deployment, self._now)
        new = revisions.find_new(deployment, sets)
        sized = sorted(
            (Sized(replica_set, replica_set.spec.replicas) for replica_set in sets), key=lambda entry: entry.age_key
        )
        self._new = next((entry for entry in sized if entry.set is new), None)
        self._old = [entry for entry in sized if entry.set is not new]

    def run(self) -> Actions:
        deployment = self._deployment
        if deployment.metadata.is_terminating:
            yield from self._report(with_progress=False)
        elif not deployment.spec.paused and (revision := wanted_revision(deployment)) is not None:
            yield from self._number()
            if self._new is None:
                yield from self._create_new()
            yield from roll_back(deployment, [sized.set for sized in self._all], revision)
        elif deployment.spec.paused or sizes.is_resized(deployment, self._all):
            yield from self._number()
            yield from self._rescale()
            if deployment.spec.paused and wanted_revision(deployment) is None:
                yield from self._forget_old()
            yield from self._report(with_progress=False)
        else:
            changed = yield from (self._roll() if sizes.is_rolling(deployment) else self._recreate())
            if not changed and status.is_complete(deployment, deployment.status):
                yield from self._forget_old()
            yield from self._report(with_progress=True)

    @property
    def _all(self) -> list[Sized]:
        return self._old + ([self._new] if self._new else [])

    # -- strategies

    def _roll(self) -> Step:
        yield from self._number()
        new = self._new or (yield from self._create_new())
        wanted = self._deployment.spec.replicas
        size = wanted if new.replicas > wanted else sizes.new_set_size(self._deployment, new.replicas, total(self._all))
        return (yield from self._scale(new, size)) or (yield from self._shrink_old(new))

    def _shrink_old(self, new: Sized) -> Step:
        """Remove old pods: those that are not available first, for they serve nobody."""
        needed = sizes.min_available(self._deployment)
        spare = total(self._all) - needed - (new.replicas - new.available)
        if not total(self._old) or spare <= 0:
            return False
        changed = False
        for sized in self._old:
            unhealthy = min(max(sized.replicas - sized.available, 0), spare)
            spare -= unhealthy
            changed |= yield from self._scale(sized, sized.replicas - unhealthy)
        # A status may still count pods that were taken away a moment ago: no more are left than are wanted.
        spare = sum(min(sized.available, sized.replicas) for sized in self._all) - needed
        for sized in self._old:
            surplus = min(sized.replicas, max(spare, 0))
            spare -= surplus
            changed |= yield from self._scale(sized, sized.replicas - surplus)
        return changed

    def _recreate(self) -> Step:
        yield from self._number()
        changed = False
        for sized in self._old:
            changed |= yield from self._scale(sized, 0)
        if changed or self._old_pods_run():
            return True
        new = self._new or (yield from self._create_new())
        return (yield from self._scale(new, self._deployment.spec.replicas))

    def _old_pods_run(self) -> bool:
        """Whether a pod of an old set still runs, even if it is on its way out."""
        if any(sized.set.status.replicas for sized in self._old):
            return True
        return any(not pod.is_finished for sized in self._old for pod in self._world.owned(PODS, sized.set))

    def _rescale(self) -> Step:
        active = [sized for sized in self._all if sized.replicas > 0]
        wanted = self._deployment.spec.replicas
        only = self._only_or_latest(active)
        if only is not None:
            knows = only.replicas == wanted == sizes.annotated(only.set, sizes.DESIRED)
            return False if knows else (yield from self._resize(only, wanted))
        changed = False
        if sizes.is_saturated(self._deployment, self._new):
            for sized in self._old:
                changed |= yield from self._scale(sized, 0)
        elif sizes.is_rolling(self._deployment):
            for sized, size in sizes.in_proportion(self._deployment, active):
                changed |= yield from self._resize(sized, size)
        return changed

    def _only_or_latest(self, active: Sequence[Sized]) -> Sized | None:
        if len(active) > 1:
            return None
        return active[0] if active else self._new or (self._old[-1] if self._old else None)

    # -- replica sets

    def _number(self) -> Actions:
        """Give an existing new set its revision, and the deployment the same."""
        if self._new is None:
            return
        new, deployment = self._new.set, self._deployment
        annotations = revisions.changed_annotations(
            deployment, new, revisions.next_revision([sized.set for sized in self._old])
        )
        patch: Obj = {"metadata": {"annotations": annotations}} if annotations else {}
        if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
            patch["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
        if patch:
            stored = yield Patch(REPLICA_SETS, new, patch)
            self._new.set = new = stored.view(ReplicaSet)
        yield from self._set_revision(new.metadata.annotations.get(revisions.REVISION, ""))
        if status.has_deadline(deployment) and find_condition(self._conditions, status.PROGRESSING) is None:
            self._progressing("True", status.FOUND, f'Found new replica set "{new.metadata.name}"')

    def _set_revision(self, revision: str) -> Actions:
        """Through the status, for an annotation of a deployment counts as a change of what is asked for otherwise."""
        if self._deployment.metadata.annotations.get(revisions.REVISION) != revision:
            patch = {"metadata": {"annotations": {revisions.REVISION: revision}}}
            yield Patch(DEPLOYMENTS, self._deployment, patch, subresource="status")

    def _create_new(self) -> Generator[Action, Any, Sized]:
        revision = revisions.next_revision([sized.set for sized in self._old])
        replicas = sizes.new_set_size(self._deployment, 0, total(self._old))
        obj = revisions.new_set(self._deployment, revision, replicas)
        name = obj["metadata"]["name"]
        try:
            stored = yield Create(REPLICA_SETS, obj)
        except AlreadyExists:
            self._new = yield from self._found_after_all(name)
        except ApiError as error:
            yield from self._emit_failure(name, error)
            raise
        else:
            self._new = Sized(stored.view(ReplicaSet), replicas)
            if replicas:
                yield Emit("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {replicas}")
            if status.has_deadline(self._deployment):
                self._progressing("True", status.CREATED, f'Created new replica set "{name}"')
        yield from self._set_revision(str(revision))
        return self._new

    def _found_after_all(self, name: str) -> Generator[Action, Any, Sized]:
        """The set is there but not yet seen, or its name is taken: then another hash is needed."""
        deployment = self._deployment
        found: ReplicaSet = yield Read(REPLICA_SETS, name, deployment.metadata.namespace)
        same = without_hash(template_of(found.spec.template)) == without_hash(template_of(deployment.spec.template))
        if is_controlled_by(found, deployment) and same:
            return Sized(found, found.spec.replicas)
        collisions = (deployment.status.collision_count or 0) + 1
        new = msgspec.structs.replace(deployment.status, collision_count=collisions)
        yield from update_status(DEPLOYMENTS, deployment, deployment.status, new)
        raise AlreadyExists.of(REPLICA_SETS.resource.plural, name, REPLICA_SETS.resource.group)

    def _emit_failure(self, name: str, error: ApiError) -> Actions:
        if is_namespace_terminating(error):
            return
        text = f'Failed to create new replica set "{name}": {error}'
        if status.has_deadline(self._deployment):
            self._progressing("False", status.CREATE_FAILED, text)
            new = msgspec.structs.replace(self._deployment.status, conditions=self._conditions)
            yield from update_status(DEPLOYMENTS, self._deployment, self._deployment.status, new)
        yield Emit(status.CREATE_FAILED, text, WARNING)

    def _scale(self, sized: Sized, size: int) -> Step:
        return (yield from self._resize(sized, size)) if sized.replicas != size else False

    def _resize(self, sized: Sized, size: int) -> Step:
        """Give a set its size, and tell it the deployment's."""
        wanted = revisions.size_annotations(self._deployment)
        annotations = {name: text for name, text in wanted.items() if sized.set.metadata.annotations.get(name) != text}
        if sized.replicas == size and not annotations:
            return False
        patch: Obj = {"metadata": {"annotations": annotations}} if annotations else {}
        if sized.replicas != size:
            patch["spec"] = {"replicas": size}
        stored = yield Patch(REPLICA_SETS, sized.set, patch)
        before, sized.replicas, sized.set = sized.replicas, size, stored.view(ReplicaSet)
        if before == size:
            return False
        way = "up" if size > before else "down"
        yield Emit("ScalingReplicaSet", f"Scaled {way} replica set {sized.name} from {before} to {size}")
        return True

    def _forget_old(self) -> Actions:
        """Delete the oldest revisions beyond the history limit, if nothing of them runs."""
        limit = self._deployment.spec.revision_history_limit
        if limit is None:
            return
        kept = [sized for sized in self._old if not sized.set.metadata.is_terminating]
        kept.sort(key=lambda sized: revisions.revision_of(sized.set))
        for sized in kept[: max(len(kept) - limit, 0)]:
            meta, is_observed = (
                sized.set.metadata,
                sized.set.status.observed_generation >= sized.set.metadata.generation,
            )
            if sized.replicas == 0 and sized.set.status.replicas == 0 and is_observed and not meta.is_terminating:
                yield Delete(REPLICA_SETS, sized.set)

    # -- status

    def _progressing(self, is_true: str, reason: str, message: str) -> None:
        progressing = status.condition(status.PROGRESSING, is_true, reason, message, self._now)
        self._conditions = with_condition(self._conditions, progressing)

    def _report(self, *, with_progress: bool) -> Actions:
        deployment, sets = self._deployment, self._all
        new = status.counted(deployment, self._conditions, self._new, sets, self._now)
        if with_progress:
            new = status.with_progress(deployment, new, self._new, sets, self._now)
        yield from update_status(DEPLOYMENTS, deployment, deployment.status, new)
        if with_progress and new == deployment.status:
            wait = status.next_progress_check(deployment, new, self._now)
            if wait is not None:
                yield Requeue(wait)
