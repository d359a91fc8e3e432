"""An informer is a local copy of a collection that is always nearly current.

Components decide on informers, not on requests: reading is a dict look-up, and a change wakes whoever
subscribed. The copy holds views (`fairlead.api.meta`), decoded once per version of an object. When the server has
forgotten the history an informer needs, it lists again and tells subscribers the difference, so they never miss
that an object is gone.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from fairlead.api.encoded import Encoded
from fairlead.api.errors import ApiError, Gone, NotFound
from fairlead.api.meta import Object, Versioned
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, EventType, ListQuery, WatchEvent, WatchQuery
from fairlead.runtime.clock import monotonic, running_loop
from fairlead.runtime.turns import Turn, in_turns

T = TypeVar("T", bound=Object)

#: Called with (old, new): old is None for a new object, new is None for one that is gone.
Handler = Callable[[T | None, T | None], None]

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
#: Until a kind is looked for again that the server did not know.
RETRY_UNKNOWN_SECONDS = 60.0


class Index(Generic[T]):
    """The objects of an informer by some other key: pods by node, replica sets by owner."""

    def __init__(self, keys: Callable[[T], Iterable[str]]) -> None:
        self._keys = keys
        self._members: dict[str, dict[str, T]] = {}

    def __getitem__(self, value: str) -> list[T]:
        return list(self._members.get(value, {}).values())

    def __iter__(self) -> Iterator[str]:
        """The values that there are."""
        return iter(self._members)

    def first(self, value: str) -> T | None:
        """Any one of them, however many there are."""
        return next(iter(self._members.get(value, {}).values()), None)

    def count(self, value: str) -> int:
        return len(self._members.get(value, ()))

    def replace(self, old: T | None, new: T | None) -> None:
        if old is not None:
            for value in self._keys(old):
                if members := self._members.get(value):
                    members.pop(old.metadata.key, None)
                    if not members:
                        del self._members[value]
        if new is not None:
            for value in self._keys(new):
                self._members.setdefault(value, {})[new.metadata.key] = new


class Informer(Generic[T]):
    """A collection (of one namespace, or of all with `""`), kept current by list and watch."""

    def __init__(
        self, api: Api, resource: Resource, view: type[T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> None:
        self.resource = resource
        self.revision = 0
        self._api, self._view = api, view
        self._namespace, self._labels, self._fields = namespace, labels, fields
        self._items: dict[str, T] = {}
        self._handlers: list[Handler[T]] = []
        self._indexes: dict[str, Index[T]] = {}
        #: A server may not know the kind: then there is none of it, until it does.
        self.may_be_unknown = False
        self._synced = asyncio.Event()
        self._progress: list[tuple[int, asyncio.Future[None]]] = []

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._items.values()))

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> T | None:
        """The object with that `namespace/name` (or name)."""
        return self._items.get(key)

    def index(self, name: str, keys: Callable[[T], Iterable[str]]) -> Index[T]:
        """The index of that name; the first caller says how it is keyed."""
        found = self._indexes.get(name)
        if found is None:
            found = self._indexes[name] = Index(keys)
            for item in self._items.values():
                found.replace(None, item)
        return found

    def subscribe(self, handler: Handler[T]) -> None:
        """Call `handler(old, new)` at every change from now on, and once for each object already here."""
        self._handlers.append(handler)
        for item in list(self._items.values()):
            handler(None, item)

    async def follow(self, handler: Handler[T]) -> None:
        """The same for one to whom it does not matter if a change comes first: others have turns in between."""
        self._handlers.append(handler)
        async for key in in_turns(list(self._items)):
            if (item := self._items.get(key)) is not None:
                handler(None, item)

    async def synced(self) -> None:
        """Return once the first list has arrived."""
        await self._synced.wait()

    async def reached(self, revision: int) -> None:
        """Return once this informer has seen the given revision of its own resource."""
        if self.revision >= revision:
            return
        arrived: asyncio.Future[None] = running_loop().create_future()
        self._progress.append((revision, arrived))
        await arrived

    async def run(self) -> None:
        """List and watch; returns only by cancellation.

        A watch that ends is taken up where it ended. One that breaks, or whose history is forgotten, begins with a
        list: a server that went away may have come back with another state.
        """
        trouble = ""
        while True:
            try:
                await self._list()
                trouble = ""
                while True:
                    began, revision = monotonic(), self.revision
                    await self._watch()
                    if self.revision == revision and monotonic() - began < RETRY_SECONDS:
                        await asyncio.sleep(RETRY_SECONDS)  # somebody ends watches as soon as they begin
            except Gone:
                continue
            except (ApiError, OSError) as error:
                is_unknown = self.may_be_unknown and isinstance(error, NotFound)
                if is_unknown:
                    self._synced.set()
                elif str(error) != trouble:  # once, however long it lasts
                    log.warning("informer of %s: %s; trying again", self.resource.qualified, error)
                trouble = str(error)
                await asyncio.sleep(RETRY_UNKNOWN_SECONDS if is_unknown else RETRY_SECONDS)

    async def _list(self) -> None:
        query = ListQuery(labels=self._labels, fields=self._fields)
        listing = await self._api.list(self.resource, self._namespace, query)
        fresh: dict[str, T] = {}
        async for entry in in_turns(listing.items):
            if (item := self._decoded(entry)) is not None:
                fresh[item.metadata.key] = item
        async for key in in_turns([key for key in self._items if key not in fresh]):
            self._replace(key, None)
        async for key, item in in_turns(fresh.items()):
            known = self._items.get(key)
            if known is not None and known.metadata.uid != item.metadata.uid:
                self._replace(key, None)  # it went, and another of its name came
                known = None
            if known is None or known.metadata.resource_version != item.metadata.resource_version:
                self._replace(key, item)
        self._advance(int(listing.resource_version or 0))
        self._synced.set()

    async def _watch(self) -> None:
        query = WatchQuery(
            labels=self._labels, fields=self._fields, resource_version=str(self.revision), bookmarks=True
        )
        turn = Turn()
        async for event in self._api.watch(self.resource, self._namespace, query):
            self._apply(event)
            if turn.is_over:  # of those that have come already none is waited for
                await asyncio.sleep(0)
                turn = Turn()

    def _apply(self, event: WatchEvent) -> None:
        if event.type is EventType.BOOKMARK:
            self._advance(int(event.object.view(Versioned).metadata.resource_version))
            return
        item = self._decoded(event.object)
        if item is None:
            meta = event.object.view(Versioned).metadata
            self._replace(meta.key, None)  # better gone than outdated
            self._advance(int(meta.resource_version))
            return
        self._replace(item.metadata.key, None if event.type is EventType.DELETED else item)
        self._advance(int(item.metadata.resource_version))

    def _decoded(self, entry: Encoded) -> T | None:
        """The object as the view shows it. One that no view can show is told and left out: the others go on."""
        try:
            return entry.view(self._view)
        except msgspec.ValidationError as error:
            key = entry.view(Versioned).metadata.key
            log.warning("informer of %s: leaving out %s, which cannot be read: %s", self.resource.qualified, key, error)
            return None

    def _replace(self, key: str, new: T | None) -> None:
        old = self._items.pop(key, None)
        if new is not None:
            self._items[key] = new
        elif old is None:
            return
        for index in self._indexes.values():
            index.replace(old, new)
        for handler in self._handlers:
            handler(old, new)

    def clear(self) -> None:
        """Tell subscribers that everything is gone. Whatever was written, nothing more will be seen of it."""
        for key in list(self._items):
            self._replace(key, None)
        self._advance(sys.maxsize)

    def _advance(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        if self._progress:
            reached = [waiter for waiter in self._progress if waiter[0] <= self.revision]
            self._progress = [waiter for waiter in self._progress if waiter[0] > self.revision]
            for _, future in reached:
                if not future.done():
                    future.set_result(None)


class Informers:
    """One informer per resource and view for a whole process: everybody shares the copy and the decoding."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._shared: dict[tuple[str, type], Informer[Any]] = {}
        self._tasks: dict[tuple[str, type], asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def of(self, resource: Resource, view: type[T]) -> Informer[T]:
        """The shared informer, made on first use; `run` starts it, or has started already and takes it up."""
        key = (resource.qualified, view)
        if key not in self._shared:
            self._shared[key] = Informer(self.api, resource, view)
            self._start(key)
        found: Informer[T] = self._shared[key]
        return found

    def drop(self, resource: Resource, view: type[Object]) -> None:
        """Forget a kind that is not served any more; its subscribers are told that its objects are gone."""
        key = (resource.qualified, view)
        informer = self._shared.pop(key, None)
        if (task := self._tasks.pop(key, None)) is not None:
            task.cancel()
        if informer is not None:
            informer.clear()

    async def run(self) -> None:
        """Run every informer, those asked for later too."""
        async with asyncio.TaskGroup() as self._group:
            for key in list(self._shared):
                self._start(key)
            await running_loop().create_future()  # a kind may come at any time

    def _start(self, key: tuple[str, type]) -> None:
        if self._group is not None:
            self._tasks[key] = self._group.create_task(self._shared[key].run(), name=f"informer {key[0]}")

    async def synced(self) -> None:
        for informer in self._shared.values():
            await informer.synced()
