"""Conditions of a status: one entry a type, whose transition time changes only with its status."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.workloads import WorkloadCondition

Conditions = tuple[WorkloadCondition, ...]


def find_condition(conditions: Sequence[WorkloadCondition], type_: str) -> WorkloadCondition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def with_condition(conditions: Conditions, new: WorkloadCondition) -> Conditions:
    """The conditions with `new` among them; one that says the same already stays as it is."""
    old = find_condition(conditions, new.type)
    if old is not None:
        if (old.status, old.reason) == (new.status, new.reason):
            return conditions
        if old.status == new.status:
            new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
    return (*without_condition(conditions, new.type), new)


def without_condition(conditions: Conditions, type_: str) -> Conditions:
    return tuple(condition for condition in conditions if condition.type != type_)
