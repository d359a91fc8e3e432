"""The CSINode that a kubelet makes of its node when it starts: no driver has registered with it yet.

Source: pkg/volume/csi/nodeinfomanager (1.36).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from fairlead.api.builtin import CSI_NODES, NODES
from fairlead.api.errors import AlreadyExists
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api

#: The kinds of volumes whose place CSI drivers have taken.
_MIGRATED: Final = (
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/azure-file",
    "kubernetes.io/cinder",
    "kubernetes.io/gce-pd",
    "kubernetes.io/portworx-volume",
    "kubernetes.io/vsphere-volume",
)
_ANNOTATIONS: Final = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(_MIGRATED)}


async def make_csi_node(api: Api, name: str, uid: str) -> None:
    """In the name of the node, which has that uid; one that is there stays as it is."""
    owner = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": name, "uid": uid}
    meta: Obj = {"name": name, "annotations": _ANNOTATIONS, "ownerReferences": [owner]}
    with suppress(AlreadyExists):
        await api.create(CSI_NODES, {"metadata": meta, "spec": {"drivers": []}})
