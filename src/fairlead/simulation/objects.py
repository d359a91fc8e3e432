"""Reading and writing the objects of a cluster in kubectl's words: `pod/web`, `deployments`, `hpa`.

Tests and notebooks say what they mean in a line; `Api` wants the row of a kind, and gives bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Final

from msgspec.structs import replace

from fairlead.api.builtin import CUSTOM_RESOURCE_DEFINITIONS
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.resources import Resource
from fairlead.api.verbs import BACKGROUND, Api, EventType, ListQuery, PatchType, WatchQuery, WriteOptions
from fairlead.server.storage.catalogue import Catalogue
from fairlead.simulation.moments import Duration
from fairlead.simulation.options import Source, objects_of
from fairlead.simulation.waiting import Condition, Wanted, wait

DEFAULT_NAMESPACE: Final = "default"
#: In whose name fields are applied.
_MANAGER: Final = "fairlead-test"
_APPLY: Final = WriteOptions(field_manager=_MANAGER, field_validation="Strict", force=True)
_CREATE: Final = WriteOptions(field_manager=_MANAGER, field_validation="Strict")
#: How long a definition may take until its kind is served.
_ESTABLISHED_SECONDS: Final = 30.0


class ClusterStopped(RuntimeError):
    """The cluster was asked for something when it was gone."""


class Objects:
    """The objects of a cluster. Every refusal of the server is an `ApiError`."""

    def __init__(self, api: Api, catalogue: Catalogue) -> None:
        self._api, self._catalogue = api, catalogue

    async def apply(self, source: Source, *, namespace: str = DEFAULT_NAMESPACE) -> list[Obj]:
        """Make these objects be there as they are described, as `kubectl apply --server-side`; returns what became of
        them. `namespace` is for those that name none. One without a name (`generateName`) is created anew.

        The kind of a CustomResourceDefinition is served when this goes on to the next object.
        """
        return [await self._apply(obj, namespace) for obj in objects_of(source)]

    async def _apply(self, obj: Obj, namespace: str) -> Obj:
        resource = self._of_manifest(obj)
        own = (metadata(obj).get("namespace") or namespace) if resource.namespaced else ""
        if resource.namespaced:
            metadata(obj)["namespace"] = own
        if not name_of(obj) and metadata(obj).get("generateName"):
            return (await self._api.create(resource, obj, own, options=_CREATE)).obj()
        applied = await self._api.patch(resource, name_of(obj), own, obj, PatchType.APPLY, options=_APPLY)
        if resource == CUSTOM_RESOURCE_DEFINITIONS:
            return await wait(self._api, Wanted(resource, name_of(obj), ""), "Established", _ESTABLISHED_SECONDS)
        return applied.obj()

    async def get(self, what: str, *, namespace: str = DEFAULT_NAMESPACE) -> Obj:
        """`what` is `kind/name`: pod/web, deployments.apps/web, svc/web."""
        found = self._named(what, namespace)
        return (await self._api.get(found.resource, found.name, found.namespace)).obj()

    async def list(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> list[Obj]:
        """All objects of a kind, or those of a namespace; the selectors are kubectl's (`-l`, `--field-selector`)."""
        query = ListQuery(labels=labels, fields=fields)
        return [item.obj() for item in (await self._api.list(self.resource(kind), namespace, query)).items]

    async def watch(
        self, kind: str, *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[tuple[str, Obj]]:
        """What there is, as `ADDED`, then what becomes of it, without end: `ADDED`, `MODIFIED` or `DELETED`,
        each time with the object.
        """
        resource = self.resource(kind)
        listing = await self._api.list(resource, namespace, ListQuery(labels=labels, fields=fields))
        for item in listing.items:
            yield EventType.ADDED, item.obj()
        query = WatchQuery(labels=labels, fields=fields, resource_version=listing.resource_version)
        async for event in self._api.watch(resource, namespace, query):
            yield event.type, event.object.obj()

    async def patch(self, what: str, patch: Obj, *, namespace: str = DEFAULT_NAMESPACE, subresource: str = "") -> Obj:
        """Merge that into the object, as `kubectl patch --type merge`."""
        found = self._named(what, namespace)
        patched = await self._api.patch(found.resource, found.name, found.namespace, patch, subresource=subresource)
        return patched.obj()

    async def delete(
        self, what: str, *, namespace: str = DEFAULT_NAMESPACE, grace_period_seconds: int | None = None
    ) -> None:
        """Begin the deletion, as `kubectl delete`; `wait_for(what, "delete")` returns when the object is gone."""
        found = self._named(what, namespace)
        options = replace(BACKGROUND, grace_period_seconds=grace_period_seconds)
        await self._api.delete(found.resource, found.name, found.namespace, options)

    async def wait_for(
        self,
        what: str,
        condition: Condition,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        timeout: Duration,  # noqa: ASYNC109 - the name that everybody expects
    ) -> Obj:
        """Return the object once it is so: `Ready`, `Available=False`, `create`, `delete` (which returns an empty one),
        or a function of the object that becomes true; one that finds a field missing is asked again. Raises
        `TimeoutError`, which tells how things are then.
        """
        return await wait(self._api, self._named(what, namespace), condition, timeout)

    def resource(self, kind: str) -> Resource:
        """The kind of that name: plural, singular, short, or as manifests spell it; with a group where it has to be."""
        name = kind.lower()
        for row in self._catalogue.rows():
            if name in _spellings(row):
                return row
        raise NotFound(f'the server doesn\'t have a resource type "{kind}"')

    def _named(self, what: str, namespace: str) -> Wanted:
        kind, has_name, name = what.partition("/")
        if not (kind and has_name and name):
            raise ValueError(f"{what!r} names no object: write kind/name, as in pod/web")
        resource = self.resource(kind)
        return Wanted(resource, name, namespace if resource.namespaced else "")

    def _of_manifest(self, obj: Obj) -> Resource:
        version, kind = str(obj.get("apiVersion", "")), str(obj["kind"])
        for row in self._catalogue.rows():
            if (row.api_version, row.kind) == (version, kind):
                return row
        raise NotFound(f'no matches for kind "{kind}" in version "{version}"')


def _spellings(row: Resource) -> Collection[str]:
    names = {row.plural, row.singular or row.kind.lower(), row.kind.lower(), *row.short_names}
    return names | {f"{name}.{row.group}" for name in names if row.group}
