"""Who owns whom: the graph that all owner references of a cluster make.

Every change of every object passes here, so one that touches neither owners nor finalizers must cost next to nothing.
`change` answers whose fate has to be decided again. Source: pkg/controller/garbagecollector/graph_builder.go.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairlead.api.meta import Object, OwnerReference
from fairlead.api.names import FOREGROUND, ORPHAN
from fairlead.api.resources import Resource


class GraphNode(msgspec.Struct, gc=False):
    """An object as the graph knows it."""

    resource: Resource
    obj: Object

    @property
    def is_going(self) -> bool:
        return self.obj.metadata.deletion_timestamp is not None

    @property
    def is_waiting(self) -> bool:
        """It is being deleted and stays until its dependents are gone."""
        return self.is_going and FOREGROUND in self.obj.metadata.finalizers

    @property
    def is_orphaning(self) -> bool:
        """It is being deleted and stays until its dependents have forgotten it."""
        return self.is_going and ORPHAN in self.obj.metadata.finalizers

    def is_meant(self, reference: OwnerReference, namespace: str) -> bool:
        """Whether a reference made in `namespace`, which has the uid of this object, really means it."""
        resource = self.resource
        return (
            self.obj.metadata.name == reference.name
            and resource.kind == reference.kind
            and resource.group == reference.api_version.rpartition("/")[0]
            and self.is_within_reach(namespace)
        )

    def is_within_reach(self, namespace: str) -> bool:
        """Whether anything in that namespace can belong to it."""
        return not self.resource.namespaced or self.obj.metadata.namespace == namespace


class Graph:
    """Objects by uid, and the dependents of every uid that somebody names as an owner."""

    def __init__(self) -> None:
        self._nodes: dict[str, GraphNode] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def get(self, uid: str) -> GraphNode | None:
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> list[GraphNode]:
        """Everything that names this owner, by kind and name."""
        found = [self._nodes[dependent] for dependent in self._dependents.get(uid, ())]
        return sorted(found, key=lambda node: (node.resource.qualified, node.obj.metadata.key))

    def change(self, resource: Resource, old: Object | None, new: Object | None) -> Iterator[str]:
        """Take a change over; yields the uids whose fate it concerns."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            yield from self._remove(old.metadata.uid)
        if new is None:
            return
        node = self._nodes.get(new.metadata.uid)
        if node is None:
            yield from self._add(GraphNode(resource, new))
        else:
            before, node.obj = node.obj, new
            if _matters(before, new):
                yield from self._update(node, before)

    def _add(self, node: GraphNode) -> Iterator[str]:
        uid = node.obj.metadata.uid
        self._nodes[uid] = node
        yield from self._link(node, node.obj.metadata.owner_references)
        if node.is_going:
            yield from self._started(node, was_waiting=False)
        for dependent in self.dependents(uid):  # somebody named an owner that was not known yet
            meta = dependent.obj.metadata
            if not any(
                node.is_meant(reference, meta.namespace) for reference in meta.owner_references if reference.uid == uid
            ):
                yield meta.uid

    def _update(self, node: GraphNode, before: Object) -> Iterator[str]:
        old_references, references = before.metadata.owner_references, node.obj.metadata.owner_references
        if old_references != references:
            yield from self._unlink(before)
            yield from self._link(node, references)
        if node.is_going:
            yield from self._started(node, was_waiting=GraphNode(node.resource, before).is_waiting)

    def _remove(self, uid: str) -> Iterator[str]:
        node = self._nodes.pop(uid, None)
        if node is None:
            return
        yield from self._unlink(node.obj)
        yield from (dependent.obj.metadata.uid for dependent in self.dependents(uid))

    def _started(self, node: GraphNode, *, was_waiting: bool) -> Iterator[str]:
        uid = node.obj.metadata.uid
        if node.is_waiting or node.is_orphaning:
            yield uid
        if node.is_waiting and not was_waiting:
            yield from (dependent.obj.metadata.uid for dependent in self.dependents(uid))

    def _link(self, node: GraphNode, references: tuple[OwnerReference, ...]) -> Iterator[str]:
        """The node itself is concerned if not all its owners are known to be well."""
        meta = node.obj.metadata
        is_sure = True
        for reference in references:
            self._dependents.setdefault(reference.uid, {})[meta.uid] = None
            owner = self._nodes.get(reference.uid)
            if owner is None or owner.is_waiting or not owner.is_meant(reference, meta.namespace):
                is_sure = False
            if owner is not None and owner.is_waiting:
                yield reference.uid
        if not is_sure:
            yield meta.uid

    def _unlink(self, obj: Object) -> Iterator[str]:
        """Owners that wait for their dependents may now be free."""
        for reference in obj.metadata.owner_references:
            members = self._dependents.get(reference.uid)
            if members is not None:
                members.pop(obj.metadata.uid, None)
                if not members:
                    del self._dependents[reference.uid]
            owner = self._nodes.get(reference.uid)
            if owner is not None and owner.is_waiting:
                yield reference.uid


def _matters(before: Object, after: Object) -> bool:
    old, new = before.metadata, after.metadata
    return (
        old.deletion_timestamp != new.deletion_timestamp
        or old.finalizers != new.finalizers
        or old.owner_references != new.owner_references
    )
