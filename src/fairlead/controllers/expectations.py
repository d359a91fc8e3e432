"""Read your writes: a key is not reconciled again before the informers have seen what it wrote.

Without this a controller would count its pods from a stale copy and create too many (client-go calls the cure
"expectations"). A write has landed when its informer has reached the revision of the answer; a deletion, whose
answer does not tell a revision, has landed when the informer's copy is gone or terminating.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Any, Final

import msgspec

from fairlead.api.meta import Object, ObjectMeta
from fairlead.client.informer import Informer
from fairlead.controllers.actions import Kind
from fairlead.controllers.base import World
from fairlead.runtime.clock import running_loop

#: pkg/controller's ExpectationsTimeout: after this long, act on what is known.
PATIENCE_SECONDS = 300.0
#: How many keys may have written before those are forgotten whose writes have arrived: of objects that go, nobody asks.
_MANY: Final = 1024

log = logging.getLogger(__name__)


class _Unseen(msgspec.Struct):
    revisions: dict[Informer[Any], int] = msgspec.field(default_factory=dict)
    removals: list[tuple[Informer[Any], str, str]] = msgspec.field(default_factory=list)  # informer, key, uid

    @property
    def late(self) -> list[tuple[Informer[Any], int]]:
        return [(informer, revision) for informer, revision in self.revisions.items() if informer.revision < revision]

    @property
    def present(self) -> list[tuple[Informer[Any], str, str]]:
        return [removal for removal in self.removals if not _is_removed(*removal)]

    @property
    def has_arrived(self) -> bool:
        return not self.late and not self.present


class Expectations:
    """What each key of one controller has written and not yet seen.

    Where they are worked on one at a time, each waits for what all of them wrote (`is_shared`): else one would choose
    what the one before has just taken.
    """

    def __init__(self, world: World, *, is_shared: bool = False) -> None:
        self._world, self._is_shared = world, is_shared
        self._unseen: dict[str, _Unseen] = {}
        self._most = _MANY  # of these
        self._waiting: dict[tuple[Informer[Any], str], list[asyncio.Future[None]]] = defaultdict(list)
        self._followed: set[Informer[Any]] = set()

    def wrote(self, key: str, kind: Kind[Any], meta: ObjectMeta) -> None:
        """`key` has created or changed an object, now at the revision of `meta`."""
        informer = self._world.informer_of(kind)
        if informer is not None and meta.resource_version.isdecimal():
            revisions = self._unseen_of(key).revisions
            revisions[informer] = max(revisions.get(informer, 0), int(meta.resource_version))

    def removed(self, key: str, kind: Kind[Any], target: Object) -> None:
        """`key` has deleted an object."""
        informer = self._world.informer_of(kind)
        if informer is not None:
            removals = self._unseen_of(key).removals
            removals.append((informer, target.metadata.key, target.metadata.uid))

    def _unseen_of(self, key: str) -> _Unseen:
        if len(self._unseen) >= self._most:
            self._unseen = {each: unseen for each, unseen in self._unseen.items() if not unseen.has_arrived}
            self._most = 2 * len(self._unseen) + _MANY
        return self._unseen.setdefault("" if self._is_shared else key, _Unseen())

    async def seen(self, key: str) -> None:
        """Return once everything that `key` wrote has arrived."""
        unseen = self._unseen.pop("" if self._is_shared else key, None)
        if unseen is None:
            return
        revisions, removals = unseen.late, unseen.present
        if not revisions and not removals:
            return
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                for informer, revision in revisions:
                    await informer.reached(revision)
                for informer, name, uid in removals:
                    await self._removal(informer, name, uid)
        except TimeoutError:
            log.warning("%s: what was written has not been seen for %d s, going on", key, PATIENCE_SECONDS)

    async def _removal(self, informer: Informer[Any], name: str, uid: str) -> None:
        if informer not in self._followed:
            self._followed.add(informer)
            informer.subscribe(lambda old, new: self._changed(informer, old, new))
        while not _is_removed(informer, name, uid):
            changed: asyncio.Future[None] = running_loop().create_future()
            self._waiting[informer, name].append(changed)
            await changed

    def _changed(self, informer: Informer[Any], old: Object | None, new: Object | None) -> None:
        if not self._waiting:
            return
        either = new or old
        assert either is not None
        for waiting in self._waiting.pop((informer, either.metadata.key), ()):
            if not waiting.done():
                waiting.set_result(None)


def _is_removed(informer: Informer[Any], key: str, uid: str) -> bool:
    current = informer.get(key)
    return current is None or current.metadata.uid != uid or current.metadata.is_terminating
