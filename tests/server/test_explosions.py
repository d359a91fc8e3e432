"""Requests that are small for what they used to cost: judged in time linear in their size, answered in bounded words.

Each takes seconds here at most; each took minutes, or memory without end. Nobody measures: finishing is the test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.server.http_world import (
    CONFIG_MAPS,
    Server,
    check_status,
    serving_in_a_thread,
    uncomplaining,
)

pytestmark = pytest.mark.slow  # large things, and many of them

#: More than this no refusal is worth.
MOST_ANSWERED = 2 << 20


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    """The server, which must not complain in its log."""
    with uncomplaining():
        yield running


def config(**meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"} | meta}


def owner(number: int, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": str(number)} | more


def members(*pairs: str) -> bytes:
    """An object with these members, repetitions included."""
    return ('{"metadata":{"name":"x"},' + ",".join(pairs) + "}").encode()


def test_very_many_owners_are_compared_with_each_other_in_no_time(server: Server) -> None:
    owners = [owner(number) for number in range(20_000)]
    reply = server.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config(ownerReferences=owners + owners[:2]))
    assert reply.code == 201
    assert reply.obj["metadata"]["ownerReferences"] == owners


def test_of_very_many_errors_as_many_are_told_as_an_answer_has_room_for(server: Server) -> None:
    reply = server.ask("POST", CONFIG_MAPS, config(labels={f"-{number}": "-" for number in range(100_000)}))
    message = check_status(reply, 422, "Invalid")
    causes = reply.obj["details"]["causes"]
    assert len(reply.body) < MOST_ANSWERED
    assert len(causes) > 500
    assert causes[-1] == {"reason": "FieldValueTooMany", "message": "Too many errors: the others are left out"}
    assert message.endswith("Too many errors: the others are left out]")


def test_a_list_that_every_error_about_it_quotes_is_quoted_as_often_as_there_is_room(server: Server) -> None:
    owners = [owner(number, controller=True) for number in range(20_000)]
    reply = server.ask("POST", CONFIG_MAPS, config(ownerReferences=owners))
    message = check_status(reply, 422, "Invalid")
    cause = reply.obj["details"]["causes"][0]
    assert cause["field"] == "metadata.ownerReferences"
    assert cause["message"].endswith("more characters)")
    assert message.endswith("more characters)")
    assert len(reply.body) < MOST_ANSWERED


@pytest.mark.parametrize(
    "pairs",
    [
        ['"data":{"a":"b","a":"b"}'] * 100_000,
        [f'"data":{{"k{number}":"b"}}' for number in range(120_000)],
        [f'"metadata":{{"labels":{{"k{number}":"b"}}}}' for number in range(60_000)],
        [f'"unknown{number // 2}":1' for number in range(120_000)],
    ],
    ids=["in a map", "maps that are merged", "structs that are merged", "unknown fields"],
)
def test_very_many_keys_that_come_twice_are_merged_in_one_pass(server: Server, pairs: list[str]) -> None:
    reply = server.ask("POST", f"{CONFIG_MAPS}?dryRun=All&fieldValidation=Strict", members(*pairs))
    assert 1 <= check_status(reply, 400, "BadRequest").count(" field ") <= 100


@pytest.mark.parametrize("body", [b"[" * 3_000_000, b'{"a":' * 600_000, b'{"a":[' * 500_000])
def test_a_body_that_never_stops_opening_is_refused_at_the_depth_of_go(server: Server, body: bytes) -> None:
    reply = server.ask("POST", CONFIG_MAPS, body)
    assert "exceeded max depth" in check_status(reply, 400, "BadRequest")


@pytest.mark.parametrize("number", ["9" * 2_000_000, "1e999", "-1e999"])
def test_a_number_that_go_cannot_hold_is_refused(server: Server, number: str) -> None:
    reply = server.ask("POST", CONFIG_MAPS, members(f'"x":{number}'))
    assert "json: cannot unmarshal number" in check_status(reply, 400, "BadRequest")
    assert len(reply.body) < MOST_ANSWERED


# -- lists whose elements are compared with each other


def many(count: int, **element: Any) -> list[dict[str, Any]]:
    """So many elements, of which `#` in a text is the number."""
    return [json.loads(json.dumps(element).replace("#", str(number))) for number in range(count)]


_SPREAD = {"maxSkew": 1, "topologyKey": "k#", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
_FILES = {"path": "p#", "fieldRef": {"fieldPath": "metadata.name"}}
_KEYS = {"matchLabelKeys": [f"k{n}" for n in range(60_000)], "mismatchLabelKeys": [f"l{n}" for n in range(60_000)]}
_AFFINITY = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "k", "labelSelector": {}} | _KEYS
]}}  # fmt: skip
_LARGE_SPECS: dict[str, Callable[[], dict[str, Any]]] = {
    "spread constraints": lambda: {"topologySpreadConstraints": many(12_000, **_SPREAD)},
    "claims": lambda: {
        "resourceClaims": many(15_000, name="c#", resourceClaimName="x"),
        "containers": [{"name": "c", "image": "i", "resources": {"claims": many(15_000, name="c#")}}],
    },
    "equal ports": lambda: {"containers": [{"name": "c", "image": "i", "ports": many(20_000, containerPort=80)}]},
    "ports": lambda: {"containers": [{"name": "c", "image": "i", "ports": [
        {"containerPort": 80, "hostPort": 1 + number} for number in range(20_000)
    ]}]},
    "files of a volume": lambda: {"volumes": [{"name": "v", "downwardAPI": {"items": many(15_000, **_FILES)}}]},
    "label keys": lambda: {"affinity": _AFFINITY},
    "subscripts": lambda: {"containers": [{"name": "c", "image": "i", "env": [
        {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "a['" * 500_000}}}
    ]}]},
}  # fmt: skip


@pytest.mark.parametrize("spec", _LARGE_SPECS.values(), ids=_LARGE_SPECS)
def test_no_list_of_a_pod_is_compared_each_with_each(server: Server, spec: Callable[[], dict[str, Any]]) -> None:
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]} | spec()}
    reply = server.ask("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
    assert reply.code in (201, 422)
    assert len(reply.body) < 4 * MOST_ANSWERED


_MERGE_FINALIZERS = {"finalizers": [f"a/new{number}" for number in range(40_000)]}
_STRATEGIC: dict[str, dict[str, Any]] = {
    "merged": _MERGE_FINALIZERS,
    "taken out": {"$deleteFromPrimitiveList/finalizers": _MERGE_FINALIZERS["finalizers"]},
    "ordered": {"$setElementOrder/finalizers": _MERGE_FINALIZERS["finalizers"]} | _MERGE_FINALIZERS,
    "deleted": {"ownerReferences": [{"$patch": "delete", "uid": str(number)} for number in range(15_000)]},
}


@pytest.mark.parametrize("patch", _STRATEGIC.values(), ids=_STRATEGIC)
def test_a_strategic_merge_of_long_lists_takes_one_pass(server: Server, patch: dict[str, Any]) -> None:
    finalizers = [f"a/old{number}" for number in range(40_000)]
    owners = [owner(number) for number in range(10_000)]
    long = {"finalizers": finalizers, "ownerReferences": owners, "annotations": {}}
    assert server.ask("POST", CONFIG_MAPS, {"metadata": {"name": "long"} | long}).code == 201
    headers = {"content-type": "application/strategic-merge-patch+json"}
    assert server.ask("PATCH", f"{CONFIG_MAPS}/long?dryRun=All", {"metadata": patch}, headers).code == 200
    headers = {"content-type": "application/merge-patch+json"}
    assert server.ask("PATCH", f"{CONFIG_MAPS}/long", {"metadata": {"finalizers": None}}, headers).code == 200
    assert server.ask("DELETE", f"{CONFIG_MAPS}/long").code == 200


def test_exit_codes_and_families_are_compared_by_sets(server: Server) -> None:
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": list(range(1, 150_000))}}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"metadata": {"name": "x"}, "spec": {"template": template, "podFailurePolicy": {"rules": [rule]}}}
    reply = server.ask("POST", "/apis/batch/v1/namespaces/default/jobs", job)
    assert "must have at most 255 items" in check_status(reply, 422, "Invalid")
    spec = {"ports": [{"port": 80}], "ipFamilies": [f"v{number}" for number in range(100_000)]}
    reply = server.ask("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "x"}, "spec": spec})
    check_status(reply, 422, "Invalid")


def test_very_many_ports_are_not_compared_with_each_other_for_a_node_port(server: Server) -> None:
    ports = [{"name": f"p{number}", "port": number} for number in range(1, 60_000)]
    spec = {"type": "NodePort", "ports": ports}
    reply = server.ask("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "x"}, "spec": spec})
    assert "range is full" in check_status(reply, 500, "InternalError")
    siblings = [{"name": name, "port": 53, "protocol": name.upper()} for name in ("udp", "tcp")]
    siblings[1]["nodePort"] = 30_053
    spec = {"type": "NodePort", "ports": siblings}
    reply = server.ask(
        "POST", "/api/v1/namespaces/default/services?dryRun=All", {"metadata": {"name": "y"}, "spec": spec}
    )
    assert [port["nodePort"] for port in reply.obj["spec"]["ports"]] == [30_053, 30_053]


def test_the_keys_of_a_list_map_are_compared_by_sets(server: Server) -> None:
    keys = [f"k{number}" for number in range(20_000)]
    fields = {key: {"type": "string"} for key in keys}
    items = {"type": "object", "required": keys, "properties": fields}
    listed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items}
    schema = {"type": "object", "properties": {"a": listed}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "keys", "kind": "Key"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
    assert server.ask("POST", path, {"metadata": {"name": "keys.example.com"}, "spec": spec}).code == 201


def test_very_many_managers_are_merged_in_no_time(server: Server) -> None:
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z"}
    managers = many(12_000, manager="m#", fieldsV1={"f:data": {"f:k#": {}}}, **entry)
    reply = server.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config(managedFields=managers))
    assert reply.code == 201
    assert len(reply.obj["metadata"]["managedFields"]) == 10


def test_more_errors_than_are_told_are_errors(server: Server) -> None:
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "resized"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert server.ask("POST", pods, pod).code == 201
    patch = {"spec": {"containers": many(12_000, name="c#")}}
    headers = {"content-type": "application/strategic-merge-patch+json"}
    reply = server.ask("PATCH", f"{pods}/resized/resize", patch, headers)
    assert "Too many errors" in check_status(reply, 422, "Invalid")


_DIGITS = "9" * 5000
_POD = {"containers": [{"name": "c", "image": "i"}]}
_AFTER_ALL = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
_INGRESS = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": f"1.2.3.0/{_DIGITS}"}}]}]}
_NUMBERS: dict[str, tuple[str, dict[str, Any], int]] = {
    "a deletion cost": (
        "/api/v1/namespaces/default/pods",
        config(annotations={"controller.kubernetes.io/pod-deletion-cost": _DIGITS}) | {"spec": _POD},
        422,
    ),
    "an index of fields": (CONFIG_MAPS, config(managedFields=[_AFTER_ALL | {"fieldsV1": {f"i:{_DIGITS}": {}}}]), 201),
    "a network": ("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", config() | {"spec": _INGRESS}, 422),
}


@pytest.mark.parametrize(("path", "obj", "code"), _NUMBERS.values(), ids=_NUMBERS)
def test_a_number_of_thousands_of_digits_is_none(server: Server, path: str, obj: dict[str, Any], code: int) -> None:
    assert server.ask("POST", f"{path}?dryRun=All", obj).code == code


# -- what etcd would not take

_TOO_LARGE = "etcdserver: request is too large"
_ANNOTATIONS = {f"k{number}": "" for number in range(40_000)}  # within the limit of annotations, large in managedFields


def test_an_object_that_etcd_would_not_take_is_refused_as_by_etcd(server: Server) -> None:
    containers = [{"name": f"c{number}", "image": "i" * 1000} for number in range(1700)]
    pods = "/api/v1/namespaces/default/pods"
    reply = server.ask("POST", pods, {"metadata": {"name": "large"}, "spec": {"containers": containers}})
    assert check_status(reply, 500, "") == _TOO_LARGE
    assert "details" not in reply.obj
    assert server.ask("GET", f"{pods}/large").code == 404


def test_what_only_json_makes_large_is_taken(server: Server) -> None:
    text = '"\n' * 500_000  # a megabyte, and two of them as JSON
    assert server.ask("POST", CONFIG_MAPS, {"metadata": {"name": "quotes"}, "data": {"k": text}}).code == 201
    assert server.ask("GET", f"{CONFIG_MAPS}/quotes").obj["data"] == {"k": text}


def test_an_object_that_is_too_large_with_its_managers_is_stored_without(server: Server) -> None:
    def body(name: str, size: int) -> dict[str, Any]:
        return {"metadata": {"name": name, "annotations": _ANNOTATIONS}, "data": {"k": "v" * size}}

    assert "managedFields" in server.ask("POST", CONFIG_MAPS, body("managed", 300_000)).obj["metadata"]
    assert "managedFields" not in server.ask("POST", CONFIG_MAPS, body("unmanaged", 950_000)).obj["metadata"]
    patch = {"data": {"k": "v" * 950_000}}
    merge = {"content-type": "application/merge-patch+json"}
    apply = {"content-type": "application/apply-patch+yaml"}
    config = {"apiVersion": "v1", "kind": "ConfigMap"} | patch
    path = f"{CONFIG_MAPS}/managed"
    assert check_status(server.ask("PUT", path, body("managed", 950_000)), 500, "") == _TOO_LARGE
    refused = server.ask("PATCH", f"{path}?fieldManager=a&force=1", config, apply)
    assert check_status(refused, 500, "") == _TOO_LARGE
    patched = server.ask("PATCH", path, patch, merge)
    assert patched.code == 200
    assert "managedFields" not in patched.obj["metadata"]


def test_a_custom_resource_does_not_grow_with_every_patch(server: Server) -> None:
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": open_schema}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "heaps", "kind": "Heap"},
        "versions": [version],
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert server.ask("POST", definitions, {"metadata": {"name": "heaps.example.com"}, "spec": spec}).code == 201
    heaps = "/apis/example.com/v1/namespaces/default/heaps"
    server.soon(lambda: server.ask("GET", heaps).code == 200)
    heap = {"apiVersion": "example.com/v1", "kind": "Heap", "metadata": {"name": "h"}}
    assert server.ask("POST", heaps, heap).code == 201
    merge = {"content-type": "application/merge-patch+json"}
    codes = [server.ask("PATCH", f"{heaps}/h", {f"k{n}": "v" * 400_000}, merge).code for n in range(5)]
    assert codes == [200, 200, 200, 500, 500]
    assert server.ask("DELETE", f"{heaps}/h").code == 200
