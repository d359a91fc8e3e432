"""Image garbage collection, every five minutes: of images that nobody has used for long, and by how full their file
system is, from a high mark down to a low one.

Eviction frees images too, but only once the node is short of disk. Source: pkg/kubelet/images/image_gc_manager.go.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.plan import NodeEvent

COLLECTION_SECONDS: Final = 300.0


class ImagePolicy(msgspec.Struct, frozen=True):
    high_percent: int
    low_percent: int
    #: Images that came later than so long ago are left alone.
    minimum_age: float
    #: Images that nobody has used for longer go in any case; 0: none do.
    maximum_age: float = 0.0

    @classmethod
    def of(cls, config: KubeletConfiguration) -> ImagePolicy:
        return cls(
            config.image_gc_high_threshold_percent,
            config.image_gc_low_threshold_percent,
            config.image_minimum_gc_age,
            config.image_maximum_gc_age,
        )

    def is_too_old(self, unused_since: float, now: float) -> bool:
        """Of an image; what was before the kubelet's start does not count."""
        return 0 < self.maximum_age < now - unused_since

    def bytes_to_free(self, available: int, capacity: int) -> int:
        """None below the high mark; a mark of 100 % turns it off."""
        if self.high_percent >= 100 or not capacity:
            return 0
        if 100 - available * 100 // capacity < self.high_percent:
            return 0
        return max(capacity * (100 - self.low_percent) // 100 - available, 0)


def failure_events(wanted: int, freed: int, *, has_failed_before: bool) -> tuple[NodeEvent, ...]:
    """The collector tells of every failure, and the kubelet from the second in a row on."""
    message = (
        f"Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, "
        f"but only found {freed} bytes eligible to free."
    )
    found = (NodeEvent("Warning", "FreeDiskSpaceFailed", message),)
    return (*found, NodeEvent("Warning", "ImageGCFailed", message)) if has_failed_before else found
