"""Services, endpoints, policies, pods and nodes as the network sees them; who uses a field tells what it means."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import Object, View

SERVICE_NAME = "kubernetes.io/service-name"


class ServicePort(View):
    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    node_port: int = 0


class ClientIPConfig(View):
    timeout_seconds: int = 10800


class AffinityConfig(View):
    client_ip: ClientIPConfig | None = msgspec.field(default=None, name="clientIP")


class ServiceSpec(View):
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    cluster_ips: tuple[str, ...] = msgspec.field(default=(), name="clusterIPs")
    external_ips: tuple[str, ...] = msgspec.field(default=(), name="externalIPs")
    external_name: str = ""
    ports: tuple[ServicePort, ...] = ()
    session_affinity: str = "None"
    session_affinity_config: AffinityConfig | None = None
    internal_traffic_policy: str = "Cluster"
    external_traffic_policy: str = "Cluster"


class Service(Object):
    spec: ServiceSpec = ServiceSpec()

    @property
    def is_headless(self) -> bool:
        return self.spec.cluster_ip == "None"

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its virtual addresses; empty if it is headless, or a mere name for something else."""
        if self.is_headless or self.spec.type == "ExternalName":
            return ()
        return self.spec.cluster_ips or ((self.spec.cluster_ip,) if self.spec.cluster_ip else ())


class EndpointConditions(View):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Named(View):
    name: str = ""


class EndpointHints(View):
    for_zones: tuple[Named, ...] | None = None
    for_nodes: tuple[Named, ...] | None = None


class Endpoint(View):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str = ""
    node_name: str = ""
    hints: EndpointHints | None = None

    @property
    def is_ready(self) -> bool:
        """Nothing said counts as ready."""
        return self.conditions.ready is not False

    @property
    def is_serving_to_its_end(self) -> bool:
        return bool(self.conditions.serving and self.conditions.terminating)


class EndpointPort(View):
    name: str = ""
    protocol: str = "TCP"
    port: int | None = None


class EndpointSlice(Object):
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None

    @property
    def service_key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.labels.get(SERVICE_NAME, '')}"


class PolicyPort(View):
    protocol: str = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class IPBlock(View):
    cidr: str = ""
    except_: tuple[str, ...] = msgspec.field(default=(), name="except")


class PolicyPeer(View):
    pod_selector: dict[str, Any] | None = None
    namespace_selector: dict[str, Any] | None = None
    ip_block: IPBlock | None = None


class IngressRule(View):
    ports: tuple[PolicyPort, ...] = ()
    from_: tuple[PolicyPeer, ...] = msgspec.field(default=(), name="from")

    @property
    def peers(self) -> tuple[PolicyPeer, ...]:
        return self.from_


class EgressRule(View):
    ports: tuple[PolicyPort, ...] = ()
    to: tuple[PolicyPeer, ...] = ()

    @property
    def peers(self) -> tuple[PolicyPeer, ...]:
        return self.to


class NetworkPolicySpec(View):
    pod_selector: dict[str, Any] = msgspec.field(default_factory=dict)
    policy_types: tuple[str, ...] = ()
    ingress: tuple[IngressRule, ...] = ()
    egress: tuple[EgressRule, ...] = ()


class NetworkPolicy(Object):
    spec: NetworkPolicySpec = NetworkPolicySpec()


class ContainerPort(View):
    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class Container(View):
    ports: tuple[ContainerPort, ...] = ()


class PodSpec(View):
    node_name: str = ""
    host_network: bool = False
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class PodIP(View):
    ip: str = ""


class PodStatus(View):
    phase: str = ""
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")


class Pod(Object):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeAddress(View):
    type: str = ""
    address: str = ""


class NodeStatus(View):
    addresses: tuple[NodeAddress, ...] = ()


class Node(Object):
    status: NodeStatus = NodeStatus()
