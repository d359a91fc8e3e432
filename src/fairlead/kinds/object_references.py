"""Which other objects a pod or a volume names: whoever runs the pod has to read them.

Sources: pkg/api/v1/pod VisitPodSecretNames and VisitPodConfigmapNames, pkg/api/pod HasAPIObjectReference,
pkg/api/v1/persistentvolume VisitPVSecretNames, dynamic-resource-allocation/resourceclaim (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fairlead.api.objects import Obj, metadata

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
#: Volume sources of pods with a reference to a secret, and the path to its name.
_SECRETS_OF_VOLUMES: Final = {
    "secret": ("secretName",),
    "azureFile": ("secretName",),
    "cephfs": ("secretRef", "name"),
    "cinder": ("secretRef", "name"),
    "flexVolume": ("secretRef", "name"),
    "iscsi": ("secretRef", "name"),
    "rbd": ("secretRef", "name"),
    "scaleIO": ("secretRef", "name"),
    "storageos": ("secretRef", "name"),
    "csi": ("nodePublishSecretRef", "name"),
}
#: Sources of PersistentVolumes with references to secrets that the node needs. Where a reference names no namespace,
#: that of the claim is meant, but for the sources of `_NEVER_OF_THE_CLAIM`.
_SECRETS_OF_PERSISTENT_VOLUMES: Final = (
    ("cephfs", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("csi", "nodePublishSecretRef"),
    ("csi", "nodeStageSecretRef"),
    ("csi", "nodeExpandSecretRef"),
    ("cinder", "secretRef"),
    ("storageos", "secretRef"),
)
_NEVER_OF_THE_CLAIM: Final = frozenset(("csi", "cinder", "storageos"))
#: What a volume of a pod that its node makes itself must not be, and what it would lead to.
_API_VOLUMES: Final = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_API_PROJECTIONS: Final = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


class SecretName(NamedTuple):
    namespace: str
    name: str


def secret_names(spec: Obj) -> Iterator[str]:
    """The secrets that the spec of a pod names, in the pod's own namespace."""
    for reference in spec.get("imagePullSecrets") or ():
        yield reference.get("name", "")
    for container in _containers(spec):
        yield from _of_environment(container, "secretKeyRef", "secretRef")
    for volume in spec.get("volumes") or ():
        for source, found in volume.items():
            if (path := _SECRETS_OF_VOLUMES.get(source)) is not None and (name := _text(found, path)):
                yield name
        for projected in _projected(volume):
            if name := _text(projected, ("secret", "name")):
                yield name


def config_map_names(spec: Obj) -> Iterator[str]:
    """The ConfigMaps that the spec of a pod names."""
    for container in _containers(spec):
        yield from _of_environment(container, "configMapKeyRef", "configMapRef")
    for volume in spec.get("volumes") or ():
        for source in (volume, *_projected(volume)):
            if name := _text(source, ("configMap", "name")):
                yield name


def claim_names(pod: Obj) -> Iterator[str]:
    """The PersistentVolumeClaims of a pod, those that are made for its ephemeral volumes among them."""
    for volume in pod["spec"].get("volumes") or ():
        if name := claim_name(metadata(pod)["name"], volume):
            yield name


def claim_name(pod: str, volume: Obj) -> str:
    """The claim behind that volume of a pod of that name; "" if there is none."""
    if volume.get("ephemeral") is not None:
        return f"{pod}-{volume['name']}"
    return _text(volume, ("persistentVolumeClaim", "claimName"))


def resource_claim_names(pod: Obj) -> Iterator[str]:
    """The ResourceClaims of a pod, as far as those that are made for it exist already."""
    status = pod.get("status") or {}
    made = {entry.get("name"): entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
    for claim in pod["spec"].get("resourceClaims") or ():
        if name := claim.get("resourceClaimName") or made.get(claim.get("name")):
            yield name
    if name := _text(status, ("extendedResourceClaimStatus", "resourceClaimName")):
        yield name


def volume_secret_names(volume: Obj) -> Iterator[SecretName]:
    """The secrets that a node needs to mount this PersistentVolume, which has a claim."""
    spec = volume["spec"]
    own = _text(spec, ("claimRef", "namespace"))
    if name := _text(spec, ("azureFile", "secretName")):
        yield SecretName(_text(spec, ("azureFile", "secretNamespace")) or own, name)
    for path in _SECRETS_OF_PERSISTENT_VOLUMES:
        if name := _text(spec, (*path, "name")):
            namespace = _text(spec, (*path, "namespace"))
            yield SecretName(namespace if path[0] in _NEVER_OF_THE_CLAIM else namespace or own, name)


def api_reference(spec: Obj) -> str:
    """What other objects the spec of a pod leads to, if any, as refusals of mirror pods call it."""
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    for found, resource in ((secret_names(spec), "secrets"), (config_map_names(spec), "configmaps")):
        if next(found, None) is not None:
            return resource
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        for sources, known in ((volume, _API_VOLUMES), *((source, _API_PROJECTIONS) for source in _projected(volume))):
            if told := next((told for field, told in known.items() if sources.get(field) is not None), ""):
                return told
    return ""


def _containers(spec: Obj) -> Iterator[Obj]:
    for field in _CONTAINERS:
        yield from spec.get(field) or ()


def _projected(volume: Obj) -> list[Obj]:
    return (volume.get("projected") or {}).get("sources") or []


def _of_environment(container: Obj, of_variable: str, of_all: str) -> Iterator[str]:
    for variable in container.get("env") or ():
        if (source := variable.get("valueFrom")) and (reference := source.get(of_variable)) is not None:
            yield reference.get("name", "")
    for source in container.get("envFrom") or ():
        if (reference := source.get(of_all)) is not None:
            yield reference.get("name", "")


def _text(obj: object, path: tuple[str, ...]) -> str:
    found = obj
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""
