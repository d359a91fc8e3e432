"""Who controls what: adopting orphans that match a selector, and releasing what no longer does.

Selectors of two owners may overlap, so an object belongs to whoever its controller reference names, never to whom it
would match (pkg/controller/controller_ref_manager.go).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from fairlead.api.errors import Conflict, Invalid, NotFound
from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from fairlead.controllers.actions import Action, Kind, Patch, Read
from fairlead.controllers.base import Wakes, World
from fairlead.controllers.selecting import SelectorOf, selected_orphans, selecting

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


def candidates(world: World, kind: Kind[T], owner: Object, selector: LabelSelector) -> list[T]:
    """Everything that `owner` controls, or might adopt as its selector selects it."""
    return world.owned(kind, owner) + selected_orphans(world, kind, owner.metadata.namespace, selector)


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


# --- whom a change concerns --------------------------------------------------------------------------------


def owner_of(kind: Kind[Any], selector: SelectorOf[Any] | None = None) -> Wakes:
    """Wake the object of `kind` that controls what changed, before and after.

    With `selector`, a change of an orphan also wakes everybody who might adopt it.
    """

    def wakes(world: World, old: Object | None, new: Object | None) -> Iterable[str]:
        if _is_ownerless(old) and _is_ownerless(new) and not (selector and _is_new_to_adopters(old, new)):
            return ()  # most changes concern nobody, and every change asks every controller
        return woken(world, old, new)

    def woken(world: World, old: Object | None, new: Object | None) -> Iterator[str]:
        for version in (old, new):
            if version is not None and (key := _owner_key(kind, version)) is not None:
                owner = world.get(kind, key)
                if owner is not None and owner.metadata.uid == _owner_uid(version):
                    yield key
        if selector is not None and new is not None and _is_new_to_adopters(old, new):
            for candidate in selecting(world, kind, selector, new.metadata.namespace, new.metadata.labels):
                yield candidate.metadata.key

    return wakes


def _is_ownerless(obj: Object | None) -> bool:
    return obj is None or not obj.metadata.owner_references


def _owner_key(kind: Kind[Any], obj: Object) -> str | None:
    owner = obj.metadata.controller
    if owner is None or owner.kind != kind.resource.kind or not _same_group(owner.api_version, kind):
        return None
    return f"{obj.metadata.namespace}/{owner.name}" if kind.resource.namespaced else owner.name


def _same_group(api_version: str, kind: Kind[Any]) -> bool:
    return api_version.rpartition("/")[0] == kind.resource.group


def _owner_uid(obj: Object) -> str:
    owner = obj.metadata.controller
    return owner.uid if owner is not None else ""


def _is_new_to_adopters(old: Object | None, new: Object | None) -> bool:
    """Whether an orphan appeared, lost its owner, or carries other labels than before."""
    if new is None or new.metadata.controller is not None:
        return False
    return old is None or old.metadata.controller is not None or old.metadata.labels != new.metadata.labels
