"""Informers of all kinds that are served, custom ones included, for controllers that must not know any kind by name.

Garbage collection, quotas and the end of a namespace concern all kinds. The built-in ones are a table; the others come
and go with their CustomResourceDefinitions, and so do the informers here. Events are left out: they belong to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypeVar

from fairlead.api import builtin
from fairlead.api.crds import CustomResourceDefinition
from fairlead.api.meta import Object
from fairlead.api.resources import Resource
from fairlead.client.informer import Informer
from fairlead.controllers.actions import Kind

T = TypeVar("T", bound=Object)

DEFINITIONS: Final = Kind(builtin.CUSTOM_RESOURCE_DEFINITIONS, CustomResourceDefinition)

#: Called with (resource, old, new) for every change of every object.
Follower = Callable[[Resource, Object | None, Object | None], None]

_UNFOLLOWED: Final = frozenset({builtin.EVENTS.qualified, builtin.EVENTS_K8S_IO.qualified})
_NEEDED_VERBS: Final = frozenset({"delete", "list", "watch"})


class Copies(Protocol):
    """Who keeps a copy of every kind that anybody reads (`base.World`)."""

    def of(self, kind: Kind[T]) -> Informer[T]: ...

    def forget(self, kind: Kind[Any]) -> None: ...


def served(world: Copies) -> Iterable[Resource]:
    """Every group, version and kind that is served now."""
    yield from builtin.RESOURCES
    for definition in sorted(world.of(DEFINITIONS), key=lambda definition: definition.metadata.name):
        yield from definition.resources()


def deletable(world: Copies) -> list[Resource]:
    """Every kind that can be deleted and watched, each once."""
    found: dict[str, Resource] = {}
    for resource in served(world):
        if _NEEDED_VERBS.issubset(resource.verbs):
            found.setdefault(resource.qualified, resource)
    return list(found.values())


def resource_of(world: Copies, api_version: str, kind: str) -> Resource | None:
    """The kind that an object or a reference names, if it is served."""
    found = _BUILTIN.get((api_version, kind))
    if found is not None:
        return found
    definitions = world.of(DEFINITIONS).index("kinds", _kinds_of)[_kind_key(api_version, kind)]
    resources = (resource for definition in definitions for resource in definition.resources())
    return next(
        (resource for resource in resources if (resource.api_version, resource.kind) == (api_version, kind)), None
    )


def _kinds_of(definition: CustomResourceDefinition) -> list[str]:
    return [_kind_key(resource.api_version, resource.kind) for resource in definition.resources()]


def _kind_key(api_version: str, kind: str) -> str:
    return f"{api_version} {kind}"


_BUILTIN = {
    (resource.api_version, resource.kind): resource
    for resource in builtin.RESOURCES
    if _NEEDED_VERBS.issubset(resource.verbs)
}


class DynamicInformers:
    """One informer for each kind; ask for it before the informers run."""

    def __init__(self, world: Copies) -> None:
        self._world = world
        self._followers: list[Follower] = []
        self._followed: dict[str, tuple[Resource, Informer[Object]]] = {}
        self._custom: dict[str, Resource] = {}
        self._definitions = world.of(DEFINITIONS)
        for resource in deletable(world):
            self._begin(resource)

    async def synced(self) -> None:
        """Return once the first list of every built-in kind has arrived."""
        for _, informer in list(self._followed.values()):
            await informer.synced()

    def subscribe(self, follower: Follower) -> None:
        """Call `follower` at every change from now on, and once for each object already here."""
        if not self._followers:
            self._definitions.subscribe(self._defined)
        self._followers.append(follower)
        for resource, informer in list(self._followed.values()):
            for item in informer:
                follower(resource, None, item)

    def _begin(self, resource: Resource) -> None:
        if resource.qualified in _UNFOLLOWED or resource.qualified in self._followed:
            return
        informer = self._world.of(Kind(resource, Object))
        self._followed[resource.qualified] = resource, informer
        informer.subscribe(lambda old, new: self._changed(resource, old, new))

    def _changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        for follower in self._followers:
            follower(resource, old, new)

    def _defined(self, old: CustomResourceDefinition | None, new: CustomResourceDefinition | None) -> None:
        """A definition came, changed or went: the informer of its kind does the same."""
        either = new or old
        assert either is not None
        wanted = next(new.resources(), None) if new is not None else None
        current = self._custom.pop(either.metadata.name, None)
        if current is not None and (wanted is None or wanted.path() != current.path()):
            self._followed.pop(current.qualified, None)
            self._world.forget(Kind(current, Object))
        if wanted is not None:
            self._custom[either.metadata.name] = wanted
            self._begin(wanted)
