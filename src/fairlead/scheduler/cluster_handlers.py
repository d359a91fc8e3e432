"""What the scheduler watches beside nodes and pods: namespaces, owners, budgets, volumes.

Each of these changes what a decision reads; none of them is what a decision is about.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from fairlead.api import builtin
from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.meta import Object
from fairlead.api.resources import Resource
from fairlead.api.services import Service
from fairlead.api.workloads import ReplicaSet, ReplicationController, StatefulSet
from fairlead.client.informer import Handler, Informers
from fairlead.scheduler.framework import ClusterEvent, EventKind
from fairlead.scheduler.preemption import Preemptor
from fairlead.scheduler.snapshot import Snapshot
from fairlead.scheduler.volumes import replace

T = TypeVar("T", bound=Object)
Workload = TypeVar("Workload", ReplicationController, ReplicaSet, StatefulSet)


class ClusterHandlers:
    """Keep a snapshot and its preemptors up to date."""

    def __init__(
        self,
        informers: Informers,
        snapshot: Snapshot,
        preemptors: Iterable[Preemptor],
        on_cluster_event: Callable[[ClusterEvent], None],
    ) -> None:
        """`on_cluster_event` is told what may help a pod that waits."""
        self._informers, self._snapshot = informers, snapshot
        self._preemptors = tuple(preemptors)
        self._on_cluster_event = on_cluster_event
        self._synced: list[Callable[[], Awaitable[None]]] = []
        self._watch(builtin.NAMESPACES, Object, self._namespace_event)
        self._watch(builtin.SERVICES, Service, snapshot.owners.set_service)
        self._watch(builtin.REPLICATION_CONTROLLERS, ReplicationController, self._workload_event)
        self._watch(builtin.REPLICA_SETS, ReplicaSet, self._workload_event)
        self._watch(builtin.STATEFUL_SETS, StatefulSet, self._workload_event)
        self._watch(builtin.POD_DISRUPTION_BUDGETS, PodDisruptionBudget, self._budget_event)
        self._watch(builtin.PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim, self._claim_event)
        self._watch(builtin.PERSISTENT_VOLUMES, PersistentVolume, self._volume_event)
        self._watch(builtin.STORAGE_CLASSES, StorageClass, self._class_event)

    async def synced(self) -> None:
        """Return once everything has been listed."""
        for synced in self._synced:
            await synced()

    def _watch(self, resource: Resource, view: type[T], handler: Handler[T]) -> None:
        informer = self._informers.of(resource, view)
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

    def _budget_event(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        for preemptor in self._preemptors:
            preemptor.set_budget(old, new)

    def _claim_event(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        self._snapshot.volumes.set_claim(old, new)
        if new is not None:
            self._on_cluster_event(ClusterEvent(EventKind.VOLUMES, claim=new.metadata.key))

    def _volume_event(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        self._snapshot.volumes.set_volume(old, new)
        if new is not None:
            self._on_cluster_event(ClusterEvent(EventKind.VOLUMES, claim=new.claimant))

    def _class_event(self, old: StorageClass | None, new: StorageClass | None) -> None:
        """Of what may change of a class, only where it makes volumes helps anybody."""
        replace(self._snapshot.volumes.classes, old, new)
        if new is not None and (old is None or old.allowed_topologies != new.allowed_topologies):
            self._on_cluster_event(ClusterEvent(EventKind.VOLUMES))
