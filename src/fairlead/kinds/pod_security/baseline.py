"""The rules of the level baseline: nothing that is a known way out of a container.

Source: k8s.io/pod-security-admission/policy, one file `check_*.go` for each; the texts are upstream's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.kinds.pod_security.checked_pod import (
    CheckedPod,
    Rule,
    Violation,
    counted,
    listed,
    named,
    setters,
    use,
)
from fairlead.kinds.podspec.annotations import APPARMOR, LOCALHOST, SECCOMP_CONTAINER, SECCOMP_POD

_ALLOWED_CAPABILITIES: Final = frozenset(
    {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"}
    | {"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
)
ALLOWED_PROFILES: Final = frozenset({"RuntimeDefault", "Localhost"})
_RUNTIME_DEFAULT: Final = "runtime/default"


def app_armor_profile(pod: CheckedPod) -> Violation | None:
    """No weaker AppArmor profile than the default one, neither by field nor by the annotations of old."""

    def is_bad(context: Obj) -> bool:
        return "appArmorProfile" in context and _type(context, "appArmorProfile") not in ALLOWED_PROFILES

    containers, is_bad_pod = pod.containers_with(is_bad), is_bad(pod.context)
    annotations = sorted(
        f"{key}={go_quote(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(APPARMOR) and value not in ("", _RUNTIME_DEFAULT) and not value.startswith(LOCALHOST)
    )
    by_whom = [setters(containers, pod=is_bad_pod)] if containers or is_bad_pod else []
    if annotations:
        by_whom.append(counted("annotation", annotations))
    if not by_whom:
        return None
    types = {_type(context, "appArmorProfile") for context in _contexts(pod) if is_bad(context)}
    values = [*sorted(types), *annotations]
    return Violation(
        counted("forbidden AppArmor profile", values),
        f"{' and '.join(by_whom)} must not set AppArmor profile type to {listed(values)}",
    )


def default_capabilities(pod: CheckedPod) -> Violation | None:
    """No container adds a capability that a container runtime does not give to everybody."""
    if text := adding_others(pod, _ALLOWED_CAPABILITIES):
        return Violation("non-default capabilities", text)
    return None


def adding_others(pod: CheckedPod, allowed: Collection[str]) -> str:
    """Which containers add other capabilities than these; empty if none does."""
    containers: list[str] = []
    capabilities: set[str] = set()
    for container in pod.containers:
        added = (container.context.get("capabilities") or {}).get("add") or ()
        if others := [capability for capability in added if capability not in allowed]:
            containers.append(container.name)
            capabilities.update(others)
    if not containers:
        return ""
    return f"{named('container', containers)} must not include {listed(sorted(capabilities))} in {_ADDED}"


_ADDED: Final = "securityContext.capabilities.add"


def host_namespaces(pod: CheckedPod) -> Violation | None:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(field)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def host_path_volumes(pod: CheckedPod) -> Violation | None:
    names = [volume.get("name", "") for volume in pod.spec.get("volumes") or () if "hostPath" in volume]
    return Violation("hostPath volumes", named("volume", names)) if names else None


def host_ports(pod: CheckedPod) -> Violation | None:
    containers: list[str] = []
    numbers: set[str] = set()
    for container in pod.containers:
        if found := {str(port["hostPort"]) for port in container.fields.get("ports") or () if port.get("hostPort")}:
            containers.append(container.name)
            numbers |= found
    if not containers:
        return None
    ports = f"{counted('hostPort', numbers)} {', '.join(sorted(numbers))}"
    return Violation("hostPort", f"{named('container', containers)} {use(containers)} {ports}")


def probed_hosts(pod: CheckedPod) -> Violation | None:
    """No probe and no lifecycle hook names a host: with it a kubelet asks others than the pod."""
    hosts = {container.name: found for container in pod.containers if (found := set(_hosts(container.fields)))}
    if not hosts:
        return None
    containers, all_hosts = sorted(hosts), set[str]().union(*hosts.values())
    what = f"{counted('probe or lifecycle host', all_hosts)} {listed(sorted(all_hosts))}"
    return Violation("probe or lifecycle host", f"{named('container', containers)} {use(containers)} {what}")


def _hosts(container: Obj) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    probes = [container.get(probe) for probe in ("livenessProbe", "readinessProbe", "startupProbe")]
    for handler in filter(None, (*probes, lifecycle.get("postStart"), lifecycle.get("preStop"))):
        for action in ("httpGet", "tcpSocket"):
            if host := (handler.get(action) or {}).get("host"):
                yield host


def privileged(pod: CheckedPod) -> Violation | None:
    containers = pod.containers_with(lambda context: context.get("privileged"))
    if not containers:
        return None
    return Violation("privileged", f"{named('container', containers)} must not set securityContext.privileged=true")


def proc_mount(pod: CheckedPod) -> Violation | None:
    """The runtime's masks over /proc stay."""
    types = {container.name: container.context.get("procMount", "Default") for container in pod.containers}
    bad = {name: kind for name, kind in types.items() if kind != "Default"}
    if not bad:
        return None
    text = f"{named('container', bad)} must not set securityContext.procMount to {listed(sorted(set(bad.values())))}"
    return Violation("procMount", text)


