"""PriorityClass: whose pods go first. Values are fixed once given; the two system classes are Kubernetes' own.

Sources: pkg/apis/scheduling/{validation,v1} (1.36), S3-01 ff.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.api.errors import Forbidden
from fairlead.api.fields import Errors, validate_choice
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.verbs import DeleteOptions
from fairlead.kinds.rules import PREEMPTION_POLICIES, validate_unchanged
from fairlead.kinds.strategy import Strategy

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_PREFIX: Final = "system-"
SYSTEM_CLASSES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class PriorityClassStrategy(Strategy):
    def default(self, obj: Obj) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def prepare_create(self, obj: Obj) -> None:
        metadata(obj)["generation"] = 1  # and so it stays, whatever changes

    def validate(self, obj: Obj, errors: Errors) -> None:
        name = name_of(obj)
        if name.startswith(SYSTEM_PREFIX):
            if wrong := _not_a_system_class(name, obj):
                errors.forbidden(
                    "metadata.name",
                    f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. "
                    f"error: {wrong}",
                )
        elif obj["value"] > HIGHEST_USER_PRIORITY:
            errors.forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
        validate_choice(obj["preemptionPolicy"], PREEMPTION_POLICIES, "preemptionPolicy", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        if obj["value"] != old["value"]:
            errors.forbidden("value", "may not be changed in an update.")
        validate_unchanged(obj["preemptionPolicy"], old.get("preemptionPolicy"), "preemptionPolicy", errors)

    def check_deletion(self, obj: Obj, options: DeleteOptions) -> None:
        if name_of(obj) in SYSTEM_CLASSES:
            why = "this is a system priority class and cannot be deleted"
            raise Forbidden.of("priorityclasses", name_of(obj), why, "scheduling.k8s.io")


def _not_a_system_class(name: str, obj: Obj) -> str:
    """Why the object may not have a system name; empty if it is what that name stands for."""
    value = SYSTEM_CLASSES.get(name)
    if value is None:
        return f"{name} is not a known system priority class"
    if obj["value"] != value:
        return f"value of {name} PriorityClass must be {value}"
    if obj.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""
