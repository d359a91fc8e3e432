"""What a pod's volume lies on. A kubelet that took a claim for its own disk would evict pods for what fills another.

Source: pkg/kubelet/eviction/helpers.go (`localVolumeNames`); pkg/volume (secret, downwardapi and projected are tmpfs).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from fairlead.api.objects import Obj


class Medium(StrEnum):
    #: The node's own disk.
    DISK = "disk"
    #: A tmpfs: memory of the pod's cgroup.
    MEMORY = "memory"
    #: A file system of its own, which is nobody else's.
    OWN = "own"


_ON_DISK: Final = ("hostPath", "gitRepo", "configMap")
_IN_MEMORY: Final = ("secret", "downwardAPI", "projected")


def medium_of(volume: Obj) -> Medium:
    """Of a volume of a pod; huge pages are none of what is measured of memory or disks."""
    if (empty_dir := volume.get("emptyDir")) is not None:
        medium = empty_dir.get("medium")
        if not medium:
            return Medium.DISK
        return Medium.MEMORY if medium == "Memory" else Medium.OWN
    if any(volume.get(kind) is not None for kind in _ON_DISK):
        return Medium.DISK
    return Medium.MEMORY if any(volume.get(kind) is not None for kind in _IN_MEMORY) else Medium.OWN
