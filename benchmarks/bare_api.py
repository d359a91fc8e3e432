"""The least of an `Api` that the scheduler can work on, so that what is measured is the cost of the scheduler alone.

Objects in dictionaries, with watches; nothing is defaulted, validated, selected or refused as a server would do it.
Tests run on the real registry (`tests/registry_api.py`).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.errors import AlreadyExists, Conflict, MethodNotSupported, NotFound
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import (
    DELETE,
    LIST,
    WATCH,
    WRITE,
    DeleteOptions,
    EventType,
    Listing,
    ListQuery,
    PatchType,
    WatchEvent,
    WatchQuery,
    WriteOptions,
)
from fairlead.runtime import clock, rng


class BareApi:
    """Has the methods of `fairlead.api.verbs.Api`; selectors and options are not looked at."""

    def __init__(self) -> None:
        self.revision = 0
        self._objects: dict[str, dict[str, Encoded]] = {}
        self._history: dict[str, tuple[list[int], list[WatchEvent]]] = {}
        self._waiting: list[asyncio.Future[None]] = []

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Encoded:
        return self._found(resource, _key(name, namespace))

    async def list(self, resource: Resource, namespace: str = "", query: ListQuery = LIST) -> Listing:
        prefix = f"{namespace}/" if namespace else ""
        items = [one for key, one in self._objects.get(resource.qualified, {}).items() if key.startswith(prefix)]
        return Listing(items, str(self.revision))

    async def watch(
        self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH
    ) -> AsyncIterator[WatchEvent]:
        revisions, events = self._history.setdefault(resource.qualified, ([], []))
        position = bisect_right(revisions, int(query.resource_version or self.revision))
        while True:
            while position < len(events):
                yield events[position]
                position += 1
            changed = asyncio.get_running_loop().create_future()
            self._waiting.append(changed)
            await changed

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
        if subresource == "binding":
            return self._bind(resource, _key(name, namespace), obj)
        meta = obj.setdefault("metadata", {})
        meta.setdefault("name", meta.get("generateName", "") + rng.name_suffix())
        if resource.namespaced:
            meta["namespace"] = namespace or meta.get("namespace", "default")
        key = _key(meta["name"], meta.get("namespace", ""))
        if key in self._objects.get(resource.qualified, {}):
            raise AlreadyExists.of(resource.plural, meta["name"], resource.group)
        meta |= {"uid": rng.uid(), "creationTimestamp": clock.timestamp(), "generation": 1}
        return self._store(resource, key, obj, EventType.ADDED)

    async def update(
        self, resource: Resource, obj: Obj, *, subresource: str = "", options: WriteOptions = WRITE
    ) -> Encoded:
        key = _key(obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
        self._found(resource, key)
        return self._store(resource, key, obj, EventType.MODIFIED)

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
        key = _key(name, namespace)
        obj = self._found(resource, key).obj()
        _merge(obj, patch, is_strategic=type_ is PatchType.STRATEGIC)
        return self._store(resource, key, obj, EventType.MODIFIED)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DELETE
    ) -> Encoded:
        key = _key(name, namespace)
        obj = self._found(resource, key).obj()
        self._store(resource, key, obj, EventType.DELETED)
        return self._objects[resource.qualified].pop(key)

    async def delete_collection(
        self, resource: Resource, namespace: str = "", query: ListQuery = LIST, options: DeleteOptions = DELETE
    ) -> NoReturn:
        raise MethodNotSupported("deletecollection")

    def _bind(self, resource: Resource, key: str, binding: Obj) -> Encoded:
        pod = self._found(resource, key).obj()
        if pod["spec"].get("nodeName"):
            why = f'pod {pod["metadata"]["name"]} is already assigned to node "{pod["spec"]["nodeName"]}"'
            raise Conflict.of("pods/binding", pod["metadata"]["name"], why)
        pod["spec"]["nodeName"] = binding["target"]["name"]
        return self._store(resource, key, pod, EventType.MODIFIED)

    def _found(self, resource: Resource, key: str) -> Encoded:
        found = self._objects.get(resource.qualified, {}).get(key)
        if found is None:
            raise NotFound.of(resource.plural, key.rpartition("/")[2], resource.group)
        return found

    def _store(self, resource: Resource, key: str, obj: Obj, type_: EventType) -> Encoded:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        made = self._objects.setdefault(resource.qualified, {})[key] = encoded(obj)
        revisions, events = self._history.setdefault(resource.qualified, ([], []))
        revisions.append(self.revision)
        events.append(WatchEvent(type_, made))
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)
        return made


def _key(name: str, namespace: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _merge(target: Obj, patch: Obj, *, is_strategic: bool) -> None:
    """A merge patch; a strategic one also merges conditions by their type, the only list that components patch."""
    for name, value in patch.items():
        known = target.get(name)
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            _merge(
                target.setdefault(name, {}) if not isinstance(known, dict) else known, value, is_strategic=is_strategic
            )
        elif is_strategic and name == "conditions" and known:
            told = {one["type"]: one for one in value}
            target[name] = [told.pop(one["type"], one) for one in known] + list(told.values())
        else:
            target[name] = value
