"""DaemonSet: a pod on every node that fits.

The generation of the template lives on as an annotation, which the server keeps. Sources:
pkg/apis/apps/{v1,validation}, pkg/registry/apps/daemonset/strategy.go (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.errors import BadRequest
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.selectors import validate_structured
from fairlead.golang.numbers import parse_int
from fairlead.kinds.podspec.defaults import default_pod_template
from fairlead.kinds.podspec.differences import is_same
from fairlead.kinds.podspec.template import validate_pod_template
from fairlead.kinds.podspec.warnings import template_warnings
from fairlead.kinds.rules import (
    TEMPLATE_MISMATCH,
    int_or_percent,
    is_empty_selector,
    map_form,
    selector_form,
    selects,
    validate_at_most_all,
    validate_int_or_percent,
    validate_not_decremented,
    validate_not_negative,
)
from fairlead.kinds.strategy import MetaCheck, Strategy
from fairlead.kinds.workloads import (
    labels_of,
    struct_form,
    validate_always_restarting,
    validate_same_selector,
)

ROLLING, ON_DELETE = "RollingUpdate", "OnDelete"
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"

_HISTORY: Final = 10
_COUNTS: Final = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


class DaemonSetStrategy(Strategy):
    meta_checks = (MetaCheck.WHOLE, MetaCheck.CHANGE)
    has_status = True
    has_generation = True

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        strategy = spec["updateStrategy"]
        if not strategy.get("type"):
            strategy["type"] = ROLLING
        if strategy["type"] == ROLLING:
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", _HISTORY)
        default_pod_template(spec["template"])

    def prepare_create(self, obj: Obj) -> None:
        _set_template_generation(obj, max(_template_generation(obj), 1))

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        is_changed = not is_same(obj["spec"]["template"], old["spec"]["template"])
        _set_template_generation(obj, _template_generation(old) + is_changed)

    def prepare_status(self, obj: Obj, old: Obj) -> None:
        """Upstream the number is part of the spec, which a status does not change."""
        super().prepare_status(obj, old)
        _set_template_generation(obj, _template_generation(old))

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        selector, template = spec.get("selector"), spec["template"]
        validate_structured(selector, errors, "spec.selector")
        if selects(selector, labels_of(template)) is False:
            errors.invalid("spec.template.metadata.labels", map_form(labels_of(template)), TEMPLATE_MISMATCH)
        if selector is not None and is_empty_selector(selector):
            errors.invalid("spec.selector", selector_form(selector), "empty selector is invalid for daemonset")
        validate_pod_template(template, "spec.template", errors)
        validate_always_restarting(template, "DaemonSet", "spec.template", errors)
        validate_not_negative(spec, ("minReadySeconds",), "spec", errors)
        _validate_strategy(spec["updateStrategy"], errors)
        validate_not_negative(spec, ("revisionHistoryLimit",), "spec", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """Upstream validates the new object and then the change, so every error is reported twice."""
        found = Errors()
        self.validate(obj, found)
        errors += found
        errors += found
        validate_same_selector(obj, old, errors)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_not_negative(obj["status"], _COUNTS, "status", errors)
        validate_not_decremented(obj["status"], old.get("status") or {}, "collisionCount", "status", errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        """Upstream has nothing to say of the name here, and looks at the generation of the template alone."""
        if old is not None and _template_generation(obj) == _template_generation(old):
            return []
        return template_warnings(obj["spec"]["template"], "spec.template")


def _template_generation(obj: Obj) -> int:
    """Upstream keeps it as a number in the spec, so an annotation that is none cannot be converted."""
    text = (metadata(obj).get("annotations") or {}).get(TEMPLATE_GENERATION)
    try:
        return parse_int(text) if text is not None else 0
    except ValueError as error:
        raise BadRequest(f'DaemonSet in version "v1" cannot be handled as a DaemonSet: {error}') from None


def _set_template_generation(obj: Obj, generation: int) -> None:
    metadata(obj).setdefault("annotations", {})[TEMPLATE_GENERATION] = str(generation)


def _validate_strategy(strategy: Obj, errors: Errors) -> None:
    type_, rolling = strategy["type"], strategy.get("rollingUpdate")
    if type_ == ROLLING:
        _validate_rolling(rolling or {}, "spec.updateStrategy.rollingUpdate", errors)
    elif type_ != ON_DELETE:
        form = rolling and {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
        errors.not_supported("spec.updateStrategy", struct_form(type_, form), (ROLLING, ON_DELETE), sort=False)


def _validate_rolling(rolling: Obj, path: str, errors: Errors) -> None:
    for check in (validate_int_or_percent, validate_at_most_all):
        for field in ("maxUnavailable", "maxSurge"):
            check(rolling[field], f"{path}.{field}", errors)
    has_missing, has_surge = (int_or_percent(rolling[field]) != 0 for field in ("maxUnavailable", "maxSurge"))
    if has_missing and has_surge:
        errors.invalid(f"{path}.maxSurge", rolling["maxSurge"], "may not be set when maxUnavailable is non-zero")
    elif not has_missing and not has_surge:
        errors.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
