"""When a job is over: what has to have happened for it to fail or to succeed.

Source: syncJob of pkg/controller/job/job_controller.go, and success_policy.go.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.jobs import Job
from fairlead.api.workloads import template_of
from fairlead.controllers.job.failures import has_failed, judged
from fairlead.controllers.job.indexes import Indexes
from fairlead.controllers.job.observed import JobTurn, Verdict
from fairlead.runtime.clock import parse_timestamp

COMPLETED: Final = ("CompletionsReached", "Reached expected number of succeeded pods")


def verdict_of(turn: JobTurn) -> Verdict | None:
    """Whether the job is over, whatever happens to its remaining pods."""
    return _earlier(turn.job) or _failed_by_policy(turn) or _failed(turn) or _succeeded(turn)


def seconds_to_deadline(turn: JobTurn) -> float | None:
    """How long the job may still be active; None if for as long as it likes."""
    limit = turn.job.spec.active_deadline_seconds
    if limit is None or turn.start_time is None or turn.job.spec.suspend:
        return None
    return parse_timestamp(turn.start_time) + limit - turn.now


def is_complete(turn: JobTurn) -> bool:
    """Without a number of completions, the first success is one, once all other pods have ended."""
    wanted = turn.job.spec.completions
    enough = turn.succeeded > 0 if wanted is None else turn.succeeded >= wanted
    return enough and turn.active == 0


def _earlier(job: Job) -> Verdict | None:
    """A verdict of an earlier turn is final."""
    for type_ in ("SuccessCriteriaMet", "FailureTarget"):
        earlier = job.status.condition(type_)
        if earlier is not None:
            return Verdict(type_, earlier.reason, earlier.message, is_new=False)
    return None


def _failed_by_policy(turn: JobTurn) -> Verdict | None:
    if turn.job.spec.pod_failure_policy is None:
        return None
    for pod in turn.pods:
        if has_failed(pod, turn.job) and (message := judged(pod, turn.job).message):
            return _failure("PodFailurePolicy", message)
    return None


def _failed(turn: JobTurn) -> Verdict | None:
    spec = turn.job.spec
    if turn.failed > spec.backoff_limit or _restarts_too_often(turn):
        return _failure("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    remaining = seconds_to_deadline(turn)
    if remaining is not None and remaining <= 0:
        return _failure("DeadlineExceeded", "Job was active longer than specified deadline")
    failed = turn.failed_indexes
    if failed is None:
        return None
    if spec.max_failed_indexes is not None and len(failed) > spec.max_failed_indexes:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return _failure("MaxFailedIndexesExceeded", text)
    if failed and len(failed) + len(turn.succeeded_indexes) >= (spec.completions or 0):
        return _failure("FailedIndexes", "Job has failed indexes")
    return None


def _failure(reason: str, message: str) -> Verdict:
    return Verdict("FailureTarget", reason, message)


def _restarts_too_often(turn: JobTurn) -> bool:
    """Pods that restart in place never fail, so their restarts are what is limited."""
    if template_of(turn.job.spec.template).get("spec", {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in turn.pods
        if pod.status.phase in ("Pending", "Running")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    limit = turn.job.spec.backoff_limit
    return restarts >= limit if limit else restarts > 0


def _succeeded(turn: JobTurn) -> Verdict | None:
    """The success policy, for jobs whose pods are numbered."""
    policy = turn.job.spec.success_policy
    if policy is None or not turn.succeeded_indexes:
        return None
    for number, rule in enumerate(policy.rules):
        if _is_met(rule.succeeded_indexes, rule.succeeded_count, turn.succeeded_indexes, turn.job):
            return Verdict("SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {number}")
    return None


def _is_met(wanted: str | None, count: int | None, succeeded: Indexes, job: Job) -> bool:
    if wanted is None:
        return count is not None and len(succeeded) >= count
    required = Indexes.parsed(wanted, job.spec.completions or 0)
    return required.count_shared(succeeded) >= (len(required) if count is None else count)
