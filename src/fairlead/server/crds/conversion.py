"""Which `spec.conversion` of a CRD is refused: how versions become one another, and whom to ask about it.

Sources: `validateCustomResourceConversion` in apiextensions-apiserver pkg/apis/apiextensions/validation, and
pkg/util/webhook/validation.go of apiserver, 1.36.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fairlead.api import names
from fairlead.api.fields import Errors, validate_choice
from fairlead.api.objects import Obj

_CLIENT = "spec.conversion.webhookClientConfig"
_REVIEWS = "spec.conversion.conversionReviewVersions"
_FORM = "; desired format: https://host[/path]"


def check_conversion(spec: Obj, errors: Errors) -> None:
    conversion = spec.get("conversion") or {}
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook") or {}
    if spec.get("preserveUnknownFields") and strategy != "None":
        errors.invalid("spec.conversion.strategy", strategy, "must be None if spec.preserveUnknownFields is true")
    validate_choice(strategy, ("None", "Webhook"), "spec.conversion.strategy", errors)
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy == "Webhook":
        _check_client(client, errors)
        _check_reviews(reviews, errors)
        return
    detail = "should not be set when strategy is not set to Webhook"
    if client is not None:
        errors.forbidden(_CLIENT, detail)
    if reviews:
        errors.forbidden(_REVIEWS, detail)


def _check_client(client: Obj | None, errors: Errors) -> None:
    if client is None:
        errors.required(_CLIENT, "required when strategy is set to Webhook")
    elif ("url" in client) == ("service" in client):
        errors.required(_CLIENT, "exactly one of url or service is required")
    elif "url" in client:
        _check_url(client["url"], f"{_CLIENT}.url", errors)
    else:
        _check_service(client["service"], f"{_CLIENT}.service", errors)


def _check_reviews(reviews: list[str], errors: Errors) -> None:
    if not reviews:
        errors.required(_REVIEWS)
        return
    seen: set[str] = set()
    for index, version in enumerate(reviews):
        if version in seen:
            errors.invalid(f"{_REVIEWS}[{index}]", version, "duplicate version")
            continue
        seen.add(version)
        for wrong in names.dns1035_label(version):
            errors.invalid(f"{_REVIEWS}[{index}]", version, wrong)
    if not {"v1", "v1beta1"} & set(reviews):
        errors.invalid(_REVIEWS, reviews, "must include at least one of v1, v1beta1")


def _check_url(text: str, path: str, errors: Errors) -> None:
    try:
        url = urlsplit(text)
    except ValueError as error:
        errors.required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    user, at, host = url.netloc.rpartition("@")
    if url.scheme != "https":
        errors.invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        errors.invalid(path, host, f"host must be specified{_FORM}")
    if at:
        errors.invalid(path, user, "user information is not permitted in the URL")
    if url.fragment:
        errors.invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        errors.invalid(path, url.query, "query parameters are not permitted in the URL")


def _check_service(service: Obj, path: str, errors: Errors) -> None:
    # Upstream hands name and namespace over in the wrong order, so what is said to be missing is the other one.
    if not service.get("namespace"):
        errors.required(f"{path}.name")
    if not service.get("name"):
        errors.required(f"{path}.namespace")
    port = service.get("port", 0)
    if wrong := names.port_number(port):
        errors.invalid(f"{path}.port", port, f"port is not valid: {', '.join(wrong)}")
    if "path" in service:
        _check_service_path(service["path"], f"{path}.path", errors)


def _check_service_path(value: str, path: str, errors: Errors) -> None:
    if value in ("", "/"):
        return
    if value == "//":
        errors.invalid(path, value, "segment[0] may not be empty")
        return
    if not value.startswith("/"):
        errors.invalid(path, value, "must start with a '/'")
    for index, step in enumerate(value[1:].removesuffix("/").split("/")):
        for wrong in names.dns1123_subdomain(step) if step else ():
            errors.invalid(path, value, f"segment[{index}]: {wrong}")
        if not step:
            errors.invalid(path, value, f"segment[{index}] may not be empty")
