"""Status conditions: one statement per type about an object, with the time of its last flip.

Everything that reports progress (nodes, pods, workloads, budgets) uses this list. A writer that set the transition time
on every write would make the object change for ever. See k8s.io/apimachinery pkg/api/meta/conditions.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.objects import Obj


def find(conditions: Iterable[Obj] | None, kind: str) -> Obj | None:
    """The condition of that type."""
    for condition in conditions or ():
        if condition.get("type") == kind:
            return condition
    return None


def is_true(conditions: Iterable[Obj] | None, kind: str) -> bool:
    condition = find(conditions, kind)
    return condition is not None and condition.get("status") == "True"


def with_condition(conditions: Iterable[Obj] | None, new: Obj, now: str) -> list[Obj]:
    """The conditions with this one set, in its old place or at the end.

    The old one's other fields stay; `lastTransitionTime` moves to `now` only if the status changes.
    """
    kept = list(conditions or ())
    for index, old in enumerate(kept):
        if old.get("type") == new["type"]:
            is_same = old.get("status") == new["status"] and old.get("lastTransitionTime")
            kept[index] = old | {"lastTransitionTime": now} | new
            if is_same:
                kept[index]["lastTransitionTime"] = old["lastTransitionTime"]
            return kept
    return [*kept, {"lastTransitionTime": now} | new]


def without_condition(conditions: Iterable[Obj] | None, kind: str) -> list[Obj]:
    return [condition for condition in conditions or () if condition.get("type") != kind]
