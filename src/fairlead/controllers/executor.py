"""Carries out actions: the only place where controllers touch the API.

Everything that must hold for every write is said here once: the field manager, the uid that keeps a patch or a
deletion from hitting a namesake, and what has to be seen before the key's next turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead.api.encoded import Encoded
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.guards import guarded
from fairlead.api.meta import Object, ObjectMeta
from fairlead.api.references import reference
from fairlead.api.verbs import Api, ListQuery, WriteOptions
from fairlead.client.events import EventRecorder
from fairlead.controllers.actions import (
    Action,
    Actions,
    Create,
    Delete,
    DeleteAll,
    Emit,
    GiveWay,
    Kind,
    ListAll,
    Patch,
    Read,
    Requeue,
    Together,
    Update,
)
from fairlead.controllers.expectations import Expectations
from fairlead.runtime.clock import monotonic
from fairlead.runtime.watchdog import current_name
from fairlead.runtime.workqueue import WorkQueue

#: Reading takes no turn of the loop: a reconcile that reads of thousands gives way to others meanwhile.
_ACTIONS_A_TURN: Final = 100

FIELD_MANAGER = WriteOptions(field_manager="kube-controller-manager")


class _Written(msgspec.Struct):
    metadata: ObjectMeta


class Thought(msgspec.Struct):
    """For how many seconds a turn has thought, in all and in one go. What it waited for is not counted."""

    total: float = 0.0
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        self.total += seconds
        self.longest = max(self.longest, seconds)


class Executor:
    """Carries out the actions of one controller."""

    def __init__(
        self, api: Api, kind: Kind[Any], queue: WorkQueue[str], expectations: Expectations, recorder: EventRecorder
    ) -> None:
        self._api, self._kind = api, kind
        self._queue, self._expectations, self._recorder = queue, expectations, recorder
        self._performers: Mapping[type[Action], Callable[[str, Any, Any], Awaitable[Any]]] = {
            Create: self._create,
            Update: self._update,
            Patch: self._patch,
            Delete: self._delete,
            Read: self._read,
            ListAll: self._list,
            DeleteAll: self._delete_all,
            Emit: self._emit,
            Requeue: self._requeue,
            GiveWay: self._give_way,
            Together: self._together,
        }

    async def carry_out(self, key: str, obj: Object | None, actions: Actions, thought: Thought) -> None:
        """Drive one reconcile to its end; what it does not catch is raised."""
        began, count = monotonic(), 0
        try:
            action = next(actions)
            while True:
                thought.add(monotonic() - began)
                count += 1
                if count % _ACTIONS_A_TURN == 0:
                    await asyncio.sleep(0)
                try:
                    outcome = await self._perform(key, obj, action)
                except ApiError as error:
                    began = monotonic()
                    action = actions.throw(error)
                except BaseException:
                    began = monotonic()
                    raise
                else:
                    began = monotonic()
                    action = actions.send(outcome)
        except StopIteration:
            pass
        finally:
            thought.add(monotonic() - began)

    async def _perform(self, key: str, obj: Object | None, action: Action) -> Any:
        return await self._performers[type(action)](key, obj, action)

    async def _create(self, key: str, obj: Object | None, action: Create) -> Encoded:
        namespace = action.obj["metadata"].get("namespace", "")
        result = await self._api.create(
            action.kind.resource,
            action.obj,
            namespace,
            name=action.name,
            subresource=action.subresource,
            options=FIELD_MANAGER,
        )
        return result if action.subresource else self._landed(key, action.kind, result)

    async def _update(self, key: str, obj: Object | None, action: Update) -> Encoded:
        result = await self._api.update(
            action.kind.resource, action.obj, subresource=action.subresource, options=FIELD_MANAGER
        )
        return self._landed(key, action.kind, result)

    async def _patch(self, key: str, obj: Object | None, action: Patch) -> Encoded:
        meta = action.target.metadata
        result = await self._api.patch(
            action.kind.resource,
            meta.name,
            meta.namespace,
            guarded(action.patch, meta, unchanged=action.unchanged),
            action.type,
            subresource=action.subresource,
            options=FIELD_MANAGER,
        )
        return self._landed(key, action.kind, result)

    async def _delete(self, key: str, obj: Object | None, action: Delete) -> None:
        meta = action.target.metadata
        options = replace(action.options, precondition_uid=meta.uid)
        with suppress(NotFound):
            await self._api.delete(action.kind.resource, meta.name, meta.namespace, options)
        self._expectations.removed(key, action.kind, action.target)

    async def _read(self, key: str, obj: Object | None, action: Read) -> Any:
        found = await self._api.get(action.kind.resource, action.name, action.namespace, action.subresource)
        return found.view(action.kind.view)

    async def _list(self, key: str, obj: Object | None, action: ListAll) -> list[Encoded]:
        return (await self._api.list(action.kind.resource, action.namespace, ListQuery(labels=action.labels))).items

    async def _delete_all(self, key: str, obj: Object | None, action: DeleteAll) -> None:
        await self._api.delete_collection(action.kind.resource, action.namespace, options=action.options)

    async def _emit(self, key: str, obj: Object | None, action: Emit) -> None:
        about = action.about
        if about is None:
            assert obj is not None, "an event without an object must say what it is about"
            about = reference(obj, self._kind.resource)
        self._recorder.event(about, action.type, action.reason, action.message)

    async def _requeue(self, key: str, obj: Object | None, action: Requeue) -> None:
        self._queue.add_after(key, action.seconds)

    async def _give_way(self, key: str, obj: Object | None, action: GiveWay) -> None:
        await asyncio.sleep(0)

    async def _together(self, key: str, obj: Object | None, together: Together) -> list[Any]:
        async def attempt(action: Action) -> Any:
            try:
                return await self._perform(key, obj, action)
            except ApiError as error:
                return error

        outcomes: list[Any] = []
        name = current_name()
        remaining = list(together.actions)
        size = 1 if together.slow_start else len(remaining)
        while remaining:
            batch, remaining = remaining[:size], remaining[size:]
            results = await asyncio.gather(*(asyncio.create_task(attempt(action), name=name) for action in batch))
            outcomes += results
            if any(isinstance(result, ApiError) for result in results):
                break
            size *= 2
        return outcomes

    def _landed(self, key: str, kind: Kind[Any], result: Encoded) -> Encoded:
        self._expectations.wrote(key, kind, result.view(_Written).metadata)
        return result
