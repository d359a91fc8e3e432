"""The pods of a job: how many are missing or too many, and what they look like.

Source: manageJob of pkg/controller/job/job_controller.go.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from fairlead.api.errors import ApiError, NotFound
from fairlead.api.jobs import Job
from fairlead.api.names import SUBDOMAIN_MAX
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.verbs import PatchType
from fairlead.api.workloads import template_of
from fairlead.controllers.actions import Action, Patch, Requeue, Together, refusals
from fairlead.controllers.job import indexes
from fairlead.controllers.job.backoff import finished_at, remaining_seconds
from fairlead.controllers.job.failures import judged
from fairlead.controllers.job.indexes import Indexes
from fairlead.controllers.job.observed import FINALIZER, JobTurn, is_tracked
from fairlead.controllers.kinds import JOBS, PODS
from fairlead.controllers.pods import BURST, burst, create_pods, delete_pods, pod_from
from fairlead.controllers.ranking import least_advanced

Refused = Generator[Action, Any, ApiError | None]

_ENVIRONMENT: Obj = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{indexes.INDEX}']"}},
}


def remove_active(turn: JobTurn) -> Refused:
    """The job is over: delete what still runs. The pods stay until they have been counted."""
    failure = yield from delete_pods(turn.active_pods)
    if failure is None:
        turn.removed(turn.active_pods)
    return failure


def manage(turn: JobTurn) -> Refused:
    """Bring the number of active pods nearer to what is wanted; returns the first refusal."""
    wanted = _wanted(turn)
    surplus = _surplus(turn, max(turn.active - wanted, 0))
    if surplus:
        return (yield from _remove(turn, surplus))
    in_the_way = turn.terminating if turn.job.replaces_only_failed else 0
    missing = wanted - in_the_way - turn.active
    if missing <= 0 or turn.job.spec.suspend:
        return None
    return (yield from _create(turn, (yield from burst(turn.active_pods, missing, turn.now))))


def _wanted(turn: JobTurn) -> int:
    spec = turn.job.spec
    if spec.suspend:
        return 0
    if spec.completions is None:  # after the first success nobody is replaced
        return turn.active if turn.succeeded else spec.parallelism
    return max(min(spec.completions - turn.succeeded, spec.parallelism), 0)


def _surplus(turn: JobTurn, at_least: int) -> list[Pod]:
    left: list[Pod] = turn.active_pods
    surplus: list[Pod] = []
    if turn.job.is_indexed:
        left, surplus = _without_duplicates(turn)
    if len(surplus) < at_least:
        surplus += least_advanced(left, at_least - len(surplus))
    return surplus[:BURST]


def _without_duplicates(turn: JobTurn) -> tuple[list[Pod], list[Pod]]:
    """One pod of each index, and the others; of several, the one furthest on stays."""
    by_index: dict[int | None, list[Pod]] = {}
    for pod in turn.active_pods:
        by_index.setdefault(indexes.index_of(pod, turn.job), []).append(pod)
    surplus = by_index.pop(None, [])
    left: list[Pod] = []
    for pods in by_index.values():
        others = least_advanced(pods, len(pods) - 1)
        surplus += others
        left += [pod for pod in pods if pod not in others]
    return left, surplus


def _remove(turn: JobTurn, pods: Sequence[Pod]) -> Refused:
    """Delete pods that nobody needs to count."""
    untracked = yield from release(pods)
    deleted = [pod for pod in pods if pod.metadata.uid in untracked]
    failure = yield from delete_pods(deleted)
    if failure is None:
        turn.removed(deleted)
    return failure


def release(pods: Sequence[Pod]) -> Generator[Action, Any, set[str]]:
    """Take the finalizer off; returns the uids of the pods that do not have it any more."""
    tracked = [pod for pod in pods if is_tracked(pod)]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    outcomes = yield Together([Patch(PODS, pod, patch, PatchType.STRATEGIC) for pod in tracked])
    kept = {
        pod.metadata.uid
        for pod, outcome in zip(tracked, outcomes, strict=True)
        if isinstance(outcome, ApiError) and not isinstance(outcome, NotFound)
    }
    errors = [refusal for refusal in refusals(outcomes) if not isinstance(refusal, NotFound)]
    if errors and len(kept) == len(pods):
        raise errors[0]
    return {pod.metadata.uid for pod in pods} - kept


def _create(turn: JobTurn, missing: int) -> Refused:
    job = turn.job
    if not job.limits_each_index:
        remaining = turn.backoff.remaining_seconds(turn.now)
        if remaining > 0:
            yield Requeue(remaining)
            return None
    if not job.is_indexed:
        pods = [_pod(job) for _ in range(missing)]
    else:
        ready, wait = _ready_indexes(turn, missing)
        if wait is not None:
            yield Requeue(wait)
        pods = [_numbered_pod(turn, index) for index in ready]
    if not pods:
        return None
    turn.active += len(pods)
    failure = yield from create_pods(pods)
    if failure is not None:
        turn.active = len(turn.active_pods)  # the next turn will see which were made
    return failure


def _ready_indexes(turn: JobTurn, missing: int) -> tuple[list[int], float | None]:
    """The next indexes to run, and how long to wait for others if there are none yet."""
    busy = turn.active_pods
    if turn.job.replaces_only_failed:
        busy = busy + [pod for pod in turn.pods if pod.is_terminating]
    numbers = (indexes.index_of(pod, turn.job) for pod in busy)
    taken = Indexes.of(number for number in numbers if number is not None) | turn.succeeded_indexes
    taken |= turn.failed_indexes or Indexes()
    found = taken.lowest_missing(missing, turn.job.spec.completions or 0)
    waits = {index: _wait_of(turn, index) for index in found}
    ready = [index for index in found if waits[index] == 0]
    return ready, min(waits.values()) if waits and not ready else None


def _wait_of(turn: JobTurn, index: int) -> float:
    last = turn.delayed.get(index)
    if last is None:
        return 0.0
    failures = indexes.failure_count(last) + indexes.ignored_failure_count(last) + 1
    return remaining_seconds(failures, finished_at(last), turn.now)


def _pod(job: Job) -> Obj:
    template = template_of(job.spec.template)
    finalizers: list[str] = template.setdefault("metadata", {}).setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    return pod_from(template, JOBS, job)


def _numbered_pod(turn: JobTurn, index: int) -> Obj:
    job = turn.job
    pod = _pod(job)
    meta, spec = pod["metadata"], pod["spec"]
    meta["labels"] = meta.get("labels", {}) | {indexes.INDEX: str(index)}
    meta["annotations"] = meta.get("annotations", {}) | {indexes.INDEX: str(index)} | _failures_so_far(turn, index)
    suffix = f"-{index}-"
    meta["generateName"] = job.metadata.name[: SUBDOMAIN_MAX - len(suffix)] + suffix
    spec["hostname"] = f"{job.metadata.name}-{index}"
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        environment = container.setdefault("env", [])
        if not any(variable.get("name") == _ENVIRONMENT["name"] for variable in environment):
            environment.append(_ENVIRONMENT)
    return pod


def _failures_so_far(turn: JobTurn, index: int) -> dict[str, str]:
    if not turn.job.limits_each_index:
        return {}
    last = turn.delayed.get(index)
    if last is None:
        return {indexes.FAILURES: "0"}
    counts = judged(last, turn.job).counts
    failures = indexes.failure_count(last) + counts
    ignored = indexes.ignored_failure_count(last) + (not counts)
    annotations = {indexes.FAILURES: str(failures)}
    return annotations | {indexes.IGNORED_FAILURES: str(ignored)} if ignored else annotations
