"""Custom kinds come and go with their definitions, and survive a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.api.builtin import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
)
from fairlead.api.errors import (
    BadRequest,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
)
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import PatchType, WatchQuery, WriteOptions
from fairlead.runtime.loops import run_virtual
from fairlead.server.admission.base import Attributes
from fairlead.store.memory import MemoryStore
from fairlead.store.sqlite import SQLiteStore
from tests.played import played
from tests.server.registry_world import NAMESPACE, Watching, World, run, world
from tests.work import growth

WIDGETS: Obj = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


async def served_widgets(world: World) -> Any:
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS)
    await asyncio.sleep(1)
    found = world.registry.catalogue.find("example.com", "v1", "widgets")
    assert found is not None
    return found[1].resource


@played(run)
async def test_a_custom_kind_is_selected_by_the_fields_that_its_version_names(world: World) -> None:
    fields = {"selectableFields": [{"jsonPath": ".spec.color"}]}
    properties = {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}}
    schema = {"schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}
    v1 = WIDGETS["spec"]["versions"][0] | schema | fields
    more = {"type": "object", "properties": properties | {"data": {"type": "string"}}}
    v2 = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": more}}
    spec = WIDGETS["spec"] | {"versions": [v1, v2]}
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS | {"spec": spec})
    await asyncio.sleep(1)
    first, second = (world.registry.catalogue.find("example.com", name, "widgets") for name in ("v1", "v2"))
    assert first is not None and second is not None
    assert await world.names(first[1].resource, fields="spec.color=red") == []
    for version, field in ((first[1], "spec.size"), (second[1], "spec.color")):
        with pytest.raises(BadRequest) as refused:
            await world.names(version.resource, fields=f"{field}=red")
        assert refused.value.message == f"field label not supported: {field}"


@pytest.mark.slow
def test_twice_as_many_definitions_of_a_group_are_about_twice_the_work() -> None:
    """Each looks at the names that are in use, not at all others of its group."""

    def lived(size: int) -> None:
        async def test(world: World) -> None:
            for number in range(size):
                name = f"widgets{number}"
                names = {"plural": name, "kind": f"Widget{number}"}
                definition = WIDGETS | {"metadata": {"name": f"{name}.example.com"}}
                await world.create(
                    CUSTOM_RESOURCE_DEFINITIONS, definition | {"spec": WIDGETS["spec"] | {"names": names}}
                )
            await asyncio.sleep(1)
            for number in range(size):
                await world.api.delete(CUSTOM_RESOURCE_DEFINITIONS, f"widgets{number}.example.com")
            await asyncio.sleep(1)

        run(test)

    assert growth(lived, 40) < 2.1


@played(run)
async def test_a_custom_kind_comes_and_goes_with_its_definition(world: World) -> None:
    widgets = await served_widgets(world)
    await world.create(widgets, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    watching = Watching(world.api, widgets)
    await watching.seen_events()
    await world.api.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
    await asyncio.sleep(5)
    assert await world.get(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com") is None
    assert await world.registry.store.scan("/widgets.example.com/") == []
    with pytest.raises(NotFound):
        await world.api.list(widgets, NAMESPACE)
    assert await watching.seen_events() == [("ADDED", "w"), ("DELETED", "w")]
    assert watching.task.done()  # whoever watched must learn that there is nothing more to come

    again = await served_widgets(world)
    assert await world.names(again) == []


@played(run)
async def test_nothing_new_is_born_while_a_definition_goes(world: World) -> None:
    widgets = await served_widgets(world)
    meta = {"name": "w", "finalizers": ["example.com/f"]}
    await world.create(widgets, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta})
    await world.api.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
    new = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "late"}}
    with pytest.raises(Forbidden, match="create not allowed while custom resource definition is terminating"):
        await world.create(widgets, new)
    await asyncio.sleep(5)
    assert await world.names(widgets) == ["w"]  # its finalizer keeps it, and it keeps the definition
    await world.api.patch(widgets, "w", NAMESPACE, {"metadata": {"finalizers": None}})
    await asyncio.sleep(5)
    assert await world.get(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com") is None


def test_custom_objects_survive_a_restart() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with world(store) as made:
            await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            widgets = await served_widgets(made)
            widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": 1}}
            before = await made.create(widgets, widget)
        async with world(store) as made:
            assert await made.get(widgets, "w") == before

    run_virtual(main())


def test_a_definition_that_was_on_its_way_when_the_server_died_gets_there_after_the_restart() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with world(store) as made:
            await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            await made.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS)  # no turn of the loop to settle its names
        async with world(store) as made:
            await asyncio.sleep(1)
            assert made.registry.catalogue.find("example.com", "v1", "widgets")
            await made.api.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
        async with world(store) as made:
            await asyncio.sleep(5)
            assert await made.get(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com") is None

    run_virtual(main())


@played(run)
async def test_an_object_of_another_kind_is_told_nothing_else(world: World) -> None:
    widgets = await served_widgets(world)
    api_version = "example.com/v1"
    with pytest.raises(Invalid) as refused:
        await world.create(widgets, {"apiVersion": api_version, "kind": "Foo", "metadata": {"name": "bad name"}})
    assert refused.value.message == (
        'Foo.example.com "bad name" is invalid: kind: Invalid value: "Foo": must be Widget'
    )
    await world.create(widgets, {"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "w"}})
    with pytest.raises(Invalid, match="must be Widget"):
        await world.api.patch(widgets, "w", NAMESPACE, {"kind": "Foo"})


_PATCHED = {"spec": {"b": "b"}}


def _defaulting(properties: Obj) -> Any:
    """The spec of the definition, with these fields in the spec of v1."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = WIDGETS["spec"]["versions"][0] | {"schema": {"openAPIV3Schema": schema}}
    return WIDGETS["spec"] | {"versions": [version]}


