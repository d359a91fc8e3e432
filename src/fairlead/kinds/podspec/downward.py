"""References to a pod's own fields and resources, in environment variables and in downward API volumes."""

from __future__ import annotations

from fairlead.api.fields import Errors
from fairlead.api.names import annotation_key, qualified_name
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse

ENV_FIELDS = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
VOLUME_FIELDS = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"}
)
#: Every field label that the downward API knows (ConvertDownwardAPIFieldLabel); `spec.host` is the old `spec.nodeName`.
_KNOWN_FIELDS = ENV_FIELDS | VOLUME_FIELDS | {"spec.restartPolicy", "spec.schedulerName", "status.phase"}
_OLD_NAMES = {"spec.host": "spec.nodeName"}
_SUBSCRIPTABLE = {"metadata.annotations": annotation_key, "metadata.labels": qualified_name}

_RESOURCES = frozenset(
    {
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
    }
)
_HUGEPAGES = ("requests.hugepages-", "limits.hugepages-")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_BYTES = ", ".join(_BYTE_DIVISORS)
#: Resource name without its prefix → the divisors it allows, and what is said against others.
_DIVISORS = {
    "cpu": (("1m", "1"), "only divisor's values 1m and 1 are supported with the cpu resource"),
    "memory": (_BYTE_DIVISORS, f"only divisor's values {_BYTES} are supported with the memory resource"),
    "ephemeral-storage": (
        _BYTE_DIVISORS,
        f"only divisor's values {_BYTES} are supported with the local ephemeral storage resource",
    ),
    "hugepages": (_BYTE_DIVISORS, f"only divisor's values {_BYTES} are supported with the hugepages resource"),
}


def validate_field_reference(reference: Obj, allowed: frozenset[str], path: str, errors: Errors) -> None:
    """`fieldRef`."""
    version, field_path = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        return errors.required(f"{path}.apiVersion")
    if not field_path:
        return errors.required(f"{path}.fieldPath")
    if version != "v1":
        text = f"unsupported pod version: {version}"
        return errors.invalid(f"{path}.fieldPath", field_path, f"error converting fieldPath: {text}")
    whole, bracket, key = field_path.partition("['")
    if whole and bracket and key.endswith("']"):
        return _validate_subscript(field_path, whole, key.removesuffix("']"), path, errors)
    name = _OLD_NAMES.get(field_path, field_path)
    if name not in _KNOWN_FIELDS:
        text = f"field label not supported: {field_path}"
        return errors.invalid(f"{path}.fieldPath", field_path, f"error converting fieldPath: {text}")
    if name not in allowed:
        errors.not_supported(f"{path}.fieldPath", name, allowed)
    return None


def _validate_subscript(field_path: str, name: str, key: str, path: str, errors: Errors) -> None:
    rule = _SUBSCRIPTABLE.get(name)
    if rule is None:
        text = f"field label does not support subscript: {field_path}"
        return errors.invalid(f"{path}.fieldPath", field_path, f"error converting fieldPath: {text}")
    value = key.lower() if name == "metadata.annotations" else key
    for text in rule(value):
        errors.invalid(path, value, text)
    return None


def validate_resource_reference(reference: Obj, path: str, errors: Errors, *, needs_container: bool) -> None:
    """`resourceFieldRef`; in a volume it must say whose."""
    resource = reference.get("resource", "")
    if needs_container and not reference.get("containerName"):
        errors.required(f"{path}.containerName")
    elif not resource:
        errors.required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGEPAGES):
        errors.not_supported(f"{path}.resource", resource, _RESOURCES)
    _validate_divisor(resource, reference.get("divisor", "0"), f"{path}.divisor", errors)


def _validate_divisor(resource: str, divisor: str, path: str, errors: Errors) -> None:
    if not parse(divisor):
        return
    if resource not in _RESOURCES and not resource.startswith(_HUGEPAGES):
        return
    rule = _DIVISORS["hugepages" if resource.startswith(_HUGEPAGES) else resource.partition(".")[2]]
    allowed, text = rule
    if divisor not in allowed:
        errors.invalid(path, resource, text)
