"""`/openapi/v2` tells of what other API servers serve, as kube-aggregator's does (issue 16)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from fairlead.api.builtin import API_SERVICES, SERVICES
from fairlead.api.objects import Obj
from fairlead.server import openapi
from fairlead.server.openapi import gnostic, merging
from fairlead.server.openapi.documents import Kinds
from tests.server.aggregation_world import GADGETS, GROUP, NAME, ROOT, VERSION, World, soon, within
from tests.server.test_openapi import catalogue

POD = "io.k8s.api.core.v1.Pod"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
GADGET = "com.example.extras.v1.Gadget"
PREFIX = f"{ROOT}/"
OWN = msgspec.json.decode(openapi.document(Kinds.of(catalogue()), ("v2",), ["application/json"])[0])  # type: ignore[index]


def kind(name: str, group: str = GROUP, version: str = VERSION) -> Obj:
    return {"group": group, "version": version, "kind": name}


def to(name: str, part: str = "definitions") -> Obj:
    return {"$ref": f"#/{part}/{name}"}


def operation(answer: str, *parameters: Obj) -> Obj:
    responses = {"200": {"description": "OK", "schema": to(answer)}}
    return {"get": {"operationId": "list", "parameters": list(parameters), "responses": responses}}


def specification(definitions: Obj | None = None) -> Obj:
    """That of the other server: gadgets, and paths and definitions that are none of ours."""
    gadget = {
        "type": "object",
        "properties": {"metadata": to(META), "size": {"type": "integer"}},
        "x-kubernetes-group-version-kind": [kind("Gadget")],
    }
    found = {GADGET: gadget, META: OWN["definitions"][META], "unused": {"type": "string"}} | (definitions or {})
    for name in list(OWN["definitions"]):
        if name.startswith("io.k8s.apimachinery.pkg.apis.meta.v1"):
            found.setdefault(name, OWN["definitions"][name])
    paths = {f"{PREFIX}gadgets": operation(GADGET), "/version/": operation("unused"), "/api/v1/pods": operation(POD)}
    return {"swagger": "2.0", "info": {"title": "extras", "version": "1"}, "paths": paths, "definitions": found}


def merged(*others: Obj) -> Any:
    kept = tuple(merging.kept_of(json.dumps(other).encode(), PREFIX) for other in others)
    kinds = Kinds.of(catalogue(), others=kept)
    found = openapi.document(kinds, ("v2",), ["application/json"])
    as_protobuf = openapi.document(kinds, ("v2",), [gnostic.MEDIA_TYPE])
    assert found is not None and as_protobuf is not None
    assert as_protobuf[0] == gnostic.document(found[0])
    return msgspec.json.decode(found[0])


def kept(world: World) -> bytes:
    """What our server keeps of the document."""
    found = world.server.aggregator.services.find(GROUP, VERSION)
    return world.server.aggregator.descriptions.of(found).specification if found is not None else b""


async def document(world: World) -> Any:
    return await world.ask("/openapi/v2")


def test_what_another_server_serves_is_in_the_document_as_long_as_it_is_registered() -> None:
    async def steps(world: World) -> None:
        before = await document(world)
        world.extension.specification = json.dumps(specification()).encode()
        await world.serve_extras()
        await world.available()
        await soon(lambda: bool(kept(world)))
        found = await document(world)
        assert set(found["paths"]) - set(before["paths"]) == {f"{ROOT}/gadgets"}
        assert set(found["definitions"]) - set(before["definitions"]) == {GADGET}
        assert found["definitions"][GADGET]["properties"]["metadata"] == to(META)
        assert found["paths"]["/api/v1/pods"] == before["paths"]["/api/v1/pods"]
        assert found["info"] == before["info"]
        async with world.client.get(f"{world.url}/openapi/v2", headers={"Accept": gnostic.MEDIA_TYPE}) as response:
            assert response.content_type == gnostic.MEDIA_TYPE
            assert b"com.example.extras.v1.Gadget" in await response.read()
        await world.server.api.delete(API_SERVICES, NAME)
        assert await document(world) == before

    within(steps)


def test_the_tag_changes_with_the_document() -> None:
    async def steps(world: World) -> None:
        async def asked(tag: str = "", accept: str = "application/json") -> tuple[int, str, bytes]:
            headers = {"Accept": accept} | ({"If-None-Match": tag} if tag else {})
            async with world.client.get(f"{world.url}/openapi/v2", headers=headers) as response:
                assert response.headers["Vary"] == "Accept"
                return response.status, response.headers["ETag"], await response.read()

        code, before, _ = await asked()
        assert code == 200
        assert await asked(before) == (304, before, b"")
        assert await asked(f'"other", W/{before}', gnostic.MEDIA_TYPE) == (304, before, b"")
        world.extension.specification = json.dumps(specification()).encode()
        await world.serve_extras()
        await world.available()
        await soon(lambda: bool(kept(world)))
        code, after, body = await asked(before)
        assert code == 200 and after != before and GADGET.encode() in body

    within(steps)


@pytest.mark.parametrize("tag", ["", '"one"'])
def test_a_document_that_did_not_change_is_not_read_again(tag: str) -> None:
    async def steps(world: World) -> None:
        extension = world.extension
        extension.specification, extension.tag = json.dumps(specification()).encode(), tag
        await world.serve_extras()
        await world.available()
        await soon(lambda: bool(kept(world)))

        async def again() -> int:
            """It is looked at once more, which says how often the document was sent."""
            seen = len(extension.requests)
            label = {"metadata": {"labels": {"seen": str(seen)}}}
            await world.server.api.patch(SERVICES, "extras", "default", label)
            await soon(lambda: [each.path for each in extension.requests[seen:]].count("/openapi/v2") > 0)
            return extension.specifications

        before = kept(world)
        times = await again()
        assert times == 1 if tag else times > 1
        changed = specification({"extra": {"type": "string"}})
        changed["paths"][f"{PREFIX}more"] = operation("extra")
        assert kept(world) is before
        extension.specification, extension.tag = json.dumps(changed).encode(), '"two"' if tag else ""
        await again()
        await soon(lambda: kept(world) != before)
        assert f"{PREFIX}more" in (await document(world))["paths"]

    within(steps)


@pytest.mark.parametrize(
    "hostile",
    [
        b"nonsense",
        b"[]",
        b'{"paths": 7}',
        b"[" * 500_000,
        b'{"paths": {"' + PREFIX.encode() + b'x": ' + b'{"get":' * 5000 + b"1" + b"}" * 5000 + b"}}",
        json.dumps({"paths": {f"{PREFIX}x": operation("a")}, "definitions": {"a": {"type": 5}}}).encode(),
        json.dumps({"paths": {f"{PREFIX}x": operation("a", {"in": "nowhere"})}, "definitions": {"a": {}}}).encode(),
        b" " * (9 << 20),
    ],
    ids=["text", "list", "number", "deep list", "deep", "type", "parameter", "enormous"],
)
def test_a_document_that_is_none_harms_nobody(hostile: bytes) -> None:
    async def steps(world: World) -> None:
        before = await document(world)
        world.extension.specification = hostile
        await world.serve_extras()
        await world.available()
        await soon(lambda: world.extension.specifications > 0)
        await asyncio.sleep(0.1)  # it would be in the document by then
        assert await document(world) == before
        async with world.client.get(f"{world.url}/openapi/v2", headers={"Accept": gnostic.MEDIA_TYPE}) as response:
            assert response.status == 200
        await world.ask(GADGETS)

    within(steps)


def test_a_server_that_breaks_leaves_what_it_said() -> None:
    async def steps(world: World) -> None:
        world.extension.specification = json.dumps(specification()).encode()
        await world.serve_extras()
        await world.available()
        await soon(lambda: bool(kept(world)))
        world.extension.is_broken = True
        await world.server.api.patch(SERVICES, "extras", "default", {"metadata": {"labels": {"a": "b"}}})
        await world.comes_to("FailedDiscoveryCheck")
        assert GADGET in (await document(world))["definitions"]

    within(steps)


def test_a_definition_that_means_something_else_gets_another_name() -> None:
    own = {"type": "object", "properties": {"gadget": to(GADGET), "again": to(POD)}}
    gadget = {"type": "object", "properties": {"pod": to(POD)}}
    found = merged(specification({POD: own, GADGET: gadget}))
    definitions = found["definitions"]
    assert definitions[POD] == OWN["definitions"][POD]
    assert definitions[f"{POD}_v2"]["properties"] == {"gadget": to(GADGET), "again": to(f"{POD}_v2")}
    assert definitions[GADGET]["properties"]["pod"] == to(f"{POD}_v2")
    assert "unused" not in definitions


def test_names_that_are_taken_are_not_given_and_the_same_is_not_there_twice() -> None:
    first, second = {"type": "object", "title": "one"}, {"type": "object", "title": "two"}
    one = specification({POD: first, f"{POD}_v2": {"type": "string"}})
    one["paths"][f"{PREFIX}a"] = operation(POD)
    one["paths"][f"{PREFIX}b"] = operation(f"{POD}_v2")
    two = specification({POD: second})
    two["paths"][f"{PREFIX}c"] = operation(POD)
    three = specification({POD: first})
    three["paths"][f"{PREFIX}d"] = operation(POD)
    found = merged(one, two, three)
    schemas = {
        path: found["paths"][f"{PREFIX}{path}"]["get"]["responses"]["200"]["schema"]["$ref"].removeprefix(
            "#/definitions/"
        )
        for path in "abcd"
    }
    assert schemas == {"a": f"{POD}_v3", "b": f"{POD}_v2", "c": f"{POD}_v4", "d": f"{POD}_v3"}
    assert found["definitions"][f"{POD}_v3"] == first
    assert found["definitions"][f"{POD}_v4"] == second


def test_the_same_definition_of_another_kind_is_that_of_both() -> None:
    name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    own = OWN["definitions"][name]
    other = own | {"x-kubernetes-group-version-kind": [kind("DeleteOptions", "zzz.example.com")]}
    one = specification({name: other})
    one["paths"][f"{PREFIX}a"] = operation(name)
    kinds = merged(one)["definitions"][name]["x-kubernetes-group-version-kind"]
    assert kinds[-1] == kind("DeleteOptions", "zzz.example.com")
    assert [each for each in kinds if each != kinds[-1]] == own["x-kubernetes-group-version-kind"]


def test_shared_parameters_come_along() -> None:
    one = specification()
    limit = {"name": "limit", "in": "query", "type": "integer", "uniqueItems": True}
    one["parameters"] = {"limit-1": limit, "unused": limit}
    one["paths"][f"{PREFIX}a"] = operation(GADGET, to("limit-1", "parameters"))
    two = specification()
    two["parameters"] = {"limit-1": limit | {"name": "other"}}
    two["paths"][f"{PREFIX}b"] = operation(GADGET, to("limit-1", "parameters"))
    found = merged(one, two)
    assert found["parameters"] == {"limit-1": limit, "limit-1_v2": limit | {"name": "other"}}
    assert found["paths"][f"{PREFIX}a"]["get"]["parameters"] == [to("limit-1", "parameters")]
    assert found["paths"][f"{PREFIX}b"]["get"]["parameters"] == [to("limit-1_v2", "parameters")]
