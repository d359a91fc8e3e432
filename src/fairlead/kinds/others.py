"""Kinds that need no more than a generation, a status endpoint, or conditional updates."""

from __future__ import annotations

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.podspec.defaults import default_pod_template
from fairlead.kinds.podspec.template import validate_pod_template
from fairlead.kinds.podspec.warnings import template_warnings
from fairlead.kinds.resource_names import in_order, round_up, validate_amount, validate_container_resource_name
from fairlead.kinds.rules import check, validate_unchanged
from fairlead.kinds.strategy import Strategy


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

    def default(self, obj: Obj) -> None:
        round_up((obj.get("overhead") or {}).get("podFixed"))

    def validate(self, obj: Obj, errors: Errors) -> None:
        check(errors, "handler", obj["handler"], names.dns1123_label)
        for name, amount in in_order((obj.get("overhead") or {}).get("podFixed")):
            path = f"overhead.podFixed.limits[{name}]"
            validate_container_resource_name(name, path, errors)
            validate_amount(name, amount, path, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_unchanged(obj["handler"], old["handler"], "handler", errors)
