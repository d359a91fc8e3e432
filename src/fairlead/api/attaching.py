"""Which volumes are attached to a node before its pods can have them, and what that is called.

Only volumes of CSI drivers are. Sources: CanAttach and getAttachmentName of pkg/volume/csi, IsMultiAttachAllowed of
pkg/controller/volume/attachdetach/util (1.36).
"""

from __future__ import annotations

import hashlib
from typing import Final

from fairlead.api.attachments import CSIDriver
from fairlead.api.claims import CsiSource, PersistentVolume, PersistentVolumeClaim

_PLUGIN: Final = "kubernetes.io/csi/"
_SEPARATOR: Final = "^"
_ON_SEVERAL: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def unique_name(source: CsiSource) -> str:
    """How the status of a node calls a volume."""
    return f"{_PLUGIN}{source.driver}{_SEPARATOR}{source.volume_handle}"


def attachment_name(source: CsiSource, node: str) -> str:
    """How the VolumeAttachment of a volume and a node is called."""
    digest = hashlib.sha256(f"{source.volume_handle}{source.driver}{node}".encode())
    return f"csi-{digest.hexdigest()}"


def attachment_of(name: str, node: str) -> str:
    """The same, of a volume as the status of the node calls it; empty for one of another sort."""
    driver, _, handle = name.removeprefix(_PLUGIN).partition(_SEPARATOR)
    return attachment_name(CsiSource(driver=driver, volume_handle=handle), node) if name.startswith(_PLUGIN) else ""


def is_attached_by(driver: CSIDriver | None) -> bool:
    """Whether volumes of a driver are attached: unless it says otherwise, also of one that nobody has told of."""
    return driver is None or driver.spec.attach_required is not False


def may_be_on_several_nodes(volume: PersistentVolume) -> bool:
    """A volume without access modes is for its driver to judge."""
    modes = volume.spec.access_modes
    return not modes or not _ON_SEVERAL.isdisjoint(modes)


def belong_together(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the volume that a claim names is its own."""
    ref = volume.spec.claim_ref
    return ref is not None and ref.uid == claim.metadata.uid
