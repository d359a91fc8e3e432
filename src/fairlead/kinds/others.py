"""Kinds that need no more than a generation, a status endpoint, or conditional updates."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_labels
from fairlead.kinds.podspec.defaults import default_pod_template
from fairlead.kinds.podspec.resources import validate_overhead
from fairlead.kinds.podspec.structs import TOLERATION, as_go
from fairlead.kinds.podspec.template import validate_pod_template
from fairlead.kinds.podspec.tolerations import validate_tolerations
from fairlead.kinds.podspec.warnings import template_warnings
from fairlead.kinds.resource_names import round_up
from fairlead.kinds.rules import check, validate_unchanged
from fairlead.kinds.strategy import MetaCheck, Strategy


class CountedStrategy(Strategy):
    """The kind has `metadata.generation`."""

    has_generation = True

    def __init__(self, *, has_status: bool = False, allows_unconditional_update: bool = True) -> None:
        self.has_status = has_status
        self.allows_unconditional_update = allows_unconditional_update


class ReportedStrategy(Strategy):
    """The kind has a status with an endpoint of its own."""

    has_status = True

    def __init__(self, *, allows_unconditional_update: bool = True) -> None:
        self.allows_unconditional_update = allows_unconditional_update


class PodTemplateStrategy(Strategy):
    returns_deleted = True
    has_generation = True

    def default(self, obj: Obj) -> None:
        default_pod_template(obj["template"])

    def validate(self, obj: Obj, errors: Errors) -> None:
        validate_pod_template(obj["template"], "template", errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        return template_warnings(obj["template"], "template")


class RuntimeClassStrategy(Strategy):
    """Source: pkg/apis/node/validation, pkg/registry/node/runtimeclass (1.36)."""

    allows_create_on_update = True
    allows_unconditional_update = False
    meta_checks = (MetaCheck.WHOLE, MetaCheck.CHANGE)

    def default(self, obj: Obj) -> None:
        round_up((obj.get("overhead") or {}).get("podFixed"))

    def validate(self, obj: Obj, errors: Errors) -> None:
        check(errors, "handler", obj["handler"], names.dns1123_label)
        if (overhead := obj.get("overhead")) is not None:
            validate_overhead(overhead.get("podFixed") or {}, "overhead", errors)
        if (scheduling := obj.get("scheduling")) is not None:
            validate_labels(scheduling.get("nodeSelector"), errors, "scheduling.nodeSelector")
            _validate_tolerations(scheduling.get("tolerations") or (), "scheduling.tolerations", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        validate_unchanged(obj["handler"], old["handler"], "handler", errors)


def _validate_tolerations(tolerations: Iterable[Obj], path: str, errors: Errors) -> None:
    """In a class they are a set, by all but how long each holds."""
    validate_tolerations(tolerations, path, errors)
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerations):
        key = tuple(toleration.get(field, "") for field in ("key", "operator", "value", "effect"))
        if key in seen:
            errors.duplicate(f"{path}[{index}]", as_go(toleration, TOLERATION))
        seen.add(key)
