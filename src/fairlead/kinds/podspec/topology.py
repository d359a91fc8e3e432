"""How evenly pods are spread (`topologySpreadConstraints`)."""

from __future__ import annotations

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_structured
from fairlead.kinds.podspec.label_keys import validate_label_keys

_ACTIONS = frozenset({"DoNotSchedule", "ScheduleAnyway"})
_POLICIES = frozenset({"Honor", "Ignore"})
_NOT_POSITIVE = "must be greater than zero"


def validate_topology_spread(constraints: list[Obj], path: str, errors: Errors) -> None:
    last = {_pair(constraint): i for i, constraint in enumerate(constraints)}
    for i, constraint in enumerate(constraints):
        here = f"{path}[{i}]"
        topology_key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if (skew := constraint.get("maxSkew", 0)) <= 0:
            errors.invalid(f"{here}.maxSkew", skew, _NOT_POSITIVE)
        if not topology_key:
            errors.required(f"{here}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            errors.not_supported(f"{here}.whenUnsatisfiable", action, _ACTIONS)
        if last[topology_key, action] > i:
            errors.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{topology_key}, {action}}}")
        _validate_min_domains(constraint.get("minDomains"), action, f"{here}.minDomains", errors)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in _POLICIES:
                errors.not_supported(f"{here}.{field}", policy, _POLICIES)
        validate_label_keys(constraint, here, errors)
        validate_structured(constraint.get("labelSelector"), errors, f"{here}.labelSelector")


def _pair(constraint: Obj) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _validate_min_domains(count: int | None, action: str, path: str, errors: Errors) -> None:
    if count is None:
        return
    if count <= 0:
        errors.invalid(path, count, _NOT_POSITIVE)
    if action != "DoNotSchedule":
        errors.invalid(path, count, f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}")
