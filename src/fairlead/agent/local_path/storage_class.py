"""What a cluster must know of folders of real nodes: the class of their volumes, and what whoever makes them may do.

The provisioner has an identity of its own: a node may not make volumes, and this one may do nothing else.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj

PROVISIONER: Final = "local-path.fairlead.dev"
#: As it is called in kind and in minikube.
DEFAULT_CLASS: Final[Obj] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}
_READ: Final = ["list", "watch"]

RULES: Final[tuple[Obj, ...]] = (
    {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": [*_READ, "create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": _READ},
    {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": _READ},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
)
