"""The images of a simulated machine, collected when they are old or their file system is full to a mark.

A machine is looked at for that only when either may be so: most never are so full, and there may be thousands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from fairlead.node.eviction.signals import FileSystems
from fairlead.node.image_collection import COLLECTION_SECONDS, ImagePolicy, failure_events
from fairlead.node.plan import NodeEvent
from fairlead.sim.machine.disks import Disks
from fairlead.sim.machine.figures import Figures
from fairlead.sim.machine.hardware import Hardware

#: A collection takes place at whole multiples of its period, or this much later.
_SLACK_SECONDS: Final = 1.0


class ImageCollector:
    def __init__(self, policy: ImagePolicy, hardware: Hardware, now: float) -> None:
        self._policy = policy
        is_shared = hardware.filesystems is FileSystems.SHARED
        self._figure = Figures._fields.index("nodefs" if is_shared else "imagefs")
        self._capacity = hardware.machine.ephemeral_storage_bytes if is_shared else hardware.imagefs_bytes
        self._began, self._last_tick = now, _tick(now)
        self._has_failed = False

    def next_at(self, disks: Disks, peak: Figures, now: float) -> float | None:
        """When there is something to collect; `peak`: how full it may be. None: never, as it stands."""
        if self._bytes_to_free(peak):
            return (_tick(now) + 1) * COLLECTION_SECONDS
        since = disks.longest_unused_since
        if since is None or not self._policy.maximum_age:
            return None
        too_old_at = max(since, self._began) + self._policy.maximum_age
        return (_tick(max(too_old_at, now)) + 1) * COLLECTION_SECONDS

    def is_due(self, now: float) -> bool:
        tick = _tick(now)
        return tick > self._last_tick and now - tick * COLLECTION_SECONDS < _SLACK_SECONDS

    def collect(
        self, disks: Disks, declared_bytes: int, figures: Callable[[], Figures], now: float
    ) -> tuple[NodeEvent, ...]:
        """`declared_bytes` are those of images that somebody declared to be there unused; nobody knows how old."""
        self._last_tick = _tick(now)
        disks.collect_old(lambda since: self._policy.is_too_old(max(since, self._began), now))
        wanted = self._bytes_to_free(figures())
        freed = disks.collect(wanted, now - self._policy.minimum_age, declared_bytes) if wanted else 0
        had_failed, self._has_failed = self._has_failed, freed < wanted
        return failure_events(wanted, freed, has_failed_before=had_failed) if freed < wanted else ()

    def _bytes_to_free(self, found: Figures) -> int:
        return self._policy.bytes_to_free(max(self._capacity - found[self._figure], 0), self._capacity)


def _tick(now: float) -> int:
    return math.floor(now / COLLECTION_SECONDS + 1e-9)
