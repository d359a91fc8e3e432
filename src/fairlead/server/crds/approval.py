"""Groups that belong to the Kubernetes community need an approval, named in an annotation (KEP-1111).

The arbitrator's own kinds live in such a group (S2-11), so this is met by whoever installs it.
"""

from __future__ import annotations

from enum import Enum

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.golang import urls

APPROVAL_ANNOTATION = "api-approved.kubernetes.io"
_PROTECTED = ("k8s.io", "kubernetes.io")
_MORE = "see https://github.com/kubernetes/enhancements/pull/1111"


class Approval(Enum):
    """What the annotation says; the value is the reason of the condition about it."""

    APPROVED = "ApprovedAnnotation"
    BYPASSED = "UnapprovedAnnotation"
    MISSING = "MissingAnnotation"
    INVALID = "InvalidAnnotation"


def is_protected(group: str) -> bool:
    return any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED)


def state(crd: Obj) -> tuple[Approval, str]:
    """What the annotation says, and the text about it."""
    value: str = (crd["metadata"].get("annotations") or {}).get(APPROVAL_ANNOTATION, "")
    if not value:
        return Approval.MISSING, f'protected groups must have approval annotation "{APPROVAL_ANNOTATION}", {_MORE}'
    if value.startswith("unapproved"):
        return Approval.BYPASSED, f'not approved: "{value}"'
    try:
        url = urls.parse(value)
    except urls.MalformedUrl:
        url = urls.Url()
    if url.scheme and url.host:
        return Approval.APPROVED, f"approved in {value}"
    form = 'with either a URL or a reason starting with "unapproved"'
    return Approval.INVALID, f'protected groups must have approval annotation "{APPROVAL_ANNOTATION}" {form}, {_MORE}'


def check(crd: Obj, old: Obj | None, errors: Errors) -> None:
    """Refuse a protected group without approval, unless it already was without one."""
    if not is_protected(crd["spec"].get("group", "")):
        return
    found, text = state(crd)
    if old is not None and state(old)[0] is found:
        return
    path = f"metadata.annotations[{APPROVAL_ANNOTATION}]"
    if found is Approval.MISSING:
        errors.required(path, text)
    elif found is Approval.INVALID:
        errors.invalid(path, crd["metadata"]["annotations"][APPROVAL_ANNOTATION], text)


def condition(crd: Obj) -> Obj | None:
    """The condition `KubernetesAPIApprovalPolicyConformant` of a protected group; others have none."""
    if not is_protected(crd["spec"].get("group", "")):
        return None
    found, text = state(crd)
    return {
        "type": "KubernetesAPIApprovalPolicyConformant",
        "status": "True" if found is Approval.APPROVED else "False",
        "reason": found.value,
        "message": text,
    }
