"""What a job's controller knows during one turn; the steps of the turn read it and note what they changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.api.jobs import Job
from fairlead.api.pods import Pod
from fairlead.controllers.job import indexes
from fairlead.controllers.job.backoff import Backoff, finished_at
from fairlead.controllers.job.failures import has_failed, judged
from fairlead.controllers.job.indexes import Indexes

#: Keeps a finished or deleted pod until it is counted.
FINALIZER: Final = "batch.kubernetes.io/job-tracking"


class Verdict(msgspec.Struct):
    """That the job is over, and why. It is told at once, and again when the last pod is gone."""

    type: str  # SuccessCriteriaMet | FailureTarget
    reason: str
    message: str
    is_new: bool = True

    @property
    def is_success(self) -> bool:
        return self.type == "SuccessCriteriaMet"

    @property
    def final_type(self) -> str:
        return "Complete" if self.is_success else "Failed"


class JobTurn(msgspec.Struct):
    """One look at a job and its pods."""

    job: Job
    pods: Sequence[Pod]
    now: float
    start_time: str | None
    backoff: Backoff
    active_pods: list[Pod]
    active: int
    ready: int
    terminating: int
    succeeded: int
    failed: int
    #: For numbered pods; `failed_indexes` only where each index has a limit of its own.
    counted_indexes: Indexes = msgspec.field(default_factory=Indexes)
    succeeded_indexes: Indexes = msgspec.field(default_factory=Indexes)
    failed_indexes: Indexes | None = None
    #: The last failed pod of an index, kept until its replacement has taken over its count of failures.
    delayed: dict[int, Pod] = msgspec.field(default_factory=dict)
    verdict: Verdict | None = None

    def removed(self, pods: Sequence[Pod]) -> None:
        """These active pods have been deleted."""
        self.active -= len(pods)
        self.terminating += len(pods)
        self.ready -= sum(pod.is_ready for pod in pods)


def is_tracked(pod: Pod) -> bool:
    return FINALIZER in pod.metadata.finalizers


def observe(job: Job, pods: Sequence[Pod], backoff: Backoff, start_time: str | None, now: float) -> JobTurn:
    """The state of things before anything is done."""
    active = [pod for pod in pods if pod.is_active]
    succeeded, failed = _newly_finished(job, pods)
    status = job.status
    uncounted = status.uncounted_terminated_pods
    turn = JobTurn(
        job=job,
        pods=pods,
        now=now,
        start_time=start_time,
        backoff=backoff.after(succeeded, failed),
        active_pods=active,
        active=len(active),
        ready=sum(pod.is_ready for pod in active),
        terminating=sum(pod.is_terminating for pod in pods),
        succeeded=status.succeeded + len(succeeded) + (len(uncounted.succeeded) if uncounted else 0),
        failed=status.failed
        + sum(judged(pod, job).counts for pod in failed)
        + (len(uncounted.failed) if uncounted else 0),
    )
    if job.is_indexed:
        _observe_indexes(turn)
    return turn


def _newly_finished(job: Job, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
    """The pods that have succeeded and failed, of those that are not part of the status in any form."""
    known = job.status.uncounted_terminated_pods
    counted = {*known.succeeded, *known.failed} if known is not None else set()
    fresh = [
        pod
        for pod in pods
        if is_tracked(pod)
        and pod.metadata.uid not in counted
        and (not job.is_indexed or indexes.index_of(pod, job) is not None)
    ]
    succeeded = [pod for pod in fresh if pod.status.phase == "Succeeded"]
    return succeeded, [pod for pod in fresh if has_failed(pod, job)]


def _observe_indexes(turn: JobTurn) -> None:
    job, completions = turn.job, turn.job.spec.completions or 0
    numbered = [(index, pod) for pod in turn.pods if (index := indexes.index_of(pod, job)) is not None]
    turn.counted_indexes = Indexes.parsed(job.status.completed_indexes, completions)
    done = (index for index, pod in numbered if pod.status.phase == "Succeeded" and is_tracked(pod))
    turn.succeeded_indexes = turn.counted_indexes | Indexes.of(done)
    turn.succeeded = len(turn.succeeded_indexes)
    if job.limits_each_index:
        given_up = (index for index, pod in numbered if is_tracked(pod) and _ends_its_index(pod, job))
        turn.failed_indexes = Indexes.parsed(job.status.failed_indexes or "", completions) | Indexes.of(given_up)
        turn.delayed = _delayed(turn, numbered)


def _ends_its_index(pod: Pod, job: Job) -> bool:
    """Whether nothing more will be tried for the index of this pod."""
    if not has_failed(pod, job):
        return False
    judgement = judged(pod, job)
    if judgement.action == "FailIndex":
        return True
    return judgement.counts and indexes.failure_count(pod) >= (job.spec.backoff_limit_per_index or 0)


def _delayed(turn: JobTurn, numbered: Sequence[tuple[int, Pod]]) -> dict[int, Pod]:
    """The last failed pod of each index that will be tried again."""
    busy = Indexes.of(index for index, pod in numbered if pod.is_active)
    settled = busy | turn.succeeded_indexes | (turn.failed_indexes or Indexes())
    found: dict[int, Pod] = {}
    for index, pod in numbered:
        if index not in settled and is_tracked(pod) and has_failed(pod, turn.job):
            known = found.get(index)
            if known is None or _times_failed(known) <= _times_failed(pod):
                found[index] = pod
    return found


def _times_failed(pod: Pod) -> tuple[int, float]:
    return indexes.failure_count(pod) + indexes.ignored_failure_count(pod), finished_at(pod)
