"""What drivers of volumes (CSI) say of nodes: how much can be attached to them, what is, and where there is room."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Object, View
from fairlead.api.quantity import Quantity, parse


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


class AttachmentError(View):
    message: str = ""
    time: str | None = None


class AttachmentStatus(View):
    attached: bool = False
    attach_error: AttachmentError | None = None


class VolumeAttachment(Object):
    """What a controller wants of a driver: that a volume is attached to a node, for as long as the object is there."""

    spec: AttachmentSpec = AttachmentSpec()
    status: AttachmentStatus = AttachmentStatus()

    @property
    def volume_name(self) -> str:
        return self.spec.source.persistent_volume_name or ""


class TokenRequest(View):
    audience: str = ""
    expiration_seconds: int | None = None


class CSIDriverSpec(View):
    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    fs_group_policy: str = ""
    storage_capacity: bool | None = None
    volume_lifecycle_modes: tuple[str, ...] | None = None
    token_requests: tuple[TokenRequest, ...] | None = None
    service_account_token_in_secrets: bool | None = None
    requires_republish: bool | None = None


class CSIDriver(Object):
    """A driver, with the name that classes have as their provisioner."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object):
    """How much room for new volumes of a class there is on the nodes that the topology selects; without it, on none."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: str | None = None
    maximum_volume_size: str | None = None

    @property
    def limit(self) -> Quantity | None:
        """How big a new volume may be."""
        text = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        return None if text is None else parse(text)
