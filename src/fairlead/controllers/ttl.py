"""Finished jobs with a time to live are deleted when it is over (pkg/controller/ttlafterfinished)."""

from __future__ import annotations

from fairlead.api.jobs import Job
from fairlead.api.verbs import DeleteOptions
from fairlead.controllers.actions import Actions, Delete, Requeue
from fairlead.controllers.base import Controller, World
from fairlead.controllers.kinds import JOBS
from fairlead.runtime.clock import parse_timestamp


class FinishedJobs(Controller[Job]):
    name = "ttl-after-finished-controller"
    queue_name = "ttl_jobs_to_delete"
    account = "ttl-after-finished-controller"
    kind = JOBS

    def concerns(self, old: Job | None, new: Job | None, world: World) -> bool:
        return new is not None and new.finished is not None and new.spec.ttl_seconds_after_finished is not None

    def reconcile(self, obj: Job, world: World) -> Actions:
        finished, lifetime = obj.finished, obj.spec.ttl_seconds_after_finished
        if finished is None or lifetime is None or obj.metadata.is_terminating:
            return
        remaining = parse_timestamp(finished.last_transition_time or "") + lifetime - world.now
        if remaining > 0:
            yield Requeue(remaining)
        else:
            revision = obj.metadata.resource_version
            options = DeleteOptions(propagation_policy="Foreground", precondition_resource_version=revision)
            yield Delete(JOBS, obj, options)
