"""The APIServices of what this server serves itself: of built-in groups at every start, of custom kinds all the time.

Whoever wants to keep one as it is takes its label away. That of metrics never has it, so that a metrics server which
somebody brings along may take its place.
Source: kube-aggregator, pkg/controllers/autoregister; pkg/controlplane/controller/crdregistration (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead.api.builtin import API_SERVICES
from fairlead.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from fairlead.api.objects import Obj, metadata
from fairlead.server.aggregation.priorities import OWN_GROUP, priorities
from fairlead.server.context import INTERNAL
from fairlead.server.nodes.resource_metrics import MeasuredKind
from fairlead.server.registry.registry import Registry
from fairlead.store.base import StoreUnavailable

MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
AT_START: Final = "onstart"
ALWAYS: Final = "true"
_RETRY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class _Wanted(msgspec.Struct, frozen=True):
    spec: Obj
    #: The value of the label; "": there is none.
    mode: str


class Registration:
    """Keeps them: `settle` at the start, then `run`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._changed = asyncio.Event()

    async def settle(self) -> None:
        """Create what is missing, put right what has changed, and remove what is not served any more."""
        try:
            await self._sync(at_start=True)
        finally:
            self._registry.catalogue.on_changed = self._changed.set

    async def run(self) -> None:
        """Follow custom kinds, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._sync(at_start=False)
            except (ApiError, StoreUnavailable) as error:
                log.warning("API services of custom kinds: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._changed.set()

    async def _sync(self, *, at_start: bool) -> None:
        wanted, steps = self._wanted(), list[Coroutine[Any, Any, None]]()
        for name, service in wanted.items():
            if at_start or service.mode != AT_START:
                steps += self._ensured(name, service)
        for entry in self._registry.each(API_SERVICES.qualified):
            mode = entry.labels.get(MANAGED, "")
            if entry.name not in wanted and (mode == ALWAYS or (at_start and mode == AT_START)):
                steps.append(self._remove(entry.name))
        await asyncio.gather(*steps)

    def _wanted(self) -> Mapping[str, _Wanted]:
        found: dict[str, _Wanted] = {}
        for row in self._registry.catalogue.rows():
            name = f"{row.version}.{row.group}"
            if row.group == OWN_GROUP or name in found:
                continue
            of_group, of_version = priorities(row.group, row.version)
            spec = {"version": row.version, "groupPriorityMinimum": of_group, "versionPriority": of_version}
            is_measured = isinstance(self._registry.unstored.get(row.qualified), MeasuredKind)
            mode = "" if is_measured else AT_START if row.definition else ALWAYS
            found[name] = _Wanted(spec | ({"group": row.group} if row.group else {}), mode)
        return found

    def _ensured(self, name: str, wanted: _Wanted) -> Iterator[Coroutine[Any, Any, None]]:
        """What has to be done so that it is there, as it should be."""
        found = self._registry.find(API_SERVICES.qualified, name)
        if found is None:
            meta: Obj = {"name": name} | ({"labels": {MANAGED: wanted.mode}} if wanted.mode else {})
            yield self._create({"metadata": meta, "spec": wanted.spec})
            return
        present = found.obj()
        if (metadata(present).get("labels") or {}).get(MANAGED) == wanted.mode and present["spec"] != wanted.spec:
            yield self._update(present | {"spec": wanted.spec})

    async def _create(self, obj: Obj) -> None:
        try:
            await self._registry.create(INTERNAL, API_SERVICES, obj)
        except AlreadyExists:  # somebody was faster
            return

    async def _update(self, obj: Obj) -> None:
        try:
            await self._registry.update(INTERNAL, API_SERVICES, obj)
        except (Conflict, NotFound):  # somebody changes it right now
            self._changed.set()

    async def _remove(self, name: str) -> None:
        try:
            await self._registry.delete(INTERNAL, API_SERVICES, name)
        except NotFound:
            return
