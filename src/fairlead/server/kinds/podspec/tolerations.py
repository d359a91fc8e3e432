"""Which taints of nodes a pod puts up with."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.fields import Errors
from fairlead.api.names import label_value, qualified_name
from fairlead.api.objects import Obj
from fairlead.api.taints import EFFECTS
from fairlead.server.kinds.rules import check

#: They exist, but behind a gate that is off (TaintTolerationComparisonOperators); the text names them all the same.
_COMPARISONS = ("Lt", "Gt")
_OPERATORS = ("Equal", "Exists")


def validate_tolerations(tolerations: Iterable[Obj], path: str, errors: Errors) -> None:
    for i, toleration in enumerate(tolerations):
        _validate_toleration(toleration, f"{path}[{i}]", errors)


def _validate_toleration(toleration: Obj, path: str, errors: Errors) -> None:
    key, operator, effect = (toleration.get(field, "") for field in ("key", "operator", "effect"))
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
