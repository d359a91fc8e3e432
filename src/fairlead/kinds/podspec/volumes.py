"""The volumes of a pod: one faultless name and one source each.

What the sources say inside is checked in `volume_sources` (ordinary ones) and `projected` (files made from objects).
Upstream looks at the sources in a fixed order; of several the first is checked and the others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_label, dns1123_subdomain
from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.kinds.podspec import projected, volume_sources
from fairlead.kinds.podspec.claim_template import validate_ephemeral
from fairlead.kinds.rules import check

SourceRule = Callable[[Obj, str, Errors], None]

#: (field, its name where it is one too many, its name in the errors below it, the rules), in upstream's order.
_SOURCES: tuple[tuple[str, str, str, SourceRule], ...] = (
    ("emptyDir", "emptyDir", "emptyDir", volume_sources.empty_dir),
    ("hostPath", "hostPath", "hostPath", volume_sources.host_path),
    ("gitRepo", "gitRepo", "gitRepo", volume_sources.git_repo),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", volume_sources.gce_disk),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", volume_sources.aws_disk),
    ("secret", "secret", "secret", projected.secret),
    ("nfs", "nfs", "nfs", volume_sources.nfs),
    ("iscsi", "iscsi", "iscsi", volume_sources.iscsi),
    ("glusterfs", "glusterfs", "glusterfs", volume_sources.glusterfs),
    ("flocker", "flocker", "flocker", volume_sources.flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", volume_sources.claim),
    ("rbd", "rbd", "rbd", volume_sources.rbd),
    ("cinder", "cinder", "cinder", volume_sources.cinder),
    ("cephfs", "cephFS", "cephfs", volume_sources.cephfs),
    ("quobyte", "quobyte", "quobyte", volume_sources.quobyte),
    ("downwardAPI", "downwarAPI", "downwardAPI", projected.downward),
    ("fc", "fc", "fc", volume_sources.fibre_channel),
    ("flexVolume", "flexVolume", "flexVolume", volume_sources.flex),
    ("configMap", "configMap", "configMap", projected.config_map),
    ("azureFile", "azureFile", "azureFile", volume_sources.azure_file),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", volume_sources.vsphere),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", volume_sources.photon),
    ("portworxVolume", "portworxVolume", "portworxVolume", volume_sources.portworx),
    ("azureDisk", "azureDisk", "azureDisk", volume_sources.azure_disk),
    ("storageos", "storageos", "storageos", volume_sources.storage_os),
    ("projected", "projected", "projected", projected.projected),
    ("scaleIO", "scaleIO", "scaleIO", volume_sources.scale_io),
    ("csi", "csi", "csi", volume_sources.csi),
    ("ephemeral", "ephemeral", "ephemeral", validate_ephemeral),
    ("image", "image", "image", volume_sources.image),
)
_RULES = {field: (surplus, here, rule) for field, surplus, here, rule in _SOURCES}
_ORDER = {field: i for i, (field, *_) in enumerate(_SOURCES)}

_ISCSI_TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)


def validate_volumes(
    volumes: Iterable[Obj], pod_name: str, path: str, errors: Errors, *, is_pod: bool
) -> dict[str, Obj]:
    """Check all volumes; returns the faultless ones by name. `pod_name` is empty where it is not known."""
    faultless: dict[str, Obj] = {}
    created = {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if pod_name and "ephemeral" in volume}
    for i, volume in enumerate(volumes):
        before = errors.added
        name = volume.get("name", "")
        _validate_source(volume, name, pod_name, f"{path}[{i}]", errors, is_pod=is_pod)
        if name:
            check(errors, f"{path}[{i}].name", name, dns1123_label)
        else:
            errors.required(f"{path}[{i}].name")
        if name in faultless:
            errors.duplicate(f"{path}[{i}].name", name)
        if errors.added == before:
            faultless[name] = volume
        if created:
            _validate_claim_is_not_created(volume, created, f"{path}[{i}]", errors)
    return faultless


def _validate_source(volume: Obj, name: str, pod_name: str, path: str, errors: Errors, *, is_pod: bool) -> None:
    kinds = [kind for kind in volume if kind in _RULES]
    if len(kinds) > 1:
        kinds.sort(key=_ORDER.__getitem__)
    for i, kind in enumerate(kinds):
        surplus, here, rule = _RULES[kind]
        if i:
            errors.forbidden(f"{path}.{surplus}", "may not specify more than 1 volume type")
        elif kind == "image" and not is_pod:
            volume_sources.image_in_template(volume[kind], f"{path}.image", errors)
        else:
            rule(volume[kind], f"{path}.{here}", errors)
            if kind == "ephemeral" and pod_name and name:
                _validate_created_claim_name(f"{pod_name}-{name}", name, path, errors)
    if "iscsi" in volume:
        _validate_iscsi_name(volume["iscsi"], name, path, errors)
    if not kinds:
        errors.required(path, "must specify a volume type")


def _validate_created_claim_name(claim: str, name: str, path: str, errors: Errors) -> None:
    for text in dns1123_subdomain(claim):
        errors.invalid(f"{path}.name", name, f"PVC name {go_quote(claim)}: {text}")


def _validate_iscsi_name(source: Obj, name: str, path: str, errors: Errors) -> None:
    if "initiatorName" in source and len(f"{name}:{source.get('targetPortal', '')}") > 64:
        errors.invalid(f"{path}.name", name, _ISCSI_TOO_LONG)


def _validate_claim_is_not_created(volume: Obj, created: set[str], path: str, errors: Errors) -> None:
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
    if claim in created:
        errors.invalid(
            f"{path}.persistentVolumeClaim.claimName",
            claim,
            "must not reference a PVC that gets created for an ephemeral volume",
        )
