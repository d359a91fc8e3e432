"""StatefulSet, and the ControllerRevisions in which it and daemon sets keep their past.

Sources: pkg/apis/apps/{v1/defaults,v1/conversion,validation}, pkg/registry/apps/statefulset (1.36).
"""

from __future__ import annotations

from typing import Any, Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.podspec.defaults import default_pod_template
from fairlead.kinds.podspec.differences import is_same
from fairlead.kinds.podspec.template import validate_pod_template
from fairlead.kinds.podspec.warnings import claim_warnings
from fairlead.kinds.resource_names import round_up
from fairlead.kinds.rules import (
    NOT_NEGATIVE,
    check,
    int_or_percent,
    validate_at_most_all,
    validate_int_or_percent,
    validate_not_decremented,
    validate_not_negative,
    validate_unchanged,
)
from fairlead.kinds.strategy import Strategy
from fairlead.kinds.workloads import (
    struct_form,
    validate_always_restarting,
    validate_available_are_ready,
    validate_counts,
    validate_required_selector,
    validate_selects_template,
    workload_warnings,
)

ROLLING, ON_DELETE = "RollingUpdate", "OnDelete"
ORDERED, PARALLEL = "OrderedReady", "Parallel"
RETENTION: Final = ("Retain", "Delete")

_HISTORY: Final = 10
#: What may change in the life of a stateful set.
_MUTABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_FIXED: Final = (
    "updates to statefulset spec for fields other than "
    + ", ".join(f"'{field}'" for field in _MUTABLE[:-1])
    + f" and '{_MUTABLE[-1]}' are forbidden"
)
_PARTS: Final = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
_COUNTS: Final = ("replicas", *_PARTS, "observedGeneration", "collisionCount")
_KEEPS_ALL: Final = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)


class StatefulSetStrategy(Strategy):
    has_status = True
    has_generation = True

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        spec.setdefault("podManagementPolicy", ORDERED)
        _default_strategy(spec["updateStrategy"])
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", _HISTORY)
        default_pod_template(spec["template"])
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.update({"kind": "PersistentVolumeClaim", "apiVersion": "v1"})
            claim["spec"].setdefault("volumeMode", "Filesystem")
            claim["status"].setdefault("phase", "Pending")
            round_up(claim["spec"]["resources"].get("requests"))

    def prepare_create(self, obj: Obj) -> None:
        _drop_max_unavailable(obj["spec"]["updateStrategy"])

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        rolling = old["spec"]["updateStrategy"].get("rollingUpdate") or {}
        if "maxUnavailable" not in rolling:
            _drop_max_unavailable(obj["spec"]["updateStrategy"])

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        policy = spec["podManagementPolicy"]
        if policy not in (ORDERED, PARALLEL):
            errors.invalid("spec.podManagementPolicy", policy, f"must be '{ORDERED}' or '{PARALLEL}'")
        _validate_strategy(spec["updateStrategy"], errors)
        for field in ("whenDeleted", "whenScaled"):
            kept = spec["persistentVolumeClaimRetentionPolicy"][field]
            if kept not in RETENTION:
                path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
                errors.not_supported(path, kept, RETENTION, sort=False)
        validate_not_negative(spec, ("replicas", "minReadySeconds"), "spec", errors)
        validate_not_negative(spec.get("ordinals") or {}, ("start",), "spec.ordinals", errors)
        validate_required_selector(spec.get("selector"), "empty selector is invalid for statefulset", errors)
        if validate_selects_template(spec.get("selector"), spec["template"], "", errors):
            validate_pod_template(_with_claims(spec), "spec.template", errors)
        validate_always_restarting(spec["template"], "StatefulSet", "spec.template", errors)
        if service := spec.get("serviceName"):
            check(errors, "spec.serviceName", service, names.dns1123_label)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        if not is_same(_frozen(obj["spec"]), _frozen(old["spec"])):
            errors.forbidden("spec", _FIXED)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        status = obj["status"]
        validate_counts(status, _COUNTS, _PARTS, errors)
        validate_available_are_ready(status, "cannot be greater than status.readyReplicas", errors)
        validate_not_decremented(status, old.get("status") or {}, "collisionCount", "status", errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        warnings = workload_warnings(obj, old, obj["spec"]["template"])
        within = "" if old is None else ".Spec"  # upstream's two paths
        for index, claim in enumerate(obj["spec"].get("volumeClaimTemplates") or ()):
            warnings += claim_warnings(claim["spec"], f"spec.volumeClaimTemplates[{index}]{within}")
        return [*warnings, _KEEPS_ALL] if obj["spec"]["revisionHistoryLimit"] < 0 else warnings


def _default_strategy(strategy: Obj) -> None:
    if not strategy.get("type"):
        strategy["type"] = ROLLING
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == ROLLING and (rolling := strategy.get("rollingUpdate")) is not None:
        rolling.setdefault("partition", 0)


def _drop_max_unavailable(strategy: Obj) -> None:
    """The field is behind a gate (MaxUnavailableStatefulSet) that is off in 1.36."""
    (strategy.get("rollingUpdate") or {}).pop("maxUnavailable", None)


def _validate_strategy(strategy: Obj, errors: Errors) -> None:
    path, type_, rolling = "spec.updateStrategy", strategy["type"], strategy.get("rollingUpdate")
    if type_ == ON_DELETE:
        if rolling is not None:
            errors.invalid(
                f"{path}.rollingUpdate", _rolling_form(rolling), f"only allowed for updateStrategy '{ROLLING}'"
            )
    elif type_ != ROLLING:
        form = struct_form(type_, rolling and _rolling_form(rolling))
        errors.invalid(path, form, f"must be '{ROLLING}' or '{ON_DELETE}'")
    elif rolling is not None:
        validate_not_negative(rolling, ("partition",), f"{path}.rollingUpdate", errors)
        if (missing := rolling.get("maxUnavailable")) is not None:
            where = f"{path}.rollingUpdate.maxUnavailable"
            validate_int_or_percent(missing, where, errors)
            if int_or_percent(missing) == 0:
                errors.invalid(where, missing, "cannot be 0")
            validate_at_most_all(missing, where, errors)


def _rolling_form(rolling: Obj) -> dict[str, Any]:
    return {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}


def _with_claims(spec: Obj) -> Obj:
    """The template with the volumes that the controller will add for the claims, so that mounts find them."""
    claims = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    template: Obj = spec["template"]
    if not claims:
        return template
    pod = template["spec"]
    kept = [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return template | {"spec": pod | {"volumes": kept + added}}


def _frozen(spec: Obj) -> Obj:
    return {key: value for key, value in spec.items() if key not in _MUTABLE}


class ControllerRevisionStrategy(Strategy):
    def validate(self, obj: Obj, errors: Errors) -> None:
        if obj.get("data") is None:
            errors.required("data", "data is mandatory")
        if obj["revision"] < 0:
            errors.invalid("revision", obj["revision"], NOT_NEGATIVE)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        validate_unchanged(obj.get("data"), old.get("data"), "data", errors)
