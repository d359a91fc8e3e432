"""What all kinds that make pods from a template have in common.

Sources: pkg/apis/apps/validation, pkg/apis/core/validation (`ValidatePodTemplateSpecFor*`), 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.selectors import validate_structured
from fairlead.kinds.podspec.template import validate_pod_template
from fairlead.kinds.podspec.warnings import template_warnings
from fairlead.kinds.rules import (
    TEMPLATE_MISMATCH,
    is_empty_selector,
    map_form,
    selector_form,
    selects,
    validate_not_negative,
    validate_unchanged,
)

_NAME_ADVICE: Final = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
    "a DNS label is recommended: "
)
_OVER_REPLICAS: Final = "cannot be greater than status.replicas"


def labels_of(template: Obj) -> dict[str, str]:
    found: dict[str, str] = (template.get("metadata") or {}).get("labels") or {}
    return found


def validate_always_restarting(template: Obj, owner: str, path: str, errors: Errors) -> None:
    """The pods must have restartPolicy Always, and no activeDeadlineSeconds."""
    spec = template["spec"]
    if spec.get("restartPolicy") != "Always":
        errors.not_supported(f"{path}.spec.restartPolicy", spec.get("restartPolicy", ""), ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        errors.forbidden(f"{path}.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {owner} is not Supported")


def validate_required_selector(selector: Obj | None, empty: str, errors: Errors) -> None:
    """`spec.selector` where it must be there and select something; `empty` is the text if it does not."""
    if selector is None:
        errors.required("spec.selector")
        return
    validate_structured(selector, errors, "spec.selector")
    if is_empty_selector(selector):
        errors.invalid("spec.selector", selector_form(selector), empty)


def validate_selects_template(selector: Obj | None, template: Obj, malformed: str, errors: Errors) -> bool:
    """The selector must find the pods it makes; False if the selector is malformed and no more can be said."""
    selected = selects(selector, labels_of(template))
    if selected is None:
        errors.invalid("spec.selector", selector_form(selector), malformed)
        return False
    if not selected:
        errors.invalid("spec.template.metadata.labels", map_form(labels_of(template)), TEMPLATE_MISMATCH)
    return True


def validate_replica_template(spec: Obj, errors: Errors) -> None:
    """The template of ReplicaSets and Deployments."""
    if validate_selects_template(spec.get("selector"), spec["template"], "invalid label selector", errors):
        validate_pod_template(spec["template"], "spec.template", errors)
        validate_always_restarting(spec["template"], "ReplicaSet", "spec.template", errors)


def validate_same_selector(obj: Obj, old: Obj, errors: Errors) -> None:
    selector = obj["spec"].get("selector")
    validate_unchanged(selector, old["spec"].get("selector"), "spec.selector", errors, form=selector_form(selector))


def validate_counts(status: Obj, fields: Iterable[str], bounded: Iterable[str], errors: Errors) -> None:
    """Counts of pods in a status: none is negative, and those `bounded` are parts of `replicas`."""
    validate_not_negative(status, fields, "status", errors)
    for field in bounded:
        if status.get(field, 0) > status.get("replicas", 0):
            errors.invalid(f"status.{field}", status.get(field, 0), _OVER_REPLICAS)


def validate_available_are_ready(status: Obj, text: str, errors: Errors) -> None:
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        errors.invalid("status.availableReplicas", status.get("availableReplicas", 0), text)


def workload_warnings(obj: Obj, old: Obj | None, template: Obj | None) -> list[str]:
    """Names that make poor host names (told once), and whatever is odd about the template."""
    if not has_new_spec(obj, old):
        return []
    return name_warnings(obj, old) + (template_warnings(template, "spec.template") if template else [])


def has_new_spec(obj: Obj, old: Obj | None) -> bool:
    """Whether there is anything new to warn of."""
    return old is None or metadata(old).get("generation") != metadata(obj).get("generation")


def name_warnings(obj: Obj, old: Obj | None) -> list[str]:
    wrong = names.dns1123_label(name_of(obj)) if old is None else []
    return [f"{_NAME_ADVICE}[{' '.join(wrong)}]"] if wrong else []


def struct_form(type_: str, rolling: Any) -> Obj:
    """An update strategy as Go prints its internal type."""
    return {"Type": type_, "RollingUpdate": rolling}
