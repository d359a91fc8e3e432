"""CronJob: jobs by the clock.

Sources: pkg/apis/batch/{v1/defaults,validation}, pkg/registry/batch/cronjob (1.36).
"""

from __future__ import annotations

import re
from typing import Final

from fairlead.api.cron import ScheduleError, parse, time_zone
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, name_of
from fairlead.kinds.job_rules import job_warnings, validate_job_spec
from fairlead.kinds.podspec.defaults import default_pod_template
from fairlead.kinds.rules import selector_form, validate_not_negative
from fairlead.kinds.strategy import Strategy
from fairlead.kinds.workloads import has_new_spec, name_warnings

CONCURRENCY: Final = ("Allow", "Forbid", "Replace")

#: The controller appends eleven characters to make the names of jobs.
_LONG_NAME: Final = 52
_JOB_SPEC: Final = "spec.jobTemplate.spec"
_SUCCESSFUL_KEPT: Final = 3
_FAILED_KEPT: Final = 1
_ZONE_PART: Final = re.compile(r"[A-Za-z._0-9+-]{1,14}").fullmatch


class CronJobStrategy(Strategy):
    has_status = True
    has_generation = True

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", _SUCCESSFUL_KEPT)
        spec.setdefault("failedJobsHistoryLimit", _FAILED_KEPT)
        default_pod_template(spec["jobTemplate"]["spec"]["template"])

    def validate(self, obj: Obj, errors: Errors) -> None:
        _validate_spec(obj["spec"], None, errors)
        if len(name_of(obj)) > _LONG_NAME:
            errors.invalid("metadata.name", name_of(obj), f"must be no more than {_LONG_NAME} characters")

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """A name that is too long was let in once."""
        _validate_spec(obj["spec"], old["spec"], errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        if not has_new_spec(obj, old):
            return []
        return name_warnings(obj, old) + job_warnings(obj["spec"]["jobTemplate"]["spec"], _JOB_SPEC)


def _validate_spec(spec: Obj, old: Obj | None, errors: Errors) -> None:
    schedule, zone = spec["schedule"], spec.get("timeZone")
    if not schedule:
        errors.required("spec.schedule")
    else:
        _validate_schedule(schedule, zone, old, errors)
    validate_not_negative(spec, ("startingDeadlineSeconds",), "spec", errors)
    if zone is not None and (old is None or old.get("timeZone") != zone):
        _validate_zone(zone, errors)
    policy = spec["concurrencyPolicy"]
    if not policy:
        errors.required("spec.concurrencyPolicy")
    elif policy not in CONCURRENCY:
        errors.not_supported("spec.concurrencyPolicy", policy, CONCURRENCY)
    _validate_job_template(spec["jobTemplate"]["spec"], _JOB_SPEC, errors)
    validate_not_negative(spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec", errors)


def _validate_schedule(schedule: str, zone: str | None, old: Obj | None, errors: Errors) -> None:
    try:
        parse(schedule)
    except ScheduleError as error:
        errors.invalid("spec.schedule", schedule, str(error))
    if "TZ" not in schedule:
        return
    if old is None or "TZ" not in old["schedule"]:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.invalid("spec.schedule", schedule, text)
    elif zone is not None:
        errors.invalid("spec.schedule", schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")


def _validate_zone(zone: str, errors: Errors) -> None:
    path = "spec.timeZone"
    if not zone:
        errors.invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    if any(part in (".", "..") or part.startswith("-") or not _ZONE_PART(part) for part in zone.split("/")):
        errors.invalid(path, zone, f"unknown time zone {zone}")
        return
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.invalid(path, zone, text)
    if time_zone(zone) is None:
        errors.invalid(path, zone, f"unknown time zone {zone}")


def _validate_job_template(spec: Obj, path: str, errors: Errors) -> None:
    validate_job_spec(spec, path, errors)
    if (selector := spec.get("selector")) is not None:
        errors.invalid(f"{path}.selector", selector_form(selector), "`selector` will be auto-generated")
    if spec.get("manualSelector"):
        errors.not_supported(f"{path}.manualSelector", True, ("nil", "false"), sort=False)
