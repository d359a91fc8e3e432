"""How a webhook is reached, as `clientConfig` says: by a URL or by a service.

Source: apiserver/pkg/util/webhook/validation.go (1.36).
"""

from __future__ import annotations

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.golang import urls

DEFAULT_PORT = 443
_FORM = "; desired format: https://host[/path]"


def default_client(client: Obj) -> None:
    """Fill in the port of a service."""
    service = client.get("service")
    if service is not None:
        service.setdefault("port", DEFAULT_PORT)


def validate_client(client: Obj, path: str, errors: Errors) -> None:
    """Exactly one of `url` and `service`, and what they may say."""
    if ("url" in client) == ("service" in client):
        errors.required(path, "exactly one of url or service is required")
    elif "url" in client:
        _validate_url(client["url"], f"{path}.url", errors)
    else:
        _validate_service(client["service"], f"{path}.service", errors)


def _validate_url(text: str, path: str, errors: Errors) -> None:
    try:
        url = urls.parse(text)
    except urls.MalformedUrl as error:
        errors.required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    if url.scheme != "https":
        errors.invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not url.host:
        errors.invalid(path, url.host, f"host must be specified{_FORM}")
    if url.user is not None:
        errors.invalid(path, url.user, "user information is not permitted in the URL")
    if url.fragment:
        errors.invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        errors.invalid(path, url.query, "query parameters are not permitted in the URL")


def _validate_service(service: Obj, path: str, errors: Errors) -> None:
    # Upstream hands name and namespace over in the wrong order, so what is said to be missing is the other one.
    if not service.get("namespace"):
        errors.required(f"{path}.name")
    if not service.get("name"):
        errors.required(f"{path}.namespace")
    port = service.get("port", 0)
    if wrong := names.port_number(port):
        errors.invalid(f"{path}.port", port, f"port is not valid: {', '.join(wrong)}")
    if "path" in service:
        _validate_service_path(service["path"], f"{path}.path", errors)


def _validate_service_path(value: str, path: str, errors: Errors) -> None:
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


def validate_review_versions(versions: list[str], path: str, errors: Errors, *, needs_known: bool = True) -> None:
    """The versions of the review that a webhook understands; at least one must be known here."""
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        seen.add(version)
        for wrong in names.dns1035_label(version):
            errors.invalid(f"{path}[{index}]", version, wrong)
    if needs_known and not seen.intersection(REVIEW_VERSIONS):
        errors.invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")


#: Those that are known.
REVIEW_VERSIONS = ("v1", "v1beta1")
