"""Which fields of a pod this node does not honour: it refuses such a pod, and names the field.

What is listed is honoured, or means nothing to a node (the scheduler's). Everything else counts as a promise that would
be broken, also what Kubernetes will invent. A value that asks for nothing (false, empty) is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead.api.objects import Obj
from fairlead.node.admission import Refusal

UNSUPPORTED: Final = "UnsupportedField"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_POD: Final = _names("""
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks
    hostAliases hostIPC hostNetwork hostPID hostUsers hostname imagePullSecrets initContainers nodeName nodeSelector os
    overhead preemptionPolicy priority priorityClassName readinessGates resources restartPolicy schedulerName
    schedulingGates securityContext serviceAccount serviceAccountName subdomain terminationGracePeriodSeconds
    tolerations topologySpreadConstraints volumes
""")
_SECURITY_OF_POD: Final = _names("""
    fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seccompProfile supplementalGroups
""")
_CONTAINER: Final = _names("""
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy
    resources restartPolicy restartPolicyRules securityContext startupProbe stdin terminationMessagePath
    terminationMessagePolicy tty volumeMounts workingDir
""")
_SECURITY: Final = _names("""
    allowPrivilegeEscalation capabilities procMount readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser
    seccompProfile
""")
_MOUNT: Final = _names("mountPath mountPropagation name readOnly subPath")
_VOLUMES: Final = _names("""
    name configMap downwardAPI emptyDir ephemeral hostPath persistentVolumeClaim projected secret
""")
_PROJECTIONS: Final = _names("configMap downwardAPI secret serviceAccountToken")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def refusal(manifest: Obj) -> Refusal | None:
    """Why this node does not take the pod; None if it honours all that the pod says."""
    field = next(_unsupported(manifest["spec"]), "")
    return Refusal(UNSUPPORTED, f"{field} is not supported by this node") if field else None


def _unsupported(spec: Obj) -> Iterator[str]:
    yield from _others(spec, _POD, "spec")
    if spec.get("hostUsers") is False:
        yield "spec.hostUsers"
    security = spec.get("securityContext") or {}
    yield from _others(security, _SECURITY_OF_POD, "spec.securityContext")
    yield from _seccomp(security, "spec.securityContext")
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from _of_volume(volume, f"spec.volumes[{index}]")
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield from _of_container(container, f"spec.{kind}[{index}]")


def _of_container(container: Obj, path: str) -> Iterator[str]:
    yield from _others(container, _CONTAINER, path)
    security = container.get("securityContext") or {}
    yield from _others(security, _SECURITY, f"{path}.securityContext")
    yield from _seccomp(security, f"{path}.securityContext")
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        yield from _others(mount, _MOUNT, f"{path}.volumeMounts[{index}]")
    if (container.get("resources") or {}).get("claims"):
        yield f"{path}.resources.claims"
    for name in _PROBES:
        if (container.get(name) or {}).get("grpc"):
            yield f"{path}.{name}.grpc"
    if (container.get("lifecycle") or {}).get("stopSignal"):
        yield f"{path}.lifecycle.stopSignal"


def _of_volume(volume: Obj, path: str) -> Iterator[str]:
    yield from _others(volume, _VOLUMES, path)
    if (medium := (volume.get("emptyDir") or {}).get("medium")) not in (None, "", "Memory"):
        yield f"{path}.emptyDir.medium {medium}"
    for index, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
        yield from _others(source, _PROJECTIONS, f"{path}.projected.sources[{index}]")


def _seccomp(security: Obj, path: str) -> Iterator[str]:
    if (security.get("seccompProfile") or {}).get("type") == "Localhost":
        yield f"{path}.seccompProfile.type Localhost"


def _others(values: Mapping[str, Any], known: frozenset[str], path: str) -> Iterator[str]:
    for name, value in values.items():
        if name not in known and value not in (None, False, "", [], {}):
            yield f"{path}.{name}"
