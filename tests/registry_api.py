"""The registry in memory as the `Api` of a component under test, where no admission stands between the two."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from fairlead.api.builtin import CUSTOM_RESOURCE_DEFINITIONS
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.users import MASTERS, User
from fairlead.server.admission.chain import PLUGINS
from fairlead.server.assembly import Server
from fairlead.server.context import RequestContext
from fairlead.server.registry.registry import UserApi
from fairlead.server.registry.restore import restore
from fairlead.store.memory import MemoryStore

_ANYTHING: Obj = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCALE: Obj = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def definition_of(resource: Resource) -> Obj:
    """The definition of a custom kind whose objects may say anything, and which can be scaled."""
    version = {"name": resource.version, "served": True, "storage": True, "subresources": {"scale": _SCALE}}
    names = {"plural": resource.plural, "singular": resource.singular, "kind": resource.kind}
    versions = [version | {"schema": {"openAPIV3Schema": _ANYTHING}}]
    spec = {"group": resource.group, "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": resource.qualified}, "spec": spec}


class RegistryApi(UserApi):
    """Use it as a context manager: custom kinds come and go while the block runs."""

    def __init__(self) -> None:
        self.server = Server(MemoryStore())
        super().__init__(self.server.registry, RequestContext(User("component", (MASTERS,)), tracks_fields=False))
        self._running: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        await self.server.open(name for name, _ in PLUGINS)
        self._running = asyncio.create_task(self.server.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def define(self, resource: Resource) -> None:
        """Have a custom kind served."""
        await self.create(CUSTOM_RESOURCE_DEFINITIONS, definition_of(resource))
        while self.registry.catalogue.stored(resource.qualified) is None:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0)

    async def put(self, resource: Resource, obj: Obj) -> None:
        """An object that has lived for a while: its status and its uid are those that it comes with."""
        await restore(self.registry, [{"apiVersion": resource.api_version, "kind": resource.kind} | obj])
