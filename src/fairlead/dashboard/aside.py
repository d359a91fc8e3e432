"""Why a pod waits, found out beside the event loop: a copy of the cluster is built and decided over in a thread.

Building it of a thousand nodes and their pods takes a second; in the loop everybody else would wait for that. The
thread has a loop of its own, and reads through the `Api` of the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

from fairlead.api.encoded import Encoded
from fairlead.api.resources import Resource
from fairlead.api.verbs import LIST, WATCH, Api, Listing, ListQuery, WatchEvent, WatchQuery

T = TypeVar("T")


async def aside(api: Api, question: Callable[[Api], Awaitable[T]]) -> T:
    """The answer to a question that reads alone, asked in a thread; whoever is cancelled cancels it there."""
    here = asyncio.get_running_loop()
    there: list[Callable[[], object]] = []

    async def asked() -> T:
        asking = asyncio.ensure_future(question(cast(Api, _Reader(api, here))))
        loop = asyncio.get_running_loop()
        there.append(lambda: loop.call_soon_threadsafe(asking.cancel))
        return await asking

    try:
        return await asyncio.to_thread(asyncio.run, asked())
    except asyncio.CancelledError:
        for cancel in there:
            cancel()
        raise


class _Reader:
    """What of an `Api` reads, for another thread. What it has listed does not change: no event ever comes."""

    def __init__(self, api: Api, loop: asyncio.AbstractEventLoop) -> None:
        self._api, self._loop = api, loop

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Encoded:
        return await self._there(self._api.get(resource, name, namespace, subresource))

    async def list(self, resource: Resource, namespace: str = "", query: ListQuery = LIST) -> Listing:
        return await self._there(self._api.list(resource, namespace, query))

    async def watch(
        self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH
    ) -> AsyncIterator[WatchEvent]:
        await asyncio.get_running_loop().create_future()
        yield  # type: ignore[misc]  # which makes it a generator

    async def _there(self, request: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(request, self._loop))
