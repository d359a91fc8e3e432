"""A handful of stored objects and a way to send requests through admission plugins, without a server around."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from fairlead.api.builtin import RESOURCES
from fairlead.api.encoded import Encoded, encoded
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.selectors import Selector
from fairlead.client.webhooks import WebhookClient
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies, Operation
from fairlead.server.auth.authorizer import Authorizers
from fairlead.server.service_routes import routes

T = TypeVar("T")

PODS = Resource("", "v1", "pods", "Pod")
SERVICES = Resource("", "v1", "services", "Service")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)


class World:
    """What is stored; reads and writes as a server would offer them to admission."""

    def __init__(self) -> None:
        self._stored: dict[tuple[str, str, str], Encoded] = {}
        self._revision = 0

    @property
    def dependencies(self) -> Dependencies:
        return Dependencies(self, self, Authorizers(), self, WebhookClient(routes(self, lambda node: False)))

    def put(self, resource: str, obj: Obj) -> World:
        meta = metadata(obj)
        self._revision += 1
        meta["resourceVersion"] = str(self._revision)
        self._stored[resource, meta.get("namespace", ""), meta["name"]] = encoded(obj)
        return self

    def drop(self, resource: str, name: str, namespace: str = "") -> None:
        del self._stored[resource, namespace, name]

    def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        return self._stored[resource, namespace, name].obj()

    def find(self, resource: str, name: str, namespace: str = "") -> Encoded | None:
        return self._stored.get((resource, namespace, name))

    def each(self, resource: str, namespace: str = "") -> Iterable[Encoded]:
        return [
            self._stored[key]
            for key in sorted(self._stored)
            if key[0] == resource and (not namespace or key[1] == namespace)
        ]

    async def selected(self, resource: str, namespace: str, selector: Selector) -> Sequence[Encoded]:
        found = self.each(resource, namespace)
        return [entry for entry in found if selector.matches(entry.metadata().get("labels") or {})]

    def resource_of(self, group: str, version: str, kind: str) -> Resource | None:
        wanted = (group, version, kind)
        return next((row for row in RESOURCES if (row.group, row.version, row.kind) == wanted), None)

    async def create(self, resource: Resource, obj: Obj) -> Encoded:
        self.put(resource.qualified, obj)
        return encoded(obj)

    async def guaranteed_update(
        self,
        resource: str,
        name: str,
        namespace: str,
        change: Callable[[Obj], Obj | None],
        *,
        dry_run: bool = False,
    ) -> Obj | None:
        found = self.find(resource, name, namespace)
        if found is None:
            return None
        await asyncio.sleep(0)
        changed = change(self.get(resource, name, namespace))
        if changed is not None and not dry_run:
            self.put(resource, changed)
        return self.get(resource, name, namespace)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def pod(name: str = "p", **spec: Any) -> Obj:
    containers = spec.pop("containers", [{"name": "c", "image": "img:1", "resources": {}}])
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"containers": containers, **spec}}


def container(name: str = "c", requests: Obj | None = None, limits: Obj | None = None, **rest: Any) -> Obj:
    given = {"requests": requests, "limits": limits}
    return {"name": name, "image": "img:1", "resources": {k: v for k, v in given.items() if v}, **rest}


def creation(obj: Obj, resource: Resource = PODS, **rest: Any) -> Attributes:
    meta = metadata(obj)
    namespace = meta.get("namespace", "") if resource.namespaced else ""
    return Attributes(Operation.CREATE, resource, namespace, meta.get("name", ""), obj, **rest)


def change(old: Obj, new: Obj, resource: Resource = PODS, **rest: Any) -> Attributes:
    meta = metadata(old)
    return Attributes(Operation.UPDATE, resource, meta.get("namespace", ""), meta["name"], new, old, **rest)


def admit(plugin: AdmissionPlugin, attributes: Attributes) -> Obj:
    """Send a request through one plugin, as the chain would; the object afterwards."""

    async def both() -> None:
        await plugin.admit(attributes)
        await plugin.validate(attributes)

    if plugin.concerns(attributes.operation, attributes.resource.qualified, attributes.subresource):
        run(both())
    return attributes.obj
