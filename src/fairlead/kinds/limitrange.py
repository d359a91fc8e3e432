"""LimitRange: defaults that cascade from `max` over `default` to `defaultRequest`, and rules that keep them in line.

Sources: `SetDefaults_LimitRangeItem` and `ValidateLimitRange` of pkg/apis/core (1.36); S0-92, S0-93.
"""

from __future__ import annotations

import math
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.podresources import is_overcommit_allowed
from fairlead.api.quantity import MAX_INT64, Quantity, parse
from fairlead.kinds.resource_names import (
    in_order,
    round_up,
    validate_container_resource_name,
    validate_resource_name,
)
from fairlead.kinds.strategy import MetaCheck, Strategy

POD, CONTAINER, CLAIM = "Pod", "Container", "PersistentVolumeClaim"

_LISTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_DEFAULTS: Final = ("default", "defaultRequest")
_ONE: Final = Quantity.of_units(1)
_MAX_MILLI: Final = MAX_INT64 // 1000
_BELOW_MIN: Final = "min value {} is greater than default request value {}"
_OVER_MAX: Final = "default request value {} is greater than max value {}"
_OVER_LIMIT: Final = "default request value {} is greater than default limit value {}"


class LimitRangeStrategy(Strategy):
    allows_create_on_update = True
    meta_checks = (MetaCheck.WHOLE,)

    def default(self, obj: Obj) -> None:
        for item in obj["spec"]["limits"] or ():
            for field in _LISTS:
                round_up(item.get(field))
            if item["type"] == CONTAINER:
                _cascade(item)

    def validate(self, obj: Obj, errors: Errors) -> None:
        seen: set[str] = set()
        for index, item in enumerate(obj["spec"]["limits"] or ()):
            path = f"spec.limits[{index}]"
            _validate_type(item["type"], f"{path}.type", errors)
            if item["type"] in seen:
                errors.duplicate(f"{path}.type", item["type"])
            seen.add(item["type"])
            _validate_item(item, path, errors)


def _cascade(item: Obj) -> None:
    limits = (item.get("max") or {}) | (item.get("default") or {})
    requests = (item.get("min") or {}) | limits | (item.get("defaultRequest") or {})
    for field, amounts in (("default", limits), ("defaultRequest", requests)):
        if amounts:
            item[field] = amounts


def _validate_type(type_: str, path: str, errors: Errors) -> None:
    if wrong := names.qualified_name(type_):
        for text in wrong:
            errors.invalid(path, type_, text)
    elif "/" not in type_ and type_ not in (POD, CONTAINER, CLAIM):
        errors.invalid(path, type_, "must be a standard limit type or fully qualified")


def _validate_item(item: Obj, path: str, errors: Errors) -> None:
    is_pod = item["type"] == POD
    check = validate_container_resource_name if item["type"] in (POD, CONTAINER) else validate_resource_name
    compared: dict[str, dict[str, Quantity]] = {}
    for field in _LISTS:
        if field == "maxLimitRequestRatio" and item["type"] == CLAIM:
            _validate_claim(item, path, errors)
        if is_pod and field in _DEFAULTS:
            if item.get(field):
                errors.forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            continue
        for name, amount in in_order(item.get(field)):
            check(name, f"{path}.{field}[{name}]", errors)
            compared.setdefault(name, {})[field] = parse(amount)
    for name in sorted(compared):
        _validate_amounts(name, compared[name], path, errors)


def _validate_claim(item: Obj, path: str, errors: Errors) -> None:
    if "storage" not in (item.get("min") or ()) and "storage" not in (item.get("max") or ()):
        errors.required(
            f"{path}.limits", "either minimum or maximum storage value is required, but neither was provided"
        )


#: What must not be greater than what; which of the two is blamed, and whose value is shown (upstream differs in two).
_ORDERED: Final = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", _BELOW_MIN),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", _OVER_MAX),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", _OVER_LIMIT),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _validate_amounts(name: str, amounts: dict[str, Quantity], path: str, errors: Errors) -> None:
    for low, high, blamed, shown, text in _ORDERED:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            errors.invalid(f"{path}.{blamed}[{name}]", str(amounts[shown]), text.format(amounts[low], amounts[high]))
    if (ratio := amounts.get("maxLimitRequestRatio")) is not None:
        _validate_ratio(name, ratio, amounts, path, errors)
    limit, request = amounts.get("default"), amounts.get("defaultRequest")
    if limit is not None and request is not None and limit != request and not is_overcommit_allowed(name):
        errors.invalid(
            f"{path}.defaultRequest[{name}]",
            str(request),
            f"default value {limit} must equal to defaultRequest value {request} in {name}",
        )


def _validate_ratio(name: str, ratio: Quantity, amounts: dict[str, Quantity], path: str, errors: Errors) -> None:
    where = f"{path}.maxLimitRequestRatio[{name}]"
    if ratio < _ONE:
        errors.invalid(where, str(ratio), f"ratio {ratio} is less than 1")
    low, high = amounts.get("min"), amounts.get("max")
    if not low or high is None:
        return
    if all(amount.units < _MAX_MILLI for amount in (ratio, low, high)):
        allowed, asked = _divided(high.milli, low.milli), ratio.milli / 1000
    else:
        allowed, asked = _divided(high.units, low.units), float(ratio.units)
    if asked > allowed:
        errors.invalid(where, str(ratio), f"ratio {ratio} is greater than max/min = {allowed:f}")


def _divided(amount: int, by: int) -> float:
    """As floats in Go: of an enormous quantity the low bits are left, which may be 0."""
    if by:
        return amount / by
    return math.copysign(math.inf, amount) if amount else math.nan
