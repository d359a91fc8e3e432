"""Which `spec.conversion` of a CRD is refused: how versions become one another, and whom to ask about it.

Source: `validateCustomResourceConversion` in apiextensions-apiserver pkg/apis/apiextensions/validation, 1.36.
"""

from __future__ import annotations

from base64 import b64decode

from fairlead.api.fields import Errors, validate_choice
from fairlead.api.objects import Obj
from fairlead.client.tls import trusting
from fairlead.kinds.webhook_clients import validate_client, validate_review_versions

_CLIENT = "spec.conversion.webhookClientConfig"
_REVIEWS = "spec.conversion.conversionReviewVersions"


def bundle_fault(spec: Obj) -> str:
    """Why nobody can be trusted by the `caBundle` of the webhook; "" if there is none, or nothing wrong with it."""
    client = ((spec.get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
    if bundle := client.get("caBundle"):
        try:
            trusting(b64decode(bundle))
        except ValueError as error:
            return str(error)
    return ""


def check_bundle(spec: Obj, before: Obj, errors: Errors) -> None:
    """Of a CRD that is established: one whose bundle never was any good may keep it."""
    if (fault := bundle_fault(spec)) and not bundle_fault(before):
        bundle = spec["conversion"]["webhook"]["clientConfig"]["caBundle"]
        errors.invalid(f"{_CLIENT}.caBundle", f"{len(b64decode(bundle))} bytes", fault)


def check_conversion(spec: Obj, errors: Errors) -> None:
    conversion = spec.get("conversion") or {}
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook") or {}
    if spec.get("preserveUnknownFields") and strategy != "None":
        errors.invalid("spec.conversion.strategy", strategy, "must be None if spec.preserveUnknownFields is true")
    validate_choice(strategy, ("None", "Webhook"), "spec.conversion.strategy", errors)
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy == "Webhook":
        if client is None:
            errors.required(_CLIENT, "required when strategy is set to Webhook")
        else:
            validate_client(client, _CLIENT, errors)
        if reviews:
            validate_review_versions(reviews, _REVIEWS, errors)
        else:
            errors.required(_REVIEWS)
        return
    detail = "should not be set when strategy is not set to Webhook"
    if client is not None:
        errors.forbidden(_CLIENT, detail)
    if reviews:
        errors.forbidden(_REVIEWS, detail)
