"""Which taints of nodes a pod puts up with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairlead.api.fields import Errors, Word
from fairlead.api.names import label_value, qualified_name
from fairlead.api.objects import Obj
from fairlead.api.taints import EFFECTS
from fairlead.golang import json as gojson
from fairlead.golang.values import unmarshal_error
from fairlead.kinds.rules import check

#: They exist, but behind a gate that is off (TaintTolerationComparisonOperators); the text names them all the same.
_COMPARISONS = ("Lt", "Gt")
_OPERATORS = ("Equal", "Exists")

#: An annotation in which pods kept their tolerations before there was a field for them.
OLD_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
#: Field → Go's name and type of it, ours. The case of a name does not matter.
_FIELDS: dict[str, tuple[str, str, type]] = {
    "key": ("Key", "string", str),
    "operator": ("Operator", "core.TolerationOperator", str),
    "value": ("Value", "string", str),
    "effect": ("Effect", "core.TaintEffect", str),
    "tolerationSeconds": ("TolerationSeconds", "int64", int),
}
_FIELD_OF = {field.lower(): field for field in _FIELDS}


def validate_tolerations(tolerations: Iterable[Obj], path: str, errors: Errors) -> None:
    for i, toleration in enumerate(tolerations):
        _validate_toleration(toleration, f"{path}[{i}]", errors)


def _validate_toleration(toleration: Obj, path: str, errors: Errors) -> None:
    key, operator, effect = (toleration.get(field, "") for field in ("key", "operator", "effect"))
    operator, effect = Word(operator), Word(effect)
    if key:
        check(errors, f"{path}.key", key, qualified_name)
    elif operator != "Exists":
        errors.invalid(
            f"{path}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        errors.invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    _validate_operator(operator, toleration.get("value", ""), f"{path}.operator", errors)
    if effect and effect not in EFFECTS:
        errors.not_supported(f"{path}.effect", effect, EFFECTS, sort=False)


def _validate_operator(operator: str, value: str, path: str, errors: Errors) -> None:
    if operator in ("Equal", ""):
        if texts := label_value(value):
            errors.invalid(path, value, ";".join(texts))
    elif operator == "Exists":
        if value:
            errors.invalid(path, value, "value must be empty when `operator` is 'Exists'")
    elif operator in _COMPARISONS:
        errors.not_supported(path, operator, _OPERATORS + _COMPARISONS, sort=False)
    else:
        errors.not_supported(path, operator, _OPERATORS, sort=False)


def validate_old_tolerations(text: str, path: str, errors: Errors) -> None:
    """The annotation means nothing any more, but is still read (`path` is that of all annotations)."""
    try:
        tolerations = read_tolerations(text, "core")
    except ValueError as error:
        return errors.invalid(path, OLD_TOLERATIONS, str(error))
    return validate_tolerations(tolerations, f"{path}.{OLD_TOLERATIONS}", errors)


def read_tolerations(text: str, package: str) -> list[Obj]:
    """Tolerations in an annotation, as Go reads them into `[]core.Toleration` or `[]v1.Toleration`.

    ValueError in Go's words; the fields of `core` have no JSON names, so the words name Go's.
    """
    value = gojson.parse(text.encode())
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(unmarshal_error(value, f"[]{package}.Toleration"))
    return [_read_toleration(item, package) for item in value]


def _read_toleration(value: Any, package: str) -> Obj:
    toleration: Obj = {}
    if value is None:
        return toleration
    if not isinstance(value, dict):
        raise ValueError(unmarshal_error(value, f"{package}.Toleration"))
    for key, field_value in value.items():
        field = _FIELD_OF.get(key.lower())
        if field is None or field_value is None:
            continue
        name, go, kind = _FIELDS[field]
        if type(field_value) is not kind:
            text = unmarshal_error(field_value, go.replace("core.", f"{package}."))
            name = name if package == "core" else field
            raise ValueError(text.replace("Go value", f"Go struct field Toleration.{name}"))
        toleration[field] = field_value
    return toleration
