"""PodDisruptionBudget: how many pods may be missing. Its metadata is only checked generically, as upstream does.

Sources: pkg/apis/policy/validation, pkg/registry/policy/poddisruptionbudget (1.36), S3-94 ff.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_structured
from fairlead.kinds.rules import (
    selector_form,
    validate_at_most_all,
    validate_conditions,
    validate_int_or_percent,
    validate_not_negative,
)
from fairlead.kinds.strategy import Strategy

UNHEALTHY_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")

_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class PodDisruptionBudgetStrategy(Strategy):
    allows_unconditional_update = False
    meta_checks = ()
    has_status = True
    has_generation = True

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            errors.invalid("spec", _form(spec), "minAvailable and maxUnavailable cannot be both set")
        for field in ("minAvailable", "maxUnavailable"):
            if (value := spec.get(field)) is not None:
                validate_int_or_percent(value, f"spec.{field}", errors)
                validate_at_most_all(value, f"spec.{field}", errors)
        validate_structured(spec.get("selector"), errors, "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in UNHEALTHY_POLICIES:
            errors.not_supported("spec.unhealthyPodEvictionPolicy", policy, UNHEALTHY_POLICIES)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        status = obj["status"]
        validate_conditions(status.get("conditions") or (), "status.conditions", errors)
        validate_not_negative(status, _COUNTS, "status", errors)


def _form(spec: Obj) -> Obj:
    """The spec as Go prints its internal type."""
    return {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": selector_form(spec.get("selector")),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }
