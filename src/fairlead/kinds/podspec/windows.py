"""Pods for Windows nodes: their options, and what does not exist there (`spec.os`, KEP-2802)."""

from __future__ import annotations

import re

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_subdomain
from fairlead.api.objects import Obj
from fairlead.kinds.podspec.visiting import each_with_path
from fairlead.kinds.rules import check

OPERATING_SYSTEMS = frozenset({"linux", "windows"})
_GMSA_SPEC_MAX = 64 * 1024
_DOMAIN_MAX = 256
_USER_MAX = 104

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_BAD_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_DOTS_AND_SPACES = re.compile(r"[. ]+")

_NOT_ON_WINDOWS = "cannot be set for a windows pod"
#: (field, whether it sits below securityContext), in the order in which upstream looks.
_POD_FIELDS = (
    ("appArmorProfile", True),
    ("seLinuxOptions", True),
    ("hostUsers", False),
    ("hostPID", False),
    ("hostIPC", False),
    ("seccompProfile", True),
    ("fsGroup", True),
    ("fsGroupChangePolicy", True),
    ("sysctls", True),
    ("shareProcessNamespace", False),
    ("runAsUser", True),
    ("runAsGroup", True),
    ("supplementalGroups", True),
    ("supplementalGroupsPolicy", True),
    ("seLinuxChangePolicy", True),
)
_CONTAINER_FIELDS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def validate_windows_options(options: Obj | None, path: str, errors: Errors) -> None:
    if not options:
        return
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        check(errors, f"{path}.gmsaCredentialSpecName", name, dns1123_subdomain)
    if (spec := options.get("gmsaCredentialSpec")) is not None:
        if not spec:
            errors.invalid(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string")
        elif len(spec.encode()) > _GMSA_SPEC_MAX:
            errors.invalid(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec size must be under 64 KiB")
    if (user := options.get("runAsUserName")) is not None:
        for text in _wrong_user_name(user):
            errors.invalid(f"{path}.runAsUserName", user, f"runAsUserName{text}")


def _wrong_user_name(name: str) -> list[str]:
    """What is wrong with `DOMAIN\\user`; the domain may be missing."""
    if not name:
        return [" cannot be an empty string"]
    if _CONTROL.search(name):
        return [" cannot contain control characters"]
    domain, backslash, user = name.rpartition("\\")
    if "\\" in domain:
        return [" cannot contain more than one backslash"]
    wrong = []
    if len(domain) >= _DOMAIN_MAX:
        wrong.append(f"'s Domain length must be under {_DOMAIN_MAX} characters")
    if backslash and not _NETBIOS.fullmatch(domain) and not _DNS.fullmatch(domain):
        wrong.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        wrong.append("'s User cannot be empty")
    elif len(user) > _USER_MAX:
        wrong.append(f"'s User length must not be longer than {_USER_MAX} characters")
    if _DOTS_AND_SPACES.fullmatch(user):
        wrong.append("'s User cannot contain only periods or spaces")
    if _BAD_USER.search(user):
        wrong.append("""'s User cannot contain the following characters: "/\\:;|=,+*?<>@[]""")
    return wrong


def validate_host_process(spec: Obj, path: str, errors: Errors) -> None:
    """All containers of a pod are HostProcess containers or none is."""
    on_pod = _host_process(spec)
    count = privileged = 0
    for container, here in each_with_path(spec, path):
        count += 1
        own = _host_process(container)
        if on_pod is not None and own is not None and on_pod != own:
            shown = "true" if on_pod else "false"
            errors.invalid(
                f"{here}.securityContext.windowsOptions.hostProcess",
                own,
                f"pod hostProcess value must be identical if both are specified, was {shown}",
            )
        privileged += bool(on_pod if own is None else own)
    if not privileged:
        return
    if privileged != count:
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.invalid(path, "", text)
    if not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.invalid(f"{path}.hostNetwork", False, text)


def _host_process(owner: Obj) -> bool | None:
    context = owner.get("securityContext")
    if not context:
        return None
    value: bool | None = (context.get("windowsOptions") or {}).get("hostProcess")
    return value


def validate_os(spec: Obj, path: str, errors: Errors) -> None:
    """`spec.os`, and whether the rest of the pod makes sense there."""
    system = spec.get("os")
    if system is None:
        return
    name = system.get("name", "")
    if not name:
        errors.required(f"{path}.os.name")
    elif name not in OPERATING_SYSTEMS:
        errors.not_supported(f"{path}.os", name, OPERATING_SYSTEMS)
    elif name == "linux":
        _validate_linux(spec, path, errors)
    else:
        _validate_windows(spec, path, errors)


def _validate_linux(spec: Obj, path: str, errors: Errors) -> None:
    for owner, here in ((spec, path), *each_with_path(spec, path)):
        if "windowsOptions" in (owner.get("securityContext") or {}):
            text = "windows options cannot be set for a linux pod"
            errors.forbidden(f"{here}.securityContext.windowsOptions", text)


def _validate_windows(spec: Obj, path: str, errors: Errors) -> None:
    context = spec.get("securityContext") or {}
    for field, is_nested in _POD_FIELDS:
        if is_nested and field in context:
            errors.forbidden(f"{path}.securityContext.{field}", _NOT_ON_WINDOWS)
        elif not is_nested and field in spec and spec[field] != (False if field in ("hostPID", "hostIPC") else None):
            errors.forbidden(f"{path}.{field}", _NOT_ON_WINDOWS)
    for container, here in each_with_path(spec, path):
        for field in _CONTAINER_FIELDS:
            if field in (container.get("securityContext") or {}):
                errors.forbidden(f"{here}.securityContext.{field}", _NOT_ON_WINDOWS)
