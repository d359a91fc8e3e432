"""Replication controllers and replica sets: so many pods of one template (pkg/controller/replicaset).

The two kinds differ in the form of their selector and in nothing else, so one decision serves both.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from fairlead.api.errors import ApiError
from fairlead.api.pods import Pod
from fairlead.api.workloads import ReplicaSet, ReplicaStatus, ReplicationController, WorkloadCondition, template_of
from fairlead.controllers.actions import Action, Actions, Requeue, update_status
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import candidates, claim, is_controlled_by, owner_of
from fairlead.controllers.conditions import find_condition, without_condition
from fairlead.controllers.kinds import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from fairlead.controllers.pods import (
    BURST,
    burst,
    create_pods,
    delete_pods,
    is_available,
    next_available,
    pod_from,
)
from fairlead.controllers.ranking import first_to_go
from fairlead.runtime.clock import timestamp

S = TypeVar("S", ReplicationController, ReplicaSet)


class Replicas(Controller[S], Generic[S]):
    """Keeps `spec.replicas` pods of `spec.template` alive."""

    counts_terminating = False

    def reconcile(self, obj: S, world: World) -> Actions:
        selector, now = obj.selector, world.now
        found = candidates(world, PODS, obj, selector)
        active = [pod for pod in found if pod.is_active]
        active = yield from claim(self.kind, obj, PODS, active, lambda pod: selector.matches(pod.metadata.labels))
        failure: ApiError | None = None
        if not obj.metadata.is_terminating:
            failure = yield from self._scale(obj, active, world, now)
        new = replica_status(obj, active, failure, now)
        if self.counts_terminating:
            terminating = sum(pod.is_terminating and is_controlled_by(pod, obj) for pod in found)
            new = msgspec.structs.replace(new, terminating_replicas=terminating)
        yield from update_status(self.kind, obj, obj.status, new)
        if failure is not None:
            raise failure
        wait = next_available(active, obj.spec.min_ready_seconds, now)
        if wait is not None:
            yield Requeue(wait)

    def _scale(
        self, obj: S, active: Sequence[Pod], world: World, now: float
    ) -> Generator[Action, Any, ApiError | None]:
        """Make or remove pods; returns the first refusal, if there was one."""
        missing = obj.spec.replicas - len(active)
        if missing > 0:
            size = yield from burst(active, missing, now)
            return (
                yield from create_pods([pod_from(template_of(obj.spec.template), self.kind, obj) for _ in range(size)])
            )
        if missing < 0:
            surplus = first_to_go(active, self._related(obj, active, world), min(-missing, BURST), now)
            return (yield from delete_pods(surplus))
        return None

    def _related(self, obj: S, active: Sequence[Pod], world: World) -> Sequence[Pod]:
        """The pods that should be spread over nodes together with these: those of all sets of one owner."""
        return active


class ReplicationControllers(Replicas[ReplicationController]):
    name = "replication-controller"
    queue_name = "replicationmanager"
    account = "replication-controller"
    kind = REPLICATION_CONTROLLERS
    watches = (Watch(PODS, owner_of(REPLICATION_CONTROLLERS, lambda owner: owner.selector), wakes_known=True),)


class ReplicaSets(Replicas[ReplicaSet]):
    name = "replicaset-controller"
    queue_name = "replicaset"
    account = "replicaset-controller"
    kind = REPLICA_SETS
    watches = (Watch(PODS, owner_of(REPLICA_SETS, lambda owner: owner.selector), wakes_known=True),)
    counts_terminating = True

    def _related(self, obj: ReplicaSet, active: Sequence[Pod], world: World) -> Sequence[Pod]:
        owner = obj.metadata.controller
        if owner is None:
            return active
        sets = world.controlled_by(REPLICA_SETS, owner.uid)
        return [pod for replica_set in sets for pod in world.owned(PODS, replica_set)]


def replica_status(
    obj: ReplicationController | ReplicaSet, active: Sequence[Pod], failure: ApiError | None, now: float
) -> ReplicaStatus:
    """What is there, as of before this turn's changes; those are counted when they have been seen."""
    wanted = template_of(obj.spec.template).get("metadata", {}).get("labels", {}).items()
    conditions = obj.status.conditions
    if failure is None:
        conditions = without_condition(conditions, "ReplicaFailure")
    elif find_condition(conditions, "ReplicaFailure") is None:  # the first failure stays until there is none
        reason = "FailedCreate" if len(active) < obj.spec.replicas else "FailedDelete"
        replica_failure = WorkloadCondition(
            type="ReplicaFailure",
            status="True",
            reason=reason,
            message=failure.message,
            last_transition_time=timestamp(now),
        )
        conditions = (*conditions, replica_failure)
    return ReplicaStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(wanted <= pod.metadata.labels.items() for pod in active),
        ready_replicas=sum(pod.is_ready for pod in active),
        available_replicas=sum(is_available(pod, obj.spec.min_ready_seconds, now) for pod in active),
        observed_generation=obj.metadata.generation,
        conditions=conditions,
    )
