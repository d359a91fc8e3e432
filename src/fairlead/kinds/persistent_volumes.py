"""PersistentVolume: a piece of storage, whether or not somebody claims it.

Sources: `ValidatePersistentVolume*` of pkg/apis/core/validation, pkg/apis/core/v1/zz_generated.defaults,
pkg/registry/core/persistentvolume, pkg/api/persistentvolume, pkg/volume/validation (1.36).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.quantity import ZERO, parse
from fairlead.api.volumes import CLASS_ANNOTATION
from fairlead.kinds.persistent_volume_sources import sources_of, validate_sources
from fairlead.kinds.podspec.affinity import validate_node_selector
from fairlead.kinds.podspec.claim_template import ACCESS_MODES, VOLUME_MODES
from fairlead.kinds.podspec.differences import difference
from fairlead.kinds.podspec.volume_defaults import default_volume
from fairlead.kinds.podspec.warnings import DEPRECATED_VOLUMES, node_selector_warnings
from fairlead.kinds.podspec_form import struct_form
from fairlead.kinds.resource_names import in_order, round_up, validate_basic_amount
from fairlead.kinds.rules import IMMUTABLE, check, is_same, validate_unchanged
from fairlead.kinds.strategy import MetaCheck, Strategy
from fairlead.runtime.clock import timestamp

RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
MOUNT_OPTIONS: Final = "volume.beta.kubernetes.io/mount-options"

_INLINE: Final = "in the context of inline volumes"
_SOURCE_IS_FIXED: Final = "spec.persistentvolumesource is immutable after creation"
_RECYCLE_IS_OLD: Final = (
    "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
)
_OLD_ANNOTATIONS: Final[Mapping[str, str]] = {
    CLASS_ANNOTATION: 'deprecated since v1.8; use "storageClassName" attribute instead',
    MOUNT_OPTIONS: 'deprecated since v1.31; use "mountOptions" attribute instead',
}
#: The sources of which it is said, in this order, what became of them; of flocker and quobyte it is not.
_OLD_SOURCES: Final = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")
#: The sources that ever took mount options from an annotation.
_MOUNTED_WITH_OPTIONS: Final = frozenset(
    {
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    }
)
#: Node labels of old and what they are called today.
_TODAY: Final[Mapping[str, str]] = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


class PersistentVolumeStrategy(Strategy):
    meta_checks = (MetaCheck.WHOLE, MetaCheck.WHOLE)
    returns_deleted = True
    has_status = True

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        obj["status"].setdefault("phase", "Pending")
        if not spec.get("persistentVolumeReclaimPolicy"):
            spec["persistentVolumeReclaimPolicy"] = "Retain"
        spec.setdefault("volumeMode", "Filesystem")
        default_volume(sources_of(spec))
        round_up(spec.get("capacity"))

    def prepare_create(self, obj: Obj) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": metadata(obj)["creationTimestamp"]}

    def prepare_status(self, obj: Obj, old: Obj) -> None:
        """When the phase changed, unless the client knows better."""
        status, was = obj.setdefault("status", {}), old.get("status") or {}
        then = was.get("lastPhaseTransitionTime")
        if status.get("phase") == was.get("phase"):
            if status.get("lastPhaseTransitionTime") is None and then is not None:
                status["lastPhaseTransitionTime"] = then
        elif status.get("lastPhaseTransitionTime") in (None, then):
            status["lastPhaseTransitionTime"] = timestamp()

    def validate(self, obj: Obj, errors: Errors) -> None:
        _validate_spec(obj["spec"], name_of(obj), errors)
        _validate_mount_options(obj, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """Upstream validates the new object and then the change, so every error is reported twice."""
        self.validate(obj, errors)
        spec, was = obj["spec"], old["spec"]
        _validate_spec(spec, name_of(obj), errors)
        _validate_same_source(spec, was, errors)
        validate_unchanged(spec.get("volumeMode"), was.get("volumeMode"), "volumeMode", errors)
        _validate_same_affinity(spec.get("nodeAffinity"), was.get("nodeAffinity"), errors)
        if was.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
            errors.forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        spec, annotations = obj["spec"], metadata(obj).get("annotations") or {}
        warnings = [
            f"metadata.annotations[{key}]: {text}" for key, text in _OLD_ANNOTATIONS.items() if key in annotations
        ]
        if spec["persistentVolumeReclaimPolicy"] == "Recycle":
            warnings.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLE_IS_OLD}")
        required = (spec.get("nodeAffinity") or {}).get("required") or {}
        warnings += node_selector_warnings(required, "spec.nodeAffinity.required")
        given = sources_of(spec)
        deprecated = (DEPRECATED_VOLUMES[kind] for kind in _OLD_SOURCES if kind in given)
        return warnings + [f"spec.{shown}: {text}" for shown, text in deprecated]


def _validate_spec(spec: Obj, name: str, errors: Errors) -> None:
    _validate_access_modes(spec.get("accessModes") or [], "spec.accessModes", errors)
    _validate_capacity(spec.get("capacity") or {}, errors)
    policy = spec["persistentVolumeReclaimPolicy"]
    if policy not in RECLAIM_POLICIES:
        errors.not_supported("spec.persistentVolumeReclaimPolicy", policy, RECLAIM_POLICIES)
    if (affinity := spec.get("nodeAffinity")) is not None:
        if (required := affinity.get("required")) is not None:
            validate_node_selector(required, "spec.nodeAffinity.required", errors)
        else:
            errors.required("spec.nodeAffinity.required", "must specify required node constraints")
    validate_sources(spec, name, "spec", errors)
    host_path = (spec.get("hostPath") or {}).get("path", "")
    if host_path.startswith("/") and not posixpath.normpath(host_path).strip("/") and policy == "Recycle":
        errors.forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
    if storage_class := spec.get("storageClassName"):
        check(errors, "spec.storageClassName", storage_class, names.dns1123_subdomain)
    if spec["volumeMode"] not in VOLUME_MODES:
        errors.not_supported("spec.volumeMode", spec["volumeMode"], VOLUME_MODES)
    if (attributes_class := spec.get("volumeAttributesClassName")) is not None:
        _validate_attributes_class(attributes_class, spec, errors)


def validate_inline_spec(spec: Obj, path: str, errors: Errors) -> None:
    """Of a volume without an object of its own: nothing but what its CSI driver needs to attach it."""
    for field in ("claimRef", "capacity"):
        if spec.get(field):
            errors.forbidden(f"{path}.{field}", f"may not be specified {_INLINE}")
    if spec.get("csi") is None:
        errors.required(f"{path}.csi", f"has to be specified {_INLINE}")
    _validate_access_modes(spec.get("accessModes") or [], f"{path}.accessModes", errors)
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        errors.forbidden(f"{path}.persistentVolumeReclaimPolicy", f"may only be Retain {_INLINE}")
    if spec.get("nodeAffinity") is not None:
        errors.forbidden(f"{path}.nodeAffinity", f"may not be specified {_INLINE}")
    validate_sources(spec, "", path, errors)
    if spec.get("storageClassName"):
        errors.forbidden(f"{path}.storageClassName", f"may not be specified {_INLINE}")
    if spec.get("volumeMode") not in (None, "Filesystem"):
        errors.forbidden(f"{path}.volumeMode", f"may not specify volumeMode other than Filesystem {_INLINE}")


def _validate_access_modes(modes: list[str], path: str, errors: Errors) -> None:
    if not modes:
        errors.required(path)
    for mode in modes:
        if mode not in ACCESS_MODES:
            errors.not_supported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode != "ReadWriteOncePod" and mode in ACCESS_MODES for mode in modes):
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _validate_capacity(capacity: Mapping[str, str], errors: Errors) -> None:
    if not capacity:
        errors.required("spec.capacity")
    if set(capacity) != {"storage"}:
        errors.not_supported("spec.capacity", dict(sorted(capacity.items())) or None, ("storage",))
    for name, amount in in_order(capacity):
        validate_basic_amount(amount, f"spec.capacity[{name}]", errors)
        if parse(amount) <= ZERO:
            errors.invalid(f"spec.capacity[{name}]", amount, "must be greater than zero")


def _validate_attributes_class(name: str, spec: Obj, errors: Errors) -> None:
    if name:
        check(errors, "spec.volumeAttributesClassName", name, names.dns1123_subdomain)
    else:
        errors.required("spec.volumeAttributesClassName", "an empty string is disallowed")
    if spec.get("csi") is None:
        errors.required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _validate_mount_options(obj: Obj, errors: Errors) -> None:
    if MOUNT_OPTIONS in (metadata(obj).get("annotations") or {}) and not _MOUNTED_WITH_OPTIONS & set(obj["spec"]):
        path = f"metadata.annotations.{MOUNT_OPTIONS}"
        errors.forbidden(path, "may not specify mount options for this volume type")


def _validate_same_source(spec: Obj, was: Obj, errors: Errors) -> None:
    new, old = sources_of(spec), sources_of(was)
    if old.get("csi") and old["csi"].get("controllerExpandSecretRef") is None and "csi" in new:
        # A driver that can expand volumes may come later.
        new["csi"] = {key: value for key, value in new["csi"].items() if key != "controllerExpandSecretRef"}
    if new != old:
        forms = (struct_form("PersistentVolumeSource", sources) for sources in (old, new))
        errors.forbidden("spec.persistentvolumesource", f"{_SOURCE_IS_FIXED}\n{difference(*forms)}")


def _validate_same_affinity(affinity: Obj | None, was: Obj | None, errors: Errors) -> None:
    """Once there, it stays (MutablePVNodeAffinity is off); only labels of old may take the name of today."""
    if was is None or is_same(affinity, _renamed(was, affinity)):
        return
    shown = None
    if affinity is not None:
        required = affinity.get("required")
        shown = {"Required": required and struct_form("NodeSelector", required)}
    errors.invalid("nodeAffinity", shown, f"{IMMUTABLE}, except for updating from beta label to GA")


def _renamed(old: Any, new: Any) -> Any:
    """The old affinity with the labels of today, wherever the new one has them in the same place.

    Where it has none, that counts as the name of today for all that need no other (as upstream).
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return {
            key: new[key] if key == "key" and _TODAY.get(value, "") == new.get(key) else _renamed(value, new.get(key))
            for key, value in old.items()
        }
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_renamed(old_item, new_item) for old_item, new_item in zip(old, new, strict=True)]
    return old