def se_linux_options(allowed_types: Collection[str]) -> Rule:
    """Only these SELinux types, and neither a user nor a role."""

    def is_bad(context: Obj) -> bool:
        options = context.get("seLinuxOptions") or {}
        return bool(options.get("type", "") not in allowed_types or options.get("user") or options.get("role"))

    def rule(pod: CheckedPod) -> Violation | None:
        by_whom = setters(pod.containers_with(is_bad), pod=is_bad(pod.context))
        if not by_whom:
            return None
        options = [context.get("seLinuxOptions") or {} for context in _contexts(pod)]
        types = sorted({found.get("type", "") for found in options}.difference(allowed_types))
        wrong = [named("type", types)] if types else []
        wrong += [f"{field} may not be set" for field in ("user", "role") if any(found.get(field) for found in options)]
        text = f"{by_whom} set forbidden securityContext.seLinuxOptions: {'; '.join(wrong)}"
        return Violation("seLinuxOptions", text)

    return rule


_SE_LINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
se_linux_options_1_0 = se_linux_options(_SE_LINUX_TYPES)
se_linux_options_1_31 = se_linux_options(_SE_LINUX_TYPES | {"container_engine_t"})


def seccomp_annotations(pod: CheckedPod) -> Violation | None:
    """Until 1.18 seccomp profiles were annotations."""
    keys = {SECCOMP_POD, *(SECCOMP_CONTAINER + container.name for container in pod.containers)}
    forbidden = sorted(
        f"{key}={go_quote(value)}"
        for key in keys & pod.annotations.keys()
        if (value := pod.annotations[key]) not in (_RUNTIME_DEFAULT, "docker/default")
        and not value.startswith(LOCALHOST)
    )
    if not forbidden:
        return None
    return Violation("seccompProfile", f"forbidden {counted('annotation', forbidden)} {', '.join(forbidden)}")


def seccomp_profile(pod: CheckedPod) -> Violation | None:
    """No weaker seccomp profile than the default one; none at all will do."""

    def is_bad(context: Obj) -> bool:
        return "seccompProfile" in context and _type(context, "seccompProfile") not in ALLOWED_PROFILES

    by_whom = setters(pod.containers_with(is_bad), pod=is_bad(pod.context))
    if not by_whom:
        return None
    types = sorted({_type(context, "seccompProfile") for context in _contexts(pod) if is_bad(context)})
    text = f"{by_whom} must not set securityContext.seccompProfile.type to {listed(types)}"
    return Violation("seccompProfile", text)


def sysctls(allowed: Collection[str]) -> Rule:
    """Only kernel parameters that belong to the pod alone."""

    def rule(pod: CheckedPod) -> Violation | None:
        names = [sysctl.get("name", "") for sysctl in pod.context.get("sysctls") or ()]
        forbidden = [name for name in names if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(forbidden)) if forbidden else None

    return rule


_SYSCTLS_1_0: Final = frozenset({"kernel.shm_rmid_forced"}) | {
    f"net.ipv4.{name}"
    for name in ("ip_local_port_range", "tcp_syncookies", "ping_group_range", "ip_unprivileged_port_start")
}
_SYSCTLS_1_27: Final = _SYSCTLS_1_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_1_29: Final = _SYSCTLS_1_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
sysctls_1_0 = sysctls(_SYSCTLS_1_0)
sysctls_1_27 = sysctls(_SYSCTLS_1_27)
sysctls_1_29 = sysctls(_SYSCTLS_1_29)
sysctls_1_32 = sysctls(_SYSCTLS_1_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"})


def windows_host_process(pod: CheckedPod) -> Violation | None:
    def is_bad(context: Obj) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    by_whom = setters(pod.containers_with(is_bad), pod=is_bad(pod.context))
    if not by_whom:
        return None
    return Violation("hostProcess", f"{by_whom} must not set securityContext.windowsOptions.hostProcess=true")


def _contexts(pod: CheckedPod) -> Iterator[Obj]:
    """The security contexts of the pod and of its containers."""
    yield pod.context
    for container in pod.containers:
        yield container.context


def _type(context: Obj, profile: str) -> str:
    found: str = (context.get(profile) or {}).get("type", "")
    return found
