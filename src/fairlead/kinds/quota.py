"""ResourceQuota: which resources may be limited, in which scopes.

Sources: `ValidateResourceQuota*` of pkg/apis/core/validation and pkg/apis/core/helper (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.resource_names import (
    in_order,
    is_quota_name,
    round_up,
    validate_amount,
    validate_quota_name,
)
from fairlead.kinds.strategy import Strategy

_POD_COUNT: Final = frozenset({"pods"})
_POD_COMPUTE: Final = _POD_COUNT.union(
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory")
)
_CLAIMS: Final = frozenset({"persistentvolumeclaims", "requests.storage"})

#: The standard resources that each scope can select.
_RESOURCES_IN_SCOPE: Final[Mapping[str, frozenset[str]]] = {
    "Terminating": _POD_COMPUTE,
    "NotTerminating": _POD_COMPUTE,
    "NotBestEffort": _POD_COMPUTE,
    "PriorityClass": _POD_COMPUTE,
    "CrossNamespacePodAffinity": _POD_COMPUTE,
    "BestEffort": _POD_COUNT,
    "VolumeAttributesClass": _CLAIMS,
}
_EXISTENCE_SCOPES: Final = frozenset(
    {"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"}
)
_EXCLUSIVE: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_ONLY_EXISTS: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


class ResourceQuotaStrategy(Strategy):
    returns_deleted = True
    has_status = True

    def default(self, obj: Obj) -> None:
        round_up(obj["spec"].get("hard"))
        for field in ("hard", "used"):
            round_up(obj["status"].get(field))

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        _validate_list(spec.get("hard"), "spec.hard", errors)
        if scopes := spec.get("scopes"):
            _validate_scopes(scopes, spec, errors)
        if (selector := spec.get("scopeSelector")) is not None:
            _validate_selector(selector.get("matchExpressions") or (), spec, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        scopes = obj["spec"].get("scopes")
        if set(scopes or ()) != set(old["spec"].get("scopes") or ()):
            errors.invalid("spec.scopes", scopes, "field is immutable")

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        _validate_list(obj["status"].get("hard"), "status.hard", errors)
        _validate_list(obj["status"].get("used"), "status.used", errors)


def _validate_list(amounts: Mapping[str, str] | None, path: str, errors: Errors) -> None:
    for name, amount in in_order(amounts):
        where = f"{path}[{name}]"
        validate_quota_name(name, where, errors)
        validate_amount(name, amount, where, errors)


def _validate_scopes(scopes: list[str], spec: Obj, errors: Errors) -> None:
    for scope in scopes:
        if scope not in _RESOURCES_IN_SCOPE:
            errors.invalid("spec.scopes", scopes, "unsupported scope")
        for _ in _out_of_scope(scope, spec):
            errors.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    for _ in _conflicts(scopes):
        errors.invalid("spec.scopes", scopes, "conflicting scopes")


def _validate_selector(terms: Iterable[Obj], spec: Obj, errors: Errors) -> None:
    path = "spec.scopeSelector.matchExpressions"
    for term in terms:
        scope, operator, values = term.get("scopeName", ""), term.get("operator", ""), term.get("values") or []
        if scope not in _RESOURCES_IN_SCOPE:
            errors.invalid(f"{path}.scopeName", scope, "unsupported scope")
        for _ in _out_of_scope(scope, spec):
            errors.invalid(path, _selector_form(spec["scopeSelector"]), "unsupported scope applied to resource")
        if scope in _EXISTENCE_SCOPES and operator != "Exists":
            errors.invalid(f"{path}.operator", operator, _ONLY_EXISTS)
        _validate_values(operator, values, path, errors)
    for _ in _conflicts(term.get("scopeName", "") for term in terms):
        errors.invalid(path, spec.get("scopes"), "conflicting scopes")


def _validate_values(operator: str, values: list[str], path: str, errors: Errors) -> None:
    if operator in ("In", "NotIn"):
        if not values:
            errors.required(
                f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.invalid(
                f"{path}.values",
                values,
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )
    else:
        errors.invalid(f"{path}.operator", operator, "not a valid selector operator")


def _out_of_scope(scope: str, spec: Obj) -> list[str]:
    """The limited resources that the scope cannot select; an unknown scope is not blamed for them."""
    valid = _RESOURCES_IN_SCOPE.get(scope)
    return [name for name in spec.get("hard") or () if valid is not None and is_quota_name(name) and name not in valid]


def _conflicts(scopes: Iterable[str]) -> list[set[str]]:
    chosen = set(scopes)
    return [pair for pair in _EXCLUSIVE if pair <= chosen]


def _selector_form(selector: Obj) -> Obj:
    """The scope selector as Go prints its internal type, whose fields have no JSON names."""
    return {
        "MatchExpressions": [
            {
                "ScopeName": term.get("scopeName", ""),
                "Operator": term.get("operator", ""),
                "Values": term.get("values"),
            }
            for term in selector.get("matchExpressions") or ()
        ]
        or None
    }
