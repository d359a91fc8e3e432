"""Which pods have failed, and what the failure policy of their job makes of it.

Source: pkg/controller/job/pod_failure_policy.go.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.jobs import FailureRule, Job, OnExitCodes
from fairlead.api.pods import ContainerStatus, Pod


class Judgement(msgspec.Struct, frozen=True):
    """What one failure means."""

    counts: bool
    action: str = ""
    #: Why the whole job fails with it.
    message: str = ""


_COUNTS: Final = Judgement(counts=True)


def has_failed(pod: Pod, job: Job) -> bool:
    """A pod that is being deleted will hardly succeed, so it counts at once, unless the job wants to be sure."""
    if pod.status.phase == "Failed":
        return True
    return not job.replaces_only_failed and pod.metadata.is_terminating and pod.status.phase != "Succeeded"


def judged(pod: Pod, job: Job) -> Judgement:
    """The first rule that the failed pod matches decides; without one, it counts."""
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate((policy.rules if policy is not None else None) or ()):
        matched = _matched(pod, rule)
        if matched and not (rule.action == "FailIndex" and not job.limits_each_index):
            message = f"{matched} matching FailJob rule at index {number}" if rule.action == "FailJob" else ""
            return Judgement(rule.action != "Ignore", rule.action, message)
    return _COUNTS


def _matched(pod: Pod, rule: FailureRule) -> str:
    """What the rule found in the pod; empty if nothing."""
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            code = _exit_code(status)
            if code and _is_meant(status, code, rule.on_exit_codes):
                return f"Container {status.name} for pod {where} failed with exit code {code}"
        return ""
    for pattern in rule.on_pod_conditions or ():
        if any(
            condition.type == pattern.type and condition.status == pattern.status for condition in pod.status.conditions
        ):
            return f"Pod {where} has condition {pattern.type}"
    return ""


def _exit_code(status: ContainerStatus) -> int:
    return status.state.terminated.exit_code if status.state.terminated is not None else 0


def _is_meant(status: ContainerStatus, code: int, wanted: OnExitCodes) -> bool:
    if wanted.container_name is not None and wanted.container_name != status.name:
        return False
    return (code in wanted.values) == (wanted.operator == "In")
