"""The rules of a job's status, which other controllers may write too (`managedBy`, KEP-4368).

A finished job stays finished, counters do not run backwards, times are in order. A rule only applies when what it is
about changes, so that an old status does not get in the way. Sources: `validateJobStatus` and `ValidateJobStatusUpdate`
of pkg/apis/batch/validation, `getStatusValidationOptions` of pkg/registry/batch/job (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.indexes import IndexesError, count_indexes, first_overlap
from fairlead.kinds.job_rules import INDEXED
from fairlead.kinds.rules import IMMUTABLE, validate_not_negative

Status = Mapping[str, Any]

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_TERMINAL: Final = ("Failed", "Complete", "FailureTarget")
_CONDITIONS: Final = "status.conditions"


def has_condition(status: Status, type_: str, value: str = "True") -> bool:
    return any(
        condition.get("type") == type_ and condition.get("status") == value
        for condition in status.get("conditions") or ()
    )


def is_finished(status: Status) -> bool:
    return has_condition(status, "Complete") or has_condition(status, "Failed")


def validate_job_status(obj: Obj, old: Obj, errors: Errors) -> None:
    spec, status, was = obj["spec"], obj["status"], old.get("status") or {}
    validate_not_negative(status, _COUNTS, "status", errors)
    _validate_uncounted(status.get("uncountedTerminatedPods") or {}, errors)
    _validate_outcome(status, was, errors)
    _validate_completion_time(status, was, errors)
    _validate_reached_targets(status, was, errors)
    _validate_finish(spec, status, was, errors)
    _validate_indexes(spec, status, was, errors)
    _validate_pods(status, was, errors)
    _validate_success_criteria(spec, status, errors)
    _validate_progress(spec, status, was, errors)


def _changed(status: Status, was: Status, *fields: str) -> bool:
    return any((status.get(field) or None) != (was.get(field) or None) for field in fields)


def _turned(status: Status, was: Status, *types: str) -> bool:
    return any(has_condition(status, type_) != has_condition(was, type_) for type_ in types)


def _validate_uncounted(uncounted: Obj, errors: Errors) -> None:
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(field) or ()):
            path = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                errors.invalid(path, uid, "must not be empty")
            elif uid in seen:
                errors.duplicate(path, uid)
            seen.add(uid)


def _validate_outcome(status: Status, was: Status, errors: Errors) -> None:
    is_complete = has_condition(status, "Complete")
    for failure, failure_text in (("Failed", "Failed=true"), ("FailureTarget", "FailureTarget=true")):
        if is_complete and has_condition(status, failure) and _turned(status, was, "Complete", failure):
            errors.invalid_omitted(_CONDITIONS, f"cannot set Complete=True and {failure_text} conditions")


def _validate_completion_time(status: Status, was: Status, errors: Errors) -> None:
    path, is_complete = "status.completionTime", has_condition(status, "Complete")
    started, completed = status.get("startTime"), status.get("completionTime")
    if _turned(status, was, "Complete") or _changed(status, was, "completionTime"):
        if completed and not is_complete:
            errors.invalid(path, completed, "cannot set completionTime when there is no Complete=True condition")
        if is_complete and not completed:
            errors.required(path, "completionTime is required for Complete jobs")
    if started and completed and completed < started and _changed(status, was, "startTime", "completionTime"):
        errors.invalid(path, completed, "must be equal to or after `startTime`")


def _validate_reached_targets(status: Status, was: Status, errors: Errors) -> None:
    """A job fails or completes in two steps, so that its pods are gone when it has."""
    for end, before in (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")):
        is_missing = has_condition(status, end) and not has_condition(status, before)
        if is_missing and _turned(status, was, end, before):
            text = f"cannot set {end}=True condition without the {before}=true condition"
            errors.invalid_omitted(_CONDITIONS, text)


def _validate_finish(spec: Obj, status: Status, was: Status, errors: Errors) -> None:
    if not is_finished(status):
        return
    has_just_finished = not is_finished(was)
    if status.get("active") and (has_just_finished or _changed(status, was, "active")):
        errors.invalid("status.active", status["active"], "active>0 is invalid for finished job")
    never_starts = spec.get("suspend") and spec.get("completions") == 0
    if not status.get("startTime") and not never_starts and (has_just_finished or _changed(status, was, "startTime")):
        errors.required("status.startTime", "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if any(uncounted.values()) and (has_just_finished or _changed(status, was, "uncountedTerminatedPods")):
        form = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        errors.invalid("status.uncountedTerminatedPods", form, "must be empty for finished job")


def _validate_pods(status: Status, was: Status, errors: Errors) -> None:
    terminating, ready = status.get("terminating") or 0, status.get("ready") or 0
    has_just_finished = is_finished(status) and not is_finished(was)
    if terminating and is_finished(status) and (has_just_finished or _changed(status, was, "terminating")):
        errors.invalid("status.terminating", terminating, "terminating>0 is invalid for finished job")
    if ready > status.get("active", 0) and _changed(status, was, "ready", "active"):
        errors.invalid("status.ready", ready, "cannot set more ready pods than active")


def _validate_indexes(spec: Obj, status: Status, was: Status, errors: Errors) -> None:
    completions = spec.get("completions")
    completed, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    is_completed_new, is_failed_new = _changed(status, was, "completedIndexes"), _changed(status, was, "failedIndexes")
    if completions is not None and is_completed_new:
        _validate_index_set(completed, completions, "completedIndexes", errors)
    if completions is not None and failed is not None and "backoffLimitPerIndex" in spec and is_failed_new:
        _validate_index_set(failed, completions, "failedIndexes", errors)
    if completed and spec.get("completionMode") != INDEXED and is_completed_new:
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.invalid("status.completedIndexes", completed, text)
    if failed is not None and "backoffLimitPerIndex" not in spec and is_failed_new:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.invalid("status.failedIndexes", failed, text)
    if completions is not None and failed is not None and (is_completed_new or is_failed_new):
        overlap = first_overlap(completed, failed, completions)
        if overlap is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {overlap}"
            errors.invalid("status.failedIndexes", failed, text)


def _validate_index_set(text: str, completions: int, field: str, errors: Errors) -> None:
    try:
        count_indexes(text, completions)
    except IndexesError as error:
        errors.invalid(f"status.{field}", text, f"error parsing {field}: {error}")


def _validate_success_criteria(spec: Obj, status: Status, errors: Errors) -> None:
    is_met = has_condition(status, "SuccessCriteriaMet")
    for failure, failure_text in (("Failed", "Failed=true"), ("FailureTarget", "FailureTarget=true")):
        if is_met and has_condition(status, failure):
            errors.invalid_omitted(_CONDITIONS, f"cannot set SuccessCriteriaMet=True and {failure_text} conditions")
    if spec.get("successPolicy") is not None and not is_met and has_condition(status, "Complete"):
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.invalid_omitted(_CONDITIONS, text)


def _validate_progress(spec: Obj, status: Status, was: Status, errors: Errors) -> None:
    _validate_kept(status, was, _TERMINAL, "cannot disable the terminal {}=True condition", errors)
    for field in ("failed", "succeeded"):
        may_shrink = field == "succeeded" and _is_elastic(spec)
        if status.get(field, 0) < was.get(field, 0) and not may_shrink:
            errors.invalid(f"status.{field}", status.get(field, 0), f"cannot decrease the {field} counter")
    completed, before = status.get("completionTime"), was.get("completionTime")
    if completed and before and completed != before:
        errors.invalid("status.completionTime", completed, IMMUTABLE)
    _validate_start_time(spec, status, was, errors)
    _validate_kept(status, was, ("SuccessCriteriaMet",), "cannot disable the {}=True condition", errors)
    was_met, is_met = (has_condition(state, "SuccessCriteriaMet") for state in (was, status))
    if has_condition(was, "Complete") and not was_met and is_met:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.invalid_omitted(_CONDITIONS, text)


def _validate_start_time(spec: Obj, status: Status, was: Status, errors: Errors) -> None:
    """A job begins once, and again each time that it is resumed."""
    is_resuming = has_condition(was, "Suspended") and has_condition(status, "Suspended", "False")
    if not was.get("startTime") or spec.get("suspend") or is_resuming:
        return
    if _changed(status, was, "startTime"):
        text = "field is immutable for unsuspended job once set"
        errors.invalid("status.startTime", status.get("startTime"), text)


def _validate_kept(status: Status, was: Status, types: Iterable[str], text: str, errors: Errors) -> None:
    for type_ in types:
        if has_condition(was, type_) and not has_condition(status, type_):
            errors.invalid_omitted(_CONDITIONS, text.format(type_))


def _is_elastic(spec: Obj) -> bool:
    """An indexed job that may be scaled down, and then forgets successes."""
    return spec.get("completionMode") == INDEXED and spec.get("completions") == spec.get("parallelism")
