"""What the scheduler watches beside nodes and pods: namespaces, owners, budgets, volumes, devices.

Each of these changes what a decision reads; none of them is what a decision is about.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from fairlead.api import builtin
from fairlead.api.attachments import CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment
from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from fairlead.api.meta import Object
from fairlead.api.resources import Resource
from fairlead.api.services import Service
from fairlead.api.workloads import ReplicaSet, ReplicationController, StatefulSet
from fairlead.client.informer import Handler, Informers
from fairlead.scheduler.framework import ClusterEvent, EventKind

if TYPE_CHECKING:
    from fairlead.scheduler.cluster_model import ClusterModel

T = TypeVar("T", bound=Object)
Workload = TypeVar("Workload", ReplicationController, ReplicaSet, StatefulSet)


class ClusterHandlers:
    """Keep the snapshot up to date, and pass on what may help pods that wait."""

    def __init__(self, informers: Informers, model: ClusterModel) -> None:
        self._informers, self._model, self._snapshot = informers, model, model.snapshot
        self._synced: list[Callable[[], Awaitable[None]]] = []
        self._watch(builtin.NAMESPACES, Object, self._namespace_event)
        self._watch(builtin.SERVICES, Service, self._snapshot.owners.set_service)
        self._watch(builtin.REPLICATION_CONTROLLERS, ReplicationController, self._workload_event)
        self._watch(builtin.REPLICA_SETS, ReplicaSet, self._workload_event)
        self._watch(builtin.STATEFUL_SETS, StatefulSet, self._workload_event)
        self._watch(builtin.POD_DISRUPTION_BUDGETS, PodDisruptionBudget, self._snapshot.budgets.set)
        self._watch(builtin.PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim, self._claim_event)
        self._watch(builtin.PERSISTENT_VOLUMES, PersistentVolume, self._volume_event)
        self._watch(builtin.STORAGE_CLASSES, StorageClass, self._class_event)
        self._watch(builtin.DEVICE_CLASSES, DeviceClass, self._device_class_event, may_be_unknown=True)
        self._watch(builtin.RESOURCE_SLICES, ResourceSlice, self._slice_event, may_be_unknown=True)
        self._watch(builtin.RESOURCE_CLAIMS, ResourceClaim, self._device_claim_event, may_be_unknown=True)
        self._watch(builtin.CSI_NODES, CSINode, self._csi_node_event)
        self._watch(builtin.VOLUME_ATTACHMENTS, VolumeAttachment, self._attachment_event)
        self._watch(builtin.CSI_DRIVERS, CSIDriver, self._driver_event)
        self._watch(builtin.CSI_STORAGE_CAPACITIES, CSIStorageCapacity, self._capacity_event)

    async def synced(self) -> None:
        """Return once everything has been listed."""
        for synced in self._synced:
            await synced()

    def _watch(self, resource: Resource, view: type[T], handler: Handler[T], *, may_be_unknown: bool = False) -> None:
        """`may_be_unknown`: servers that are older do without the kind."""
        informer = self._informers.of(resource, view)
        informer.may_be_unknown |= may_be_unknown
        informer.subscribe(handler)
        self._synced.append(informer.synced)

    def _namespace_event(self, old: Object | None, new: Object | None) -> None:
        either = new or old
        assert either is not None
        self._snapshot.pod_index.set_namespace(either.metadata.name, new.metadata.labels if new else None)

    def _workload_event(self, old: Workload | None, new: Workload | None) -> None:
        either = new or old
        assert either is not None
        selector = new.selector if new else None
        self._snapshot.owners.set_controller(either.api_version, either.kind, either.metadata.key, selector)

    def _claim_event(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        self._snapshot.volumes.set_claim(old, new)
        if new is not None:
            self._model.on_cluster_event(ClusterEvent(EventKind.VOLUMES, claim=new.metadata.key))

    def _volume_event(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        self._snapshot.volumes.set_volume(old, new)
        if new is not None:
            self._model.on_cluster_event(ClusterEvent(EventKind.VOLUMES, claim=new.claimant))

    def _class_event(self, old: StorageClass | None, new: StorageClass | None) -> None:
        """Of what may change of a class, only where it makes volumes helps anybody."""
        self._snapshot.volumes.set_class(old, new)
        if new is not None and (old is None or old.allowed_topologies != new.allowed_topologies):
            self._model.on_cluster_event(ClusterEvent(EventKind.VOLUMES))

    def _device_class_event(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        self._snapshot.device_offers.set_class(old, new)
        if new is not None:
            self._model.on_cluster_event(ClusterEvent(EventKind.DEVICE_CLASSES))

    def _slice_event(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        self._snapshot.device_offers.set_slice(old, new)
        if new is not None:
            self._model.on_cluster_event(ClusterEvent(EventKind.DEVICE_SLICES))

    def _device_claim_event(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self._snapshot.device_claims.told(old, new)
        event = ClusterEvent(EventKind.DEVICE_CLAIMS, old_device_claim=old, new_device_claim=new)
        self._model.on_cluster_event(event)

    def _csi_node_event(self, old: CSINode | None, new: CSINode | None) -> None:
        if self._snapshot.attach_limits.set_node(old, new):
            self._model.on_cluster_event(ClusterEvent(EventKind.ATTACH_LIMITS))

    def _attachment_event(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if self._snapshot.attach_limits.set_attachment(old, new):
            self._model.on_cluster_event(ClusterEvent(EventKind.ATTACH_LIMITS))

    def _driver_event(self, old: CSIDriver | None, new: CSIDriver | None) -> None:
        if self._snapshot.storage_capacities.set_driver(old, new):
            self._model.on_cluster_event(ClusterEvent(EventKind.STORAGE_CAPACITY))

    def _capacity_event(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if self._snapshot.storage_capacities.set_capacity(old, new):
            self._model.on_cluster_event(ClusterEvent(EventKind.STORAGE_CAPACITY))
