"""What the type of a Service entails. Source: pkg/api/service/util.go (1.36)."""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj

CLUSTER_IP, NODE_PORT, LOAD_BALANCER, EXTERNAL_NAME = "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"
TYPES: Final = (CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT)
WITH_CLUSTER_IP: Final = (CLUSTER_IP, NODE_PORT, LOAD_BALANCER)
WITH_NODE_PORTS: Final = (NODE_PORT, LOAD_BALANCER)
HEADLESS: Final = "None"

TOPOLOGY_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
TOPOLOGY_MODE: Final = "service.kubernetes.io/topology-mode"
SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"


def is_headless(spec: Obj) -> bool:
    return spec.get("clusterIPs") == [HEADLESS]


def is_externally_accessible(spec: Obj) -> bool:
    return spec["type"] in WITH_NODE_PORTS or (spec["type"] == CLUSTER_IP and bool(spec.get("externalIPs")))


def needs_health_check(spec: Obj) -> bool:
    return bool(spec["type"] == LOAD_BALANCER and spec.get("externalTrafficPolicy") == "Local")
