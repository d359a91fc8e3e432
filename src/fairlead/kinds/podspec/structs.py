"""API structs as upstream's field errors print them.

Some errors show a whole struct. Upstream prints its internal types, which have no JSON names: the fields come in the
order of declaration, under their Go names, with everything unset as null, "", or {}. The tables below are
those declarations (pkg/apis/core/types.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fairlead.api.objects import Obj


class Field(NamedTuple):
    """One field of a Go struct."""

    go: str
    json: str
    unset: Any = None
    #: The struct (or the struct of each element) inside.
    inner: tuple[Field, ...] = ()


_CAPABILITIES = (Field("Add", "add"), Field("Drop", "drop"))
_SELINUX = tuple(Field(name.capitalize(), name, "") for name in ("user", "role", "type", "level"))
_WINDOWS = (
    Field("GMSACredentialSpecName", "gmsaCredentialSpecName"),
    Field("GMSACredentialSpec", "gmsaCredentialSpec"),
    Field("RunAsUserName", "runAsUserName"),
    Field("HostProcess", "hostProcess"),
)
PROFILE = (Field("Type", "type", ""), Field("LocalhostProfile", "localhostProfile"))
SECURITY_CONTEXT = (
    Field("Capabilities", "capabilities", None, _CAPABILITIES),
    Field("Privileged", "privileged"),
    Field("SELinuxOptions", "seLinuxOptions", None, _SELINUX),
    Field("WindowsOptions", "windowsOptions", None, _WINDOWS),
    Field("RunAsUser", "runAsUser"),
    Field("RunAsGroup", "runAsGroup"),
    Field("RunAsNonRoot", "runAsNonRoot"),
    Field("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
    Field("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
    Field("ProcMount", "procMount"),
    Field("SeccompProfile", "seccompProfile", None, PROFILE),
    Field("AppArmorProfile", "appArmorProfile", None, PROFILE),
)
POD_RESOURCE_CLAIM = (
    Field("Name", "name", ""),
    Field("ResourceClaimName", "resourceClaimName"),
    Field("ResourceClaimTemplateName", "resourceClaimTemplateName"),
)
_NODE_REQUIREMENT = (Field("Key", "key", ""), Field("Operator", "operator", ""), Field("Values", "values"))
NODE_SELECTOR_TERM = (
    Field("MatchExpressions", "matchExpressions", None, _NODE_REQUIREMENT),
    Field("MatchFields", "matchFields", None, _NODE_REQUIREMENT),
)
IP = (Field("IP", "ip", ""),)


def as_go(value: Obj, fields: Iterable[Field]) -> dict[str, Any]:
    """The struct under its Go names."""
    return {field.go: _inner(value.get(field.json, field.unset), field.inner) for field in fields}


def all_as_go(values: Iterable[Obj], fields: tuple[Field, ...]) -> list[dict[str, Any]]:
    return [as_go(value, fields) for value in values]


def _inner(value: Any, fields: tuple[Field, ...]) -> Any:
    if not fields or value is None:
        return value
    return as_go(value, fields) if isinstance(value, dict) else all_as_go(value, fields)
