"""Serves custom kinds while their definitions exist.

A CustomResourceDefinition is stored like any object; this module watches them and changes the catalogue. It keeps no
state beside the definitions, so it can be stopped and started at any point.

    created ─▶ names settled ─▶ Established: served ─▶ deleted: no new objects, old ones deleted ─▶ gone: not served
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from fairlead.api.builtin import CUSTOM_RESOURCE_DEFINITIONS
from fairlead.api.encoded import Encoded, encode, key_bytes
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj, metadata
from fairlead.runtime.clock import monotonic, timestamp
from fairlead.runtime.offload import offload
from fairlead.server.context import INTERNAL, REQUEST_SECONDS, takes_long
from fairlead.server.crds import naming
from fairlead.server.crds.custom import custom_kind
from fairlead.server.registry.registry import Registry
from fairlead.server.storage.cache import Cache
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.keys import parts_of, prefix_of
from fairlead.store.base import StoreUnavailable

_QUALIFIED = CUSTOM_RESOURCE_DEFINITIONS.qualified
_DELETION_TIMESTAMP = key_bytes("deletionTimestamp")
#: How often a definition on its way out looks whether its objects are gone (they may have finalizers).
RECHECK_SECONDS = 1.0

_REFRESHED_A_TURN = 200

log = logging.getLogger(__name__)


class CustomKinds:
    """Keeps the catalogue in step with the definitions: `load_definitions`, then `run`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._changed: asyncio.Queue[str] = asyncio.Queue()
        self._names = naming.NamesInUse()
        registry.observers[_QUALIFIED] = self._observe

    def _observe(self, namespace: str, name: str, raw: bytes | None) -> None:
        served = self._registry.catalogue.stored(name)
        if raw and served and _DELETION_TIMESTAMP in raw:
            served.is_terminating = bool(metadata(Encoded(raw).obj()).get("deletionTimestamp"))
        self._changed.put_nowait(name)

    async def load_definitions(self) -> None:
        """Serve the stored definitions, before the first request; `run` finishes what an earlier process had begun."""
        for entry in list(self._registry.each(_QUALIFIED)):
            crd = entry.obj()
            self._changed.put_nowait(metadata(crd)["name"])
            self._names.note(crd)
            if naming.is_true(crd["status"], "Established"):
                await self._serve(crd)

    async def run(self) -> None:
        """Follow every change, until cancelled."""
        while True:
            name = await self._changed.get()
            try:
                await self._reconcile(name)
            except (ApiError, StoreUnavailable) as error:
                log.warning("custom resource definition %s: %s", name, error)
                asyncio.get_running_loop().call_later(RECHECK_SECONDS, self._changed.put_nowait, name)

    async def _reconcile(self, name: str) -> None:
        entry = self._registry.find(_QUALIFIED, name)
        if entry is None:
            served = self._registry.catalogue.stored(name)
            self._registry.catalogue.remove(name)
            if served is not None:
                served.is_terminating = True  # for requests that found it before
                served.cache.end_watches()
            for refused in self._names.refused_beside(name):  # the names that it held are free now
                self._changed.put_nowait(refused)
            self._names.forget(name)
            return
        crd = entry.obj()
        if metadata(crd).get("deletionTimestamp"):
            await self._delete_instances(crd)
            return
        self._names.note(crd)
        status = naming.settled(crd, self._names, timestamp())
        if status is not None:
            await self._change(name, lambda current: current | {"status": status})
        elif naming.is_true(crd["status"], "Established"):
            await self._serve(crd)

    async def _serve(self, crd: Obj) -> None:
        name = metadata(crd)["name"]
        known = self._registry.catalogue.stored(name)
        if known is not None and known.crd is not None and known.crd["spec"] == crd["spec"]:
            return
        is_long = takes_long(CUSTOM_RESOURCE_DEFINITIONS, len(encode(crd)))
        kind = await offload(lambda: custom_kind(crd, self._registry.webhooks), is_long=is_long)
        served = Served(kind.resource, kind.strategy, known.cache if known else Cache(name), kind.versions, crd)
        served.is_terminating = bool(metadata(crd).get("deletionTimestamp"))
        if known is None:
            for key, record in await self._registry.store.scan(prefix_of(name)):
                _, namespace, object_name = parts_of(key)
                served.cache.load(namespace, object_name, served.refreshed(record.value), record.revision)
            served.cache.forget_before(self._registry.revision)
        self._registry.catalogue.remove(name)
        self._registry.catalogue.add(served)
        if known is not None:
            served.older_writes_until = monotonic() + REQUEST_SECONDS
            await self._refresh(served)
            served.cache.forget_before(self._registry.revision)  # as kube-apiserver, whose cache begins anew
        served.cache.end_watches()

    async def _refresh(self, served: Served) -> None:
        """Convert the cached objects of a kind to its new definition, once, so that reads need not.

        They are made of what is stored: defaults of the definition before are not in it, and fields it had not are.
        """
        stored = await self._registry.store.scan(prefix_of(served.resource.qualified))
        for count, (key, record) in enumerate(stored, 1):
            _, namespace, name = parts_of(key)
            entry = served.cache.get(namespace, name)
            if entry is not None and entry.revision == record.revision:
                served.cache.rewrite(entry, served.refreshed(record.value))
            if count % _REFRESHED_A_TURN == 0:
                await asyncio.sleep(0)

    async def _delete_instances(self, crd: Obj) -> None:
        """Delete the objects of a definition that is being deleted, then its finalizer."""
        name = metadata(crd)["name"]
        if naming.CRD_FINALIZER not in (metadata(crd).get("finalizers") or ()):
            return
        served = self._registry.catalogue.stored(name)
        if served is not None and served.cache.count:
            await self._change(name, lambda current: _with(current, naming.begin_instance_deletion))
            if served.versions:
                version = served.versions.get(served.resource.api_version) or next(iter(served.versions.values()))
                await self._registry.delete_collection(INTERNAL, version.resource)
            if served.cache.count:
                asyncio.get_running_loop().call_later(RECHECK_SECONDS, self._changed.put_nowait, name)
                return
        await self._change(name, lambda current: _with(current, naming.finish_deletion))

    async def _change(self, name: str, change: Callable[[Obj], Obj]) -> None:
        if (crd := await self._registry.guaranteed_update(_QUALIFIED, name, "", change)) is not None:
            self._names.note(crd)


def _with(crd: Obj, change: Callable[[Obj, str], None]) -> Obj:
    change(crd, timestamp())
    return crd
