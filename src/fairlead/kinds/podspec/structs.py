"""API structs as upstream's field errors print them.

Some errors show a whole struct. Upstream prints its internal types, which have no JSON names: the fields come in the
order of declaration, under their Go names, with everything unset as null, "", or {}. The tables below are
those declarations (pkg/apis/core/types.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fairlead.api.objects import Obj


class StructField(NamedTuple):
    """One field of a Go struct."""

    go: str
    json: str
    unset: Any = None
    #: The struct (or the struct of each element) inside.
    inner: tuple[StructField, ...] = ()


_CAPABILITIES = (StructField("Add", "add"), StructField("Drop", "drop"))
_SELINUX = tuple(StructField(name.capitalize(), name, "") for name in ("user", "role", "type", "level"))
_WINDOWS = (
    StructField("GMSACredentialSpecName", "gmsaCredentialSpecName"),
    StructField("GMSACredentialSpec", "gmsaCredentialSpec"),
    StructField("RunAsUserName", "runAsUserName"),
    StructField("HostProcess", "hostProcess"),
)
PROFILE = (StructField("Type", "type", ""), StructField("LocalhostProfile", "localhostProfile"))
SECURITY_CONTEXT = (
    StructField("Capabilities", "capabilities", None, _CAPABILITIES),
    StructField("Privileged", "privileged"),
    StructField("SELinuxOptions", "seLinuxOptions", None, _SELINUX),
    StructField("WindowsOptions", "windowsOptions", None, _WINDOWS),
    StructField("RunAsUser", "runAsUser"),
    StructField("RunAsGroup", "runAsGroup"),
    StructField("RunAsNonRoot", "runAsNonRoot"),
    StructField("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
    StructField("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
    StructField("ProcMount", "procMount"),
    StructField("SeccompProfile", "seccompProfile", None, PROFILE),
    StructField("AppArmorProfile", "appArmorProfile", None, PROFILE),
)
POD_RESOURCE_CLAIM = (
    StructField("Name", "name", ""),
    StructField("ResourceClaimName", "resourceClaimName"),
    StructField("ResourceClaimTemplateName", "resourceClaimTemplateName"),
)
_NODE_REQUIREMENT = (
    StructField("Key", "key", ""),
    StructField("Operator", "operator", ""),
    StructField("Values", "values"),
)
NODE_SELECTOR_TERM = (
    StructField("MatchExpressions", "matchExpressions", None, _NODE_REQUIREMENT),
    StructField("MatchFields", "matchFields", None, _NODE_REQUIREMENT),
)
IP = (StructField("IP", "ip", ""),)
TOLERATION = (
    *(StructField(name.capitalize(), name, "") for name in ("key", "operator", "value", "effect")),
    StructField("TolerationSeconds", "tolerationSeconds"),
)


def as_go(value: Obj, fields: Iterable[StructField]) -> dict[str, Any]:
    """The struct under its Go names."""
    return {field.go: _inner(value.get(field.json, field.unset), field.inner) for field in fields}


def all_as_go(values: Iterable[Obj], fields: tuple[StructField, ...]) -> list[dict[str, Any]]:
    return [as_go(value, fields) for value in values]


def _inner(value: Any, fields: tuple[StructField, ...]) -> Any:
    if not fields or value is None:
        return value
    return as_go(value, fields) if isinstance(value, dict) else all_as_go(value, fields)
