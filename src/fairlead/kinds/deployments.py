"""Deployment: replica sets of one template after the other.

Sources: pkg/apis/apps/{v1/defaults,validation}, pkg/registry/apps/deployment/strategy.go (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.kinds.podspec.defaults import default_pod_template
from fairlead.kinds.rules import (
    int_or_percent,
    validate_at_most_all,
    validate_int_or_percent,
    validate_not_decremented,
    validate_not_negative,
)
from fairlead.kinds.strategy import Strategy
from fairlead.kinds.workloads import (
    struct_form,
    validate_available_are_ready,
    validate_counts,
    validate_replica_template,
    validate_required_selector,
    validate_same_selector,
    workload_warnings,
)

RECREATE, ROLLING = "Recreate", "RollingUpdate"

_QUARTER: Final = "25%"
_HISTORY: Final = 10
_DEADLINE_SECONDS: Final = 600
_PARTS: Final = ("updatedReplicas", "readyReplicas", "availableReplicas")
_COUNTS: Final = (
    "observedGeneration",
    "replicas",
    *_PARTS,
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
)


class DeploymentStrategy(Strategy):
    has_status = True
    kept_by_status = ("labels",)
    has_generation = True

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        strategy = spec["strategy"]
        if not strategy.get("type"):
            strategy["type"] = ROLLING
        if strategy["type"] == ROLLING:
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", _QUARTER)
            rolling.setdefault("maxSurge", _QUARTER)
        spec.setdefault("revisionHistoryLimit", _HISTORY)
        spec.setdefault("progressDeadlineSeconds", _DEADLINE_SECONDS)
        default_pod_template(spec["template"])

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        """Annotations are copied to the replica sets, so a change of them counts as a new generation."""
        if (metadata(obj).get("annotations") or {}) != (metadata(old).get("annotations") or {}):
            metadata(obj)["generation"] = metadata(old).get("generation", 0) + 1

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        validate_not_negative(spec, ("replicas",), "spec", errors)
        validate_required_selector(spec.get("selector"), "empty selector is invalid for deployment", errors)
        validate_replica_template(spec, errors)
        _validate_strategy(spec["strategy"], errors)
        validate_not_negative(
            spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), "spec", errors
        )
        deadline = spec["progressDeadlineSeconds"]
        if deadline <= spec.get("minReadySeconds", 0):
            errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        validate_same_selector(obj, old, errors)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        status = obj["status"]
        validate_counts(status, _COUNTS, _PARTS, errors)
        validate_available_are_ready(status, "cannot be greater than readyReplicas", errors)
        validate_not_decremented(status, old.get("status") or {}, "collisionCount", "status", errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        return workload_warnings(obj, old, obj["spec"]["template"])


def _validate_strategy(strategy: Obj, errors: Errors) -> None:
    type_, rolling = strategy["type"], strategy.get("rollingUpdate")
    if type_ == RECREATE:
        if rolling is not None:
            errors.forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif type_ == ROLLING:
        _validate_rolling(rolling or {}, "spec.strategy.rollingUpdate", errors)
    else:
        form = struct_form(type_, rolling and _rolling_form(rolling))
        errors.not_supported("spec.strategy", form, (RECREATE, ROLLING))


def _validate_rolling(rolling: Obj, path: str, errors: Errors) -> None:
    missing, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    validate_int_or_percent(missing, f"{path}.maxUnavailable", errors)
    validate_int_or_percent(surge, f"{path}.maxSurge", errors)
    if int_or_percent(missing) == 0 and int_or_percent(surge) == 0:
        errors.invalid(f"{path}.maxUnavailable", missing, "may not be 0 when `maxSurge` is 0")
    validate_at_most_all(missing, f"{path}.maxUnavailable", errors)


def _rolling_form(rolling: Obj) -> Obj:
    return {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
