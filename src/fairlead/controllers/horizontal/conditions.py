"""The conditions of an autoscaler: `AbleToScale`, `ScalingActive` and `ScalingLimited`."""

from __future__ import annotations

import msgspec

from fairlead.api.autoscaling import AutoscalerCondition

Conditions = tuple[AutoscalerCondition, ...]


def with_state(conditions: Conditions, type_: str, *, holds: bool, reason: str, message: str, now: str) -> Conditions:
    """The conditions with one of them as it is now; it changed at `now` only if its status did."""
    status = "True" if holds else "False"
    new = AutoscalerCondition(type=type_, status=status, reason=reason, message=message, last_transition_time=now)
    for index, known in enumerate(conditions):
        if known.type == type_:
            if known.status == status:
                new = msgspec.structs.replace(new, last_transition_time=known.last_transition_time)
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, new)
