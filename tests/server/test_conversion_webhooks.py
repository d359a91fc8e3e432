"""Conversion webhooks (issue 16): custom objects in several versions, of which one is stored."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from fairlead.api.builtin import CUSTOM_RESOURCE_DEFINITIONS
from fairlead.api.errors import Invalid, Unknown
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.users import INTERNAL_USER
from fairlead.api.verbs import ListQuery, PatchType, WatchQuery, WriteOptions
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from tests.server.http_world import serving_in_a_thread
from tests.server.webhook_world import Handler, Webhooks, World, within

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "example.com"
NAME = f"servers.{GROUP}"
WHO = f"conversion webhook for {GROUP}/v1, Kind=Server"
TEXT = {"type": "string"}


def converted(review: Obj) -> Obj:
    """`hostPort` of v1 is `host` and `port` in v2."""
    request = review["request"]
    objects = [_converted(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    response = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
    return {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response}


def _converted(obj: Obj, api_version: str) -> Obj:
    obj = dict(obj)
    if api_version.endswith("v2"):
        obj["host"], _, obj["port"] = obj.pop("hostPort", ":").partition(":")
    else:
        obj["hostPort"] = f"{obj.pop('host', '')}:{obj.pop('port', '')}"
    return obj | {"apiVersion": api_version}


def definition(client: Obj, stored: str = "v1", **conversion: Any) -> Obj:
    def version(name: str, *fields: str, **more: Any) -> Obj:
        properties = dict.fromkeys(fields, TEXT) | {"status": {"type": "object", "properties": {"ip": TEXT}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": properties, **more}}
        subresources: Obj = {"status": {}}
        return {
            "name": name,
            "served": True,
            "storage": name == stored,
            "schema": schema,
            "subresources": subresources,
        }

    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]} | conversion
    versions = [version("v1", "hostPort"), version("v2", "host", "port", required=["host"])]
    names = {"plural": "servers", "singular": "server", "kind": "Server"}
    return {
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names,
            "versions": versions,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }


async def serve(world: World, handler: Handler = converted, **more: Any) -> tuple[Resource, Resource]:
    """Have the kind served; its rows in both versions."""
    await world.define(definition(world.webhooks.at("convert", handler), **more))
    rows = [world.server.registry.resource_of(GROUP, version, "Server") for version in ("v1", "v2")]
    assert rows[0] and rows[1]
    return rows[0], rows[1]


def at_rest(world: World, name: str = "x") -> Obj:
    found = world.server.registry.find(NAME, name, "default")
    assert found is not None
    return found.obj()


def test_an_object_is_stored_in_one_version_and_shown_in_any() -> None:
    async def steps(world: World) -> None:
        v1, v2 = await serve(world)
        created = await world.create("x", v2, host="a", port="1")
        assert (created["apiVersion"], created["host"], created["port"]) == (f"{GROUP}/v2", "a", "1")
        assert (at_rest(world)["apiVersion"], at_rest(world)["hostPort"]) == (f"{GROUP}/v1", "a:1")
        assert (await world.api.get(v1, "x", "default")).obj()["hostPort"] == "a:1"
        assert (await world.api.get(v2, "x", "default")).obj() == created
        _, review = world.webhooks.reviews[0]
        assert (review["kind"], review["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")
        assert review["request"]["desiredAPIVersion"] == f"{GROUP}/v1"
        assert review["request"]["objects"][0]["host"] == "a"
        assert world.webhooks.requests[0].query_string == "timeout=30s"
        refused = await world.refusal(world.create("y", v2, port="1"))
        assert isinstance(refused, Invalid)
        assert "host: Required value" in refused.message

    within(steps)


def test_whoever_speaks_the_stored_version_needs_no_webhook() -> None:
    async def steps(world: World) -> None:
        v1, _ = await serve(world)
        await world.create("x", v1, hostPort="a:1")
        await world.api.patch(v1, "x", "default", {"hostPort": "b:1"}, PatchType.MERGE)
        await world.api.list(v1, "default")
        await world.api.delete(v1, "x", "default")
        assert world.webhooks.asked() == []

    within(steps)


@pytest.mark.parametrize("type_", [PatchType.MERGE, PatchType.JSON, PatchType.APPLY])
def test_a_patch_is_one_of_the_version_in_which_it_is_sent(type_: PatchType) -> None:
    async def steps(world: World) -> None:
        v1, v2 = await serve(world)
        await world.create("x", v1, hostPort="a:1", metadata={"labels": {"k": "v"}, "finalizers": ["example.com/f"]})
        patches: dict[PatchType, Any] = {
            PatchType.MERGE: {"port": "2"},
            PatchType.JSON: [
                {"op": "test", "path": "/port", "value": "1"},
                {"op": "replace", "path": "/port", "value": "2"},
            ],
            PatchType.APPLY: {"kind": "Server", "apiVersion": f"{GROUP}/v2", "metadata": {"name": "x"}, "port": "2"},
        }
        options = WriteOptions(field_manager="me", force=type_ is PatchType.APPLY)
        tracking = world.server.registry.as_user(INTERNAL_USER, tracks_fields=True)
        found = await tracking.patch(v2, "x", "default", patches[type_], type_, options=options)
        assert (found.obj()["host"], found.obj()["port"]) == ("a", "2")
        assert (at_rest(world)["hostPort"], at_rest(world)["metadata"]["generation"]) == ("a:2", 2)
        revision = at_rest(world)["metadata"]["resourceVersion"]
        again = await tracking.patch(v2, "x", "default", {"port": "2"}, PatchType.MERGE)
        assert type_ is not PatchType.MERGE or again.obj()["metadata"]["resourceVersion"] == revision
        await world.api.patch(v2, "x", "default", {"status": {"ip": "i"}}, PatchType.MERGE, subresource="status")
        assert at_rest(world)["status"] == {"ip": "i"}

    within(steps)


def test_owners_of_fields_keep_to_their_versions() -> None:
    async def steps(world: World) -> None:
        v1, v2 = await serve(world)
        api = world.server.registry.as_user(INTERNAL_USER, tracks_fields=True)

        async def apply(row: Resource, manager: str, **fields: Any) -> Obj:
            body = {"kind": "Server", "apiVersion": row.api_version, "metadata": {"name": "x"}, **fields}
            options = WriteOptions(field_manager=manager)
            return (await api.patch(row, "x", "default", body, PatchType.APPLY, options=options)).obj()

        await apply(v1, "a", hostPort="h:1")
        await apply(v2, "b", host="h")
        assert (await apply(v2, "b", host="h", port="2"))["port"] == "2"
        assert (await apply(v1, "a", hostPort="h:3"))["hostPort"] == "h:3"
        assert 'conflict with "b"' in (await world.refusal(apply(v2, "c", port="4"))).message
        options = WriteOptions(field_manager="m")
        patched = await api.patch(v2, "x", "default", {"port": "9"}, PatchType.MERGE, options=options)
        owners = {entry["manager"]: entry["fieldsV1"] for entry in patched.obj()["metadata"]["managedFields"]}
        assert owners == {"a": {"f:hostPort": {}}, "b": {"f:host": {}}, "m": {"f:port": {}}}
        assert at_rest(world)["hostPort"] == "h:9"

    within(steps)


def test_a_list_is_converted_by_one_call() -> None:
    async def steps(world: World) -> None:
        v1, v2 = await serve(world)
        for index in range(5):
            await world.create(f"x{index}", v1, hostPort=f"a:{index}")
        listing = await world.api.list(v2, "default")
        assert [item.obj()["port"] for item in listing.items] == ["0", "1", "2", "3", "4"]
        page = await world.api.list(v2, "default", ListQuery(limit=2))
        assert ([item.obj()["port"] for item in page.items], page.remaining) == (["0", "1"], 3)
        assert world.webhooks.asked() == ["convert"]
        await world.create("x5", v2, host="a", port="5")
        world.webhooks.reviews.clear()
        await world.api.list(v2, "default")
        assert [len(review["request"]["objects"]) for _, review in world.webhooks.reviews] == [1]

    within(steps)


def test_watchers_of_a_version_share_a_call() -> None:
    async def steps(world: World) -> None:
        v1, v2 = await serve(world)
        await world.create("x", v1, hostPort="a:1")
        seen: list[list[tuple[str, str]]] = [[] for _ in range(20)]

        async def watch(events: list[tuple[str, str]]) -> None:
            async for event in world.api.watch(v2, "default", WatchQuery()):
                events.append((event.type, event.object.obj()["port"]))
                if len(events) == 4:
                    return

        watching = [asyncio.create_task(watch(events)) for events in seen]
        while not all(seen):  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.001)
        await world.api.patch(v1, "x", "default", {"hostPort": "a:2"}, PatchType.MERGE)
        await world.api.patch(v1, "x", "default", {"hostPort": "a:3"}, PatchType.MERGE)
        await world.api.delete(v1, "x", "default")
        await asyncio.gather(*watching)
        expected = [("ADDED", "1"), ("MODIFIED", "2"), ("MODIFIED", "3"), ("DELETED", "3")]
        assert seen == [expected] * 20
        assert len(world.webhooks.reviews) <= 4

    within(steps)


def test_a_selection_is_one_of_the_version_in_which_it_is_asked_for() -> None:
    """`host` is no field of the stored version, and the webhook adds a label."""

    def labelling(review: Obj) -> Obj:
        answer = converted(review)
        for obj in answer["response"]["convertedObjects"]:
            obj["metadata"]["labels"] = {"in": obj["apiVersion"].rpartition("/")[2]}
        return answer

    async def steps(world: World) -> None:
        crd = definition(world.webhooks.at("convert", labelling))
        crd["spec"]["versions"][1]["selectableFields"] = [{"jsonPath": ".host"}]
        await world.define(crd)
        v1, v2 = (world.server.registry.resource_of(GROUP, version, "Server") for version in ("v1", "v2"))
        assert v1 is not None and v2 is not None
        for index, host in enumerate("abaab"):
            await world.create(f"x{index}", v1, hostPort=f"{host}:1")

        async def names(row: Resource, **query: Any) -> list[str]:
            return [
                item.metadata()["name"] for item in (await world.api.list(row, "default", ListQuery(**query))).items
            ]

        assert await names(v2, fields="host=a") == ["x0", "x2", "x3"]
        assert await names(v2, fields="host!=a") == ["x1", "x4"]
        assert await names(v2, fields="host=a,metadata.name=x3") == ["x3"]
        assert await names(v2, labels="in=v2,in!=v1", fields="host=b") == ["x1", "x4"]
        assert await names(v1, labels="in=v2") == []
        page = await world.api.list(v2, "default", ListQuery(fields="host=a", limit=2))
        assert [item.metadata()["name"] for item in page.items] == ["x0", "x2"]
        assert (page.continue_token != "", page.remaining) == (True, None)
        follow = ListQuery(fields="host=a", limit=2, continue_token=page.continue_token)
        assert [item.metadata()["name"] for item in (await world.api.list(v2, "default", follow)).items] == ["x3"]

        seen: list[tuple[str, str, str]] = []

        async def watch(**query: Any) -> None:
            async for event in world.api.watch(v2, "default", WatchQuery(fields="host=a", **query)):
                obj = event.object.obj()
                seen.append((event.type, obj["metadata"]["name"], obj["host"] + obj["port"]))
                assert int(obj["metadata"]["resourceVersion"]) > start

        async def until(count: int) -> list[tuple[str, str, str]]:
            while len(seen) < count:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0.001)
            found = sorted(seen)
            seen.clear()
            return found

        start = 0
        watching = asyncio.create_task(watch())
        assert await until(3) == [("ADDED", "x0", "a1"), ("ADDED", "x2", "a1"), ("ADDED", "x3", "a1")]
        start = world.server.registry.revision
        changes = [("x0", "a:2"), ("x1", "a:1"), ("x2", "b:1"), ("x4", "b:2")]
        for name, value in changes:
            await world.api.patch(v1, name, "default", {"hostPort": value}, PatchType.MERGE)
        await world.api.delete(v1, "x4", "default")
        await world.api.delete(v1, "x3", "default")
        expected = [("ADDED", "x1", "a1"), ("DELETED", "x2", "a1"), ("DELETED", "x3", "a1"), ("MODIFIED", "x0", "a2")]
        assert await until(4) == expected
        watching.cancel()
        watching = asyncio.create_task(watch(resource_version=str(start)))
        assert await until(4) == expected
        watching.cancel()

    within(steps)


def result(**fields: Any) -> Handler:
    return lambda review: converted(review) | {"response": converted(review)["response"] | fields}


def changed(**fields: Any) -> Handler:
    def handler(review: Obj) -> Obj:
        answer = converted(review)
        answer["response"]["convertedObjects"][0].update(fields)
        return answer

    return handler


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (
            lambda review: web.Response(text="no", status=500),
            f'{WHO} failed: an error on the server ("no") has prevented the request from succeeding',
        ),
        (
            lambda review: {"kind": "x"},
            f"{WHO} failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=x",
        ),
        (result(uid="x"), f'{WHO} failed: expected response.uid="UID", got "x"'),
        (result(result={"status": "Failure", "message": "cannot"}), f"{WHO} failed: cannot"),
        (result(result={}), f"{WHO} failed: response.result.status was '', not 'Success'"),
        (result(convertedObjects=[]), f"{WHO} returned 0 objects, expected 1"),
        (
            changed(apiVersion="example.com/v3"),
            f"{WHO} returned invalid object: invalid groupVersion (expected example.com/v2, received example.com/v3)",
        ),
        (changed(kind="Other"), f"{WHO} returned invalid object: invalid kind (expected Server, received Other)"),
        (
            changed(metadata={"name": "y", "namespace": "default"}),
            f"{WHO} returned invalid object: must have the same name: x != y",
        ),
        (changed(metadata=1), f"{WHO} returned invalid metadata: invalid metadata of type int64 in converted object"),
    ],
)
def test_an_answer_that_is_none_is_told(handler: Handler, message: str) -> None:
    async def steps(world: World) -> None:
        v1, v2 = await serve(world)
        await world.create("x", v1, hostPort="a:1")
        world.webhooks.handlers["convert"] = handler
        for made in (world.api.get(v2, "x", "default"), world.api.list(v2, "default")):
            error = await world.refusal(made)
            assert isinstance(error, Unknown)
            assert error.message.replace(world.webhooks.request()["uid"], "UID") == message
        assert (await world.refusal(world.create("y", v2, host="a"))).code == 500
        assert await anext(world.api.watch(v1, "default", WatchQuery()))
        with pytest.raises(Unknown):
            await anext(world.api.watch(v2, "default", WatchQuery()))
        await world.api.delete(v2, "x", "default")

    within(steps)


def test_a_webhook_changes_labels_and_annotations_and_no_other_metadata() -> None:
    async def steps(world: World) -> None:
        def relabelling(review: Obj) -> Obj:
            answer = converted(review)
            meta = answer["response"]["convertedObjects"][0]["metadata"]
            kept = {key: meta[key] for key in ("name", "namespace", "uid") if key in meta}
            answer["response"]["convertedObjects"][0]["metadata"] = kept | labels
            return answer

        labels: Obj = {"labels": {"new": "label"}, "finalizers": ["example.com/other"]}
        v1, v2 = await serve(world, relabelling)
        created = await world.create(
            "x", v1, hostPort="a:1", metadata={"labels": {"k": "v"}, "annotations": {"a": "b"}}
        )
        meta = (await world.api.get(v2, "x", "default")).obj()["metadata"]
        assert meta["labels"] == {"new": "label"}
        assert {key: value for key, value in meta.items() if key != "labels"} == {
            key: value for key, value in created["metadata"].items() if key not in ("labels", "annotations")
        }
        await world.api.patch(v1, "x", "default", {"hostPort": "a:2"}, PatchType.MERGE)
        labels["labels"] = {"new": "la bel"}
        error = await world.refusal(world.api.get(v2, "x", "default"))
        assert error.message.startswith(
            f'{WHO} returned invalid metadata: metadata.labels: Invalid value: "la bel": a valid'
        )

    within(steps)


def test_objects_stay_as_they_are_stored_when_another_version_is() -> None:
    async def steps(world: World) -> None:
        v1, v2 = await serve(world)
        await world.create("old", v1, hostPort="a:1")
        crd = definition(world.webhooks.at("convert", converted), stored="v2")
        await world.api.patch(CUSTOM_RESOURCE_DEFINITIONS, NAME, "", {"spec": crd["spec"]}, PatchType.MERGE)
        while world.server.registry.catalogue.stored(NAME).resource.version != "v2":  # type: ignore[union-attr]  # noqa: ASYNC110
            await asyncio.sleep(0)
        await world.create("new", v1, hostPort="b:2")
        assert (at_rest(world, "old")["apiVersion"], at_rest(world, "new")["apiVersion"]) == (
            f"{GROUP}/v1",
            f"{GROUP}/v2",
        )
        assert [item.obj()["host"] for item in (await world.api.list(v2, "default")).items] == ["b", "a"]
        assert [item.obj()["hostPort"] for item in (await world.api.list(v1, "default")).items] == ["b:2", "a:1"]
        await world.api.patch(v1, "old", "default", {"metadata": {"labels": {"k": "v"}}}, PatchType.MERGE)
        assert at_rest(world, "old")["apiVersion"] == f"{GROUP}/v2"

    within(steps)


def test_a_kind_can_go_although_its_webhook_is_dead() -> None:
    async def steps(world: World) -> None:
        v1, _ = await serve(world)
        await world.create("x", v1, hostPort="a:1")
        world.webhooks.handlers.clear()
        await world.api.delete(CUSTOM_RESOURCE_DEFINITIONS, NAME)
        while world.server.registry.catalogue.stored(NAME) is not None:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)
        assert world.webhooks.asked() == []

    within(steps)


def test_over_http() -> None:
    """Lists, tables and watches, whose objects are written as they are stored if nobody converts them."""
    path = f"/apis/{GROUP}/v2/namespaces/default/servers"

    async def steps() -> None:
        async with Webhooks() as webhooks:
            with serving_in_a_thread() as server:
                await asyncio.to_thread(_over_http, server, definition(webhooks.at("convert", converted)))

    def _over_http(server: Any, crd: Obj) -> None:
        assert server.ask("POST", DEFINITIONS, crd).code == 201
        server.soon(lambda: server.registry.catalogue.stored(NAME) is not None)
        for name in ("x", "y"):
            obj = {"kind": "Server", "apiVersion": f"{GROUP}/v1", "metadata": {"name": name}, "hostPort": f"{name}:1"}
            assert server.ask("POST", path.replace("v2", "v1"), obj).code == 201
        listed = server.ask("GET", path).obj
        assert (listed["apiVersion"], [item["host"] for item in listed["items"]]) == (f"{GROUP}/v2", ["x", "y"])
        table = server.ask("GET", path, headers={"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).obj
        assert [row["cells"][0] for row in table["rows"]] == ["x", "y"]
        watched = server.ask("GET", f"{path}?watch=1&timeoutSeconds=1").body.splitlines()
        assert [json.loads(line)["object"]["host"] for line in watched] == ["x", "y"]

    asyncio.run(steps())


def test_in_virtual_time_nobody_converts() -> None:
    async def steps() -> None:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        running = asyncio.create_task(server.run())
        await server.api.create(CUSTOM_RESOURCE_DEFINITIONS, definition({"url": "https://127.0.0.1:1/x"}))
        while (row := server.registry.resource_of(GROUP, "v2", "Server")) is None:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0)
        with pytest.raises(Unknown) as caught:
            await server.api.create(row, {"metadata": {"name": "x"}, "host": "a"}, "default")
        assert caught.value.message == f"{WHO.replace('v1', 'v2')} failed: webhooks are not called in virtual time"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(steps())
