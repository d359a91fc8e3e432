"""What lies on a simulated machine's disks besides what its pods write."""

from __future__ import annotations

from fairlead.node.eviction.reclaim import Reclaim
from fairlead.sim.machine.disks import IMAGE_BYTES, MOST_UNUSED_IMAGES, Disks


def test_an_image_stays_until_the_disk_is_short_or_very_many_came_after_it() -> None:
    disks = Disks()
    disks.run(["used"])
    for number in range(3 * MOST_UNUSED_IMAGES):
        disks.run([f"image-{number}"])
        disks.stop([f"image-{number}"])
    assert disks.image_bytes == (MOST_UNUSED_IMAGES + 1) * IMAGE_BYTES
    disks.reclaim([Reclaim.DELETE_UNUSED_IMAGES])
    assert disks.image_bytes == IMAGE_BYTES
