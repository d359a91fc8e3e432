"""HorizontalPodAutoscaler: stored as `autoscaling/v2`; how `v1` shows it is in `autoscaling_v1.py`.

Sources: pkg/apis/autoscaling/{v2/conversion,v2/defaults,validation} (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.kinds.autoscaling_v1 import cpu_metric, drop_carried
from fairlead.kinds.metric_rules import validate_metrics
from fairlead.kinds.rules import NOT_NEGATIVE, check, validate_not_negative
from fairlead.kinds.strategy import Strategy

_CPU_PERCENT: Final = 80
_PERIOD_SECONDS: Final = 15
_MOST_PERIOD_SECONDS: Final = 1800
_MOST_WINDOW_SECONDS: Final = 3600
_SELECT_POLICIES: Final = ("Disabled", "Max", "Min")
_POLICY_TYPES: Final = ("Percent", "Pods")


class HorizontalPodAutoscalerStrategy(Strategy):
    has_status = True

    def default(self, obj: Obj) -> None:
        drop_carried(obj)
        spec = obj["spec"]
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            spec["metrics"] = [cpu_metric(_CPU_PERCENT)]
        if (behavior := spec.get("behavior")) is not None:
            behavior["scaleUp"] = _scale_up_rules() | behavior.get("scaleUp", {})
            behavior["scaleDown"] = _scale_down_rules() | behavior.get("scaleDown", {})

    def validate(self, obj: Obj, errors: Errors) -> None:
        _validate_spec(obj["spec"], 1, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """Zero replicas need a gate (HPAScaleToZero) that is off; who has them may keep them."""
        _validate_spec(obj["spec"], 0 if old["spec"].get("minReplicas") == 0 else 1, errors)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_not_negative(obj["status"], ("currentReplicas", "desiredReplicas"), "status", errors)


def _scale_up_rules() -> Obj:
    return {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": _PERIOD_SECONDS},
            {"type": "Percent", "value": 100, "periodSeconds": _PERIOD_SECONDS},
        ],
    }


def _scale_down_rules() -> Obj:
    return {
        "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": _PERIOD_SECONDS}],
    }


def _validate_spec(spec: Obj, least: int, errors: Errors) -> None:
    low, high = spec["minReplicas"], spec["maxReplicas"]
    if low < least:
        errors.invalid("spec.minReplicas", low, f"must be greater than or equal to {least}")
    if high == 0:
        errors.required("spec.maxReplicas")
    elif high < 0:
        errors.invalid("spec.maxReplicas", high, "must be greater than 0")
    if high < low:
        errors.invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    for field in ("kind", "name"):
        if value := spec["scaleTargetRef"][field]:
            check(errors, f"spec.scaleTargetRef.{field}", value, names.path_segment_name)
        else:
            errors.required(f"spec.scaleTargetRef.{field}")
    validate_metrics(spec["metrics"], low, "spec.metrics", errors)
    for direction in ("scaleUp", "scaleDown"):
        if rules := (spec.get("behavior") or {}).get(direction):
            _validate_rules(rules, f"spec.behavior.{direction}", errors)


def _validate_rules(rules: Obj, path: str, errors: Errors) -> None:
    window, select = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    if window is not None and window < 0:
        errors.invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window is not None and window > _MOST_WINDOW_SECONDS:
        text = f"must be less than or equal to {_MOST_WINDOW_SECONDS}"
        errors.invalid(f"{path}.stabilizationWindowSeconds", window, text)
    if select is not None and select not in _SELECT_POLICIES:
        errors.not_supported(f"{path}.selectPolicy", select, _SELECT_POLICIES)
    if not rules.get("policies"):
        errors.required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or ()):
        _validate_policy(policy, f"{path}.policies[{index}]", errors)
    if (tolerance := rules.get("tolerance")) is not None and parse(tolerance).nanos < 0:
        errors.invalid(f"{path}.tolerance", tolerance, NOT_NEGATIVE)


def _validate_policy(policy: Obj, path: str, errors: Errors) -> None:
    if policy["type"] not in _POLICY_TYPES:
        errors.not_supported(f"{path}.type", policy["type"], _POLICY_TYPES)
    for field in ("value", "periodSeconds"):
        if policy[field] <= 0:
            errors.invalid(f"{path}.{field}", policy[field], "must be greater than zero")
    if policy["periodSeconds"] > _MOST_PERIOD_SECONDS:
        text = f"must be less than or equal to {_MOST_PERIOD_SECONDS}"
        errors.invalid(f"{path}.periodSeconds", policy["periodSeconds"], text)
