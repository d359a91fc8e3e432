"""What changes of pods and nodes do to the snapshot, the nominations and the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead.api import builtin
from fairlead.api.scheduling import Node, Pod
from fairlead.client.informer import Informers
from fairlead.runtime import clock
from fairlead.scheduler.cluster_events import is_same_node, node_changed, own_events, placed_pod_changed
from fairlead.scheduler.framework import ClusterEvent, EventKind, Profile
from fairlead.scheduler.gangs import Gangs
from fairlead.scheduler.nominations import Nominations
from fairlead.scheduler.pod_relations import RelationsCache
from fairlead.scheduler.queue import SchedulingQueue
from fairlead.scheduler.requirements import RequirementsCache
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Placed, Snapshot


class EventHandlers:
    """Keep the snapshot, the nominations and the queue up to date with the informers."""

    def __init__(
        self,
        informers: Informers,
        snapshot: Snapshot,
        nominations: Nominations,
        queue: SchedulingQueue,
        profiles: Mapping[str, Profile],
        gangs: Gangs | None,
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called when something has happened and there is somebody to decide about."""
        self._snapshot, self._nominations, self._queue = snapshot, nominations, queue
        self._profiles, self._gangs, self._wake = profiles, gangs, wake
        self._requirements, self._relations = RequirementsCache(), RelationsCache()
        self._pods = informers.of(builtin.PODS, Pod)
        self._nodes = informers.of(builtin.NODES, Node)
        self._nodes.subscribe(self.node_event)
        self._pods.subscribe(self.pod_event)

    async def synced(self) -> None:
        """Return once all nodes and pods have been heard of."""
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
        self.on_cluster_event(node_changed(old, new))

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
        return bool(pod.spec.node_name) or pod.spec.scheduler_name in self._profiles

    def request(self, pod: Pod) -> SchedulingRequest:
        """What a decision about the pod is about."""
        nomination = self._nominations.get(pod.metadata.uid)
        nominated = nomination.node if nomination else ""
        return SchedulingRequest(
            self._requirements.of(pod), self._relations.of(pod), pod.priority, pod.metadata.uid, nominated
        )

    def _pod_gone(self, pod: Pod) -> None:
        key = pod.metadata.key
        self._queue.remove(key)
        if self._gangs is not None:
            self._gangs.gone(pod)
        self._snapshot.volumes.pod_gone(pod.metadata.uid)
        was_nominated = self._nominations.drop(pod.metadata.uid)
        placed = self._snapshot.placed(key)
        if placed is not None and placed.uid == pod.metadata.uid:
            self._snapshot.remove(key)
            self.on_cluster_event(removed(placed))
        elif was_nominated or pod.status.nominated_node_name:
            self._nomination_ended(pod)

    def _pod_on_node(self, old: Pod | None, new: Pod) -> None:
        meta = new.metadata
        requirements, relations = self._requirements.of(new), self._relations.of(new)
        placed = self._snapshot.placed(meta.key)
        before = Placed(placed.pod, placed.row, placed.requirements, placed.relations) if placed is not None else None
        self._snapshot.place(new, requirements, relations)
        self._nominations.drop(meta.uid)
        if self._gangs is not None:
            self._gangs.placed(new)
        if old is not None and old.spec.node_name and before is not None:
            self.on_cluster_event(placed_pod_changed(old, new, before, requirements, relations))
        else:
            self._queue.remove(meta.key)
            self.on_cluster_event(
                ClusterEvent(EventKind.POD_PLACED, new_requirements=requirements, new_relations=relations)
            )

    def _pod_waiting(self, old: Pod | None, new: Pod) -> None:
        key = new.metadata.key
        placed = self._snapshot.placed(key)
        if placed is not None:  # assumed: the binding is under way
            if new.metadata.is_terminating and self._snapshot.forget(key, new.metadata.uid):
                self.on_cluster_event(removed(placed))
            return
        known = self._queue.get(key)
        before, now = old.status.nominated_node_name if old is not None else "", new.status.nominated_node_name
        if before or now:  # else what we know better is still on its way to the server
            self._nominations.set(new, self._requirements.of(new), self._relations.of(new), now)
        if known is None:
            self._queue.add(new, self.request(new), self._profiles[new.spec.scheduler_name], clock.monotonic())
            if self._gangs is not None:
                self._gangs.waits(new)
        else:
            request = self.request(new)
            events = own_events(known.pod, new, known.request.requirements, request.requirements)
            self._queue.update(new, request, events, clock.monotonic())
        if old is not None and before not in ("", now):
            self._nomination_ended(old)
        self._wake_if_due()

    def _nomination_ended(self, pod: Pod) -> None:
        """The room that was kept for the pod is free for those who had to leave it (getLEPriorityPreCheck)."""
        event = ClusterEvent(
            EventKind.POD_REMOVED, old_requirements=self._requirements.of(pod), old_relations=self._relations.of(pod)
        )
        self._queue.on_cluster_event(event, clock.monotonic(), most_important=pod.priority)
        self._wake_if_due()

    def on_cluster_event(self, event: ClusterEvent) -> None:
        """Something happened: whom it may help is tried again."""
        self._queue.on_cluster_event(event, clock.monotonic())
        self._wake_if_due()

    def _wake_if_due(self) -> None:
        """Most changes help nobody: waking the scheduler for each would cost as much as its decisions."""
        if self._queue.has_next:
            self._wake()


def removed(placed: Placed) -> ClusterEvent:
    """A pod is not on its node any more, or never will be."""
    return ClusterEvent(EventKind.POD_REMOVED, old_requirements=placed.requirements, old_relations=placed.relations)
