"""Job: pods that come to an end.

The selector and the labels by which a job finds its pods are made from its uid, unless the author insists on his own.
Sources: pkg/apis/batch/{v1/defaults,validation}, pkg/registry/batch/job/strategy.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.selectors import validate_structured
from fairlead.golang.quoting import go_quote
from fairlead.kinds.job_rules import (
    INDEXED,
    NOT_INDEXED,
    failure_policy_form,
    job_warnings,
    success_policy_form,
    validate_job_spec,
)
from fairlead.kinds.job_status import has_condition, validate_job_status
from fairlead.kinds.podspec.defaults import default_pod_template
from fairlead.kinds.podspec.differences import is_same
from fairlead.kinds.podspec_form import pod_spec_form, template_form
from fairlead.kinds.replication import status_count
from fairlead.kinds.rules import (
    IMMUTABLE,
    TEMPLATE_MISMATCH,
    map_form,
    selector_form,
    selects,
    validate_unchanged,
)
from fairlead.kinds.strategy import MetaCheck, Strategy
from fairlead.kinds.workloads import has_new_spec, labels_of, name_warnings

JOB_NAME, CONTROLLER_UID = "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"
OLD_JOB_NAME, OLD_CONTROLLER_UID = "job-name", "controller-uid"

_BACKOFF_LIMIT: Final = 6
_NO_BACKOFF_LIMIT: Final = 2**31 - 1
_NEVER_MUTABLE: Final = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_FORMS: Final[Mapping[str, Callable[[Obj], Obj]]] = {
    "podFailurePolicy": failure_policy_form,
    "successPolicy": success_policy_form,
}


class JobStrategy(Strategy):
    meta_checks = (MetaCheck.WHOLE, MetaCheck.CHANGE)
    orphans_by_default = True
    deletion_warning = (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
        "set propagationPolicy=Orphan to suppress this warning"
    )
    has_status = True
    has_generation = True
    selectable = {"status.successful": status_count("succeeded")}

    def unknown_field(self, field: str) -> str:
        return f"field label {go_quote(field)} not supported for batchv1.Job"

    def default(self, obj: Obj) -> None:
        default_job_spec(obj["spec"])
        _default_labels(obj)

    def prepare_create(self, obj: Obj) -> None:
        if not obj["spec"]["manualSelector"]:
            _generate_selector(obj)

    def finish_create(self, obj: Obj) -> None:
        _default_labels(obj)

    def validate(self, obj: Obj, errors: Errors) -> None:
        _validate_job(obj, errors, needs_prefixed_labels=True)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """Upstream validates the new spec and then the change, so its errors are reported twice."""
        had_labels = {JOB_NAME, CONTROLLER_UID} <= labels_of(old["spec"]["template"]).keys()
        _validate_job(obj, errors, needs_prefixed_labels=had_labels)
        _validate_selected_spec(obj["spec"], errors)
        _validate_change(obj, old, errors)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_job_status(obj, old, errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        return name_warnings(obj, old) + job_warnings(obj["spec"], "spec") if has_new_spec(obj, old) else []


def default_job_spec(spec: Obj) -> None:
    """Defaults of a Job that a job template does not get."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _BACKOFF_LIMIT if "backoffLimitPerIndex" not in spec else _NO_BACKOFF_LIMIT)
    spec.setdefault("completionMode", NOT_INDEXED)
    spec.setdefault("suspend", False)
    policy = spec.get("podFailurePolicy")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    spec.setdefault("manualSelector", False)
    default_pod_template(spec["template"])


def _default_labels(obj: Obj) -> None:
    labels = labels_of(obj["spec"]["template"])
    if labels and not metadata(obj).get("labels"):
        metadata(obj)["labels"] = dict(labels)


