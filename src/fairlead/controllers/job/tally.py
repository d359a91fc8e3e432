"""Counting pods that have ended, each exactly once.

    pod ends ──▶ uid noted in the status ──▶ finalizer taken off ──▶ counter raised, uid dropped

A pod cannot vanish before its uid is in the status, and a uid in the status whose pod has no finalizer has not been
counted yet: whenever the controller stops in between, the next turn goes on where it stopped. The condition that the
job is over for good waits for the last count. Source: trackJobStatusAndRemoveFinalizers.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.encoded import Encoded
from fairlead.api.event_types import WARNING
from fairlead.api.jobs import Job, JobCondition, JobStatus, Uncounted
from fairlead.api.pods import Pod
from fairlead.controllers.actions import Action, Actions, Emit, Patch, difference
from fairlead.controllers.job import indexes
from fairlead.controllers.job.failures import has_failed, judged
from fairlead.controllers.job.indexes import Indexes
from fairlead.controllers.job.observed import JobTurn, Verdict, is_tracked
from fairlead.controllers.job.pods import release
from fairlead.controllers.kinds import JOBS
from fairlead.runtime.clock import timestamp

#: So many pods are counted in one turn, lest the status grow too big.
MANY: Final = 500


def settle(turn: JobTurn, conditions: tuple[JobCondition, ...]) -> Actions:
    """Count what has ended, write the status, and declare the job finished when nothing is left to count."""
    tracked = {pod.metadata.uid for pod in turn.pods if is_tracked(pod)}
    status = _counted(_current(turn, conditions), tracked)
    ended = [pod for pod in _in_order(turn) if is_tracked(pod) and _may_be_counted(pod, turn)][:MANY]
    status = _noted(status, ended, turn)
    job = yield from _write(turn.job, status)
    if ended:
        tracked -= yield from release(ended)
    status = _counted(status, tracked)
    verdict = turn.verdict
    is_over = verdict is not None and len(ended) < MANY and not turn.terminating and not _is_counting(status)
    if verdict is not None and is_over:
        status = _finished(status, verdict, timestamp(turn.now))
    yield from _write(job, status)
    if verdict is not None and is_over:
        yield from _final_events(turn.job, status, verdict)


def condition(type_: str, status: str, reason: str, message: str, now: str) -> JobCondition:
    return JobCondition(
        type=type_, status=status, reason=reason, message=message, last_probe_time=now, last_transition_time=now
    )


def _current(turn: JobTurn, conditions: tuple[JobCondition, ...]) -> JobStatus:
    """The status with everything but the counters of ended pods."""
    verdict = turn.verdict
    if verdict is not None and verdict.is_new:
        target = condition(verdict.type, "True", verdict.reason, verdict.message, timestamp(turn.now))
        conditions = (*conditions, target)
    return msgspec.structs.replace(
        turn.job.status,
        conditions=conditions,
        start_time=turn.start_time,
        active=turn.active,
        ready=turn.ready,
        terminating=turn.terminating,
        uncounted_terminated_pods=turn.job.status.uncounted_terminated_pods or Uncounted(),
        failed_indexes=None if turn.failed_indexes is None else str(turn.failed_indexes),
    )


def _counted(status: JobStatus, tracked: set[str]) -> JobStatus:
    """Uids without a finalizer become part of the counters."""
    noted = status.uncounted_terminated_pods or Uncounted()
    succeeded = tuple(uid for uid in noted.succeeded if uid in tracked)
    failed = tuple(uid for uid in noted.failed if uid in tracked)
    return msgspec.structs.replace(
        status,
        succeeded=status.succeeded + len(noted.succeeded) - len(succeeded),
        failed=status.failed + len(noted.failed) - len(failed),
        uncounted_terminated_pods=Uncounted(succeeded=succeeded, failed=failed),
    )


def _in_order(turn: JobTurn) -> Sequence[Pod]:
    if not turn.job.is_indexed:
        return turn.pods
    last = turn.job.spec.completions or 0
    return sorted(turn.pods, key=lambda pod: last if (index := indexes.index_of(pod, turn.job)) is None else index)


def _may_be_counted(pod: Pod, turn: JobTurn) -> bool:
    if turn.job.metadata.is_terminating or turn.verdict is not None or pod.status.phase == "Succeeded":
        return True
    if not has_failed(pod, turn.job):
        return False
    index = indexes.index_of(pod, turn.job)
    kept = turn.delayed.get(index) if index is not None else None
    return kept is None or kept.metadata.uid != pod.metadata.uid


def _noted(status: JobStatus, ended: Sequence[Pod], turn: JobTurn) -> JobStatus:
    """The status with the uids of what has ended; a numbered success is noted by its number."""
    job = turn.job
    noted = status.uncounted_terminated_pods or Uncounted()
    succeeded, failed = list(noted.succeeded), list(noted.failed)
    done: list[int] = []
    for pod in ended:
        uid, index = pod.metadata.uid, indexes.index_of(pod, job)
        if pod.status.phase == "Succeeded" and uid not in noted.failed:
            if index is not None:
                done.append(index)
            elif not job.is_indexed and uid not in noted.succeeded:
                succeeded.append(uid)
        elif uid not in noted.failed and _counts_as_failure(pod, turn):
            failed.append(uid)
    status = msgspec.structs.replace(
        status, uncounted_terminated_pods=Uncounted(succeeded=tuple(succeeded), failed=tuple(failed))
    )
    if not job.is_indexed:
        return status
    completed = turn.counted_indexes | Indexes.of(done)
    return msgspec.structs.replace(status, succeeded=len(completed), completed_indexes=str(completed))


def _counts_as_failure(pod: Pod, turn: JobTurn) -> bool:
    """A pod that a failing job takes down with it is one of its failures."""
    is_taken_down = turn.verdict is not None and not turn.verdict.is_success
    if not has_failed(pod, turn.job) and not is_taken_down:
        return False
    if turn.job.is_indexed and indexes.index_of(pod, turn.job) is None:
        return False
    return judged(pod, turn.job).counts


def _is_counting(status: JobStatus) -> bool:
    noted = status.uncounted_terminated_pods
    return noted is not None and bool(noted.succeeded or noted.failed)


def _finished(status: JobStatus, verdict: Verdict, now: str) -> JobStatus:
    final = condition(verdict.final_type, "True", verdict.reason, verdict.message, now)
    status = msgspec.structs.replace(status, conditions=(*status.conditions, final))
    return msgspec.structs.replace(status, completion_time=now) if verdict.is_success else status


def _write(job: Job, status: JobStatus) -> Generator[Action, Any, Job]:
    """Only over the status that was read: a lost count would never be made up for."""
    if status == job.status:
        return job
    patch = {"status": difference(job.status, status)}
    stored: Encoded = yield Patch(JOBS, job, patch, subresource="status", unchanged=True)
    return msgspec.structs.replace(stored.view(Job), status=status)


def _final_events(job: Job, status: JobStatus, verdict: Verdict) -> Actions:
    if not verdict.is_success:
        yield Emit(verdict.reason, verdict.message, WARNING)
        return
    if job.spec.completions is not None and status.succeeded > job.spec.completions:
        text = "Too many succeeded pods running after completion count reached"
        yield Emit("TooManySucceededPods", text, WARNING)
    yield Emit("Completed", "Job completed")
