"""The rules of a job's spec, in a Job and in the template of a CronJob.

Sources: `validateJobSpec` and what it calls in pkg/apis/batch/validation, pkg/api/job/warnings.go (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors, quoted
from fairlead.api.objects import Obj
from fairlead.kinds.indexes import IndexesError, count_indexes
from fairlead.kinds.podspec.template import validate_pod_template
from fairlead.kinds.podspec.warnings import template_warnings
from fairlead.kinds.rules import check, validate_not_negative

INDEXED, NOT_INDEXED = "Indexed", "NonIndexed"

_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_LONG_MANAGER: Final = 63
_MOST_PARALLEL: Final = 100_000
_MOST_FAILED: Final = 100_000
_MANY_COMPLETIONS: Final = 100_000
_MOST_PARALLEL_THEN: Final = 10_000
_MOST_FAILED_THEN: Final = 10_000
_MOST_RULES: Final = 20
_MOST_PATTERNS: Final = 20
_MOST_EXIT_CODES: Final = 255
_LONG_INDEXES: Final = 64 * 1024
_TOO_MANY_TO_TRACK: Final = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
    "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")


def validate_job_spec(spec: Obj, path: str, errors: Errors) -> None:
    validate_not_negative(spec, _COUNTS, path, errors)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        errors.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if (manager := spec.get("managedBy")) is not None:
        _validate_manager(manager, f"{path}.managedBy", errors)
    _validate_completion_mode(spec, path, errors)
    if (policy := spec.get("podFailurePolicy")) is not None:
        _validate_failure_policy(policy, spec, f"{path}.podFailurePolicy.rules", errors)
    if (success := spec.get("successPolicy")) is not None:
        if spec.get("completionMode") != INDEXED:
            errors.invalid(f"{path}.successPolicy", success_policy_form(success), "requires indexed completion mode")
        else:
            _validate_success_policy(success, spec, f"{path}.successPolicy.rules", errors)
    _validate_replacement(spec, f"{path}.podReplacementPolicy", errors)
    validate_pod_template(spec["template"], f"{path}.template", errors)
    _validate_restart_policy(spec, f"{path}.template.spec.restartPolicy", errors)


def job_warnings(spec: Obj, path: str) -> list[str]:
    """What is odd about the spec of a job, and about its template."""
    completions, parallelism = spec.get("completions") or 0, spec.get("parallelism") or 0
    is_huge = completions > _MANY_COMPLETIONS and parallelism > _MOST_PARALLEL_THEN
    warnings = [f"{path}: {_TOO_MANY_TO_TRACK}"] if is_huge and spec.get("completionMode") == INDEXED else []
    return warnings + template_warnings(spec["template"], f"{path}.template")


def _validate_manager(manager: str, path: str, errors: Errors) -> None:
    if not manager:
        errors.required(path)
    else:
        for part, text in names.domain_prefixed_path(manager):
            errors.invalid(path, part, text)
    if len(manager.encode()) > _LONG_MANAGER:
        errors.too_long(path, _LONG_MANAGER)


def _validate_completion_mode(spec: Obj, path: str, errors: Errors) -> None:
    mode = spec.get("completionMode")
    if mode not in (None, INDEXED, NOT_INDEXED):
        errors.not_supported(f"{path}.completionMode", mode, (NOT_INDEXED, INDEXED), sort=False)
    if mode == INDEXED:
        _validate_indexed(spec, path, errors)
    elif mode in (None, NOT_INDEXED):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in spec:
                errors.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")


def _validate_indexed(spec: Obj, path: str, errors: Errors) -> None:
    completions, parallelism, failed = (spec.get(field) for field in ("completions", "parallelism", "maxFailedIndexes"))
    if completions is None:
        errors.required(f"{path}.completions", f"when completion mode is {INDEXED}")
    if (parallelism or 0) > _MOST_PARALLEL:
        text = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is {INDEXED}"
        errors.invalid(f"{path}.parallelism", parallelism, text)
    if completions is not None and failed is not None and failed > completions:
        errors.invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if (failed or 0) > _MOST_FAILED:
        errors.invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_FAILED}")
    if (completions or 0) > _MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        _validate_huge(parallelism, failed, path, errors)


def _validate_huge(parallelism: int | None, failed: int | None, path: str, errors: Errors) -> None:
    """So many indexes are only tracked if few run, and few fail, at a time."""
    if failed is None:
        text = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        errors.required(f"{path}.maxFailedIndexes", text)
    beyond = f"when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
    if (parallelism or 0) > _MOST_PARALLEL_THEN:
        text = f"must be less than or equal to {_MOST_PARALLEL_THEN} {beyond}"
        errors.invalid(f"{path}.parallelism", parallelism, text)
    if (failed or 0) > _MOST_FAILED_THEN:
        errors.invalid(
            f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_FAILED_THEN} {beyond}"
        )


def _validate_replacement(spec: Obj, path: str, errors: Errors) -> None:
    replacement = spec.get("podReplacementPolicy")
    supported = ("Failed",) if spec.get("podFailurePolicy") is not None else _REPLACEMENTS
    if replacement is not None and replacement not in supported:
        errors.not_supported(path, replacement, supported)


def _validate_restart_policy(spec: Obj, path: str, errors: Errors) -> None:
    policy = spec["template"]["spec"].get("restartPolicy", "")
    if policy in ("", "Always"):
        errors.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        errors.not_supported(path, policy, ("OnFailure", "Never"), sort=False)
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


# failure policy --------------------------------------------------------------------------------------------------


def _validate_failure_policy(policy: Obj, spec: Obj, path: str, errors: Errors) -> None:
    rules = policy.get("rules") or []
    if len(rules) > _MOST_RULES:
        errors.too_many(path, len(rules), _MOST_RULES)
    pod = spec["template"]["spec"]
    containers = {
        container.get("name") for field in ("containers", "initContainers") for container in pod.get(field) or ()
    }
    for index, rule in enumerate(rules):
        where = f"{path}[{index}]"
        _validate_action(rule.get("action", ""), spec, f"{where}.action", errors)
        codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions")
        if codes is not None:
            _validate_exit_codes(codes, containers, f"{where}.onExitCodes", errors)
        if patterns:
            _validate_patterns(patterns, f"{where}.onPodConditions", errors)
        if codes is not None and patterns:
            errors.invalid_omitted(where, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not patterns:
            errors.invalid_omitted(where, "specifying one of OnExitCodes and OnPodConditions is required")


def _listed(values: tuple[str, ...]) -> str:
    """`valid values: ["a" "b"]`, as Go prints a list of quoted texts."""
    return f"valid values: [{' '.join(quoted(value) for value in values)}]"


def _validate_action(action: str, spec: Obj, path: str, errors: Errors) -> None:
    if not action:
        errors.required(path, _listed(_ACTIONS))
    elif action == "FailIndex":
        if "backoffLimitPerIndex" not in spec:
            errors.invalid(path, action, "requires the backoffLimitPerIndex to be set")
    elif action not in _ACTIONS:
        errors.not_supported(path, action, _ACTIONS)


def _validate_patterns(patterns: list[Obj], path: str, errors: Errors) -> None:
    if len(patterns) > _MOST_PATTERNS:
        errors.too_many(path, len(patterns), _MOST_PATTERNS)
    for index, pattern in enumerate(patterns):
        check(errors, f"{path}[{index}].type", pattern.get("type", ""), names.qualified_name)
        status = pattern.get("status", "")
        if not status:
            errors.required(f"{path}[{index}].status", _listed(_STATUSES))
        elif status not in _STATUSES:
            errors.not_supported(f"{path}[{index}].status", status, _STATUSES)


def _validate_exit_codes(codes: Obj, containers: set[str | None], path: str, errors: Errors) -> None:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        errors.required(f"{path}.operator", _listed(_OPERATORS))
    elif operator not in _OPERATORS:
        errors.not_supported(f"{path}.operator", operator, _OPERATORS)
    name = codes.get("containerName")
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.invalid(f"{path}.containerName", name, text)
    if not values:
        errors.invalid(f"{path}.values", None, "at least one value is required")
    elif len(values) > _MOST_EXIT_CODES:
        errors.too_many(f"{path}.values", len(values), _MOST_EXIT_CODES)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in seen:
            errors.duplicate(f"{path}.values[{index}]", value)
        seen.add(value)
    if values != sorted(values):
        errors.invalid(f"{path}.values", values, "must be ordered")


def failure_policy_form(policy: Obj) -> Obj:
    """A failure policy as Go prints its internal type."""
    return {"Rules": [_failure_rule_form(rule) for rule in policy.get("rules") or ()] or None}


def _failure_rule_form(rule: Obj) -> Obj:
    codes = rule.get("onExitCodes")
    patterns = [
        {"Type": pattern.get("type", ""), "Status": pattern.get("status", "")}
        for pattern in rule.get("onPodConditions") or ()
    ]
    return {
        "Action": rule.get("action", ""),
        "OnExitCodes": codes
        and {
            "ContainerName": codes.get("containerName"),
            "Operator": codes.get("operator", ""),
            "Values": codes.get("values"),
        },
        "OnPodConditions": patterns or None,
    }


# success policy --------------------------------------------------------------------------------------------------


def _validate_success_policy(policy: Obj, spec: Obj, path: str, errors: Errors) -> None:
    rules = policy.get("rules") or []
    if not rules:
        errors.required(path, "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MOST_RULES:
        errors.too_many(path, len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        _validate_success_rule(rule, spec.get("completions") or 0, f"{path}[{index}]", errors)


def _validate_success_rule(rule: Obj, completions: int, path: str, errors: Errors) -> None:
    indexes, count, total = rule.get("succeededIndexes"), rule.get("succeededCount"), 0
    if indexes is None and count is None:
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        if len(indexes) > _LONG_INDEXES:
            errors.too_long(f"{path}.succeededIndexes", _LONG_INDEXES)
        try:
            total = count_indexes(indexes, completions)
        except IndexesError as error:
            errors.invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    validate_not_negative(rule, ("succeededCount",), path, errors)
    bounds = [(completions, "the number of specified completions")]
    if indexes is not None:
        bounds.append((total, "the number of indexes in the specified succeededIndexes field"))
    for bound, what in bounds:
        if count > bound:
            errors.invalid(f"{path}.succeededCount", count, f"must be less than or equal to {bound} ({what})")


def success_policy_form(policy: Obj) -> Obj:
    """A success policy as Go prints its internal type."""
    return {
        "Rules": [
            {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
            for rule in policy.get("rules") or ()
        ]
        or None
    }
