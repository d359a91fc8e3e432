"""Jobs and CronJobs as their controllers see them; see `workloads.py` for the conventions."""

from __future__ import annotations

import msgspec

from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Condition, Object, View, WrittenView
from fairlead.api.references import Reference

_NOTHING = msgspec.Raw(b"{}")

#: The value of `spec.managedBy` that means this controller, as its absence does.
OUR_CONTROLLER = "kubernetes.io/job-controller"


class OnExitCodes(View):
    container_name: str | None = None
    operator: str = "In"
    values: tuple[int, ...] = ()


class OnPodCondition(View):
    type: str = ""
    status: str = "True"


class FailureRule(View):
    action: str
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] | None = None


class FailurePolicy(View):
    rules: tuple[FailureRule, ...] | None = None


class SuccessRule(View):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(View):
    rules: tuple[SuccessRule, ...] = ()


class JobSpec(View):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    selector: LabelSelector | None = None
    template: msgspec.Raw = _NOTHING
    pod_failure_policy: FailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    managed_by: str = OUR_CONTROLLER


class JobCondition(Condition, omit_defaults=True):
    last_probe_time: str | None = None


class Uncounted(WrittenView):
    """Uids of pods that have ended and are not yet part of the counters."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(WrittenView):
    conditions: tuple[JobCondition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: Uncounted | None = None
    ready: int | None = None

    def condition(self, type_: str) -> JobCondition | None:
        """The condition of that type, if it is true."""
        return next(
            (condition for condition in self.conditions if condition.type == type_ and condition.status == "True"), None
        )


class Job(Object):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def selector(self) -> LabelSelector:
        return self.spec.selector or LabelSelector()

    @property
    def finished(self) -> JobCondition | None:
        """How it ended, if it has."""
        return self.status.condition("Complete") or self.status.condition("Failed")

    @property
    def is_ours(self) -> bool:
        return self.spec.managed_by == OUR_CONTROLLER

    @property
    def is_indexed(self) -> bool:
        return self.spec.completion_mode == "Indexed"

    @property
    def limits_each_index(self) -> bool:
        """Whether every index may fail so and so often, instead of all pods together."""
        return self.is_indexed and self.spec.backoff_limit_per_index is not None

    @property
    def replaces_only_failed(self) -> bool:
        """Whether a pod that is being deleted is replaced only once it is gone."""
        return self.spec.pod_replacement_policy == "Failed"


class CronJobSpec(View):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: msgspec.Raw = _NOTHING
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(WrittenView):
    active: tuple[Reference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Object):
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
