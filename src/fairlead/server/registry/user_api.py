"""The `Api` of one user: the registry, asked in that user's name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import (
    DELETE,
    LIST,
    WATCH,
    WRITE,
    DeleteOptions,
    Listing,
    ListQuery,
    PatchType,
    WatchEvent,
    WatchQuery,
    WriteOptions,
)
from fairlead.server.context import RequestContext

if TYPE_CHECKING:
    from fairlead.server.registry.registry import Registry


class UserApi:
    """What a component of this process has in its hands; warnings are for clients and stay unsaid."""

    def __init__(self, registry: Registry, context: RequestContext) -> None:
        self.registry, self._context = registry, context

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Encoded:
        return await self.registry.get(resource, name, namespace, subresource)

    async def list(self, resource: Resource, namespace: str = "", query: ListQuery = LIST) -> Listing:
        return await self.registry.list(resource, namespace, query)

    def watch(self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH) -> AsyncIterator[WatchEvent]:
        return self.registry.watch(resource, namespace, query)

    async def create(
        self,
        resource: Resource,
        obj: Obj,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Encoded:
        context, create = self._context, self.registry.create
        result = await create(context, resource, obj, namespace, name=name, subresource=subresource, options=options)
        return result.object

    async def update(
        self, resource: Resource, obj: Obj, *, subresource: str = "", options: WriteOptions = WRITE
    ) -> Encoded:
        update = self.registry.update
        return (await update(self._context, resource, obj, subresource=subresource, options=options)).object

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        type_: PatchType = PatchType.MERGE,
        *,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Encoded:
        change = self.registry.patch
        result = await change(
            self._context, resource, name, namespace, patch, type_, subresource=subresource, options=options
        )
        return result.object

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DELETE
    ) -> Encoded:
        return (await self.registry.delete(self._context, resource, name, namespace, options)).object

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        query: ListQuery = LIST,
        options: DeleteOptions = DELETE,
    ) -> Listing:
        return (await self.registry.delete_collection(self._context, resource, namespace, query, options)).object
