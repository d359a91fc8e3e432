"""One turn of a job: see who is there, decide whether it is over, make or remove pods, count those that have ended.

Source: syncJob of pkg/controller/job/job_controller.go.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from fairlead.api.jobs import Job, JobCondition
from fairlead.api.pods import Pod
from fairlead.api.verbs import PatchType
from fairlead.controllers.actions import Action, Actions, Emit, Patch, Requeue
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import candidates, claim, owner_of
from fairlead.controllers.job.backoff import Backoff
from fairlead.controllers.job.observed import FINALIZER, JobTurn, Verdict, observe
from fairlead.controllers.job.pods import manage, remove_active
from fairlead.controllers.job.tally import condition, settle
from fairlead.controllers.job.verdict import COMPLETED, is_complete, seconds_to_deadline, verdict_of
from fairlead.controllers.kinds import JOBS, PODS
from fairlead.runtime.clock import timestamp


class Jobs(Controller[Job]):
    name = "job-controller"
    queue_name = "job"
    account = "job-controller"
    kind = JOBS
    watches = (Watch(PODS, owner_of(JOBS, lambda job: job.selector), wakes_known=True),)

    def __init__(self) -> None:
        self._backoffs: dict[str, Backoff] = {}

    def concerns(self, old: Job | None, new: Job | None, world: World) -> bool:
        return new is None or new.is_ours

    def gone(self, key: str, world: World) -> Actions:
        self._backoffs.pop(key, None)
        yield from ()

    def reconcile(self, obj: Job, world: World) -> Actions:
        key = obj.metadata.key
        if not obj.is_ours or obj.finished is not None:
            self._backoffs.pop(key, None)
            return
        pods = yield from _pods_of(obj, world)
        start_time = obj.status.start_time
        if start_time is None and not obj.spec.suspend:
            start_time = timestamp(world.now)
        conditions = obj.status.conditions
        turn = observe(obj, pods, self._backoffs.get(key, Backoff()), start_time, world.now)
        turn.verdict = verdict_of(turn)
        failure = None
        if turn.verdict is not None:
            failure = yield from remove_active(turn)
            if failure is not None:
                turn.verdict = None  # not before everybody is gone
        elif not obj.metadata.is_terminating:
            failure = yield from manage(turn)
        if turn.verdict is None and failure is None and is_complete(turn):
            turn.verdict = Verdict("SuccessCriteriaMet", *COMPLETED)
        elif turn.verdict is None and not obj.metadata.is_terminating:
            conditions = yield from _switched(turn, timestamp(world.now))
        yield from settle(turn, conditions)
        self._backoffs[key] = turn.backoff
        if failure is not None:
            raise failure
        remaining = seconds_to_deadline(turn)
        if turn.verdict is None and remaining is not None:
            yield Requeue(remaining)


def _pods_of(obj: Job, world: World) -> Generator[Action, Any, list[Pod]]:
    """The pods of the job; those that it adopts are tracked from now on, too."""
    selector = obj.selector
    found = candidates(world, PODS, obj, selector)
    pods = yield from claim(JOBS, obj, PODS, found, lambda pod: selector.matches(pod.metadata.labels))
    for pod in pods:
        if pod.metadata.controller is None and pod.is_active:
            yield Patch(PODS, pod, {"metadata": {"finalizers": [FINALIZER]}}, PatchType.STRATEGIC)
    return pods


def _switched(turn: JobTurn, now: str) -> Generator[Action, Any, tuple[JobCondition, ...]]:
    """Say so, once, when the job is suspended or resumed; it begins anew then, for its deadline waits meanwhile."""
    job = turn.job
    was_suspended = job.status.condition("Suspended") is not None
    if job.spec.suspend == was_suspended:
        return job.status.conditions
    if job.spec.suspend:
        turn.start_time = None
        suspended = condition("Suspended", "True", "JobSuspended", "Job suspended", now)
    else:
        turn.start_time = now
        suspended = condition("Suspended", "False", "JobResumed", "Job resumed", now)
    yield Emit(suspended.reason.removeprefix("Job"), suspended.message)
    return _replaced(job.status.conditions, suspended)


def _replaced(conditions: tuple[JobCondition, ...], new: JobCondition) -> tuple[JobCondition, ...]:
    if not any(condition.type == new.type for condition in conditions):
        return (*conditions, new)
    return tuple(new if condition.type == new.type else condition for condition in conditions)
