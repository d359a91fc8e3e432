"""What a controller is, and what it sees of the world.

A controller is written as if the world stood still: it gets one object, reads others through `World`, and yields
actions (`actions.py`). It never waits and never calls the API; `runner.py` does both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from fairlead.api.meta import Object
from fairlead.api.resources import Resource
from fairlead.client.informer import Index, Informer, Informers
from fairlead.controllers.actions import Actions, Kind, Requeue
from fairlead.controllers.dynamic_informers import DynamicInformers
from fairlead.runtime import clock
from fairlead.runtime.metrics import Family

T = TypeVar("T", bound=Object)

#: Kubernetes runs five workers for most controllers (--concurrent-*-syncs).
WORKERS = 5

#: How long changes of dependents are gathered before their owner is woken: a thousand pods that become ready
#: together are one reconcile, not a thousand. Creations and deletions wake at once, unless the controller is patient.
SETTLE_SECONDS = 0.01
#: A controller that has thought much lately gathers them for so many times as long: else an owner of thousands, of whom
#: one after the other becomes ready, or a hundred that look at the same thousand, would take all the time there is.
SETTLE_TURNS = 10
LONGEST_SETTLE_SECONDS = 5.0
#: What it thought that long ago counts for a third (1/e).
THOUGHT_FADES_SECONDS = 0.5


class World:
    """The informers' copy of the cluster, as controllers ask for it."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._known: dict[tuple[str, type], Informer[Any]] = {}
        self._everything: DynamicInformers | None = None

    @property
    def now(self) -> float:
        """Seconds since the epoch, for what is told and for what others have told."""
        return clock.now()

    @property
    def monotonic(self) -> float:
        """Seconds on a clock that nobody sets, for how long something has lasted here."""
        return clock.monotonic()

    def of(self, kind: Kind[T]) -> Informer[T]:
        """The informer of a kind; asked for before the informers run, or it stays empty."""
        found: Informer[T] | None = self._known.get((kind.resource.qualified, kind.view))
        if found is None:
            found = self._richer(kind)
            if found is None:  # an informer without objects is falsy
                found = self._informers.of(kind.resource, kind.view)
            self._known[kind.resource.qualified, kind.view] = found
        return found

    def _richer(self, kind: Kind[T]) -> Informer[T] | None:
        """Who wants nothing but metadata can share any copy that is kept already."""
        if kind.view is not Object:
            return None
        return next((informer for (name, _), informer in self._known.items() if name == kind.resource.qualified), None)

    def informer_of(self, kind: Kind[T]) -> Informer[T] | None:
        """The informer, if anybody reads this kind."""
        return self._known.get((kind.resource.qualified, kind.view))

    def forget(self, kind: Kind[Any]) -> None:
        """The kind is not served any more. Who is told that its last objects are gone may still ask for it."""
        key = (kind.resource.qualified, kind.view)
        if key in self._known:
            self._informers.drop(kind.resource, kind.view)
            del self._known[key]

    @property
    def everything(self) -> DynamicInformers:
        """The informers of all kinds; like `of`, asked for before the informers run."""
        if self._everything is None:
            self._everything = DynamicInformers(self)
        return self._everything

    def get(self, kind: Kind[T], key: str) -> T | None:
        """The object with that `namespace/name` (or name)."""
        return self.of(kind).get(key)

    def within(self, kind: Kind[T], namespace: str) -> list[T]:
        """All objects of a namespace, by name."""
        return by_name(self._index(kind, "namespace", _namespace_of)[namespace])

    def count(self, kind: Kind[T], namespace: str) -> int:
        """How many objects a namespace has."""
        return self._index(kind, "namespace", _namespace_of).count(namespace)

    def owned(self, kind: Kind[T], owner: Object) -> list[T]:
        """The objects that `owner` controls, by name."""
        return self.controlled_by(kind, owner.metadata.uid)

    def controlled_by(self, kind: Kind[T], uid: str) -> list[T]:
        """The objects whose controller has that uid, by name."""
        return by_name(self._index(kind, "controller", _controller_of)[uid])

    def _index(self, kind: Kind[T], name: str, keys: Callable[[T], Iterable[str]]) -> Index[T]:
        return self.of(kind).index(name, keys)


def _namespace_of(obj: Object) -> tuple[str]:
    return (obj.metadata.namespace,)


def _controller_of(obj: Object) -> tuple[str, ...]:
    owner = obj.metadata.controller
    return (owner.uid,) if owner is not None else ()


def by_name(found: list[T]) -> list[T]:
    """The same list, in order."""
    found.sort(key=_name_of)
    return found


def _name_of(obj: Object) -> str:
    return obj.metadata.name


#: Which keys of the controller's own kind a change (old, new) of another object concerns.
Wakes = Callable[[World, Any, Any], Iterable[str]]


class Watch(msgspec.Struct, frozen=True):
    """Reconcile when something else changes. A kind that is only read, without waking anybody, has no `wakes`."""

    kind: Kind[Any]
    wakes: Wakes | None = None
    #: Whether `wakes` names only objects that the controller's informer has: while there is none, it is not asked.
    wakes_known: bool = False


class Controller(Generic[T]):
    """One controller. Subclasses set `name`, `kind` and `watches`, and write `reconcile`.

    State kept on the instance must be a cache that can be lost. `name` is also the source component of its events.
    """

    name: ClassVar[str]
    #: How metrics call its work queue; "": by its name.
    queue_name: ClassVar[str] = ""
    #: The service account of kube-system as which it writes, by kube-controller-manager's names; "" for its own user.
    account: ClassVar[str] = ""
    kind: Kind[T]
    watches: Sequence[Watch] = ()
    #: What it counts beside its work queue.
    families: Sequence[Family] = ()
    workers: ClassVar[int] = WORKERS
    #: Whether it only reports: nobody waits for its answer to what is made or removed, so that is gathered as well.
    is_patient: ClassVar[bool] = False
    #: Whether `woken_by` is asked about every change of every kind that is served.
    follows_everything: ClassVar[bool] = False

    def woken_by(self, world: World, resource: Resource, old: Object | None, new: Object | None) -> Iterable[str]:
        """Which keys a change of any object concerns; only for a controller that follows everything."""
        return ()

    def follow(self, wake: Callable[[str], None]) -> None:
        """Follow what is no object of the API; `wake` with the key of what that concerns. Called once."""

    def concerns(self, old: T | None, new: T | None, world: World) -> bool:
        """Whether a change of an object of the controller's own kind is worth a reconcile."""
        return True

    def reconcile(self, obj: T, world: World) -> Actions:
        """What to do to bring the world nearer to what `obj` says."""
        raise NotImplementedError

    def gone(self, key: str, world: World) -> Actions:
        """What to do when the object of that key does not exist (any more)."""
        yield from ()


class Sweeper(Controller[T]):
    """A controller that looks at the whole world every few seconds, instead of at an object when it changes.

    `kind` is the kind that it looks at.
    """

    every_seconds: ClassVar[float]
    workers = 1

    def sweep(self, world: World) -> Actions:
        """One look at the world; refusals are told, and the next sweep tries again."""
        raise NotImplementedError

    def reconcile_all(self, world: World) -> Actions:
        yield Requeue(self.every_seconds)
        yield from self.sweep(world)
