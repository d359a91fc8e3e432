"""Shows where the API server is: the Endpoints and the EndpointSlice of the service `kubernetes`.

Clients in the cluster, and the suites that test one, look there for the server. The address is the one that
kube-apiserver advertises, be it bound to loopback or not: that of the machine. Source: pkg/controlplane/reconcilers
(1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.builtin import ENDPOINT_SLICES, ENDPOINTS
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.kinds.ips import parse_ip
from fairlead.server.context import INTERNAL
from fairlead.server.registry.registry import Registry

_NAMESPACE, _NAME = "default", "kubernetes"
_PORT_NAME: Final = "https"


async def publish(registry: Registry, address: str, port: int) -> None:
    """Say that the server is there. Nothing is said of a loopback address, which is another machine for each reader."""
    found = parse_ip(address)
    if found is None or found.is_loopback:
        return
    ports = [{"name": _PORT_NAME, "port": port, "protocol": "TCP"}]
    subsets = [{"addresses": [{"ip": address}], "ports": ports}]
    await _put(registry, ENDPOINTS, {"endpointslice.kubernetes.io/skip-mirror": "true"}, {"subsets": subsets})
    endpoints = [{"addresses": [address], "conditions": {"ready": True}}]
    of_slice = {"addressType": "IPv4", "endpoints": endpoints, "ports": ports}
    await _put(registry, ENDPOINT_SLICES, {"kubernetes.io/service-name": _NAME}, of_slice)


async def _put(registry: Registry, resource: Resource, labels: dict[str, str], content: Obj) -> None:
    meta = {"name": _NAME, "namespace": _NAMESPACE, "labels": labels}
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **content}
    present = registry.find(resource.qualified, _NAME, _NAMESPACE)
    if present is None:
        await registry.create(INTERNAL, resource, obj, _NAMESPACE)
        return
    old = present.obj()
    if metadata(old).get("labels") != labels or any(old.get(key) != value for key, value in content.items()):
        await registry.update(INTERNAL, resource, obj)
