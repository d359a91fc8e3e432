"""ReplicationController and ReplicaSet: a number of equal pods.

Sources: pkg/apis/core/validation, pkg/apis/apps/{v1/defaults,validation}, pkg/registry/{core,apps} (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.fields import Errors
from fairlead.api.labels import has_all
from fairlead.api.objects import Obj, metadata
from fairlead.kinds.podspec.defaults import default_pod_template
from fairlead.kinds.podspec.template import validate_pod_template
from fairlead.kinds.rules import TEMPLATE_MISMATCH, map_form, validate_not_negative
from fairlead.kinds.strategy import FieldGetter, MetaCheck, Strategy
from fairlead.kinds.workloads import (
    labels_of,
    validate_always_restarting,
    validate_available_are_ready,
    validate_counts,
    validate_replica_template,
    validate_required_selector,
    validate_same_selector,
    workload_warnings,
)

_PARTS: Final = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
_COUNTS: Final = ("replicas", *_PARTS, "terminatingReplicas", "observedGeneration")


def status_count(field: str) -> FieldGetter:
    """Selects objects by a count in their status."""
    return lambda obj: str((obj.get("status") or {}).get(field) or 0)


class _Replicas(Strategy):
    """What the two kinds share."""

    meta_checks = (MetaCheck.WHOLE, MetaCheck.CHANGE)

    has_status = True
    has_generation = True

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """Upstream validates the new object and then the change, so every error is reported twice."""
        found = Errors()
        self.validate(obj, found)
        errors += found
        errors += found

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_counts(obj["status"], _COUNTS, _PARTS, errors)
        validate_available_are_ready(obj["status"], "cannot be greater than readyReplicas", errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        return workload_warnings(obj, old, obj["spec"].get("template"))


class ReplicationControllerStrategy(_Replicas):
    orphans_by_default = True
    selectable = {"status.replicas": status_count("replicas")}  # a ReplicaSet cannot be selected by it

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        if (template := spec.get("template")) is None:
            return
        default_pod_template(template)
        if labels := labels_of(template):
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not metadata(obj).get("labels"):
                metadata(obj)["labels"] = dict(labels)

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        validate_not_negative(spec, ("minReadySeconds",), "spec", errors)
        selector = spec.get("selector") or {}
        if not selector:
            errors.required("spec.selector")
        validate_not_negative(spec, ("replicas",), "spec", errors)
        template = spec.get("template")
        if template is None:
            errors.required("spec.template")
            return
        labels = labels_of(template)
        if not has_all(labels, selector):
            errors.invalid("spec.template.metadata.labels", map_form(labels), TEMPLATE_MISMATCH)
        validate_pod_template(template, "spec.template", errors)
        validate_always_restarting(template, "ReplicationController", "spec.template", errors)


class ReplicaSetStrategy(_Replicas):
    def default(self, obj: Obj) -> None:
        obj["spec"].setdefault("replicas", 1)
        default_pod_template(obj["spec"]["template"])

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        validate_not_negative(spec, ("replicas", "minReadySeconds"), "spec", errors)
        validate_required_selector(spec.get("selector"), "empty selector is invalid for deployment", errors)
        validate_replica_template(spec, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        super().validate_update(obj, old, errors)
        validate_same_selector(obj, old, errors)