def _generate_selector(obj: Obj) -> None:
    """Labels that the client has set stay; validation refuses wrong ones."""
    name, uid = name_of(obj), metadata(obj)["uid"]
    labels = obj["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})
    for key, value in ((OLD_JOB_NAME, name), (JOB_NAME, name), (OLD_CONTROLLER_UID, uid), (CONTROLLER_UID, uid)):
        labels.setdefault(key, value)
    obj["spec"].setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(CONTROLLER_UID, uid)


def _validate_job(obj: Obj, errors: Errors, *, needs_prefixed_labels: bool) -> None:
    spec = obj["spec"]
    if not spec.get("manualSelector") and spec.get("selector") is not None:
        _validate_generated_selector(obj, errors, needs_prefixed_labels=needs_prefixed_labels)
    _validate_selected_spec(spec, errors)
    completions = spec.get("completions") or 0
    if spec["completionMode"] == INDEXED and completions > 0:
        last_pod = f"{name_of(obj)}-{completions - 1}"
        if names.dns1123_label(last_pod):
            text = f"will not able to create pod with invalid DNS label: {last_pod}"
            errors.invalid("metadata.name", name_of(obj), text)


def _validate_generated_selector(obj: Obj, errors: Errors, *, needs_prefixed_labels: bool) -> None:
    name, uid = name_of(obj), metadata(obj).get("uid", "")
    labels = labels_of(obj["spec"]["template"])
    expected = {OLD_CONTROLLER_UID: uid, OLD_JOB_NAME: name}
    if needs_prefixed_labels:
        expected |= {CONTROLLER_UID: uid, JOB_NAME: name}
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.required(path, f"must be '{value}'")
        elif labels[key] != value:
            errors.invalid(path, map_form(labels), f"must be '{value}'")
    if selects(obj["spec"]["selector"], expected) is False:
        errors.invalid("spec.selector", selector_form(obj["spec"]["selector"]), "`selector` not auto-generated")


def _validate_selected_spec(spec: Obj, errors: Errors) -> None:
    validate_job_spec(spec, "spec", errors)
    selector, labels = spec.get("selector"), labels_of(spec["template"])
    if selector is None:
        errors.required("spec.selector")
    else:
        validate_structured(selector, errors, "spec.selector")
    if selects(selector, labels) is False:
        errors.invalid("spec.template.metadata.labels", map_form(labels), TEMPLATE_MISMATCH)


# changes ---------------------------------------------------------------------------------------------------------


def _validate_change(obj: Obj, old: Obj, errors: Errors) -> None:
    spec, was = obj["spec"], old["spec"]
    _validate_completions(spec, was, errors)
    selector = spec.get("selector")
    validate_unchanged(selector, was.get("selector"), "spec.selector", errors, form=selector_form(selector))
    _validate_template_change(obj, old, errors)
    for field in _NEVER_MUTABLE:
        value, form = spec.get(field), _FORMS.get(field)
        shown = form(value) if form is not None and value is not None else value
        validate_unchanged(value, was.get(field), f"spec.{field}", errors, form=shown)


def _validate_completions(spec: Obj, was: Obj, errors: Errors) -> None:
    """An indexed job is elastic: completions and parallelism may change together."""
    completions = spec.get("completions")
    if spec["completionMode"] != INDEXED:
        validate_unchanged(completions, was.get("completions"), "spec.completions", errors)
    elif completions not in (None, was.get("completions"), spec["parallelism"]):
        errors.invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")


def _validate_template_change(obj: Obj, old: Obj, errors: Errors) -> None:
    template, was = obj["spec"]["template"], old["spec"]["template"]
    if not _is_waiting(old):
        if not is_same(template, was):
            errors.invalid("spec.template", template_form(template), IMMUTABLE)
    elif not is_same(_frozen(template["spec"]), _frozen(was["spec"])):
        errors.invalid("spec.template.spec", pod_spec_form(template["spec"]), IMMUTABLE)


def _is_waiting(job: Obj) -> bool:
    """A suspended job without running pods may change its scheduling directives and resources (KEP-2926, KEP-5440)."""
    if not job["spec"].get("suspend"):
        return False
    status = job.get("status") or {}
    return not status.get("startTime") or (has_condition(status, "Suspended") and not status.get("active"))


def _frozen(spec: Obj) -> Obj:
    """The parts of the template that not even a suspended job may change."""
    kept = {key: value for key, value in spec.items() if key not in ("nodeSelector", "tolerations", "schedulingGates")}
    affinity = {key: value for key, value in (spec.get("affinity") or {}).items() if key != "nodeAffinity"}
    kept.pop("affinity", None)
    if affinity:
        kept["affinity"] = affinity
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [
                {key: value for key, value in container.items() if key != "resources"} for container in kept[field]
            ]
    return kept
