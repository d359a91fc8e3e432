"""What lies on a simulated machine's disks besides what its pods write: images, and containers that have ended.

A kubelet keeps the last run of each container, and every image that it once had, until the disk is short (S3-66).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from fairlead.node.eviction.reclaim import Reclaim

#: How large a simulated image is.
IMAGE_BYTES: Final = 50 * 2**20


#: How many images are kept that nobody runs: without a full disk nothing else would end them.
MOST_UNUSED_IMAGES: Final = 1024


class Disks:
    def __init__(self) -> None:
        self._used: Counter[str] = Counter()  # by image: how many pods run it
        self._unused: dict[str, None] = {}  # the longest unused first
        self._dead: dict[tuple[str, str], int] = {}  # by uid and container: the bytes of its last run
        #: Whether images that somebody declared to be there are gone.
        self.has_deleted_declared = False

    def run(self, images: Iterable[str]) -> None:
        """A pod runs these images from now on."""
        images = set(images)
        self._used.update(images)
        for image in images:
            self._unused.pop(image, None)

    def stop(self, images: Iterable[str]) -> None:
        for image in set(images):
            self._used[image] -= 1
            if self._used[image] <= 0:
                del self._used[image]
                self._unused[image] = None
        while len(self._unused) > MOST_UNUSED_IMAGES:
            del self._unused[next(iter(self._unused))]

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
                self._unused.clear()
                self.has_deleted_declared = True
