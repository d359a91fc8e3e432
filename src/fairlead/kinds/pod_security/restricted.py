"""What the level restricted demands beyond baseline: as few rights as a container can have.

Source: k8s.io/pod-security-admission/policy, one file `check_*.go` for each; the texts are upstream's.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj
from fairlead.kinds.pod_security.baseline import adding_others, seccomp_profile
from fairlead.kinds.pod_security.checked_pod import (
    CheckedPod,
    Violation,
    named,
    setters,
    use,
)

_ALLOWED_VOLUMES: Final = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"}
    | {"persistentVolumeClaim", "projected", "secret"}
)
_NOT_ROOT: Final = "runAsNonRoot != true"


def no_privilege_escalation(pod: CheckedPod) -> Violation | None:
    containers = pod.containers_with(lambda context: context.get("allowPrivilegeEscalation") is not False)
    if not containers:
        return None
    text = f"{named('container', containers)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", text)


def no_capabilities(pod: CheckedPod) -> Violation | None:
    """All are dropped; only to listen at a low port may be added again."""
    keeping = pod.containers_with(lambda context: "ALL" not in ((context.get("capabilities") or {}).get("drop") or ()))
    texts = [f'{named("container", keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if adding := adding_others(pod, ("NET_BIND_SERVICE",)):
        texts.append(adding)
    return Violation("unrestricted capabilities", "; ".join(texts)) if texts else None


def restricted_volumes(pod: CheckedPod) -> Violation | None:
    """Only volumes that come from the API, from a claim or from nowhere."""
    volumes = [volume for volume in pod.spec.get("volumes") or () if _ALLOWED_VOLUMES.isdisjoint(volume)]
    if not volumes:
        return None
    names = [volume.get("name", "") for volume in volumes]
    types = sorted({next((field for field in volume if field != "name"), "unknown") for volume in volumes})
    what = named("restricted volume type", types)
    return Violation("restricted volume types", f"{named('volume', names)} {use(names)} {what}")


def run_as_non_root(pod: CheckedPod) -> Violation | None:
    """The pod says so, or each of its containers, and nobody says otherwise."""

    def says_root(context: Obj) -> bool:
        return context.get("runAsNonRoot") is False

    if by_whom := setters(pod.containers_with(says_root), pod=says_root(pod.context)):
        return Violation(_NOT_ROOT, f"{by_whom} must not set securityContext.runAsNonRoot=false")
    if pod.context.get("runAsNonRoot"):
        return None
    if silent := pod.containers_with(lambda context: "runAsNonRoot" not in context):
        return Violation(_NOT_ROOT, f"pod or {named('container', silent)} must set securityContext.runAsNonRoot=true")
    return None


def run_as_user(pod: CheckedPod) -> Violation | None:
    def is_root(context: Obj) -> bool:
        return context.get("runAsUser") == 0

    by_whom = setters(pod.containers_with(is_root), pod=is_root(pod.context))
    return Violation("runAsUser=0", f"{by_whom} must not set runAsUser=0") if by_whom else None


def some_seccomp_profile(pod: CheckedPod) -> Violation | None:
    """A profile, of the pod or of each container, and no weaker one than the default."""
    if found := seccomp_profile(pod):
        return found
    if "seccompProfile" in pod.context:
        return None
    silent = pod.containers_with(lambda context: "seccompProfile" not in context)
    if not silent:
        return None
    text = f"pod or {named('container', silent)} must set securityContext.seccompProfile.type to "
    return Violation("seccompProfile", text + '"RuntimeDefault" or "Localhost"')
