"""Small checks that many kinds share, and the forms in which values appear in texts.

They keep the kind modules readable as lists of rules. Facts: pkg/apis/core/validation, pkg/apis/apps/validation and
k8s.io/apimachinery/pkg/apis/meta/v1/validation (1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, TypeVar

from fairlead.api import names
from fairlead.api.fields import Errors, validate_choice
from fairlead.api.objects import Obj
from fairlead.api.selectors import SelectorError, of_structured
from fairlead.golang.numbers import clamped_int

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
IMMUTABLE: Final = "field is immutable"
TEMPLATE_MISMATCH: Final = "`selector` does not match template `labels`"
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")

_DRIVER_NAME_MAX: Final = 63

_REASON: Final = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_TEXT: Final = names.regex_error(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'",
    _REASON.pattern,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)
_REASON_MAX: Final = 1024
_MESSAGE_MAX: Final = 32 * 1024

_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})

T = TypeVar("T", str, int)


def check(errors: Errors, path: str, value: T, rule: Callable[[T], list[str]]) -> None:
    """Add everything that a rule says against a value."""
    for text in rule(value):
        errors.invalid(path, value, text)


def is_same(left: Any, right: Any) -> bool:
    """Go's semantic equality: nothing, null and empty are all the same."""
    return left == right or (left in _NOTHING and right in _NOTHING)


def validate_unchanged(value: Any, old: Any, path: str, errors: Errors, form: Any = None) -> None:
    """`form` is what the text shows, where that is not the value itself."""
    if not is_same(value, old):
        errors.invalid(path, value if form is None else form, IMMUTABLE)


def validate_not_negative(obj: Obj, fields: Iterable[str], path: str, errors: Errors) -> None:
    for field in fields:
        if (value := obj.get(field) or 0) < 0:
            errors.invalid(f"{path}.{field}", value, NOT_NEGATIVE)


def validate_not_decremented(status: Obj, old: Obj, field: str, path: str, errors: Errors) -> None:
    value, before = status.get(field), old.get(field)
    if before is not None and (value is None or value < before):
        errors.invalid(f"{path}.{field}", value or 0, "cannot be decremented")


def validate_unique(keys: Iterable[Hashable], path: str, errors: Errors) -> None:
    seen: set[Hashable] = set()
    for index, key in enumerate(keys):
        if key in seen:
            errors.duplicate(f"{path}[{index}]", key)
        seen.add(key)


def validate_protocol(protocol: str, path: str, errors: Errors) -> None:
    """Of a port."""
    validate_choice(protocol, _PROTOCOLS, path, errors)


def validate_driver_name(name: str, path: str, errors: Errors) -> None:
    """Of a CSI driver (`ValidateCSIDriverName`)."""
    if not name:
        errors.required(path)
        return
    if len(name.encode()) > _DRIVER_NAME_MAX:
        errors.too_long(path, _DRIVER_NAME_MAX)
    for text in names.dns1123_subdomain(name.lower()):
        errors.invalid(path, name, text)


# int-or-percent ------------------------------------------------------------------------------------------------


def validate_int_or_percent(value: int | str, path: str, errors: Errors) -> None:
    if isinstance(value, str):
        check(errors, path, value, names.percent)
    elif value < 0:
        errors.invalid(path, value, NOT_NEGATIVE)


def validate_at_most_all(value: int | str, path: str, errors: Errors) -> None:
    if isinstance(value, str) and not names.percent(value) and clamped_int(value[:-1]) > 100:
        errors.invalid(path, value, "must not be greater than 100%")


def int_or_percent(value: int | str) -> int:
    """The number in front, whatever it counts; a text that is none counts as 0."""
    if isinstance(value, int):
        return value
    return clamped_int(value.removesuffix("%"))


# label selectors -----------------------------------------------------------------------------------------------


def is_empty_selector(selector: Obj) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selects(selector: Obj | None, labels: Mapping[str, str]) -> bool | None:
    """Whether a selector matches labels; None if it is malformed."""
    try:
        return of_structured(selector).matches(labels)
    except SelectorError:
        return None


def selector_form(selector: Obj | None) -> Obj | None:
    """A selector as Go prints it: fields in order, maps sorted."""
    if selector is None:
        return None
    form: Obj = {}
    if selector.get("matchLabels"):
        form["matchLabels"] = map_form(selector["matchLabels"])
    if selector.get("matchExpressions"):
        form["matchExpressions"] = [
            {"key": term.get("key", ""), "operator": term.get("operator", "")}
            | ({"values": term["values"]} if term.get("values") else {})
            for term in selector["matchExpressions"]
        ]
    return form


def map_form(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A map as Go prints it: sorted, `null` if there is none."""
    return dict(sorted(value.items())) if value else None


# conditions ----------------------------------------------------------------------------------------------------


def validate_conditions(conditions: Iterable[Obj], path: str, errors: Errors) -> None:
    """A list of `metav1.Condition`."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, type_ = f"{path}[{index}]", condition.get("type", "")
        if type_ in seen:
            errors.duplicate(f"{where}.type", type_)
        seen.add(type_)
        _validate_condition(condition, where, errors)


def _validate_condition(condition: Obj, path: str, errors: Errors) -> None:
    type_, status, reason = (condition.get(field, "") for field in ("type", "status", "reason"))
    check(errors, f"{path}.type", type_, names.qualified_name)
    if status not in ("True", "False", "Unknown"):
        errors.not_supported(f"{path}.status", status, ("False", "True", "Unknown"))
    if (observed := condition.get("observedGeneration") or 0) < 0:
        errors.invalid(f"{path}.observedGeneration", observed, "must be greater than or equal to zero")
    if not condition.get("lastTransitionTime"):
        errors.required(f"{path}.lastTransitionTime", "must be set")
    if not reason:
        errors.required(f"{path}.reason", "must be set")
    else:
        if not _REASON.fullmatch(reason):
            errors.invalid(f"{path}.reason", reason, _REASON_TEXT)
        if len(reason.encode()) > _REASON_MAX:
            errors.too_long(f"{path}.reason", _REASON_MAX)
    if len(condition.get("message", "").encode()) > _MESSAGE_MAX:
        errors.too_long(f"{path}.message", _MESSAGE_MAX)
