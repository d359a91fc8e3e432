"""Who the processes of a pod are, and what they may do to the node (Linux; see `windows` for the other)."""

from __future__ import annotations

import re

from fairlead.api.fields import Errors, validate_choice
from fairlead.api.names import group_id, user_id
from fairlead.api.objects import Obj
from fairlead.kinds.podspec.paths import validate_descending_path
from fairlead.kinds.podspec.scope import PodScope
from fairlead.kinds.podspec.structs import PROFILE, SECURITY_CONTEXT, as_go
from fairlead.kinds.podspec.windows import validate_windows_options
from fairlead.kinds.rules import check

_FS_GROUP_POLICIES = frozenset({"OnRootMismatch", "Always"})
_GROUPS_POLICIES = frozenset({"Merge", "Strict"})
_SELINUX_POLICIES = frozenset({"Recursive", "MountOption"})
#: What is new: the gate SELinuxMount is off in 1.36.
_NEW_SELINUX_POLICIES = frozenset({"Recursive"})
_PROC_MOUNTS = ("Default", "Unmasked")
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_APPARMOR_PATH_MAX = 4095
_SHARED_PID = "ShareProcessNamespace and HostPID cannot both be enabled"

_SYSCTL_PART = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"({_SYSCTL_PART}[\./])*{_SYSCTL_PART}"
_SYSCTL_SHAPE = re.compile(_SYSCTL)
_SYSCTL_MAX = 253
_SYSCTL_TEXT = f"must have at most {_SYSCTL_MAX} characters and match regex ^{_SYSCTL}$"
#: Sysctls with a namespace of their own (component-helpers/node/util/sysctl).
_IPC_SYSCTLS = frozenset(
    {"kernel.sem", "kernel.shm", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced"}
    | {"kernel.msg", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni"}
)
_IPC, _NET = "fs.mqueue.", "net."


def validate_pod_security(spec: Obj, old: Obj, path: str, errors: Errors) -> None:
    """`spec.securityContext`; `old` is the specification that this one replaces."""
    context = spec.get("securityContext") or {}
    if not context and not spec.get("shareProcessNamespace"):
        return
    _validate_ids(context, path, errors)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        check(errors, f"{path}.supplementalGroups[{i}]", group, group_id)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        errors.invalid(f"{path}.shareProcessNamespace", True, _SHARED_PID)
    _validate_sysctls(spec, context, f"{path}.sysctls", errors)
    _validate_word(context, "fsGroupChangePolicy", _FS_GROUP_POLICIES, path, errors)
    _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile", errors)
    validate_windows_options(context.get("windowsOptions"), f"{path}.windowsOptions", errors)
    validate_apparmor(context.get("appArmorProfile"), f"{path}.appArmorProfile", errors)
    _validate_word(context, "supplementalGroupsPolicy", _GROUPS_POLICIES, path, errors)
    if "seLinuxChangePolicy" in context:
        is_new = "seLinuxChangePolicy" not in (old.get("securityContext") or ())
        policies = _NEW_SELINUX_POLICIES if is_new else _SELINUX_POLICIES
        _validate_word(context, "seLinuxChangePolicy", policies, path, errors)


def _validate_ids(context: Obj, path: str, errors: Errors) -> None:
    for field, rule in (("fsGroup", group_id), ("runAsUser", user_id), ("runAsGroup", group_id)):
        if (number := context.get(field)) is not None:
            check(errors, f"{path}.{field}", number, rule)


def _validate_word(context: Obj, field: str, allowed: frozenset[str], path: str, errors: Errors) -> None:
    value = context.get(field)
    if value is not None and value not in allowed:
        errors.not_supported(f"{path}.{field}", value, allowed)


def _validate_sysctls(spec: Obj, context: Obj, path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for i, sysctl in enumerate(context.get("sysctls") or ()):
        here, name = f"{path}[{i}].name", sysctl.get("name", "")
        if not name:
            errors.required(here)
        elif len(name) > _SYSCTL_MAX or not _SYSCTL_SHAPE.fullmatch(name):
            errors.invalid(here, name, _SYSCTL_TEXT)
        elif name in seen:
            errors.duplicate(here, name)
        seen.add(name)
        dotted = _normalised(name).partition("*")[0]
        if spec.get("hostNetwork") and dotted.startswith(_NET):
            errors.invalid(here, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith(_IPC)):
            errors.invalid(here, name, "may not be specified when 'hostIPC' is true")


def _normalised(sysctl: str) -> str:
    """With dots between the parts, whichever separator came first (`NormalizeName`)."""
    first = re.search(r"[./]", sysctl)
    if first is None or first[0] == ".":
        return sysctl
    return sysctl.translate(str.maketrans("./", "/."))


def validate_security_context(context: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    """`securityContext` of a container."""
    for field, rule in (("runAsUser", user_id), ("runAsGroup", group_id)):
        if (number := context.get(field)) is not None:
            check(errors, f"{path}.{field}", number, rule)
    if (mount := context.get("procMount")) is not None:
        if mount not in _PROC_MOUNTS:
            errors.not_supported(f"{path}.procMount", mount, _PROC_MOUNTS, sort=False)
        if scope.shares_host_users and mount == "Unmasked":
            errors.invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile", errors)
    if context.get("allowPrivilegeEscalation") is False:
        _validate_no_escalation(context, path, errors)
    validate_windows_options(context.get("windowsOptions"), f"{path}.windowsOptions", errors)
    validate_apparmor(context.get("appArmorProfile"), f"{path}.appArmorProfile", errors)


def _validate_no_escalation(context: Obj, path: str, errors: Errors) -> None:
    start = "cannot set `allowPrivilegeEscalation` to false and"
    if context.get("privileged"):
        errors.invalid(path, as_go(context, SECURITY_CONTEXT), f"{start} `privileged` to true")
    for capability in (context.get("capabilities") or {}).get("add") or ():
        if capability == "CAP_SYS_ADMIN":
            errors.invalid(path, as_go(context, SECURITY_CONTEXT), f"{start} `capabilities.Add` CAP_SYS_ADMIN")


def _validate_seccomp(profile: Obj | None, path: str, errors: Errors) -> None:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    validate_choice(kind, _PROFILES, f"{path}.type", errors, "type is required when seccompProfile is set")
    if kind != "Localhost":
        if local is not None:
            text = "can only be set when seccomp type is Localhost"
            errors.invalid(f"{path}.localhostProfile", as_go(profile, PROFILE), text)
    elif local is None:
        errors.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    else:
        validate_descending_path(local, f"{path}.localhostProfile", errors)


def validate_apparmor(profile: Obj | None, path: str, errors: Errors) -> None:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if kind == "Localhost":
        _validate_apparmor_path(local, f"{path}.localhostProfile", errors)
    elif not kind:
        errors.required(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind not in _PROFILES:
        errors.not_supported(f"{path}.type", kind, _PROFILES, sort=False)
    elif local is not None:
        errors.invalid(f"{path}.localhostProfile", local, "can only be set when AppArmor type is Localhost")


def _validate_apparmor_path(local: str | None, path: str, errors: Errors) -> None:
    if not local:
        return errors.required(path, "must be set when AppArmor type is Localhost")
    if local != local.strip():
        errors.invalid(path, local, "must not be padded with whitespace")
    if len(local) > _APPARMOR_PATH_MAX:
        errors.too_long(path, _APPARMOR_PATH_MAX)
    return None
