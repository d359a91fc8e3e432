"""Which endpoints get the traffic of a service, and what its fragment of the table says."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import msgspec
import pytest

from fairlead.agent.network.nftables.table import Fragment, Key
from fairlead.agent.network.services.endpoints import Place, backends
from fairlead.agent.network.services.rules import service_rules
from fairlead.agent.network.views import EndpointSlice, Service

Obj = dict[str, Any]
HERE = Place("here", "zone-1")
READY = {"ready": True, "serving": True}
ENDING = {"ready": False, "serving": True, "terminating": True}
DOWN = {"ready": False, "serving": False}


def endpoint(address: str, node: str = "here", conditions: Obj = READY, hints: Obj | None = None) -> Obj:
    return {"addresses": [address], "nodeName": node, "conditions": conditions} | ({"hints": hints} if hints else {})


def pieces(*endpoints: Obj) -> list[EndpointSlice]:
    obj = {
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    }
    return [msgspec.convert(obj, EndpointSlice)]


def chosen(*endpoints: Obj) -> list[str]:
    return [backend.address for backend in backends(pieces(*endpoints), "http", "TCP", HERE).everywhere]


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ([endpoint("10.0.0.2"), endpoint("10.0.0.1", "there")], ["10.0.0.1", "10.0.0.2"]),
        ([endpoint("10.0.0.1", conditions={})], ["10.0.0.1"]),
        ([endpoint("10.0.0.1", conditions=ENDING), endpoint("10.0.0.2")], ["10.0.0.2"]),
        ([endpoint("10.0.0.1", conditions=ENDING), endpoint("10.0.0.2", conditions=DOWN)], ["10.0.0.1"]),
        ([endpoint("10.0.0.1", conditions=DOWN)], []),
        ([endpoint("not an address } accept")], []),
        ([endpoint("127.0.0.1"), endpoint("169.254.1.1", "there"), endpoint("0.0.0.0")], []),
        ([endpoint("10.0.0.1"), endpoint("10.0.0.1")], ["10.0.0.1"]),
    ],
    ids=[
        "all ready ones, in order",
        "nothing said",
        "one is ending",
        "all are ending",
        "none",
        "no address",
        "of the node",
        "twice",
    ],
)
def test_endpoints_that_get_traffic(endpoints: list[Obj], expected: list[str]) -> None:
    assert chosen(*endpoints) == expected


def test_hints_count_only_if_all_have_them_and_one_is_for_us() -> None:
    def near(zone: str, node: str = "") -> Obj:
        return {"forZones": [{"name": zone}]} | ({"forNodes": [{"name": node}]} if node else {})

    ours, theirs = endpoint("10.0.0.1", hints=near("zone-1")), endpoint("10.0.0.2", hints=near("zone-2"))
    assert chosen(ours, theirs) == ["10.0.0.1"]
    assert chosen(theirs) == ["10.0.0.2"]
    assert chosen(ours, theirs, endpoint("10.0.0.3")) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    same_node = endpoint("10.0.0.4", hints=near("zone-1", "here"))
    assert chosen(same_node, endpoint("10.0.0.5", hints=near("zone-1", "there"))) == ["10.0.0.4"]


def fragment(spec: Obj, *endpoints: Obj) -> Fragment:
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "nodePort": spec.pop("nodePort", 0)}]
    whole = {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ports": ports} | spec
    service = msgspec.convert({"metadata": {"name": "web", "namespace": "default"}, "spec": whole}, Service)
    return service_rules(service, pieces(*endpoints), HERE, IPv4Network("10.244.0.0/16"), IPv4Address("10.96.0.10"))


CLUSTER = Key("services", "10.96.0.7 . tcp . 80")
UNSERVED = Key("unserved", "10.96.0.7 . tcp . 80")


def test_headless_services_external_names_and_the_address_of_dns_have_no_rules() -> None:
    for spec in (
        {"clusterIP": "None", "clusterIPs": ["None"]},
        {"type": "ExternalName", "externalName": "example.com", "clusterIP": "", "clusterIPs": []},
        {"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"]},
        {"clusterIP": "fd00::7", "clusterIPs": ["fd00::7"]},
    ):
        assert fragment(spec, endpoint("10.244.0.2")) == Fragment()


def test_without_endpoints_it_refuses_and_without_local_ones_it_drops() -> None:
    assert fragment({}).elements == {UNSERVED: "goto refuse"}
    far = endpoint("10.244.1.2", "there")
    assert fragment({"internalTrafficPolicy": "Local"}, far).elements == {UNSERVED: "drop"}
    assert fragment({}, far).elements == {CLUSTER: "goto service/default/web/tcp/80"}


def test_a_node_port_without_local_endpoints_drops_strangers_and_serves_pods() -> None:
    spec = {"type": "NodePort", "nodePort": 30080, "externalTrafficPolicy": "Local"}
    found = fragment(spec, endpoint("10.244.1.2", "there"))
    assert found.elements[Key("unserved_node_ports", "tcp . 30080")] == "drop"
    assert found.elements[Key("node_ports", "tcp . 30080")] == "goto service/default/web/tcp/80/external"
    assert found.chains["service/default/web/tcp/80/external"] == (
        "ip saddr 10.244.0.0/16 goto service/default/web/tcp/80",
        "fib saddr type local goto service/default/web/tcp/80",
    )


def test_affinity_lasts_as_long_as_the_service_says() -> None:
    spec = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}
    found = fragment(spec, endpoint("10.244.0.2"), endpoint("10.244.0.3"))
    assert {declared.declaration for declared in found.sets.values()} == {
        "type ipv4_addr; flags dynamic,timeout; timeout 60s;"
    }
    assert len(found.chains) == 3
