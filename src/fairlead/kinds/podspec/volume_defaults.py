"""What a volume says where its author said nothing (SetDefaults_Volume and what it contains)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead.api.objects import Obj
from fairlead.kinds.podspec.images import default_pull_policy
from fairlead.kinds.resource_names import round_up

_READABLE_BY_ALL = 0o644


def default_volume(volume: Obj) -> None:
    """A volume without a source is an empty directory."""
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
        return
    for kind, source in volume.items():
        if (fill := _FILL.get(kind)) is not None:
            fill(source)


def default_downward_items(items: list[Obj]) -> None:
    for item in items:
        if (field := item.get("fieldRef")) is not None:
            field.setdefault("apiVersion", "v1")
        if (resource := item.get("resourceFieldRef")) is not None:
            resource.setdefault("divisor", "0")


def _mode(source: Obj) -> None:
    source.setdefault("defaultMode", _READABLE_BY_ALL)


def _downward(source: Obj) -> None:
    _mode(source)
    default_downward_items(source.get("items") or [])


def _projected(source: Obj) -> None:
    _mode(source)
    for projection in source.get("sources") or ():
        if (token := projection.get("serviceAccountToken")) is not None:
            token.setdefault("expirationSeconds", 3600)
        if (downward := projection.get("downwardAPI")) is not None:
            default_downward_items(downward.get("items") or [])


def _host_path(source: Obj) -> None:
    source.setdefault("type", "")


def _image(source: Obj) -> None:
    source.setdefault("pullPolicy", default_pull_policy(source.get("reference", "")))


def _ephemeral(source: Obj) -> None:
    if (template := source.get("volumeClaimTemplate")) is not None:
        template.setdefault("metadata", {})
        default_claim_spec(template.setdefault("spec", {}))


def default_claim_spec(spec: Obj) -> None:
    """SetDefaults_PersistentVolumeClaimSpec."""
    resources = spec.setdefault("resources", {})
    round_up(resources.get("limits"))
    round_up(resources.get("requests"))
    spec.setdefault("volumeMode", "Filesystem")


def _iscsi(source: Obj) -> None:
    source.setdefault("iscsiInterface", "default")


def _rbd(source: Obj) -> None:
    source.setdefault("pool", "rbd")
    source.setdefault("user", "admin")
    source.setdefault("keyring", "/etc/ceph/keyring")


def _azure_disk(source: Obj) -> None:
    source.setdefault("cachingMode", "ReadWrite")
    source.setdefault("kind", "Shared")
    source.setdefault("fsType", "ext4")
    source.setdefault("readOnly", False)


def _scale_io(source: Obj) -> None:
    source.setdefault("storageMode", "ThinProvisioned")
    source.setdefault("fsType", "xfs")


_FILL: Mapping[str, Callable[[Obj], None]] = {
    "secret": _mode,
    "configMap": _mode,
    "downwardAPI": _downward,
    "projected": _projected,
    "hostPath": _host_path,
    "image": _image,
    "ephemeral": _ephemeral,
    "iscsi": _iscsi,
    "rbd": _rbd,
    "azureDisk": _azure_disk,
    "scaleIO": _scale_io,
}
