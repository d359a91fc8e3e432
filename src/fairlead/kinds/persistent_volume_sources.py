"""Where the storage of a PersistentVolume comes from: one rule for each of its sources, of which it has one.

Most are the rules of a pod's own volumes. A volume belongs to no namespace, so its secrets are named with theirs; and
some paths and texts differ for no reason. Source: `ValidatePersistentVolumeSpec` of pkg/apis/core/validation and what
it calls (1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.podspec import volume_sources as pods
from fairlead.kinds.podspec.paths import validate_no_backsteps
from fairlead.kinds.rules import check, validate_driver_name

Rule = Callable[[Obj, str, Errors], None]

_ISCSI_MAX: Final = 64
_ISCSI_TOO_LONG: Final = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)
_CSI_SECRETS: Final = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)


def _require_secret(source: Obj, path: str, errors: Errors, *fields: str) -> None:
    if (secret := source.get("secretRef")) is not None:
        pods.require(secret, f"{path}.secretRef", errors, *fields)


def _glusterfs(source: Obj, path: str, errors: Errors) -> None:
    pods.glusterfs(source, path, errors)
    namespace = source.get("endpointsNamespace")
    if namespace == "":
        text = "if the endpointnamespace is set, it must be a valid namespace name"
        errors.invalid(f"{path}.endpointsNamespace", namespace, text)
    elif namespace is not None:
        check(errors, f"{path}.endpointsNamespace", namespace, names.dns1123_label)


def _iscsi(name: str, source: Obj, path: str, errors: Errors) -> None:
    portal, initiator = source.get("targetPortal", ""), source.get("initiatorName")
    pods.require(source, path, errors, "targetPortal")
    if initiator is not None and len(f"{name}:{portal}") > _ISCSI_MAX:
        errors.invalid(f"{path}.targetportal", portal, _ISCSI_TOO_LONG)
    if iqn := source.get("iqn"):
        _check_iscsi_name(iqn, f"{path}.iqn", errors)
    else:
        errors.required(f"{path}.iqn")
    check(errors, f"{path}.lun", source.get("lun", 0), lambda number: names.in_range(number, 0, 255))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.required(f"{path}.secretRef")
    _require_secret(source, path, errors, "name")
    if initiator is not None:
        _check_iscsi_name(initiator, f"{path}.initiatorname", errors)


def _check_iscsi_name(name: str, path: str, errors: Errors) -> None:
    shape = pods.ISCSI_NAMES.get(name[:3])
    if shape is None or not shape.search(name):
        errors.invalid(path, name, "must be valid format")


def _cinder(source: Obj, path: str, errors: Errors) -> None:
    pods.require(source, path, errors, "volumeID")
    _require_secret(source, path, errors, "name", "namespace")


def _azure_file(source: Obj, path: str, errors: Errors) -> None:
    pods.azure_file(source, path, errors)
    if source.get("secretNamespace") == "":
        errors.required(f"{path}.secretNamespace")


def _local(source: Obj, path: str, errors: Errors) -> None:
    if where := source.get("path"):
        validate_no_backsteps(where, f"{path}.path", errors)
    else:
        errors.required(f"{path}.path")


def _storage_os(source: Obj, path: str, errors: Errors) -> None:
    pods.storage_os({key: value for key, value in source.items() if key != "secretRef"}, path, errors)
    _require_secret(source, path, errors, "name", "namespace")


def _csi(source: Obj, path: str, errors: Errors) -> None:
    validate_driver_name(source.get("driver", ""), f"{path}.driver", errors)
    pods.require(source, path, errors, "volumeHandle")
    for field in _CSI_SECRETS:
        if (secret := source.get(field)) is not None:
            _check_secret(secret, f"{path}.{field}", errors)


def _check_secret(secret: Obj, path: str, errors: Errors) -> None:
    for field, rule in (("name", names.dns1123_subdomain), ("namespace", names.dns1123_label)):
        if value := secret.get(field):
            check(errors, f"{path}.{field}", value, rule)
        else:
            errors.required(f"{path}.{field}")


class Source(NamedTuple):
    """A field of the spec and its rule, in the order in which they are looked at."""

    field: str
    rule: Rule
    #: What paths call the field, where that is not its name: within the rule, and where it is one too many.
    inside: str = ""
    as_second: str = ""


_SOURCES: Final = (
    Source("hostPath", pods.host_path),
    Source("gcePersistentDisk", pods.gce_disk, inside="persistentDisk"),
    Source("awsElasticBlockStore", pods.aws_disk),
    Source("glusterfs", _glusterfs),
    Source("flocker", pods.flocker),
    Source("nfs", pods.nfs),
    Source("rbd", pods.rbd),
    Source("quobyte", pods.quobyte),
    Source("cephfs", pods.cephfs, as_second="cephFS"),
    Source("iscsi", partial(_iscsi, "")),
    Source("cinder", _cinder),
    Source("fc", pods.fibre_channel),
    Source("flexVolume", pods.flex),
    Source("azureFile", _azure_file),
    Source("vsphereVolume", pods.vsphere),
    Source("photonPersistentDisk", pods.photon),
    Source("portworxVolume", pods.portworx),
    Source("azureDisk", pods.azure_disk),
    Source("scaleIO", pods.scale_io),
    Source("local", _local),
    Source("storageos", _storage_os),
    Source("csi", _csi),
)


def sources_of(spec: Obj) -> Obj:
    """What the spec says of where its storage is."""
    return {source.field: spec[source.field] for source in _SOURCES if spec.get(source.field) is not None}


def validate_sources(spec: Obj, name: str, path: str, errors: Errors) -> None:
    """There is one source, and nothing is wrong with it; `name` is that of the volume."""
    count = 0
    for source in _SOURCES:
        if (given := spec.get(source.field)) is None:
            continue
        if count and source.field != "flexVolume":  # which upstream forgot to ask
            errors.forbidden(f"{path}.{source.as_second or source.field}", "may not specify more than 1 volume type")
            continue
        count += 1
        rule = partial(_iscsi, name) if source.field == "iscsi" else source.rule
        rule(given, f"{path}.{source.inside or source.field}", errors)
        if source.field == "local" and spec.get("nodeAffinity") is None:
            errors.required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    if not count:
        errors.required(path, "must specify a volume type")
