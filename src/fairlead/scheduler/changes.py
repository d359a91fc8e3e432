"""What a change of a node or a pod means to pods that wait: the events that it counts as.

Most updates are heartbeats and mean nothing; telling them apart here keeps thousands of waiting pods asleep
(pkg/scheduler/framework/events.go).
"""

from __future__ import annotations

from fairlead.api.scheduling import Node, Pod
from fairlead.scheduler.company import Company
from fairlead.scheduler.framework import NO_EVENT, Change, Event
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Placed


def node_changed(old: Node | None, new: Node | None) -> Change:
    """A node came, changed or went."""
    if old is None:
        return Change(Event.NODE_ADDED, new_node=new)
    if new is None:
        return Change(Event.NODE_REMOVED, old_node=old)
    events = NO_EVENT
    if old.taints != new.taints or (old.spec.unschedulable and not new.spec.unschedulable):
        events |= Event.NODE_TAINTS
    if old.status.allocatable != new.status.allocatable:
        events |= Event.NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        events |= Event.NODE_LABELS
    return Change(events, old_node=old, new_node=new)


def is_same_node(old: Node, new: Node) -> bool:
    """Whether nothing changed that a decision reads."""
    return old.spec == new.spec and old.status == new.status and old.metadata.labels == new.metadata.labels


def own_events(old: Pod, new: Pod, old_shape: Shape, new_shape: Shape) -> Event:
    """How a waiting pod's own change could help it."""
    events = NO_EVENT
    if len(old.spec.tolerations or ()) != len(new.spec.tolerations or ()):
        events |= Event.OWN_TOLERATIONS
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        events |= Event.OWN_GATES
    if old.metadata.labels != new.metadata.labels:
        events |= Event.OWN_LABELS
    if is_scaled_down(old_shape, new_shape):
        events |= Event.OWN_SCALED_DOWN
    return events


def placed_pod_changed(old: Pod, new: Pod, before: Placed, shape: Shape, company: Company) -> Change:
    """A pod on a node changed."""
    events = NO_EVENT
    if old.metadata.labels != new.metadata.labels:
        events |= Event.POD_LABELS
    if is_scaled_down(before.shape, shape):
        events |= Event.POD_SCALED_DOWN
    return Change(events, old_shape=before.shape, new_shape=shape, old_company=before.company, new_company=company)


def is_scaled_down(old: Shape, new: Shape) -> bool:
    return old is not new and any(amount > new.requests.get(name, 0) for name, amount in old.requests.items())
