"""Volumes, claims on them, and the classes and drivers that provide them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fairlead.api.volumes import DEFAULT_CLASS_ANNOTATIONS, storage_class_of
from fairlead.server.tables.base import AGE, NAME, Column, Subject, count, field, printer
from fairlead.server.tables.text import NONE, UNSET

#: In the order in which they are shown.
_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: Iterable[str] | None) -> str:
    present = set(modes or ())
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in present)


def _class(it: Subject) -> str:
    return storage_class_of(it.obj) or ""


def _phase(it: Subject) -> str:
    return "Terminating" if it.is_deleted else str(it.status.get("phase", ""))


def _claim(volume: Subject) -> str:
    found = volume.spec.get("claimRef")
    return f"{found.get('namespace', '')}/{found.get('name', '')}" if found else ""


_VOLUME_MODE: Final = Column(
    "VolumeMode",
    field("spec", "volumeMode", default=UNSET),
    "Whether it is a file system or a block device.",
    priority=1,
)
_ATTRIBUTES_CLASS: Final = Column(
    "VolumeAttributesClass", field("spec", "volumeAttributesClassName", default=UNSET), "Its volume attributes class."
)

PERSISTENT_VOLUMES: Final = printer(
    NAME,
    Column("Capacity", field("spec", "capacity", "storage", default="0"), "How much it holds."),
    Column("Access Modes", lambda it: _modes(it.spec.get("accessModes")), "How it can be mounted."),
    Column("Reclaim Policy", field("spec", "persistentVolumeReclaimPolicy"), "What happens to it after its claim."),
    Column("Status", _phase, "Whether it is bound."),
    Column("Claim", _claim, "The claim that has it."),
    Column("StorageClass", _class, "Its storage class."),
    _ATTRIBUTES_CLASS,
    Column("Reason", field("status", "reason"), "Why it failed."),
    AGE,
    _VOLUME_MODE,
)


def _if_bound(claim: Subject, value: Any) -> Any:
    return value if claim.spec.get("volumeName") else ""


_CLAIM_CAPACITY: Final = field("status", "capacity", "storage", default="0")

PERSISTENT_VOLUME_CLAIMS: Final = printer(
    NAME,
    Column("Status", _phase, "Whether it is bound."),
    Column("Volume", field("spec", "volumeName"), "The volume that it has."),
    Column("Capacity", lambda it: _if_bound(it, _CLAIM_CAPACITY(it)), "How much the volume holds."),
    Column(
        "Access Modes",
        lambda it: _if_bound(it, _modes(it.status.get("accessModes"))),
        "How the volume can be mounted.",
    ),
    Column("StorageClass", _class, "Its storage class."),
    _ATTRIBUTES_CLASS,
    AGE,
    _VOLUME_MODE,
)

STORAGE_CLASSES: Final = printer(
    Column("Name", lambda it: it.marked_default(*DEFAULT_CLASS_ANNOTATIONS), NAME.description, format="name"),
    Column("Provisioner", field("provisioner"), "What makes its volumes."),
    Column("ReclaimPolicy", field("reclaimPolicy", default="Delete"), "What happens to volumes after their claims."),
    Column("VolumeBindingMode", field("volumeBindingMode", default="Immediate"), "When claims get their volumes."),
    Column("AllowVolumeExpansion", field("allowVolumeExpansion", default=False), "Whether claims may grow."),
    AGE,
)

VOLUME_ATTRIBUTES_CLASSES: Final = printer(
    NAME, Column("DriverName", field("driverName"), "The driver that knows the attributes."), AGE
)

VOLUME_ATTACHMENTS: Final = printer(
    NAME,
    Column("Attacher", field("spec", "attacher"), "The driver that attaches it.", format="name"),
    Column("PV", field("spec", "source", "persistentVolumeName"), "The volume."),
    Column("Node", field("spec", "nodeName"), "The node it is attached to."),
    Column("Attached", field("status", "attached", default=False), "Whether that is done.", type="boolean"),
    AGE,
)

CSI_NODES: Final = printer(
    NAME, Column("Drivers", count("spec", "drivers"), "How many drivers the node has.", type="integer"), AGE
)


def _flag(name: str, key: str, description: str, *, default: bool) -> Column:
    return Column(name, field("spec", key, default=default), description, type="boolean")


def _token_audiences(driver: Subject) -> str:
    requests = driver.spec.get("tokenRequests")
    return UNSET if requests is None else ",".join(request.get("audience", "") for request in requests)


CSI_DRIVERS: Final = printer(
    NAME,
    _flag("AttachRequired", "attachRequired", "Whether volumes are attached before they are mounted.", default=True),
    _flag("PodInfoOnMount", "podInfoOnMount", "Whether it is told about the pod.", default=False),
    _flag("StorageCapacity", "storageCapacity", "Whether the scheduler looks at its capacity.", default=False),
    Column("TokenRequests", _token_audiences, "Audiences of the tokens it is given."),
    _flag("RequiresRepublish", "requiresRepublish", "Whether it is called again and again.", default=False),
    Column("Modes", lambda it: ",".join(it.spec.get("volumeLifecycleModes") or ()) or NONE, "Lifecycles it supports."),
    AGE,
)

CSI_STORAGE_CAPACITIES: Final = printer(
    NAME,
    Column("StorageClassName", field("storageClassName"), "The storage class it is about."),
    Column("Capacity", field("capacity", default=UNSET), "How much is left."),
)
