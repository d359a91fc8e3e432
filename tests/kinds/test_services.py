"""Services: their addresses, their ports, and changes of their type."""

from __future__ import annotations

import asyncio
import copy
from ipaddress import IPv4Network
from typing import Any

import msgspec
import pytest

from fairlead.api.errors import Invalid
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.services import service_warnings
from fairlead.server.admission.base import Attributes, Operation
from fairlead.server.admission.service_addresses import ServiceAddresses
from fairlead.server.admission.service_networks import ServiceNetworks
from tests.kinds.kind_world import born, messages, row_of, strategy_of, updated
from tests.work import Compared, growth

PORT: Obj = {"port": 80}


def service(addresses: ServiceAddresses, **spec: Any) -> Obj:
    """A service with addresses, as the rules would see it."""
    obj, _ = born("Service", spec={"ports": [PORT]} | spec)
    addresses.complete(obj, None)
    return obj


def refusals(**spec: Any) -> list[str]:
    obj = service(ServiceAddresses(), **spec)
    errors = Errors()
    strategy_of("Service").validate(obj, errors)
    return messages(errors)


def stored(obj: Obj) -> bytes:
    return msgspec.json.encode(obj)


def test_service_gets_an_address_of_the_cluster() -> None:
    spec = service(ServiceAddresses(ServiceNetworks(IPv4Network("10.7.0.0/16"))))["spec"]
    assert spec["clusterIP"].startswith("10.7.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


def test_headless_service_has_none() -> None:
    spec = service(ServiceAddresses(), clusterIP="None", selector={"a": "b"})["spec"]
    assert (spec["clusterIPs"], spec["ipFamilies"]) == (["None"], ["IPv4"])


def test_headless_service_without_selector_is_ready_for_both_families() -> None:
    spec = service(ServiceAddresses(), clusterIP="None")["spec"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")


@pytest.mark.parametrize(
    ("ip", "why"),
    [
        ("10.0.0.1", "provided IP is already allocated"),
        ("192.168.0.1", "the provided network does not match the current range"),
    ],
)
def test_addresses_of_others_are_refused(ip: str, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        service(ServiceAddresses(), clusterIP=ip)
    assert refused.value.message == (
        f'Service "x" is invalid: spec.clusterIPs: Invalid value: ["{ip}"]: failed to allocate IP {ip}: {why}'
    )


def test_node_ports_are_given_once_and_taken_back() -> None:
    addresses = ServiceAddresses()
    first = service(addresses, type="NodePort", ports=[PORT | {"nodePort": 30080}])
    with pytest.raises(Invalid, match="provided port is already allocated"):
        service(addresses, type="NodePort", ports=[PORT | {"nodePort": 30080}])
    addresses.observe("ns", "x", stored(first))
    addresses.observe("ns", "x", None)
    fresh = ServiceAddresses()
    fresh.observe("ns", "x", stored(first))
    fresh.observe("ns", "x", None)
    service(fresh, type="NodePort", ports=[PORT | {"nodePort": 30080}])


def test_node_port_out_of_range_is_refused() -> None:
    with pytest.raises(Invalid, match="The range of valid ports is 30000-32767"):
        service(ServiceAddresses(), type="NodePort", ports=[PORT | {"nodePort": 80}])


def test_a_request_that_fails_gives_everything_back() -> None:
    addresses = ServiceAddresses()
    obj, _ = born("Service", spec={"type": "NodePort", "ports": [PORT | {"nodePort": 30080}]})
    attributes = Attributes(Operation.CREATE, row_of("Service"), "ns", "x", copy.deepcopy(obj))

    async def fail() -> None:
        await addresses.admit(attributes)
        for undo in attributes.on_failure:
            await undo()

    asyncio.run(fail())
    addresses.complete(obj, None)


def test_same_port_of_two_protocols_shares_a_node_port() -> None:
    ports = [{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]
    given = service(ServiceAddresses(), type="NodePort", ports=ports)["spec"]["ports"]
    assert given[0]["nodePort"] == given[1]["nodePort"]


def test_changing_the_type_drops_what_no_longer_applies() -> None:
    old = service(ServiceAddresses(), type="NodePort")
    new, found = updated(old, lambda obj: obj["spec"].update(type="ClusterIP"))
    assert found == []
    assert "nodePort" not in new["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in new["spec"]


def test_an_update_that_leaves_out_the_address_keeps_it() -> None:
    old = service(ServiceAddresses(), type="NodePort")

    def forget(obj: Obj) -> None:
        for field in ("clusterIP", "clusterIPs"):
            del obj["spec"][field]
        del obj["spec"]["ports"][0]["nodePort"]

    new, found = updated(old, forget)
    assert found == []
    assert new["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    assert new["spec"]["ports"] == old["spec"]["ports"]


def test_address_stays() -> None:
    old = service(ServiceAddresses())
    _, found = updated(old, lambda obj: obj["spec"].update(clusterIP="10.0.0.9"))
    assert found == ['spec.clusterIPs[0]: Invalid value: ["10.0.0.9"]: may not change once set']


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"type": "ExternalName", "ports": [], "externalName": "a.b."}, []),
        ({"type": "ExternalName", "ports": []}, ["spec.externalName: Required value"]),
        ({"ports": [PORT, PORT | {"name": "b"}]}, 2),
        (
            {"sessionAffinity": "Sticky"},
            ['spec.sessionAffinity: Unsupported value: "Sticky": supported values: "ClientIP", "None"'],
        ),
        (
            {"loadBalancerClass": "a/b"},
            ["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
        ),
        (
            {"type": "LoadBalancer", "ports": [PORT | {"name": "a"}, {"name": "b", "port": 10250}]},
            ["spec.ports[1]: Invalid value: 10250: may not expose port 10250 externally since it is used by kubelet"],
        ),
        (
            {"externalIPs": ["127.0.0.1"]},
            [
                'spec.externalIPs[0]: Invalid value: "127.0.0.1": '
                "may not be in the loopback range (127.0.0.0/8, ::1/128)"
            ],
        ),
        (
            {"externalIPs": ["010.1.1.1"]},
            ['spec.externalIPs[0]: Invalid value: "010.1.1.1": must not have leading 0s'],
        ),
    ],
)
def test_rules_of_services(spec: Obj, expected: list[str] | int) -> None:
    found = refusals(**spec)
    assert found == expected if isinstance(expected, list) else len(found) == expected


def test_what_is_ignored_or_outdated_is_remarked_on() -> None:
    obj = service(ServiceAddresses(), externalName="a", trafficDistribution="PreferClose", externalIPs=["1.2.3.4"])
    assert service_warnings(obj) == [
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        'spec.externalName is ignored when spec.type is not "ExternalName"',
        'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
    ]


def test_three_addresses_are_one_too_many_and_that_is_all() -> None:
    old = service(ServiceAddresses())
    ips = [*old["spec"]["clusterIPs"], "fd00::1", "fd00::2"]
    _, found = updated(old, lambda obj: obj["spec"].update(clusterIPs=ips))
    assert found == [
        f"spec.clusterIPs: Invalid value: {msgspec.json.encode(ips).decode()}: may only hold up to 2 values"
    ]


def test_of_thousands_of_addresses_and_families_few_are_told_of() -> None:
    many = [f"10.0.{index}" for index in range(1000)]
    for field, values in (("clusterIPs", many), ("ipFamilies", ["IPv4"] * 1000)):
        with pytest.raises(Invalid) as refused:
            service(ServiceAddresses(), clusterIP="10.0.0", **{field: values})
        assert len(refused.value.causes) < 20


def test_labels_of_a_changed_service_are_looked_at_three_times() -> None:
    _, found = updated(service(ServiceAddresses()), lambda obj: obj["metadata"].update(labels={"a": "!"}))
    assert len(found) == 3


def test_whoever_is_balanced_no_more_has_neither_ports_nor_addresses_of_it() -> None:
    old = service(ServiceAddresses(), type="LoadBalancer")
    old["status"] = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}

    def change(obj: Obj) -> None:
        obj["spec"]["type"] = "ClusterIP"
        obj["spec"]["ports"][0]["name"] = "a"
        obj["spec"]["ports"].append({"port": 81, "name": "b"})

    new, found = updated(old, change)
    assert found == []
    assert new["status"] == {"loadBalancer": {}}
    assert not any("nodePort" in port for port in new["spec"]["ports"])
    assert updated(old, lambda obj: obj["spec"].update(selector={"a": "b"}))[0]["status"] == old["status"]


def test_an_odd_address_of_a_balancer_is_remarked_on() -> None:
    obj = service(ServiceAddresses(), type="LoadBalancer")
    obj["status"] = {"loadBalancer": {"ingress": [{"ip": "2001:DB8::1", "ipMode": "VIP"}]}}
    assert strategy_of("Service").status_warnings(obj) == [
        'status.loadBalancer.ingress[0]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format '
        '("2001:db8::1")'
    ]


def test_thousands_of_external_addresses_are_looked_for_among_those_before_once() -> None:
    service, _ = born("Service", spec={"selector": {"a": "b"}, "ports": [PORT]})

    def changed(size: int) -> None:
        ips = [Compared(f"10.1.{number // 250}.{number % 250}") for number in range(size)]
        obj, old = (service | {"spec": service["spec"] | {"externalIPs": list(ips)}} for _ in range(2))
        strategy_of("Service").validate_update(obj, old, Errors())

    changed(400)  # so that every address has been read before
    assert growth(changed, 200) < 2.5
