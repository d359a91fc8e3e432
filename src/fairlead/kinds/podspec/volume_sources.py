"""The rules of the ordinary volume sources, one function each (ValidateVolumes and what it calls)."""

from __future__ import annotations

import re

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_label, dns1123_subdomain, in_range
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.kinds.podspec.paths import validate_descending_path, validate_no_backsteps
from fairlead.kinds.rules import check, validate_driver_name

PULL_POLICIES = frozenset({"Always", "IfNotPresent", "Never"})

_HOST_PATH_TYPES = frozenset(
    {"", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"}
)
ISCSI_NAMES = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"^eui.[a-zA-Z0-9]{16}$"),
    "naa": re.compile(r"^naa.[a-zA-Z0-9]{32}$"),
}
_AZURE_CACHING = frozenset({"None", "ReadOnly", "ReadWrite"})
_AZURE_KINDS = frozenset({"Shared", "Dedicated", "Managed"})
_AZURE_MANAGED_URI = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_AZURE_BLOB_URI = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_RESERVED_DOMAINS = (".kubernetes.io", ".k8s.io")
_HOST_PORTS = "must be a host:port pair or multiple pairs separated by commas"


def require(source: Obj, path: str, errors: Errors, *fields: str) -> None:
    """Complain about each of the fields that is missing or empty."""
    for field in fields:
        if not source.get(field):
            errors.required(f"{path}.{field}")


def _require_secret_name(source: Obj, path: str, errors: Errors) -> None:
    if "secretRef" in source:
        require(source["secretRef"], f"{path}.secretRef", errors, "name")


def _lun(number: int) -> list[str]:
    return in_range(number, 0, 255)


def empty_dir(source: Obj, path: str, errors: Errors) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and parse(limit).nanos < 0:
        errors.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def host_path(source: Obj, path: str, errors: Errors) -> None:
    if not source.get("path"):
        return errors.required(f"{path}.path")
    validate_no_backsteps(source["path"], f"{path}.path", errors)
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.not_supported(f"{path}.type", kind, _HOST_PATH_TYPES)
    return None


def git_repo(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "repository")
    validate_descending_path(source.get("directory", ""), f"{path}.directory", errors)


def _disk(source: Obj, name_field: str, path: str, errors: Errors) -> None:
    require(source, path, errors, name_field)
    partition = source.get("partition", 0)
    if not 0 <= partition <= 255:
        errors.invalid(f"{path}.partition", partition, "must be between 1 and 255, inclusive")


def gce_disk(source: Obj, path: str, errors: Errors) -> None:
    _disk(source, "pdName", path, errors)


def aws_disk(source: Obj, path: str, errors: Errors) -> None:
    _disk(source, "volumeID", path, errors)


def nfs(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "server", "path")
    if not source.get("path", "").startswith("/"):
        errors.invalid(f"{path}.path", source.get("path", ""), "must be an absolute path")


def iscsi(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "targetPortal", "iqn")
    if name := source.get("iqn"):
        _check_iscsi_name(name, f"{path}.iqn", errors)
    lun = source.get("lun", 0)
    check(errors, f"{path}.lun", lun, _lun)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.required(f"{path}.secretRef")
    if "initiatorName" in source:
        _check_iscsi_name(source["initiatorName"], f"{path}.initiatorname", errors)


def _check_iscsi_name(name: str, path: str, errors: Errors) -> None:
    shape = ISCSI_NAMES.get(name[:3])
    if shape is None:
        errors.invalid(path, name, "must be valid format starting with iqn, eui, or naa")
    elif not shape.search(name):
        errors.invalid(path, name, "must be valid format")


def glusterfs(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "endpoints", "path")


def flocker(source: Obj, path: str, errors: Errors) -> None:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uuid:
        errors.required(path, "one of datasetName and datasetUUID is required")
    if name and uuid:
        errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        errors.invalid(f"{path}.datasetName", name, "must not contain '/'")


def claim(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "claimName")


def rbd(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "monitors", "image")


def cinder(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "volumeID")
    _require_secret_name(source, path, errors)


def cephfs(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "monitors")


def quobyte(source: Obj, path: str, errors: Errors) -> None:
    registry = source.get("registry", "")
    if not registry:
        errors.required(f"{path}.registry", _HOST_PORTS)
    elif len(source.get("tenant", "")) >= 65:
        errors.required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        for pair in registry.split(","):
            if not re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*", pair):
                errors.invalid(f"{path}.registry", registry, _HOST_PORTS)
    require(source, path, errors, "volume")


def fibre_channel(source: Obj, path: str, errors: Errors) -> None:
    names, ids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    if not names and not ids:
        errors.required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if names and ids:
        errors.invalid(f"{path}.targetWWNs", names, "targetWWNs and wwids can not be specified simultaneously")
    if not names:
        return
    if lun is None:
        errors.required(f"{path}.lun", "lun is required if targetWWNs is specified")
    else:
        check(errors, f"{path}.lun", lun, _lun)


def flex(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "driver")
    for key in source.get("options") or ():
        if f".{key.partition('/')[0].lower()}".endswith(_RESERVED_DOMAINS):
            errors.invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved")


def azure_file(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "secretName", "shareName")


def azure_disk(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "diskName", "diskURI")
    caching, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI", "")
    if caching is not None and caching not in _AZURE_CACHING:
        errors.not_supported(f"{path}.cachingMode", caching, _AZURE_CACHING)
    if kind is not None and kind not in _AZURE_KINDS:
        errors.not_supported(f"{path}.kind", kind, _AZURE_KINDS)
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.not_supported(f"{path}.diskURI", uri, [_AZURE_MANAGED_URI])
    if kind is not None and kind != "Managed" and not uri.startswith("https://"):
        errors.not_supported(f"{path}.diskURI", uri, [_AZURE_BLOB_URI])


def vsphere(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "volumePath")


def photon(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "pdID")


def portworx(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "volumeID")


def storage_os(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "volumeName")
    for field in ("volumeName", "volumeNamespace"):
        if name := source.get(field):
            check(errors, f"{path}.{field}", name, dns1123_label)
    _require_secret_name(source, path, errors)


def scale_io(source: Obj, path: str, errors: Errors) -> None:
    require(source, path, errors, "gateway", "system", "volumeName")


def csi(source: Obj, path: str, errors: Errors) -> None:
    validate_driver_name(source.get("driver", ""), f"{path}.driver", errors)
    if (secret := source.get("nodePublishSecretRef")) is not None:
        if name := secret.get("name"):
            check(errors, f"{path}.name", name, dns1123_subdomain)
        else:
            errors.required(f"{path}.nodePublishSecretRef.name")


def image(source: Obj, path: str, errors: Errors) -> None:
    """An image as a volume, in a pod: somebody must have said which by now."""
    require(source, path, errors, "reference")
    image_in_template(source, path, errors)


def image_in_template(source: Obj, path: str, errors: Errors) -> None:
    validate_pull_policy(source.get("pullPolicy", ""), f"{path}.pullPolicy", errors)


def validate_pull_policy(policy: str, path: str, errors: Errors) -> None:
    if not policy:
        errors.required(path)
    elif policy not in PULL_POLICIES:
        errors.not_supported(path, policy, PULL_POLICIES)
