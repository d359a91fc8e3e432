"""Ingresses, NetworkPolicies and EndpointSlices: what is refused, and what an object of an older release may keep."""

from __future__ import annotations

import pytest

from fairlead.api.names import dns1123_label, dns1123_subdomain, wildcard_dns1123_subdomain
from fairlead.api.objects import Obj
from tests.kinds.kind_world import born, made, status_refusals, updated

BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
RANGE = "must be between 1 and 65535, inclusive"


def path(text: str, type_: str = "Prefix", **fields: object) -> Obj:
    return {"path": text, "pathType": type_, "backend": BACKEND} | fields


def rule(*paths: Obj, **fields: object) -> Obj:
    return {"http": {"paths": list(paths)}} | fields


@pytest.mark.parametrize(
    ("spec", "refusals"),
    [
        ({}, ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
        ({"defaultBackend": {}}, ['spec.defaultBackend: Invalid value: "": resource or service backend is required']),
        (
            {"defaultBackend": {"service": {"name": "", "port": {}}}},
            [
                "spec.defaultBackend.service.name: Required value",
                "spec.defaultBackend: Required value: port name or number is required",
            ],
        ),
        (
            {"defaultBackend": {"service": {"name": "A", "port": {"number": 70000}}}},
            [
                f'spec.defaultBackend.service.name: Invalid value: "A": {dns1123_label("A")[0]}',
                f"spec.defaultBackend.service.port.number: Invalid value: 70000: {RANGE}",
            ],
        ),
        (
            {"defaultBackend": {"service": {"name": "a", "port": {"number": 1, "name": "http"}}}},
            ['spec.defaultBackend: Invalid value: "": cannot set both port name & port number'],
        ),
        (
            {"defaultBackend": {"service": {"name": "a", "port": {"name": "-a"}}}},
            ['spec.defaultBackend.service.port.name: Invalid value: "-a": must not begin or end with a hyphen'],
        ),
        (
            {"defaultBackend": {"resource": {"apiGroup": "a b", "kind": "Bucket", "name": "x/y"}}},
            [
                f'spec.defaultBackend.resource.apiGroup: Invalid value: "a b": {dns1123_subdomain("a b")[0]}',
                "spec.defaultBackend.resource.name: Invalid value: \"x/y\": may not contain '/'",
            ],
        ),
        (
            {"rules": [rule(path("/"), host="10.0.0.1"), rule(host="a.*.b")]},
            [
                'spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
                f'spec.rules[1].host: Invalid value: "a.*.b": {wildcard_dns1123_subdomain("a.*.b")[0]}',
                "spec.rules[1].http.paths: Required value",
            ],
        ),
        (
            {"rules": [rule(path("/a//b/.."), path("x", "Exact"), path("x", "ImplementationSpecific"))]},
            [
                "spec.rules[0].http.paths[0].path: Invalid value: \"/a//b/..\": must not contain '//'",
                "spec.rules[0].http.paths[0].path: Invalid value: \"/a//b/..\": cannot end with '/..'",
                'spec.rules[0].http.paths[1].path: Invalid value: "x": must be an absolute path',
                'spec.rules[0].http.paths[2].path: Invalid value: "x": must be an absolute path',
            ],
        ),
        ({"rules": [rule(path("", "ImplementationSpecific"), path("/a%2fb", "ImplementationSpecific"))]}, []),
        (
            {"rules": [rule({"backend": {}})]},
            ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
        ),
        (
            {"defaultBackend": BACKEND, "tls": [{"hosts": ["*.a.b", "*"], "secretName": "A"}], "ingressClassName": ""},
            [
                f'spec.tls[0].hosts[1]: Invalid value: "*": {wildcard_dns1123_subdomain("*")[0]}',
                f'spec.tls[0].secretName: Invalid value: "A": {dns1123_subdomain("A")[0]}',
                f'spec.ingressClassName: Invalid value: "": {dns1123_subdomain("")[0]}',
            ],
        ),
    ],
)
def test_what_an_ingress_may_not_say(spec: Obj, refusals: list[str]) -> None:
    assert born("Ingress", spec=spec)[1] == refusals


def test_class_of_an_ingress_is_one() -> None:
    annotated = {"annotations": {"kubernetes.io/ingress.class": "old"}}
    new, refusals = born("Ingress", meta=annotated, spec={"defaultBackend": BACKEND, "ingressClassName": "new"})
    assert refusals == [
        'annotations.kubernetes.io/ingress.class: Invalid value: "old": '
        "must match `ingressClassName` when both are specified"
    ]
    assert updated(new, lambda obj: obj["spec"].update(ingressClassName="newer"))[1] == []
    assert born("Ingress", meta=annotated, spec={"defaultBackend": BACKEND, "ingressClassName": "old"})[1] == []


def test_an_ingress_of_an_older_release_stays_changeable() -> None:
    old = made("Ingress", spec={"defaultBackend": BACKEND})
    change = {"rules": [rule(host="*.a.b")], "tls": [{"secretName": "A"}]}
    assert len(updated(old, lambda obj: obj["spec"].update(change))[1]) == 2
    old["spec"] |= change
    assert updated(old, lambda obj: obj["spec"]["tls"].append({"secretName": "B"}))[1] == []


def test_addresses_in_the_status_of_an_ingress_are_some() -> None:
    old = made("Ingress", spec={"defaultBackend": BACKEND})
    status = {"loadBalancer": {"ingress": [{"ip": "010.0.0.1"}, {"hostname": "10.0.0.1"}, {"hostname": "a_b"}]}}
    assert status_refusals(old, status) == [
        'status.loadBalancer.ingress[0].ip: Invalid value: "010.0.0.1": must not have leading 0s',
        'status.loadBalancer.ingress[1].hostname: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
        f'status.loadBalancer.ingress[2].hostname: Invalid value: "a_b": {dns1123_subdomain("a_b")[0]}',
    ]
    old["status"] = {"loadBalancer": {"ingress": [{"ip": "010.0.0.1"}]}}
    assert status_refusals(old, {"loadBalancer": {"ingress": [{"ip": "fd00::1"}, {"ip": "010.0.0.1"}]}}) == []


@pytest.mark.parametrize(
    ("port", "refusals"),
    [
        (
            {"protocol": "ICMP", "port": 0},
            ['protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"', f"port: {{}}0: {RANGE}"],
        ),
        ({"port": "-a"}, ['port: {}"-a": must not begin or end with a hyphen']),
        (
            {"port": 80, "endPort": 70},
            ["endPort: {}80: must be greater than or equal to `port`"],
        ),
        ({"port": 80, "endPort": 70000}, [f"endPort: {{}}70000: {RANGE}"]),
        ({"port": "http", "endPort": 90}, ["endPort: {}90: may not be specified when `port` is non-numeric"]),
        ({"endPort": 90}, ["endPort: {}90: may not be specified when `port` is not specified"]),
        ({"port": 80, "endPort": 80}, []),
    ],
)
@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_ports_of_a_network_policy(direction: str, port: Obj, refusals: list[str]) -> None:
    spec = {"podSelector": {}, direction: [{"ports": [port]}]}
    where = f"spec.{direction}[0].ports[0]."
    assert born("NetworkPolicy", spec=spec)[1] == [where + text.format("Invalid value: ") for text in refusals]


def test_networks_of_a_network_policy() -> None:
    def policy(**block: object) -> Obj:
        return {"podSelector": {}, "egress": [{"to": [{"ipBlock": block}]}]}

    where = "spec.egress[0].to[0].ipBlock"
    assert born("NetworkPolicy", spec=policy(cidr="", **{"except": ["x"]}))[1] == [f"{where}.cidr: Required value"]
    parts = ["10.0.1.0/24", "10.0.0.0/16", "10.1.0.0/24", "fd00::/64", "10.0.0.1/24"]
    new, refusals = born("NetworkPolicy", spec=policy(cidr="10.0.0.0/16", **{"except": parts}))
    assert refusals == [
        *(
            f'{where}.except[{index}]: Invalid value: "{parts[index]}": must be a strict subset of `cidr`'
            for index in (1, 2, 3)
        ),
        f'{where}.except[4]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length',
    ]
    new["spec"] = policy(cidr="10.0.0.1/16")
    assert (
        updated(new, lambda obj: obj["spec"]["egress"].append({"to": [{"ipBlock": {"cidr": "10.0.0.1/16"}}]}))[1] == []
    )
    assert updated(new, lambda obj: obj["spec"].update(policy(cidr="10.0.0.2/16")))[1] != []


@pytest.mark.parametrize(
    ("address", "refusals"),
    [
        ("db.example.", []),
        ("db", ['"db": should be a domain with at least two segments separated by dots']),
        ("a_b.example.", [f'"a_b.example": {dns1123_subdomain("a_b")[0]}']),
        (f"{'a' * 64}.example", [f'"{"a" * 64}": must be no more than 63 characters']),
    ],
)
def test_names_in_an_endpoint_slice_are_fully_qualified(address: str, refusals: list[str]) -> None:
    _, found = born("EndpointSlice", addressType="FQDN", endpoints=[{"addresses": [address]}])
    assert found == [f"endpoints[0].addresses[0]: Invalid value: {text}" for text in refusals]


def test_hints_of_an_endpoint_slice_are_zones_and_nodes() -> None:
    hints = {"forZones": [{"name": "z"}, {"name": "z"}], "forNodes": [{"name": "n"}, {"name": "N"}]}
    endpoint = {"addresses": ["10.0.0.1"], "hints": hints}
    assert born("EndpointSlice", addressType="IPv4", endpoints=[endpoint])[1] == [
        'endpoints[0].hints.forZones[1].name: Duplicate value: "z"',
        f'endpoints[0].hints.forNodes[1].name: Invalid value: "N": {dns1123_subdomain("N")[0]}',
    ]
    endpoint["hints"] = {"forNodes": [{"name": f"n{index}"} for index in range(9)]}
    assert born("EndpointSlice", addressType="IPv4", endpoints=[endpoint])[1] == [
        "endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items"
    ]
