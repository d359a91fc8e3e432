"""Pods whose job is gone or over still wait to be counted by it; nobody else would ever let them go.

Source: syncOrphanPod of pkg/controller/job/job_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.jobs import Job
from fairlead.api.pods import Pod
from fairlead.controllers.actions import Actions
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.job.observed import is_tracked
from fairlead.controllers.job.pods import release
from fairlead.controllers.kinds import JOBS, PODS


def _abandoned(world: World, old: Job | None, new: Job | None) -> Iterator[str]:
    """The pods of a job that will not look after them any more."""
    if old is not None and (new is None or new.finished is not None or new.metadata.uid != old.metadata.uid):
        for pod in world.controlled_by(PODS, old.metadata.uid):
            if is_tracked(pod):
                yield pod.metadata.key


class OrphanedJobPods(Controller[Pod]):
    name = "job-controller"
    queue_name = "job_orphan_pod"
    account = "job-controller"
    kind = PODS
    watches = (Watch(JOBS, _abandoned),)

    def concerns(self, old: Pod | None, new: Pod | None, world: World) -> bool:
        if new is None or not is_tracked(new):
            return False
        return old is None or old.metadata.owner_references != new.metadata.owner_references

    def reconcile(self, obj: Pod, world: World) -> Actions:
        if is_tracked(obj) and _is_orphan(obj, world):
            yield from release([obj])


def _is_orphan(pod: Pod, world: World) -> bool:
    owner = pod.metadata.controller
    if owner is None:
        return True
    if owner.kind != JOBS.resource.kind or owner.api_version != JOBS.resource.api_version:
        return False
    job = world.get(JOBS, f"{pod.metadata.namespace}/{owner.name}")
    if job is None or job.metadata.uid != owner.uid:
        return True
    return job.is_ours and job.finished is not None
