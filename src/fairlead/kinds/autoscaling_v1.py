"""HorizontalPodAutoscaler as `autoscaling/v1` shows it.

It has a field for a target of CPU, and nothing else: other metrics travel through it in annotations, in a form of their
own, the behavior under the names of Go's internal type. An annotation that cannot be read is left out without a word.
`v2` has no such annotations. Source: pkg/apis/autoscaling/v1/conversion.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Final, NamedTuple

from fairlead.api.objects import Obj, metadata
from fairlead.api.quantity import QuantityError, from_json
from fairlead.golang import json as gojson
from fairlead.golang import times

V1, V2 = "autoscaling/v1", "autoscaling/v2"
_KIND: Final = "HorizontalPodAutoscaler"

_METRICS, _BEHAVIOR, _CURRENT_METRICS, _CONDITIONS = (
    f"autoscaling.alpha.kubernetes.io/{name}" for name in ("metrics", "behavior", "current-metrics", "conditions")
)
_CARRIED: Final = (_METRICS, _BEHAVIOR, _CURRENT_METRICS, _CONDITIONS)
_TARGET_PERCENT, _CURRENT_PERCENT = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"

_VALUE, _AVERAGE, _UTILIZATION = "Value", "AverageValue", "Utilization"


class _UnreadableError(ValueError):
    """What Go's json.Unmarshal would not take."""


# values in annotations -------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _UnreadableError
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise _UnreadableError
    return value


def _quantity(value: Any) -> str:
    try:
        return from_json(value)
    except QuantityError as error:
        raise _UnreadableError from error


def _time(value: Any) -> str | None:
    try:
        return times.seconds(_text(value))
    except times.TimestampError as error:
        raise _UnreadableError from error


def _list(value: Any, read: Callable[[Any], Any]) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _UnreadableError
    return [read(item) for item in value]


def _texts(value: Any) -> list[str]:
    return _list(value, _text)


