"""Who controls what: adopting orphans that match a selector, and releasing what no longer does.

Selectors of two owners may overlap, so an object belongs to whoever its controller reference names, never to whom it
would match (pkg/controller/controller_ref_manager.go).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from fairlead.api.errors import Conflict, Invalid, NotFound
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from fairlead.controllers.actions import Action, Kind, Patch, Read
from fairlead.controllers.base import World

T = TypeVar("T", bound=Object)
Owner = TypeVar("Owner", bound=Object)

Claimed = Generator[Action, Any, list[T]]


def controller_reference(kind: Kind[Any], owner: Object) -> Obj:
    """The owner reference that makes `owner` the controller of an object."""
    return {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def candidates(world: World, kind: Kind[T], owner: Object) -> list[T]:
    """Everything that `owner` controls or might adopt."""
    return world.owned(kind, owner) + world.orphans(kind, owner.metadata.namespace)


def is_controlled_by(obj: Object, owner: Object) -> bool:
    controller = obj.metadata.controller
    return controller is not None and controller.uid == owner.metadata.uid


def claim(
    owner_kind: Kind[Owner], owner: Owner, kind: Kind[T], found: Iterable[T], matches: Callable[[T], bool]
) -> Claimed[T]:
    """The objects among `found` that belong to `owner`, after it has adopted and released what it should."""
    mine: list[T] = []
    may_adopt = False
    for obj in found:
        if obj.metadata.controller is not None:
            if not is_controlled_by(obj, owner):
                continue
            if matches(obj):
                mine.append(obj)
            elif not owner.metadata.is_terminating:
                yield from _release(owner, kind, obj)
        elif not owner.metadata.is_terminating and not obj.metadata.is_terminating and matches(obj):
            if not may_adopt:
                yield from _check_still_there(owner_kind, owner)
                may_adopt = True
            mine += yield from _adopt(owner_kind, owner, kind, obj)
    return mine


def _check_still_there(kind: Kind[Owner], owner: Owner) -> Generator[Action, Any, None]:
    """Adopting for an owner that was just deleted would make the pod's garbage collection a surprise."""
    meta = owner.metadata
    fresh: Owner = yield Read(kind, meta.name, meta.namespace)
    if fresh.metadata.uid != meta.uid or fresh.metadata.is_terminating:
        raise Conflict.of(kind.resource.plural, meta.name, "it has just been deleted", kind.resource.group)


def _adopt(owner_kind: Kind[Owner], owner: Owner, kind: Kind[T], obj: T) -> Claimed[T]:
    patch = {"metadata": {"ownerReferences": [controller_reference(owner_kind, owner)]}}
    try:
        yield Patch(kind, obj, patch, PatchType.STRATEGIC)
    except NotFound:
        return []
    return [obj]


def _release(owner: Object, kind: Kind[T], obj: T) -> Generator[Action, Any, None]:
    patch = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner.metadata.uid}]}}
    try:
        yield Patch(kind, obj, patch, PatchType.STRATEGIC)
    except (NotFound, Invalid):  # gone, or somebody else has released it
        return
