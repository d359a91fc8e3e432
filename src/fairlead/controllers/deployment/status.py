"""What a deployment says about itself: counts, availability, and whether its rollout gets on.

pkg/controller/deployment/progress.go and sync.go. Reasons and messages are read by `kubectl rollout status`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.workloads import Deployment, DeploymentStatus, WorkloadCondition
from fairlead.controllers.conditions import Conditions, find_condition, with_condition, without_condition
from fairlead.controllers.deployment.sizes import Sized, min_available, total
from fairlead.runtime.clock import parse_timestamp, timestamp

PROGRESSING = "Progressing"
AVAILABLE = "Available"
REPLICA_FAILURE = "ReplicaFailure"

COMPLETE = "NewReplicaSetAvailable"
UPDATED = "ReplicaSetUpdated"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"
CREATED = "NewReplicaSetCreated"
FOUND = "FoundNewReplicaSet"
CREATE_FAILED = "ReplicaSetCreateError"

#: `progressDeadlineSeconds` of this value means none (it was the default of old API versions).
_NO_DEADLINE = 2**31 - 1


def condition(type_: str, status: str, reason: str, message: str, now: float) -> WorkloadCondition:
    at = timestamp(now)
    return WorkloadCondition(
        type=type_, status=status, reason=reason, message=message, last_transition_time=at, last_update_time=at
    )


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds not in (None, _NO_DEADLINE)


def paused_or_resumed(deployment: Deployment, now: float) -> Conditions:
    """The conditions after a pause began or ended, so that the time of a pause is not held against a rollout."""
    conditions = deployment.status.conditions
    reason = _progress_reason(conditions)
    if not has_deadline(deployment) or reason == TIMED_OUT:
        return conditions
    if deployment.spec.paused and reason != PAUSED:
        progressing = condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now)
        return with_condition(conditions, progressing)
    if not deployment.spec.paused and reason == PAUSED:
        progressing = condition(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed", now)
        return with_condition(conditions, progressing)
    return conditions


def counted(
    deployment: Deployment, conditions: Conditions, new: Sized | None, sets: Sequence[Sized], now: float
) -> DeploymentStatus:
    """The counts over all sets, and the condition Available."""
    available = sum(sized.available for sized in sets)
    if available >= min_available(deployment):
        text = "Deployment has minimum availability."
        availability = condition(AVAILABLE, "True", "MinimumReplicasAvailable", text, now)
    else:
        text = "Deployment does not have minimum availability."
        availability = condition(AVAILABLE, "False", "MinimumReplicasUnavailable", text, now)
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(sized.set.status.replicas for sized in sets),
        updated_replicas=new.set.status.replicas if new else 0,
        ready_replicas=sum(sized.set.status.ready_replicas for sized in sets),
        available_replicas=available,
        unavailable_replicas=max(total(sets) - available, 0),
        terminating_replicas=_terminating(sets),
        collision_count=deployment.status.collision_count,
        conditions=with_condition(conditions, availability),
    )


def _terminating(sets: Sequence[Sized]) -> int | None:
    """Unknown until every set has counted its own."""
    counts = [sized.set.status.terminating_replicas for sized in sets]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def with_progress(
    deployment: Deployment, status: DeploymentStatus, new: Sized | None, sets: Sequence[Sized], now: float
) -> DeploymentStatus:
    """The status with what a rollout adds: Progressing and ReplicaFailure."""
    conditions = status.conditions
    if not has_deadline(deployment):
        conditions = without_condition(conditions, PROGRESSING)
    elif not (status.replicas == status.updated_replicas and _progress_reason(conditions) == COMPLETE):
        conditions = _progress(deployment, status, new, now)
    return msgspec.structs.replace(status, conditions=_with_failure(conditions, new, sets))


def _progress(deployment: Deployment, status: DeploymentStatus, new: Sized | None, now: float) -> Conditions:
    what = f'ReplicaSet "{new.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    conditions = status.conditions
    if is_complete(deployment, status):
        progressing = condition(PROGRESSING, "True", COMPLETE, f"{what} has successfully progressed.", now)
        return with_condition(conditions, progressing)
    if _got_on(deployment.status, status):
        progressing = condition(PROGRESSING, "True", UPDATED, f"{what} is progressing.", now)
        current = find_condition(conditions, PROGRESSING)
        if current is not None and current.status == "True":
            progressing = msgspec.structs.replace(progressing, last_transition_time=current.last_transition_time)
        # Replaced even where reason and status stay: its update time is when the rollout last got on.
        return (*without_condition(conditions, PROGRESSING), progressing)
    if is_timed_out(deployment, conditions, now):
        progressing = condition(PROGRESSING, "False", TIMED_OUT, f"{what} has timed out progressing.", now)
        return with_condition(conditions, progressing)
    return conditions


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Every replica is of the new template and available, and nothing is left of the old."""
    counts = (status.updated_replicas, status.replicas, status.available_replicas)
    observed = status.observed_generation >= deployment.metadata.generation
    return observed and all(count == deployment.spec.replicas for count in counts)


def _got_on(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    return (
        new.updated_replicas > old.updated_replicas
        or new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        or new.ready_replicas > old.ready_replicas
        or new.available_replicas > old.available_replicas
    )


def is_timed_out(deployment: Deployment, conditions: Conditions, now: float) -> bool:
    reason = _progress_reason(conditions)
    if reason in (None, COMPLETE):
        return False
    deadline = _deadline(deployment, conditions)
    return reason == TIMED_OUT or (deadline is not None and deadline < now)


def next_progress_check(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """In how many seconds a rollout that does not get on has to be looked at again."""
    reason = _progress_reason(deployment.status.conditions)
    if not has_deadline(deployment) or is_complete(deployment, status) or reason in (TIMED_OUT, COMPLETE):
        return None  # what was complete once, and lost pods since, never times out
    deadline = _deadline(deployment, deployment.status.conditions)
    # A second more, since the condition's times are whole seconds.
    return None if deadline is None else max(deadline - now, 0.0) + 1.0


def _deadline(deployment: Deployment, conditions: Conditions) -> float | None:
    current = find_condition(conditions, PROGRESSING)
    if current is None or current.last_update_time is None:
        return None
    return parse_timestamp(current.last_update_time) + (deployment.spec.progress_deadline_seconds or 0)


def _progress_reason(conditions: Conditions) -> str | None:
    current = find_condition(conditions, PROGRESSING)
    return current.reason if current else None


def _with_failure(conditions: Conditions, new: Sized | None, sets: Sequence[Sized]) -> Conditions:
    """A set that cannot make its pods speaks for the deployment, the new one first."""
    for sized in ([new] if new else []) + list(sets):
        failure = find_condition(sized.set.status.conditions, REPLICA_FAILURE)
        if failure is not None:
            shown = msgspec.structs.replace(failure, last_update_time=failure.last_transition_time)
            return with_condition(conditions, shown)
    return without_condition(conditions, REPLICA_FAILURE)
