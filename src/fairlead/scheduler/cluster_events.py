"""What a change of a node or a pod means to pods that wait: the events that it counts as.

Most updates are heartbeats and mean nothing; telling them apart here keeps thousands of waiting pods asleep
(pkg/scheduler/framework/events.go).
"""

from __future__ import annotations

from fairlead.api.scheduling import Node, Pod
from fairlead.scheduler.framework import NO_EVENT, ClusterEvent, EventKind
from fairlead.scheduler.pod_relations import PodRelations
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.snapshot import Placed


def node_changed(old: Node | None, new: Node | None) -> ClusterEvent:
    """A node came, changed or went."""
    if old is None:
        return ClusterEvent(EventKind.NODE_ADDED, new_node=new)
    if new is None:
        return ClusterEvent(EventKind.NODE_REMOVED, old_node=old)
    events = NO_EVENT
    if old.taints != new.taints or (old.spec.unschedulable and not new.spec.unschedulable):
        events |= EventKind.NODE_TAINTS
    if old.status.allocatable != new.status.allocatable:
        events |= EventKind.NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        events |= EventKind.NODE_LABELS
    if old.status.declared_features != new.status.declared_features:
        events |= EventKind.NODE_FEATURES
    return ClusterEvent(events, old_node=old, new_node=new)


def is_same_node(old: Node, new: Node) -> bool:
    """Whether nothing changed that a decision reads."""
    return old.spec == new.spec and old.status == new.status and old.metadata.labels == new.metadata.labels


def own_events(old: Pod, new: Pod, old_requirements: PodRequirements, new_requirements: PodRequirements) -> EventKind:
    """How a waiting pod's own change could help it."""
    events = NO_EVENT
    if len(old.spec.tolerations or ()) != len(new.spec.tolerations or ()):
        events |= EventKind.OWN_TOLERATIONS
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        events |= EventKind.OWN_GATES
    if old.metadata.labels != new.metadata.labels:
        events |= EventKind.OWN_LABELS
    if is_scaled_down(old_requirements, new_requirements):
        events |= EventKind.OWN_SCALED_DOWN
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        events |= EventKind.OWN_DEVICE_CLAIMS
    return events


def removed(placed: Placed) -> ClusterEvent:
    """A pod is not on its node any more, or never will be."""
    return ClusterEvent(EventKind.POD_REMOVED, old_requirements=placed.requirements, old_relations=placed.relations)


def placed_pod_changed(
    old: Pod, new: Pod, before: Placed, requirements: PodRequirements, relations: PodRelations
) -> ClusterEvent:
    """A pod on a node changed."""
    events = NO_EVENT
    if old.metadata.labels != new.metadata.labels:
        events |= EventKind.POD_LABELS
    if is_scaled_down(before.requirements, requirements):
        events |= EventKind.POD_SCALED_DOWN
    return ClusterEvent(
        events,
        old_requirements=before.requirements,
        new_requirements=requirements,
        old_relations=before.relations,
        new_relations=relations,
    )


def is_scaled_down(old: PodRequirements, new: PodRequirements) -> bool:
    return old is not new and any(amount > new.requests.get(name, 0) for name, amount in old.requests.items())
