"""The fate of one object, decided from what its owners are doing.

    all owners gone                       delete it
    some gone or waiting, some well       drop the references to the others
    one waits for it, none is well        delete it, in the foreground if it has dependents itself
    it waits for its dependents           let it go once none of them blocks it
    it wants its dependents to stay       make them forget it, then let it go

Source: pkg/controller/garbagecollector/garbagecollector.go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from enum import Enum, auto
from typing import Any, Final

import msgspec

from fairlead.api import builtin
from fairlead.api.errors import NotFound
from fairlead.api.event_types import WARNING
from fairlead.api.meta import Object, OwnerReference
from fairlead.api.names import FOREGROUND, ORPHAN
from fairlead.api.objects import Obj
from fairlead.api.references import Reference
from fairlead.api.resources import Resource
from fairlead.api.verbs import DeleteOptions
from fairlead.caches import LruCache
from fairlead.controllers.actions import (
    Action,
    Actions,
    Delete,
    Emit,
    Kind,
    Patch,
    Read,
    Together,
    refusals,
    without_finalizer,
)
from fairlead.controllers.base import Controller, World
from fairlead.controllers.dynamic_informers import resource_of
from fairlead.controllers.garbage.graph import Graph, GraphNode
from fairlead.controllers.kinds import NAMESPACES

#: How many owners that are gone are remembered, so that not each of their dependents asks the server.
REMEMBERED: Final = 500

#: The policy that honours what an object already asks for.
_POLICY_OF_FINALIZER: Final = ((ORPHAN, "Orphan"), (FOREGROUND, "Foreground"))


class _Owner(Enum):
    SOLID = auto()
    WAITING = auto()  # for its dependents
    GONE = auto()
    UNKNOWN = auto()  # nobody serves such a kind: it may come back, so its dependents are left alone
    IMPOSSIBLE = auto()  # a cluster-wide object cannot belong to one in a namespace


class GarbageCollector(Controller[Any]):
    """Its keys are uids; it has no kind of its own."""

    name = "garbage-collector-controller"
    queue_name = "garbage_collector_attempt_to_delete"
    account = "generic-garbage-collector"
    kind = NAMESPACES
    workers = 20
    follows_everything = True

    def __init__(self) -> None:
        self._graph = Graph()
        self._unmapped: set[str] = set()
        self._absent: LruCache[tuple[str, ...], bool] = LruCache(REMEMBERED)  # owners that the server does not have

    def concerns(self, old: Object | None, new: Object | None, world: World) -> bool:
        return False

    def woken_by(self, world: World, resource: Resource, old: Object | None, new: Object | None) -> Iterable[str]:
        if resource.qualified == builtin.CUSTOM_RESOURCE_DEFINITIONS.qualified and self._unmapped:
            yield from sorted(self._unmapped)
            self._unmapped.clear()
        yield from self._graph.change(resource, old, new)

    def gone(self, key: str, world: World) -> Actions:
        node = self._graph.get(key)
        if node is None:
            return
        if node.is_orphaning:
            yield from _orphan(node, self._graph.dependents(key))
        elif node.is_waiting:
            if not any(_blocks(dependent, key) for dependent in self._graph.dependents(key)):
                yield from _let_go(node, FOREGROUND)
        elif not node.is_going and node.obj.metadata.owner_references:
            yield from self._judge(node, world)

    def _judge(self, node: GraphNode, world: World) -> Actions:
        references = node.obj.metadata.owner_references
        states: dict[str, _Owner] = {}
        for reference in references:
            states[reference.uid] = yield from self._state_of(reference, node, world)
        found = set(states.values())
        if _Owner.IMPOSSIBLE in found:
            return
        if _Owner.UNKNOWN in found:
            self._unmapped.add(node.obj.metadata.uid)
            return
        if _Owner.SOLID in found:
            kept = [reference for reference in references if states[reference.uid] is _Owner.SOLID]
            if len(kept) < len(references):
                yield _with_references(node, kept)
            return
        dependents = self._graph.dependents(node.obj.metadata.uid)
        if _Owner.WAITING in found and dependents:
            if any(
                dependent.is_waiting for dependent in dependents
            ):  # perhaps a circle, in which each would wait for the other
                yield _with_references(node, [_unblocked(reference) for reference in references])
                yield Delete(_kind(node), node.obj, DeleteOptions(propagation_policy="Foreground"))
            else:
                yield _delete(node, "Foreground")
            return
        finalizers = node.obj.metadata.finalizers
        yield _delete(
            node, next((policy for finalizer, policy in _POLICY_OF_FINALIZER if finalizer in finalizers), "Background")
        )

    def _state_of(self, reference: OwnerReference, node: GraphNode, world: World) -> Generator[Action, Any, _Owner]:
        namespace = node.obj.metadata.namespace
        known = self._graph.get(reference.uid)
        if known is not None:
            if known.is_meant(reference, namespace):
                return _Owner.WAITING if known.is_waiting else _Owner.SOLID
            if not known.is_within_reach(namespace):
                yield _complaint(reference, node)
        where = (namespace, reference.api_version, reference.kind, reference.name, reference.uid)
        if where in self._absent:
            return _Owner.GONE
        resource = resource_of(world, reference.api_version, reference.kind)
        if resource is None:
            return _Owner.UNKNOWN
        if resource.namespaced and not namespace:
            return _Owner.IMPOSSIBLE
        state = yield from _ask(reference, resource, namespace if resource.namespaced else "")
        if state is _Owner.GONE:
            self._absent.put(where, True)
        return state


def _ask(reference: OwnerReference, resource: Resource, namespace: str) -> Generator[Action, Any, _Owner]:
    """The graph lags behind the server, so what it does not know may still be there."""
    try:
        owner: Object = yield Read(Kind(resource, Object), reference.name, namespace)
    except NotFound:
        return _Owner.GONE
    if owner.metadata.uid != reference.uid:
        return _Owner.GONE
    return _Owner.WAITING if GraphNode(resource, owner).is_waiting else _Owner.SOLID


def _complaint(reference: OwnerReference, node: GraphNode) -> Emit:
    meta = node.obj.metadata
    owner = (
        f"[{reference.api_version}/{reference.kind}, namespace: {meta.namespace}, name: {reference.name}, "
        f"uid: {reference.uid}]"
    )
    about = Reference(
        kind=node.resource.kind,
        api_version=node.resource.api_version,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
    )
    text = f'ownerRef {owner} does not exist in namespace "{meta.namespace}"'
    return Emit("OwnerRefInvalidNamespace", text, WARNING, about)


def _orphan(owner: GraphNode, dependents: Sequence[GraphNode]) -> Actions:
    uid = owner.obj.metadata.uid
    patches = [_with_references(dependent, _others(dependent, uid)) for dependent in dependents]
    refused = refusals((yield Together(patches)))
    for error in refused:
        if not isinstance(error, NotFound):
            raise error
    yield from _let_go(owner, ORPHAN)


def _let_go(node: GraphNode, finalizer: str) -> Actions:
    meta = node.obj.metadata
    fresh: Object = yield Read(_kind(node), meta.name, meta.namespace)
    if fresh.metadata.uid == meta.uid and finalizer in fresh.metadata.finalizers:
        yield without_finalizer(_kind(node), fresh, finalizer)


def _delete(node: GraphNode, policy: str) -> Delete:
    """Only as it was when it was judged: somebody may have adopted it since."""
    revision = node.obj.metadata.resource_version
    options = DeleteOptions(propagation_policy=policy, precondition_resource_version=revision)
    return Delete(_kind(node), node.obj, options)


def _with_references(node: GraphNode, references: Sequence[OwnerReference]) -> Patch:
    written = [_written(reference) for reference in references] or None
    return Patch(_kind(node), node.obj, {"metadata": {"ownerReferences": written}}, unchanged=True)


def _written(reference: OwnerReference) -> Obj:
    return {name: value for name, value in msgspec.to_builtins(reference).items() if value is not None}


def _unblocked(reference: OwnerReference) -> OwnerReference:
    return msgspec.structs.replace(reference, block_owner_deletion=False)


def _others(node: GraphNode, uid: str) -> list[OwnerReference]:
    return [reference for reference in node.obj.metadata.owner_references if reference.uid != uid]


def _blocks(dependent: GraphNode, uid: str) -> bool:
    return any(
        reference.uid == uid and reference.block_owner_deletion for reference in dependent.obj.metadata.owner_references
    )


def _kind(node: GraphNode) -> Kind[Object]:
    return Kind(node.resource, Object)