_BEFORE = _defaulting({"a": {"type": "string"}, "old": {"type": "string"}})
_AFTER = _defaulting({
    "a": {"type": "string", "default": "x"},
    "b": {"type": "string"},
    "c": {"type": "object", "default": {}, "properties": {"d": {"type": "integer", "default": 3}}},
})  # fmt: skip


@played(run)
async def test_a_stored_object_has_the_defaults_that_its_definition_got_later(world: World) -> None:
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS | {"spec": _BEFORE})
    await asyncio.sleep(1)
    found = world.registry.catalogue.find("example.com", "v1", "widgets")
    assert found is not None
    widgets, spec = found[1].resource, {"old": "o"}
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}
    revision = (await world.create(widgets, widget))["metadata"]["resourceVersion"]
    await world.api.patch(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", "", {"spec": _AFTER})
    await asyncio.sleep(1)
    expected = {"a": "x", "c": {"d": 3}}
    got = await world.get(widgets, "w")
    assert got is not None
    assert (got["spec"], got["metadata"]["resourceVersion"]) == (expected, revision)
    (listed,) = (await world.api.list(widgets, NAMESPACE)).items
    assert listed.obj() == got
    watching = Watching(world.api, widgets)
    await watching.seen_events()
    assert watching.events == [("ADDED", got)]
    patched = (await world.api.patch(widgets, "w", NAMESPACE, _PATCHED)).obj()
    assert patched["spec"] == expected | {"b": "b"}
    assert patched["metadata"]["generation"] == 2
    record = (await world.registry.store.head(f"/widgets.example.com/{NAMESPACE}/w")).record
    assert record is not None
    assert b'"d":3' in record.value  # what is written is complete


@played(run)
async def test_what_was_about_to_be_written_when_a_definition_changed_is_as_it_says_now(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Admission may take seconds, with webhooks; the stored version and the defaults are others then."""
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS | {"spec": _BEFORE})
    await asyncio.sleep(1)
    found = world.registry.catalogue.find("example.com", "v1", "widgets")
    assert found is not None
    widgets, admit = found[1].resource, world.registry.admission.admit

    async def slow(attributes: Attributes) -> None:
        await admit(attributes)
        if attributes.resource.qualified == widgets.qualified:
            await asyncio.sleep(2)

    monkeypatch.setattr(world.registry.admission, "admit", slow)
    writing = asyncio.create_task(world.create(widgets, {"metadata": {"name": "w"}, "spec": {}}))
    await asyncio.sleep(1)
    newer = _AFTER["versions"][0] | {"name": "v2"}
    versions = [_AFTER["versions"][0] | {"storage": False}, newer]
    spec = {"spec": _AFTER | {"versions": versions}}
    await world.api.patch(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", "", spec)
    await asyncio.sleep(0.5)
    await writing
    for version in ("v1", "v2"):
        shown = replace(widgets, version=version)
        (listed,) = (await world.api.list(shown, NAMESPACE)).items
        assert listed.obj()["apiVersion"] == f"example.com/{version}"
        assert listed.obj()["spec"] == {"a": "x", "c": {"d": 3}}


@played(run)
async def test_who_watched_before_a_definition_changed_lists_again(world: World) -> None:
    """What would come again was made by the definition before."""
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS | {"spec": _BEFORE})
    await asyncio.sleep(1)
    found = world.registry.catalogue.find("example.com", "v1", "widgets")
    assert found is not None
    widgets, start = found[1].resource, world.registry.revision
    await world.create(widgets, {"metadata": {"name": "w"}, "spec": {}})
    spec = {"spec": _AFTER}
    changed = (await world.api.patch(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", "", spec)).obj()
    await asyncio.sleep(1)
    with pytest.raises(Expired) as told:
        await anext(world.api.watch(widgets, NAMESPACE, WatchQuery(resource_version=str(start))))
    revision = changed["metadata"]["resourceVersion"]
    assert told.value.message == f"too old resource version: {start} ({revision})"
    watching = Watching(world.api, widgets, resource_version=revision)
    await world.create(widgets, {"metadata": {"name": "later"}, "spec": {}})
    assert await watching.seen_events() == [("ADDED", "later")]


@played(run)
async def test_who_listed_while_a_definition_took_effect_lists_again(world: World) -> None:
    """Of thousands of objects some are still as the definition before has it."""
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS | {"spec": _BEFORE})
    await asyncio.sleep(1)
    found = world.registry.catalogue.find("example.com", "v1", "widgets")
    assert found is not None
    widgets = found[1].resource
    for number in range(500):
        await world.create(widgets, {"metadata": {"name": f"w-{number}"}, "spec": {}})
    await world.api.patch(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", "", {"spec": _AFTER})
    while world.registry.catalogue.find("example.com", "v1", "widgets") == found:  # noqa: ASYNC110  (nobody tells)
        await asyncio.sleep(0)
    listed = await world.api.list(widgets, NAMESPACE)
    assert listed.items[-1].obj()["spec"] == {}
    await world.create(NAMESPACES, {"metadata": {"name": "meanwhile"}})
    await asyncio.sleep(1)
    with pytest.raises(Expired):
        await anext(world.api.watch(widgets, NAMESPACE, WatchQuery(resource_version=listed.resource_version)))


def test_what_is_told_again_after_a_restart_has_the_defaults_of_today(tmp_path: Path) -> None:
    async def served(made: World) -> Resource:
        for _ in range(1000):
            found = made.registry.catalogue.find("example.com", "v1", "widgets")
            if found is not None:
                return found[1].resource
            await asyncio.sleep(0.01)
        raise AssertionError("not served")

    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        async with world(store) as made:
            await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            await made.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS | {"spec": _BEFORE})
            widgets, start = await served(made), made.registry.revision
            await made.create(widgets, {"metadata": {"name": "w"}, "spec": {}})
            await made.api.patch(widgets, "w", NAMESPACE, {"metadata": {"labels": {"k": "v"}}})
            await made.api.patch(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", "", {"spec": _AFTER})
        await store.close()
        store = SQLiteStore(tmp_path / "store.db")
        async with world(store) as made:
            watching = Watching(made.api, await served(made), resource_version=str(start))
            await asyncio.sleep(0.05)
            watching.task.cancel()
            assert [type_ for type_, _ in watching.events] == ["ADDED", "MODIFIED"]
            assert [obj["spec"] for _, obj in watching.events] == [{"a": "x", "c": {"d": 3}}] * 2
        await store.close()

    asyncio.run(main())


@played(run)
async def test_an_update_that_says_the_defaults_alone_changes_no_generation(world: World) -> None:
    """The old object has them already, where it is compared."""
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS | {"spec": _BEFORE})
    await asyncio.sleep(1)
    found = world.registry.catalogue.find("example.com", "v1", "widgets")
    assert found is not None
    widgets = found[1].resource
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    await world.create(widgets, widget)
    await world.api.patch(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", "", {"spec": _AFTER})
    await asyncio.sleep(1)
    patched = (await world.api.patch(widgets, "w", NAMESPACE, {"spec": {"a": "x"}})).obj()
    assert patched["metadata"]["generation"] == 1


@played(run)
async def test_a_null_that_is_applied_is_a_value(world: World) -> None:
    """What is applied is not decoded as other bodies are: nobody drops its nulls."""
    fields = {
        "a": {"type": "string"},
        "b": {"type": "string", "default": "x"},
        "c": {"type": "string", "nullable": True},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = WIDGETS["spec"]["versions"][0] | {"schema": {"openAPIV3Schema": schema}}
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS | {"spec": WIDGETS["spec"] | {"versions": [version]}})
    await asyncio.sleep(1)
    found = world.registry.catalogue.find("example.com", "v1", "widgets")
    assert found is not None
    widgets = found[1].resource

    async def applied(spec: Obj) -> Any:
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}
        options = WriteOptions(field_manager="me")
        return (await world.api.patch(widgets, "w", NAMESPACE, body, PatchType.APPLY, options=options)).obj()["spec"]

    text = 'spec.a: Invalid value: "null": spec.a in body must be of type string: "null"'
    for live in ({}, {"a": "s"}):
        with pytest.raises(Invalid) as refused:
            await applied({"a": None})
        assert refused.value.message == f'Widget.example.com "w" is invalid: {text}'
        await applied(live)
    assert await applied({"b": None, "c": None}) == {"a": "s", "b": "x", "c": None}
    patched = await world.api.patch(widgets, "w", NAMESPACE, {"spec": {"a": None, "b": None}}, PatchType.MERGE)
    assert patched.obj()["spec"] == {"b": "x", "c": None}
    operation = {"op": "add", "path": "/spec/a", "value": None}
    assert (await world.api.patch(widgets, "w", NAMESPACE, [operation], PatchType.JSON)).obj()["spec"] == {
        "b": "x",
        "c": None,
    }


def test_an_object_has_new_defaults_and_the_stored_version_after_a_restart() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with world(store) as made:
            await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            await made.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS | {"spec": _BEFORE})
            await asyncio.sleep(1)
            found = made.registry.catalogue.find("example.com", "v1", "widgets")
            assert found is not None
            widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
            await made.create(found[1].resource, widget)
            (first,) = _BEFORE["versions"]
            (second,) = _AFTER["versions"]
            versions = [first | {"storage": False}, second | {"name": "v1beta10"}]
            spec = {"spec": {"versions": versions}}
            await made.api.patch(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", "", spec)
            await asyncio.sleep(1)
            await _check_versions(made)
        async with world(store) as made:
            await _check_versions(made)

    async def _check_versions(made: World) -> None:
        for version, spec in (("v1", {"a": "x"}), ("v1beta10", {"a": "x", "c": {"d": 3}})):
            found = made.registry.catalogue.find("example.com", version, "widgets")
            assert found is not None
            got = await made.get(found[1].resource, "w")
            assert got is not None
            assert (got["apiVersion"], got["spec"]) == (f"example.com/{version}", spec)

    run_virtual(main())
