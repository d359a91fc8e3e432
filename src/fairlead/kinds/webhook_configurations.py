"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration: what they may say.

Source: pkg/apis/admissionregistration/{v1,validation} (1.36). The server calls the webhooks
(`server/admission/webhooks/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_subdomain
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_structured
from fairlead.kinds.admission_expressions import MOST_CHARACTERS, compile_conditions, validate_condition_names
from fairlead.kinds.admission_rules import (
    SELECTORS,
    default_selection,
    validate_failure_policy,
    validate_match_policy,
    validate_rule,
)
from fairlead.kinds.others import CountedStrategy
from fairlead.kinds.webhook_clients import (
    REVIEW_VERSIONS,
    default_client,
    validate_client,
    validate_review_versions,
)

#: How long a webhook may take where it does not say so.
DEFAULT_TIMEOUT_SECONDS: Final = 10
_HARMLESS: Final = ("None", "NoneOnDryRun")
_SIDE_EFFECTS: Final = (*_HARMLESS, "Some", "Unknown")


class _Tolerance(msgspec.Struct, frozen=True):
    """What is let pass because it was let pass before there was a rule."""

    side_effects: bool = False
    review_versions: bool = False
    names: bool = False
    label_values: bool = False
    conditions: bool = False


class WebhookConfigurationStrategy(CountedStrategy):
    slow_bytes = 4 << 10  # expressions take long to compile

    def __init__(self, *, is_mutating: bool) -> None:
        super().__init__(allows_unconditional_update=False)
        self._is_mutating = is_mutating

    def default(self, obj: Obj) -> None:
        for webhook in obj.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            default_selection(webhook, "rules")
            webhook.setdefault("timeoutSeconds", DEFAULT_TIMEOUT_SECONDS)
            default_client(webhook.get("clientConfig") or {})
            if self._is_mutating:
                webhook.setdefault("reinvocationPolicy", "Never")

    def validate(self, obj: Obj, errors: Errors) -> None:
        self._validate(obj, _Tolerance(), errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self._validate(obj, _tolerance(obj.get("webhooks") or [], old.get("webhooks") or []), errors)

    def _validate(self, obj: Obj, tolerance: _Tolerance, errors: Errors) -> None:
        webhooks, seen = obj.get("webhooks") or [], set[str]()
        length = sum(len(condition.get("expression") or "") for condition in _conditions(webhooks))
        if is_too_long := length > MOST_CHARACTERS:
            errors.invalid("webhooks", "", f"expressions have more than {MOST_CHARACTERS} characters together")
        for index, webhook in enumerate(webhooks):
            path, name = f"webhooks[{index}]", webhook.get("name") or ""
            self._validate_webhook(webhook, path, tolerance, errors)
            if not (tolerance.conditions or is_too_long):
                _validate_conditions(webhook, f"{path}.matchConditions", errors)
            _validate_versions(webhook, f"{path}.admissionReviewVersions", tolerance, errors)
            if not tolerance.names and name in seen:
                errors.duplicate(f"{path}.name", name)
            if name:
                seen.add(name)

    def _validate_webhook(self, webhook: Obj, path: str, tolerance: _Tolerance, errors: Errors) -> None:
        _validate_name(webhook.get("name") or "", f"{path}.name", errors)
        for index, rule in enumerate(webhook.get("rules") or ()):
            validate_rule(rule, f"{path}.rules[{index}]", errors)
        validate_failure_policy(webhook, path, errors)
        validate_match_policy(webhook, path, errors)
        allowed = _SIDE_EFFECTS if tolerance.side_effects else _HARMLESS
        side_effects = webhook.get("sideEffects")
        if side_effects is None:
            errors.required(f"{path}.sideEffects", f"must specify one of {', '.join(allowed)}")
        elif side_effects not in allowed:
            errors.not_supported(f"{path}.sideEffects", side_effects, allowed)
        seconds = webhook.get("timeoutSeconds", DEFAULT_TIMEOUT_SECONDS)
        if not 1 <= seconds <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            errors.invalid(f"{path}.timeoutSeconds", seconds, text)
        for key in SELECTORS:
            validate_structured(webhook.get(key), errors, f"{path}.{key}", any_label_value=tolerance.label_values)
        if self._is_mutating and webhook.get("reinvocationPolicy") not in (None, "Never", "IfNeeded"):
            policy = webhook["reinvocationPolicy"]
            errors.not_supported(f"{path}.reinvocationPolicy", policy, ("IfNeeded", "Never"))
        validate_client(webhook.get("clientConfig") or {}, f"{path}.clientConfig", errors)


def _conditions(webhooks: Iterable[Obj]) -> Iterable[Obj]:
    return (condition for webhook in webhooks for condition in webhook.get("matchConditions") or ())


def _tolerance(new: Sequence[Obj], old: Sequence[Obj]) -> _Tolerance:
    """What a configuration had already."""
    names = [webhook.get("name") for webhook in old]
    selectors = Errors()
    for webhook in old:
        for key in SELECTORS:
            validate_structured(webhook.get(key), selectors, key)
    versions = [webhook.get("admissionReviewVersions") or () for webhook in old]
    conditions = [[webhook.get("matchConditions") or [] for webhook in webhooks] for webhooks in (new, old)]
    return _Tolerance(
        side_effects=any(webhook.get("sideEffects") not in _HARMLESS for webhook in old),
        review_versions=any(listed and not set(listed).intersection(REVIEW_VERSIONS) for listed in versions),
        names=len(set(names)) < len(names),
        label_values=bool(selectors),
        conditions=conditions[0] == conditions[1],
    )


def _validate_name(name: str, path: str, errors: Errors) -> None:
    if not name:
        errors.required(path)
    elif faults := dns1123_subdomain(name):
        errors.invalid(path, name, ",".join(faults))
    elif name.count(".") < 2:
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots")


def _validate_conditions(webhook: Obj, path: str, errors: Errors) -> None:
    conditions = webhook.get("matchConditions") or ()
    compile_conditions(conditions, path, errors)
    validate_condition_names(conditions, path, errors)


def _validate_versions(webhook: Obj, path: str, tolerance: _Tolerance, errors: Errors) -> None:
    if versions := webhook.get("admissionReviewVersions"):
        validate_review_versions(versions, path, errors, needs_known=not tolerance.review_versions)
    else:
        errors.required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")
