"""What changes of pods and nodes do to the model of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.api import builtin
from fairlead.api.scheduling import Node, Pod
from fairlead.client.informer import Informers
from fairlead.scheduler.cluster_events import is_same_node, node_changed, placed_pod_changed, removed
from fairlead.scheduler.framework import ClusterEvent, EventKind
from fairlead.scheduler.snapshot import Placed

if TYPE_CHECKING:
    from fairlead.scheduler.cluster_model import ClusterModel


class EventHandlers:
    """Keep the snapshot and the nominations up to date, and pass on what may help pods that wait."""

    def __init__(self, informers: Informers, model: ClusterModel) -> None:
        self._model = model
        self._snapshot, self._nominations = model.snapshot, model.nominations
        self._pods = informers.of(builtin.PODS, Pod)
        self._nodes = informers.of(builtin.NODES, Node)
        self._nodes.subscribe(self.node_event)
        self._pods.subscribe(self.pod_event)

    async def synced(self) -> None:
        """Return once all nodes and pods have been listed."""
        await self._nodes.synced()
        await self._pods.synced()

    def pod(self, key: str) -> Pod | None:
        """The pod of that `namespace/name`, wherever it is."""
        return self._pods.get(key)

    def node_event(self, old: Node | None, new: Node | None) -> None:
        """A node came, changed or went."""
        if new is None:
            if old is not None:
                self._snapshot.remove_node(old.metadata.name)
        elif old is None or not is_same_node(old, new):
            self._snapshot.set_node(new)
        else:
            return
        self._model.on_cluster_event(node_changed(old, new))

    def pod_event(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went; it may have another uid than before."""
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self.pod_event(old, None)
            old = None
        if new is not None and (new.is_finished or not self._is_mine(new)):
            new = None
        if old is not None and (old.is_finished or not self._is_mine(old)):
            old = None
        if new is None:
            if old is not None:
                self._pod_gone(old)
        elif new.spec.node_name:
            self._pod_on_node(old, new)
        else:
            self._pod_waiting(old, new)

    def _is_mine(self, pod: Pod) -> bool:
        """Pods on nodes count whoever put them there; of those that wait, only our own."""
        return bool(pod.spec.node_name) or pod.spec.scheduler_name in self._model.profiles

    def _pod_gone(self, pod: Pod) -> None:
        self._model.pod_left(pod)
        if self._model.gangs is not None:
            self._model.gangs.gone(pod)
        self._snapshot.volumes.pod_gone(pod.metadata.uid)
        self._snapshot.device_claims.pod_gone(pod.metadata.uid)
        was_nominated = self._nominations.drop(pod.metadata.uid)
        placed = self._snapshot.placed(pod.metadata.key)
        if placed is not None and placed.uid == pod.metadata.uid:
            self._snapshot.remove(pod.metadata.key)
            self._model.on_cluster_event(removed(placed))
        elif was_nominated or pod.status.nominated_node_name:
            self._nomination_ended(pod)

    def _pod_on_node(self, old: Pod | None, new: Pod) -> None:
        meta = new.metadata
        requirements, relations = self._model.requirements.of(new), self._model.relations.of(new)
        placed = self._snapshot.placed(meta.key)
        before = Placed(placed.pod, placed.row, placed.requirements, placed.relations) if placed is not None else None
        self._snapshot.place(new, requirements, relations)
        self._nominations.drop(meta.uid)
        if self._model.gangs is not None:
            self._model.gangs.placed(new)
        if old is not None and old.spec.node_name and before is not None:
            self._model.on_cluster_event(placed_pod_changed(old, new, before, requirements, relations))
        else:
            self._model.pod_left(new)
            event = ClusterEvent(EventKind.POD_PLACED, new_requirements=requirements, new_relations=relations)
            self._model.on_cluster_event(event)

    def _pod_waiting(self, old: Pod | None, new: Pod) -> None:
        placed = self._snapshot.placed(new.metadata.key)
        if placed is not None:  # assumed: the binding is under way
            if new.metadata.is_terminating and self._snapshot.forget(new.metadata.key, new.metadata.uid):
                self._model.on_cluster_event(removed(placed))
            return
        before, now = old.status.nominated_node_name if old is not None else "", new.status.nominated_node_name
        if before or now:  # else what we know better is still on its way to the server
            self._nominations.set(new, self._model.requirements.of(new), self._model.relations.of(new), now)
        self._model.pod_waits(old, new)
        if old is not None and before not in ("", now):
            self._nomination_ended(old)

    def _nomination_ended(self, pod: Pod) -> None:
        """The room that was kept for the pod is free for those who had to leave it (getLEPriorityPreCheck)."""
        requirements, relations = self._model.requirements.of(pod), self._model.relations.of(pod)
        event = ClusterEvent(EventKind.POD_REMOVED, old_requirements=requirements, old_relations=relations)
        self._model.on_cluster_event(event, pod.priority)
