"""One turn of one stateful set: in which order its pods come, go and change.

Unless the set is `Parallel`, one pod at a time, and only while all before it are available: first missing replicas
from the lowest ordinal up, then surplus ones from the highest down, then updates from the highest down to the
partition (pkg/controller/statefulset/stateful_set_control.go).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.api.errors import AlreadyExists, ApiError
from fairlead.api.event_types import WARNING
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.workloads import ControllerRevision, RollingUpdate, StatefulSet, StatefulSetStatus
from fairlead.controllers.actions import Action, Actions, Create, Delete, Emit, Patch, Requeue, Together
from fairlead.controllers.base import World
from fairlead.controllers.history import REVISION_LABEL, template_in
from fairlead.controllers.kinds import CLAIMS, PODS
from fairlead.controllers.pods import burst, is_available
from fairlead.controllers.statefulset.identity import (
    claim_names,
    is_of_former_pod,
    missing_labels,
    new_claims,
    new_pod,
    ordinals,
    pod_name,
)
from fairlead.controllers.statefulset.retention import keep_claims

#: How soon to look again for a claim that is about to go: nobody tells when it is gone.
_CLAIM_SECONDS: Final = 1.0

#: A step evaluates to whether the turn ends with it.
Step: TypeAlias = Generator[Action, Any, bool]


class Revisions(msgspec.Struct):
    """The revision that pods below the partition have, and the one that the others get."""

    current: ControllerRevision
    update: ControllerRevision


class StatefulSetUpdate:
    """The state of one turn."""

    def __init__(self, owner: StatefulSet, pods: dict[int, Pod], revisions: Revisions, world: World) -> None:
        self._owner, self._revisions, self._world, self._now = owner, revisions, world, world.now
        self._ordinals = ordinals(owner)
        # Only those that exist: the number of replicas is whatever a user wrote.
        self._replicas = {ordinal: pods[ordinal] for ordinal in sorted(pods) if ordinal in self._ordinals}
        self._condemned = sorted(((o, pod) for o, pod in pods.items() if o not in self._ordinals), reverse=True)
        self._in_order = owner.spec.pod_management_policy != "Parallel"
        self._deleted_for_update = 0

    def run(self) -> Actions:
        if self._owner.metadata.is_terminating:
            return
        if (yield from self._complete()) or (yield from self._remove_surplus()):
            return
        if self._owner.spec.update_strategy.type != "OnDelete":
            yield from self._renew()

    # -- missing replicas

    def _complete(self) -> Step:
        """Create what is missing and replace what has ended."""
        missing: list[int] = []
        refusal: ApiError | None = None
        for ordinal, pod in self._places((yield from self._vacancies())):
            if pod is not None:
                if (yield from self._tend(ordinal, pod)):
                    return True
            elif self._is_awaiting_claims(ordinal):
                yield Requeue(_CLAIM_SECONDS)
                if self._in_order:
                    return True
            else:
                refusal = yield from self._claim_storage(ordinal)
                if refusal is not None:
                    yield self._pod_event("create", pod_name(self._owner, ordinal), refusal)
                    break
                missing.append(ordinal)
                if self._in_order:
                    break
        failure = (yield from self._create(missing)) or refusal
        if failure is not None:
            raise failure
        return bool(missing) and self._in_order

    def _vacancies(self) -> Generator[Action, Any, int]:
        """How many missing replicas this turn looks at."""
        if self._in_order:
            return 1
        missing = len(self._ordinals) - len(self._replicas)
        return (yield from burst(list(self._replicas.values()), missing, self._now))

    def _places(self, vacancies: int) -> Iterator[tuple[int, Pod | None]]:
        """The lowest first: every pod that exists, and so many of the ordinals that have none."""
        following = self._ordinals.start
        for ordinal, pod in self._replicas.items():
            vacant = range(following, min(ordinal, following + vacancies))
            yield from ((vacancy, None) for vacancy in vacant)
            yield ordinal, pod
            vacancies -= len(vacant)
            following = ordinal + 1
        yield from ((ordinal, None) for ordinal in range(following, min(self._ordinals.stop, following + vacancies)))

    def _tend(self, ordinal: int, pod: Pod) -> Step:
        """Look after an existing pod; in order, nothing else happens until it is available."""
        if pod.is_finished:
            if not pod.metadata.is_terminating:
                yield from self._delete(pod)
            return self._in_order
        if pod.status.phase == "Pending":
            refusal = yield from self._claim_storage(ordinal)
            if refusal is not None:
                raise refusal
        if self._in_order and not self._is_available(pod):
            return True
        is_mended = yield from keep_claims(self._owner, pod, ordinal, self._world)
        if labels := missing_labels(pod, ordinal):
            yield Patch(PODS, pod, {"metadata": {"labels": dict(labels)}})
        if is_mended or labels:
            yield self._pod_event("update", pod.metadata.name, None)
        return False

    def _create(self, missing: Sequence[int]) -> Generator[Action, Any, ApiError | None]:
        outcomes = yield Together([Create(PODS, self._new_pod(ordinal)) for ordinal in missing], slow_start=True)
        by_ordinal = list(zip(missing, outcomes, strict=False))
        for ordinal, outcome in by_ordinal:
            if not isinstance(outcome, AlreadyExists):  # a namesake, or our own that is not seen yet
                yield self._pod_event("create", pod_name(self._owner, ordinal), outcome)
        return next((outcome for outcome in outcomes if isinstance(outcome, ApiError)), None)

    def _new_pod(self, ordinal: int) -> Obj:
        rolling = self._owner.spec.update_strategy.rolling_update or RollingUpdate()
        is_old = self._owner.spec.update_strategy.type == "RollingUpdate" and (
            ordinal < self._owner.spec.ordinals.start + rolling.partition
        )
        revision = self._revisions.current if is_old else self._revisions.update
        return new_pod(self._owner, template_in(revision), revision.metadata.name, ordinal)

    def _is_awaiting_claims(self, ordinal: int) -> bool:
        """Whether a claim of the pod will still go with its former self, as the policy for scaling wants it."""
        if self._owner.spec.persistent_volume_claim_retention_policy.when_scaled != "Delete":
            return False
        name = pod_name(self._owner, ordinal)
        claims = (self._claim(name) for name in claim_names(self._owner, ordinal).values())
        return any(claim is not None and is_of_former_pod(claim, name) for claim in claims)

    def _claim_storage(self, ordinal: int) -> Generator[Action, Any, ApiError | None]:
        """Make the claims of the pod that do not exist; returns what keeps any of them from it."""
        problems: list[str] = []
        for obj in new_claims(self._owner, ordinal) if claim_names(self._owner, ordinal) else ():
            name = obj["metadata"]["name"]
            claim = self._claim(name)
            if claim is None:
                refusal = yield from self._create_claim(obj, pod_name(self._owner, ordinal))
                if refusal is not None:
                    problems.append(f"failed to create PVC {name}: {refusal}")
            elif claim.metadata.is_terminating:
                problems.append(f"pvc {name} is being deleted")
        if not problems:
            return None
        return ApiError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def _claim(self, name: str) -> Object | None:
        return self._world.get(CLAIMS, f"{self._owner.metadata.namespace}/{name}")

    def _create_claim(self, obj: Obj, pod: str) -> Generator[Action, Any, ApiError | None]:
        about = f"{obj['metadata']['name']}"
        where = f"Pod {pod} in StatefulSet {self._owner.metadata.name}"
        try:
            yield Create(CLAIMS, obj)
        except AlreadyExists as error:
            return error
        except ApiError as error:
            yield Emit("FailedCreate", f"create Claim {about} for {where} failed error: {error}", WARNING)
            return error
        yield Emit("SuccessfulCreate", f"create Claim {about} {where} success")
        return None

    # -- surplus replicas

    def _remove_surplus(self) -> Step:
        for ordinal, pod in self._condemned:
            yield from keep_claims(self._owner, pod, ordinal, self._world)
        first_unavailable = self._first_unavailable()
        for _, pod in self._condemned:
            if pod.metadata.is_terminating:
                if self._in_order:
                    return True
                continue
            if self._in_order and not self._is_available(pod) and pod is not first_unavailable:
                return True
            yield from self._delete(pod)
            if self._in_order:
                return True
        return False

    def _first_unavailable(self) -> Pod | None:
        """The lowest pod that is not available: it may go even though it is not, or nothing ever would."""
        for _, pod in self._places(1):
            if pod is None or not self._is_available(pod):
                return pod
        return next((pod for _, pod in reversed(self._condemned) if not self._is_available(pod)), None)

    # -- updates

    def _renew(self) -> Actions:
        """Delete the highest pod of an old revision, if all above it are renewed and available."""
        rolling = self._owner.spec.update_strategy.rolling_update or RollingUpdate()
        lowest, expected = self._ordinals.start + rolling.partition, self._ordinals.stop
        for ordinal, pod in reversed(self._replicas.items()):
            expected -= 1
            if ordinal != expected or ordinal < lowest:
                return
            is_new = pod.metadata.labels.get(REVISION_LABEL) == self._revisions.update.metadata.name
            if not is_new and not pod.metadata.is_terminating:
                yield from self._delete(pod)
                self._deleted_for_update += 1
                return
            if not self._is_available(pod):
                return

    # -- pods

    def _is_available(self, pod: Pod) -> bool:
        if pod.status.phase != "Running" or pod.metadata.is_terminating:
            return False
        return is_available(pod, self._owner.spec.min_ready_seconds, self._now)

    def _delete(self, pod: Pod) -> Actions:
        try:
            yield Delete(PODS, pod)
        except ApiError as error:
            yield self._pod_event("delete", pod.metadata.name, error)
            raise
        yield self._pod_event("delete", pod.metadata.name, None)

    def _pod_event(self, verb: str, pod: str, outcome: object) -> Emit:
        text = f"{verb} Pod {pod} in StatefulSet {self._owner.metadata.name}"
        if isinstance(outcome, ApiError):
            return Emit(f"Failed{verb.title()}", f"{text} failed error: {outcome}", WARNING)
        return Emit(f"Successful{verb.title()}", f"{text} successful")

    # -- status

    def status(self, collisions: int) -> StatefulSetStatus:
        """What is there, as of before this turn's changes."""
        spec = self._owner.spec
        pods = [*self._replicas.values(), *(pod for _, pod in self._condemned)]
        ready = [pod for pod in pods if pod.status.phase == "Running" and pod.is_ready]
        stays = [pod.metadata.labels.get(REVISION_LABEL) for pod in pods if not pod.metadata.is_terminating]
        current, update = self._revisions.current.metadata.name, self._revisions.update.metadata.name
        status = StatefulSetStatus(
            observed_generation=self._owner.metadata.generation,
            replicas=len(pods),
            ready_replicas=len(ready),
            available_replicas=sum(is_available(pod, spec.min_ready_seconds, self._now) for pod in ready),
            current_replicas=stays.count(current) - self._deleted_for_update,
            updated_replicas=stays.count(update),
            current_revision=current,
            update_revision=update,
            collision_count=collisions,
            conditions=self._owner.status.conditions,
        )
        counts = (status.updated_replicas, status.ready_replicas, status.replicas)
        if spec.update_strategy.type == "RollingUpdate" and all(count == spec.replicas for count in counts):
            return msgspec.structs.replace(status, current_replicas=status.updated_replicas, current_revision=update)
        return status


def names_in_use(pods: Sequence[Object], revisions: Revisions) -> set[str]:
    """The revisions that the status or some pod names."""
    named = {pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods}
    return named | {revisions.current.metadata.name, revisions.update.metadata.name}
