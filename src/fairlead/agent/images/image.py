"""What the rest of the agent sees of an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from fairlead.agent.images.manifests import ContainerConfig


class Image(msgspec.Struct, frozen=True):
    #: The digest of its configuration.
    id: str
    tags: Sequence[str]
    digests: Sequence[str]
    #: Of its files, unpacked; a layer that others have too counts for each.
    size_bytes: int
    config: ContainerConfig
    #: Lowest first, each a lower directory of an overlay mount.
    layers: Sequence[Path]
    #: Whether its layers were unpacked over each other, without their owners: this user may not make whiteouts.
    is_flat: bool


class DiskUsage(msgspec.Struct, frozen=True):
    """Of all layers, each counted once."""

    bytes: int
    inodes: int
