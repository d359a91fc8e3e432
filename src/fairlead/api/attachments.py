"""What drivers of volumes (CSI) say of nodes: how much can be attached to them, and what is."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api.meta import Object, View


class DriverAllocatable(View):
    count: int | None = None


class NodeDriver(View):
    name: str = ""
    allocatable: DriverAllocatable | None = None


class CSINodeSpec(View):
    drivers: tuple[NodeDriver, ...] | None = None


class CSINode(Object):
    """Has the name of its node."""

    spec: CSINodeSpec = CSINodeSpec()

    @property
    def limits(self) -> Mapping[str, int]:
        """How many volumes of each driver the node can have; a driver that does not say so has no limit."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers or ()
            if driver.allocatable is not None and driver.allocatable.count is not None
        }


class AttachmentSource(View):
    persistent_volume_name: str | None = None


class AttachmentSpec(View):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object):
    spec: AttachmentSpec = AttachmentSpec()