def _text_map(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _UnreadableError
    return {key: _text(item) for key, item in value.items()}


class _Field(NamedTuple):
    """Where a value is in the annotation, and where in the object."""

    name: str
    path: tuple[str, ...]
    read: Callable[[Any], Any]
    #: What Go always writes where there is none, and reads there; None where it leaves the field out.
    unset: Any = None


def _read(value: Any, fields: Iterable[_Field]) -> Obj:
    """A struct of an annotation in the form of the object. The case of names does not matter to Go."""
    if value is not None and not isinstance(value, dict):
        raise _UnreadableError
    given = {key.lower(): item for key, item in (value or {}).items()}
    found: Obj = {}
    for field in fields:
        item = given.get(field.name.lower())
        part = deepcopy(field.unset) if item is None else field.read(item)
        inner = found
        for step in field.path[:-1]:
            inner = inner.setdefault(step, {})
        if part is not None:
            inner[field.path[-1]] = part
    return found


def _shown(value: Obj, fields: Iterable[_Field]) -> Obj:
    """A struct of the object in the form of the annotation."""
    found: Obj = {}
    for field in fields:
        part: Any = value
        for step in field.path:
            part = (part or {}).get(step)
        if part is None:
            part = field.unset
        if part is not None:
            found[field.name] = part
    return found


def _same(name: str, read: Callable[[Any], Any], unset: Any = None) -> _Field:
    return _Field(name, (name,), read, unset)


_REQUIREMENT: Final = (_same("key", _text, ""), _same("operator", _text, ""), _same("values", _texts))
_SELECTOR: Final = (
    _same("matchLabels", _text_map),
    _same("matchExpressions", partial(_list, read=partial(_read, fields=_REQUIREMENT))),
)
_REFERENCE: Final = (_same("kind", _text, ""), _same("name", _text, ""), _same("apiVersion", _text))


def _selector(value: Any) -> Obj:
    return _read(value, _SELECTOR)


def _reference(value: Any) -> Obj:
    return _read(value, _REFERENCE)


_OBJECT: Final = _Field("target", ("describedObject",), _reference, {"kind": "", "name": ""})
_METRIC_NAME: Final = _Field("metricName", ("metric", "name"), _text, "")


def _metric_selector(name: str) -> _Field:
    return _Field(name, ("metric", "selector"), _selector)


def _amount(name: str, *path: str, unset: str | None = None) -> _Field:
    return _Field(name, path, _quantity, unset)


def _of_resource(*more: _Field) -> tuple[_Field, ...]:
    return (
        _same("name", _text, ""),
        _Field("targetAverageUtilization", ("target", "averageUtilization"), _number),
        _amount("targetAverageValue", "target", "averageValue"),
        *more,
    )


def _of_resource_status(*more: _Field) -> tuple[_Field, ...]:
    return (
        _same("name", _text, ""),
        _Field("currentAverageUtilization", ("current", "averageUtilization"), _number),
        _amount("currentAverageValue", "current", "averageValue", unset="0"),
        *more,
    )


_CONTAINER: Final = _same("container", _text, "")
_SOURCES: Final[Mapping[str, tuple[_Field, ...]]] = {
    "object": (
        _OBJECT,
        _METRIC_NAME,
        _amount("targetValue", "target", "value", unset="0"),
        _metric_selector("selector"),
        _amount("averageValue", "target", "averageValue"),
    ),
    "pods": (
        _METRIC_NAME,
        _amount("targetAverageValue", "target", "averageValue", unset="0"),
        _metric_selector("selector"),
    ),
    "resource": _of_resource(),
    "containerResource": _of_resource(_CONTAINER),
    "external": (
        _METRIC_NAME,
        _metric_selector("metricSelector"),
        _amount("targetValue", "target", "value"),
        _amount("targetAverageValue", "target", "averageValue"),
    ),
}
_STATUSES: Final[Mapping[str, tuple[_Field, ...]]] = {
    "object": (
        _OBJECT,
        _METRIC_NAME,
        _amount("currentValue", "current", "value", unset="0"),
        _metric_selector("selector"),
        _amount("averageValue", "current", "averageValue"),
    ),
    "pods": (
        _METRIC_NAME,
        _amount("currentAverageValue", "current", "averageValue", unset="0"),
        _metric_selector("selector"),
    ),
    "resource": _of_resource_status(),
    "containerResource": _of_resource_status(_CONTAINER),
    "external": (
        _METRIC_NAME,
        _metric_selector("metricSelector"),
        _amount("currentValue", "current", "value", unset="0"),
        _amount("currentAverageValue", "current", "averageValue"),
    ),
}
_CONDITION: Final = (
    _same("type", _text, ""),
    _same("status", _text, ""),
    _same("lastTransitionTime", _time),
    _same("reason", _text),
    _same("message", _text),
)
_POLICY: Final = (
    _Field("Type", ("type",), _text, ""),
    _Field("Value", ("value",), _number, 0),
    _Field("PeriodSeconds", ("periodSeconds",), _number, 0),
)
_RULES: Final = (
    _Field("StabilizationWindowSeconds", ("stabilizationWindowSeconds",), _number),
    _Field("SelectPolicy", ("selectPolicy",), _text),
    _Field("Policies", ("policies",), partial(_list, read=partial(_read, fields=_POLICY))),
    _Field("Tolerance", ("tolerance",), _quantity),
)
_DIRECTIONS: Final = (("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown"))


def _target_type(source: str, target: Obj) -> str:
    if source in ("resource", "containerResource"):
        return _UTILIZATION if "averageUtilization" in target else _AVERAGE
    if source == "object":
        return _AVERAGE if "averageValue" in target else _VALUE
    return _VALUE if source == "external" and "value" in target else _AVERAGE


# parts of an autoscaler ------------------------------------------------------------------------------------------


def _metric_read(value: Any, sources: Mapping[str, tuple[_Field, ...]]) -> Obj:
    fields = [_same("type", _text, "")]
    fields += [_same(name, partial(_read, fields=inner)) for name, inner in sources.items()]
    metric = _read(value, fields)
    if sources is _SOURCES:
        for source in metric.keys() & sources.keys():
            target = metric[source]["target"]
            target["type"] = _target_type(source, target)
    return metric


def _metric_shown(metric: Obj, sources: Mapping[str, tuple[_Field, ...]]) -> Obj:
    shown = {"type": metric.get("type", "")}
    for name, fields in sources.items():
        if (source := metric.get(name)) is not None:
            shown[name] = _shown(source, fields)
    return shown


def _behavior_read(value: Any) -> Obj:
    fields = [_Field(go, (name,), partial(_read, fields=_RULES)) for go, name in _DIRECTIONS]
    return _read(value, fields)


def _behavior_shown(behavior: Obj) -> Obj:
    shown: Obj = {}
    for go, name in _DIRECTIONS:
        rules = behavior.get(name)
        if rules is None:
            shown[go] = None
            continue
        shown[go] = {field.name: rules.get(field.path[0]) for field in _RULES}
        if rules.get("policies") is not None:
            shown[go]["Policies"] = [_shown(policy, _POLICY) for policy in rules["policies"]]
    return shown


def _carried(annotations: Mapping[str, str], name: str, read: Callable[[Any], Any]) -> Any:
    """What an annotation says; None if there is none, or it cannot be read."""
    text = annotations.get(name)
    if text is None:
        return None
    try:
        return read(gojson.parse(text.encode()))
    except (gojson.MalformedJson, _UnreadableError):
        return None


def cpu_metric(percent: int) -> Obj:
    target = {"type": _UTILIZATION, "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _is_cpu(metric: Obj) -> bool:
    return metric.get("type") == "Resource" and (metric.get("resource") or {}).get("name") == "cpu"


def _utilization(metric: Obj, part: str) -> int | None:
    return ((metric.get("resource") or {}).get(part) or {}).get("averageUtilization")


# the object ------------------------------------------------------------------------------------------------------


def drop_carried(obj: Obj) -> None:
    """Take the annotations away that only `v1` has."""
    meta = metadata(obj)
    annotations = meta.get("annotations") or {}
    if annotations.keys() & set(_CARRIED):
        _set_annotations(meta, {key: value for key, value in annotations.items() if key not in _CARRIED})


def to_v2(v1: Obj) -> Obj:
    """A `v1` autoscaler in its stored form."""
    meta, spec, status = dict(metadata(v1)), dict(v1["spec"]), dict(v1.get("status") or {})
    annotations = meta.get("annotations") or {}
    percent, current = spec.pop(_TARGET_PERCENT, None), status.pop(_CURRENT_PERCENT, None)
    metrics = _carried(annotations, _METRICS, partial(_list, read=partial(_metric_read, sources=_SOURCES)))
    if metrics or percent is not None:
        spec["metrics"] = [*(metrics or ()), *([] if percent is None else [cpu_metric(percent)])]
    if behavior := _carried(annotations, _BEHAVIOR, _behavior_read):
        spec["behavior"] = behavior
    measured = _carried(annotations, _CURRENT_METRICS, partial(_list, read=partial(_metric_read, sources=_STATUSES)))
    if measured is None and current is not None:
        measured = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": current}}}]
    status["currentMetrics"] = measured or None
    if conditions := _carried(annotations, _CONDITIONS, partial(_list, read=partial(_read, fields=_CONDITION))):
        status["conditions"] = [{"lastTransitionTime": None} | condition for condition in conditions]
    v2 = v1 | {"apiVersion": V2, "metadata": meta, "spec": spec, "status": status}
    drop_carried(v2)
    return v2


def to_v1(v2: Obj) -> Obj:
    """A stored autoscaler as `autoscaling/v1` shows it."""
    meta, spec, status = dict(metadata(v2)), dict(v2["spec"]), dict(v2.get("status") or {})
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    measured, conditions = status.pop("currentMetrics", None) or [], status.pop("conditions", None) or []
    first: Obj = next((metric for metric in metrics if _is_cpu(metric)), {})
    if (percent := _utilization(first, "target")) is not None:
        spec[_TARGET_PERCENT] = percent
    for metric in measured:
        if _is_cpu(metric) and (percent := _utilization(metric, "current")) is not None:
            status[_CURRENT_PERCENT] = percent
    others = [each for each in metrics if not _is_cpu(each) or _utilization(each, "target") is None]
    carried: dict[str, Any] = {
        _METRICS: [_metric_shown(metric, _SOURCES) for metric in others],
        _CURRENT_METRICS: [_metric_shown(metric, _STATUSES) for metric in measured],
        _BEHAVIOR: None if behavior is None else _behavior_shown(behavior),
        _CONDITIONS: [{"type": "", "status": "", "lastTransitionTime": None} | each for each in conditions],
    }
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in _CARRIED}
    annotations |= {name: gojson.printed(value) for name, value in carried.items() if value}
    status.setdefault("currentReplicas", 0)
    _set_annotations(meta, annotations)
    return {"kind": _KIND, "apiVersion": V1, "metadata": meta, "spec": spec, "status": status}


def _set_annotations(meta: Obj, annotations: dict[str, str]) -> None:
    meta.pop("annotations", None)
    if annotations:
        meta["annotations"] = annotations
