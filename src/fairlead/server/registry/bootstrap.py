"""What every cluster has from its first moment: its namespaces, its two priority classes, its own service."""

from __future__ import annotations

from fairlead.api.builtin import NAMESPACES, PRIORITY_CLASSES
from fairlead.api.errors import AlreadyExists
from fairlead.api.nodes import LEASE_NAMESPACE
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.server.admission.service_networks import SERVICE_NETWORK
from fairlead.server.context import INTERNAL
from fairlead.server.registry.registry import Registry
from fairlead.server.registry.restore import restore

KUBERNETES_ADDRESS = str(SERVICE_NETWORK[1])
SYSTEM_NAMESPACES = ("default", LEASE_NAMESPACE, "kube-public", "kube-system")
#: Name -> (value, description): S3-02.
SYSTEM_PRIORITY_CLASSES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}


async def bootstrap(registry: Registry) -> None:
    """Create those that are missing."""
    for name in SYSTEM_NAMESPACES:
        await ensure(registry, NAMESPACES, {"metadata": {"name": name}})
    for name, (value, description) in SYSTEM_PRIORITY_CLASSES.items():
        await ensure(
            registry, PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, "description": description}
        )

    await restore(registry, [], own=[_kubernetes_service()])  # as it is: no policy of a user may refuse it


def _kubernetes_service() -> Obj:
    """The API server's own service, at the first address of the service network."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": KUBERNETES_ADDRESS,
            "clusterIPs": [KUBERNETES_ADDRESS],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        },
    }


async def ensure(registry: Registry, resource: Resource, obj: Obj, namespace: str = "") -> None:
    if registry.find(resource.qualified, obj["metadata"]["name"], namespace) is None:
        try:
            await registry.create(INTERNAL, resource, obj, namespace)
        except AlreadyExists:
            return
