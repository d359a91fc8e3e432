"""What lies on a simulated machine's disks besides what its pods write: images, and containers that have ended.

A kubelet keeps the last run of each container, and every image that it once had, until the disk is short (S3-66).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from fairlead.node.eviction.reclaim import Reclaim

#: How large a simulated image is.
IMAGE_BYTES: Final = 50 * 2**20


#: How many images are kept that nobody runs: without a full disk nothing else would end them.
MOST_UNUSED_IMAGES: Final = 1024


class Disks:
    def __init__(self) -> None:
        self._used: Counter[str] = Counter()  # by image: how many pods run it
        self._unused: dict[str, float] = {}  # since when, the longest unused first
        self._came: dict[str, float] = {}  # by image: when it was pulled
        self._dead: dict[tuple[str, str], int] = {}  # by uid and container: the bytes of its last run
        #: Whether images that somebody declared to be there are gone.
        self.has_deleted_declared = False

    def run(self, images: Iterable[str], now: float = 0.0) -> None:
        """A pod runs these images from now on."""
        images = set(images)
        self._used.update(images)
        for image in images:
            self._unused.pop(image, 0.0)
            self._came.setdefault(image, now)

    def stop(self, images: Iterable[str], now: float = 0.0) -> None:
        for image in set(images):
            self._used[image] -= 1
            if self._used[image] <= 0:
                del self._used[image]
                self._unused[image] = now
        while len(self._unused) > MOST_UNUSED_IMAGES:
            self._delete(next(iter(self._unused)))

    def _delete(self, image: str) -> None:
        del self._unused[image], self._came[image]

    @property
    def longest_unused_since(self) -> float | None:
        return next(iter(self._unused.values()), None)

    def collect_old(self, is_too_old: Callable[[float], bool]) -> None:
        """Delete the images that are unused since too long ago."""
        for image in [image for image, since in self._unused.items() if is_too_old(since)]:
            self._delete(image)

    def collect(self, wanted: int, before: float, declared_bytes: int) -> int:
        """Free so many bytes, the longest unused images first; those that came `before` then. Returns what was freed.

        What somebody declared to be there is one image.
        """
        freed = 0
        for image in [image for image in self._unused if self._came[image] <= before]:
            if freed >= wanted:
                return freed
            self._delete(image)
            freed += IMAGE_BYTES
        if freed < wanted and not self.has_deleted_declared:
            freed += declared_bytes
            self.has_deleted_declared = declared_bytes > 0
        return freed

    def keep(self, uid: str, container: str, written: int) -> None:
        """The container has ended; what it wrote stays until it has ended again."""
        self._dead[uid, container] = written

    def remove(self, uid: str, containers: Iterable[str]) -> None:
        """The pod is gone, with all its containers."""
        for container in containers:
            self._dead.pop((uid, container), None)

    @property
    def image_bytes(self) -> int:
        return IMAGE_BYTES * (len(self._used) + len(self._unused))

    @property
    def dead_bytes(self) -> int:
        return sum(self._dead.values())

    def reclaim(self, what: Iterable[Reclaim]) -> None:
        for each in what:
            if each is Reclaim.DELETE_UNUSED_CONTAINERS:
                self._dead.clear()
            else:
                for image in list(self._unused):
                    self._delete(image)
                self.has_deleted_declared = True
