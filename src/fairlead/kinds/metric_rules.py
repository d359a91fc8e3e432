"""The rules of what an autoscaler may measure (`validateMetrics` of pkg/apis/autoscaling/validation, 1.36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.kinds.resource_names import validate_container_resource_name
from fairlead.kinds.rules import check

_Rule = Callable[[Obj, str, Errors], None]

_TARGET_TYPES: Final = ("Utilization", "Value", "AverageValue")
_MISSING: Final = "must populate information for the given metric source"


def validate_metrics(metrics: list[Obj], min_replicas: int, path: str, errors: Errors) -> None:
    for index, metric in enumerate(metrics):
        _validate_metric(metric, f"{path}[{index}]", errors)
    if min_replicas == 0 and not any(metric["type"] in ("Object", "External") for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.forbidden(path, text)


def _validate_metric(metric: Obj, path: str, errors: Errors) -> None:
    type_ = metric["type"]
    if not type_:
        errors.required(f"{path}.type", "must specify a metric source type")
    if type_ not in _SOURCES:
        errors.not_supported(f"{path}.type", type_, _SOURCES)
    present = [field for field in _ORDER if metric.get(field) is not None]
    if present:
        _RULES[present[0]](metric[present[0]], f"{path}.{present[0]}", errors)
    expected = _SOURCES.get(type_)
    if expected is None:
        errors.not_supported(f"{path}.type", type_, _SOURCES)
    elif expected not in present:
        errors.required(f"{path}.{expected}", _MISSING)
    if len(present) > 1:
        for field in present:
            if field != expected:
                errors.forbidden(f"{path}.{field}", "must populate the given metric source only")


def _validate_target(target: Obj, path: str, errors: Errors) -> None:
    type_ = target["type"]
    if not type_:
        errors.required(f"{path}.type", "must specify a metric target type")
    if type_ not in _TARGET_TYPES:
        errors.invalid(f"{path}.type", type_, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if (amount := target.get(field)) is not None and parse(amount).nanos <= 0:
            errors.invalid(f"{path}.{field}", amount, "must be positive")
    if (percent := target.get("averageUtilization")) is not None and percent < 1:
        errors.invalid(f"{path}.averageUtilization", percent, "must be greater than 0")


def _validate_identifier(identifier: Obj, path: str, errors: Errors) -> None:
    if name := identifier["name"]:
        check(errors, f"{path}.name", name, names.path_segment_name)
    else:
        errors.required(f"{path}.name", "must specify a metric name")


def _validate_object(source: Obj, path: str, errors: Errors) -> None:
    for field in ("kind", "name"):
        if value := source["describedObject"][field]:
            check(errors, f"{path}.describedObject.{field}", value, names.path_segment_name)
        else:
            errors.required(f"{path}.describedObject.{field}")
    _validate_identifier(source["metric"], f"{path}.metric", errors)
    target = source["target"]
    _validate_target(target, f"{path}.target", errors)
    if "value" not in target and "averageValue" not in target:
        errors.required(f"{path}.target.averageValue", "must set either a target value or averageValue")


def _validate_external(source: Obj, path: str, errors: Errors) -> None:
    _validate_identifier(source["metric"], f"{path}.metric", errors)
    target = source["target"]
    _validate_target(target, f"{path}.target", errors)
    if "value" not in target and "averageValue" not in target:
        text = "must set either a target value for metric or a per-pod target"
        errors.required(f"{path}.target.averageValue", text)
    if "value" in target and "averageValue" in target:
        text = "may not set both a target value for metric and a per-pod target"
        errors.forbidden(f"{path}.target.value", text)


def _validate_pods(source: Obj, path: str, errors: Errors) -> None:
    _validate_identifier(source["metric"], f"{path}.metric", errors)
    _validate_target(source["target"], f"{path}.target", errors)
    if "averageValue" not in source["target"]:
        errors.required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _validate_resource(source: Obj, path: str, errors: Errors) -> None:
    if not source["name"]:
        errors.required(f"{path}.name", "must specify a resource name")
    _validate_resource_target(source["target"], f"{path}.target", errors)


def _validate_container_resource(source: Obj, path: str, errors: Errors) -> None:
    if source["name"]:
        validate_container_resource_name(source["name"], f"{path}.name", errors)
    else:
        errors.required(f"{path}.name", "must specify a resource name")
    if container := source["container"]:
        check(errors, f"{path}.container", container, names.dns1123_label)
    else:
        errors.required(f"{path}.container", "must specify a container")
    _validate_resource_target(source["target"], f"{path}.target", errors)


def _validate_resource_target(target: Obj, path: str, errors: Errors) -> None:
    _validate_target(target, path, errors)
    given = [field for field in ("averageUtilization", "averageValue") if field in target]
    if not given:
        errors.required(f"{path}.averageUtilization", "must set either a target raw value or a target utilization")
    elif len(given) > 1:
        text = "may not set both a target raw value and a target utilization"
        errors.forbidden(f"{path}.averageValue", text)


#: The type of a metric and the field that describes it.
_SOURCES: Final[Mapping[str, str]] = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_RULES: Final[Mapping[str, _Rule]] = {
    "object": _validate_object,
    "external": _validate_external,
    "pods": _validate_pods,
    "resource": _validate_resource,
    "containerResource": _validate_container_resource,
}
_ORDER: Final = tuple(_RULES)
