"""The cluster as scheduling sees it: all that a decision rests on, kept up to date by the informers.

    informers ─▶ event handlers ─▶ snapshot, nominations, gangs ─▶ a decider per profile
                      └─▶ observers: what may help a pod that waits

The scheduler places pods over it. `fairlead why`, what-ifs and the arbitrator ask it questions, and need no scheduler
for that.
"""

from __future__ import annotations

from typing import Protocol

from fairlead.api.scheduling import Pod
from fairlead.client.informer import Informers
from fairlead.scheduler.cluster_handlers import ClusterHandlers
from fairlead.scheduler.configuration import Configuration, load
from fairlead.scheduler.event_handlers import EventHandlers
from fairlead.scheduler.framework import ClusterEvent
from fairlead.scheduler.gangs import POD_GROUPS, Coscheduling, Gang, Gangs, PodGroup
from fairlead.scheduler.nominations import Nominations
from fairlead.scheduler.pod_relations import RelationsCache
from fairlead.scheduler.profile_runtime import ProfileRuntime
from fairlead.scheduler.requirements import RequirementsCache
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Placed, Snapshot


class ModelObserver(Protocol):
    """Is called when something happens to pods that wait, after the model has changed."""

    def pod_waits(self, old: Pod | None, pod: Pod) -> None:
        """A pod without a node came or changed."""
        ...

    def pod_left(self, pod: Pod) -> None:
        """A pod waits no longer: it is gone, or has a node."""
        ...

    def on_cluster_event(self, event: ClusterEvent, most_important: int | None = None) -> None:
        """Something changed that may help pods, up to the priority `most_important` if that is given."""
        ...


class ClusterModel:
    """Nodes, pods and what belongs to them, for the profiles of one configuration. Somebody else runs the informers."""

    def __init__(self, informers: Informers, configuration: Configuration | None = None) -> None:
        """Without a configuration there is the default profile alone."""
        self.configuration = configuration or load()
        self.snapshot = Snapshot()
        self.nominations = Nominations(self.snapshot)
        self.profiles = {
            profile.name: ProfileRuntime.over(self.snapshot, self.nominations, profile)
            for profile in self.configuration.profiles
        }
        self.gangs: Gangs | None = None
        if any(profile.enables(Coscheduling) for profile in self.configuration.profiles):
            self.gangs = Gangs()
            informers.of(POD_GROUPS, PodGroup).subscribe(self.gangs.group_event)
        self.requirements, self.relations = RequirementsCache(), RelationsCache()
        self._observers: list[ModelObserver] = []
        self.handlers = EventHandlers(informers, self)
        self._cluster_handlers = ClusterHandlers(informers, self)

    async def synced(self) -> None:
        """Return once everything has been listed that decides."""
        await self._cluster_handlers.synced()
        await self.handlers.synced()

    # --- questions --------------------------------------------------------------------------------------------------

    def pod(self, key: str) -> Pod | None:
        """The pod of that `namespace/name`, wherever it is."""
        return self.handlers.pod(key)

    def request(self, pod: Pod) -> SchedulingRequest:
        """What a decision about the pod rests on."""
        nomination = self.nominations.get(pod.metadata.uid)
        nominated = nomination.node if nomination else ""
        requirements, relations = self.requirements.of(pod), self.relations.of(pod)
        return SchedulingRequest(requirements, relations, pod.priority, pod.metadata.uid, nominated)

    def placed_on(self, pod: Pod, row: int) -> Placed:
        """The pod as it would be on that node."""
        return Placed(pod, row, self.requirements.of(pod), self.relations.of(pod))

    def gang_of(self, pod: Pod) -> Gang | None:
        """The group that the pod starts with, if its profile cares for groups."""
        if self.gangs is None or not self.profiles[pod.spec.scheduler_name].profile.enables(Coscheduling):
            return None
        return self.gangs.of(pod)

    def started_of(self, gang: Gang) -> int:
        """How many of the group have a node, whether the server says so yet or not."""
        return len(gang.placed) + sum(self.snapshot.placed(key) is not None for key in gang.waiting)

    # --- observers --------------------------------------------------------------------------------------------------

    def observe(self, observer: ModelObserver) -> None:
        self._observers.append(observer)

    def pod_waits(self, old: Pod | None, pod: Pod) -> None:
        for observer in self._observers:
            observer.pod_waits(old, pod)
        if self.gangs is not None:
            self.gangs.waits(old, pod)

    def pod_left(self, pod: Pod) -> None:
        for observer in self._observers:
            observer.pod_left(pod)

    def on_cluster_event(self, event: ClusterEvent, most_important: int | None = None) -> None:
        for observer in self._observers:
            observer.on_cluster_event(event, most_important)
