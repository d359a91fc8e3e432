"""What a node frees before it evicts anybody: dead containers, then images that nobody uses (S3-66 to S3-70).

Memory and process IDs have nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from fairlead.node.eviction.signals import INODES, RESOURCE, STORAGE, FileSystems, Signal


class Reclaim(StrEnum):
    DELETE_UNUSED_CONTAINERS = "delete-unused-containers"
    DELETE_UNUSED_IMAGES = "delete-unused-images"


_CONTAINERS: Final = (Reclaim.DELETE_UNUSED_CONTAINERS,)
_IMAGES: Final = (Reclaim.DELETE_UNUSED_IMAGES,)
_BOTH: Final = _CONTAINERS + _IMAGES

#: By where images and layers are: what is freed when nodefs, imagefs or containerfs is short.
_FREED: Final[Mapping[FileSystems, Mapping[str, tuple[Reclaim, ...]]]] = {
    FileSystems.SHARED: {"nodefs": _BOTH, "imagefs": _BOTH, "containerfs": _BOTH},
    FileSystems.IMAGEFS: {"nodefs": (), "imagefs": _BOTH, "containerfs": _BOTH},
    FileSystems.SPLIT: {"nodefs": _CONTAINERS, "imagefs": _IMAGES, "containerfs": _CONTAINERS},
}


def reclaims(signal: Signal, filesystems: FileSystems) -> tuple[Reclaim, ...]:
    """What is freed on the node when this signal is low, in order; all of it, even if the first is enough."""
    if RESOURCE[signal] not in (STORAGE, INODES):
        return ()
    return _FREED[filesystems][signal.partition(".")[0]]
