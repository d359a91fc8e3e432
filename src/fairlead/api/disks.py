"""Disks that pods name themselves, of those kinds that not every pod on a node may have at once (VolumeRestrictions).

Source: pkg/scheduler/framework/plugins/volumerestrictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fairlead.api.meta import WrittenView

#: The kind of a disk, and what tells it from others of that kind.
DiskName = tuple[str, ...]


class GcePersistentDisk(WrittenView):
    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(WrittenView):
    volume_id: str = msgspec.field(default="", name="volumeID")


class Iscsi(WrittenView):
    iqn: str = ""
    read_only: bool = False


class Rbd(WrittenView):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class DiskVolume(WrittenView):
    """A volume of a pod, as far as it is such a disk."""

    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None

    @property
    def disk(self) -> Disk | None:
        if (gce := self.gce_persistent_disk) is not None:
            return Disk((("gce", gce.pd_name),), gce.read_only)
        if (aws := self.aws_elastic_block_store) is not None:
            return Disk((("aws", aws.volume_id),), is_shared=False)
        if (iscsi := self.iscsi) is not None:
            return Disk((("iscsi", iscsi.iqn),), iscsi.read_only)
        if (rbd := self.rbd) is not None:
            return Disk(tuple(("rbd", monitor, rbd.pool, rbd.image) for monitor in rbd.monitors), rbd.read_only)
        return None


class Disk(msgspec.Struct, frozen=True):
    """Two that have a name in common are one disk."""

    names: tuple[DiskName, ...]
    #: Whether others may have it, too, if they share it as well: they all only read.
    is_shared: bool


def disks_of(volumes: Iterable[DiskVolume]) -> Iterator[Disk]:
    """The disks among them."""
    return (disk for volume in volumes if (disk := volume.disk) is not None)


def clash(some: Iterable[Disk], others: Iterable[Disk]) -> bool:
    """Whether pods that have these cannot be on one node."""
    is_shared: dict[DiskName, bool] = {}
    for disk in some:
        for name in disk.names:
            is_shared[name] = is_shared.get(name, True) and disk.is_shared
    return any(name in is_shared and not (disk.is_shared and is_shared[name]) for disk in others for name in disk.names)
