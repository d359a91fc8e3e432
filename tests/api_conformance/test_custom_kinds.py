"""Kinds that arrive at run time are served by every implementation like all others (X-10)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairlead.api.builtin import CUSTOM_RESOURCE_DEFINITIONS
from fairlead.api.errors import Invalid, NotFound, UnsupportedMediaType
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, PatchType, WriteOptions
from tests.api_conformance.world import Watching, names, version_of


def definition(group: str) -> Obj:
    size = {"type": "integer", "minimum": 1, "default": 3}
    properties = {"spec": {"type": "object", "default": {}, "properties": {"size": size}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


@asynccontextmanager
async def widgets(api: Api, namespace: str) -> AsyncIterator[Resource]:
    """A kind of the test's own, as long as the block runs."""
    group = f"{namespace}.example.com"
    seen = Watching(api, CUSTOM_RESOURCE_DEFINITIONS, fields=f"metadata.name=widgets.{group}")
    await api.create(CUSTOM_RESOURCE_DEFINITIONS, definition(group))
    await seen.until(
        lambda events: any(
            condition["type"] == "Established" and condition["status"] == "True"
            for _, obj in events
            for condition in (obj.get("status") or {}).get("conditions") or ()
        )
    )
    yield Resource(group, "v1", "widgets", "Widget")
    await api.delete(CUSTOM_RESOURCE_DEFINITIONS, f"widgets.{group}")
    await seen.until(lambda events: events[-1][0] == "DELETED")
    await seen.stop()


async def test_custom_objects_take_every_verb(api: Api, namespace: str) -> None:
    async with widgets(api, namespace) as kind:
        made = (await api.create(kind, {"metadata": {"name": "w"}}, namespace)).obj()
        assert (made["kind"], made["apiVersion"], made["spec"]) == ("Widget", kind.api_version, {"size": 3})
        [item] = (await api.list(kind, namespace)).items
        assert item.obj() == made == (await api.get(kind, "w", namespace)).obj()
        updated = (await api.update(kind, made | {"spec": {"size": 4}})).obj()
        assert (updated["spec"], updated["metadata"]["generation"]) == ({"size": 4}, 2)
        options = WriteOptions(field_manager="me", force=True)
        for size, type_ in enumerate((PatchType.MERGE, PatchType.APPLY), 5):
            patch = {
                "apiVersion": kind.api_version,
                "kind": "Widget",
                "metadata": {"name": "w"},
                "spec": {"size": size},
            }
            changed = options if type_ is PatchType.APPLY else WriteOptions()
            assert (await api.patch(kind, "w", namespace, patch, type_, options=changed)).obj()["spec"] == {
                "size": size
            }
        with pytest.raises(Invalid) as refused:
            await api.patch(kind, "w", namespace, {"spec": {"size": 0}})
        assert [cause.field for cause in refused.value.causes] == ["spec.size"]
        watching = Watching(api, kind, namespace)
        assert await watching.told(1) == [("ADDED", "w")]
        await api.delete(kind, "w", namespace)
        assert (await watching.told(2))[1:] == [("DELETED", "w")]
        assert names(await api.list(kind, namespace)) == []
        await watching.stop()


async def test_what_a_new_definition_adds_is_seen_in_objects_that_were_there(api: Api, namespace: str) -> None:
    async with widgets(api, namespace) as kind:
        made = (await api.create(kind, {"metadata": {"name": "w"}}, namespace)).obj()
        ended = Watching(api, kind, namespace)
        await ended.told(1)
        path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour"
        added = [{"op": "add", "path": path, "value": {"type": "string", "default": "red"}}]
        await api.patch(CUSTOM_RESOURCE_DEFINITIONS, kind.qualified, "", added, PatchType.JSON)
        await ended.ended()  # whoever watches has to ask again
        shown = (await api.get(kind, "w", namespace)).obj()
        assert shown == made | {"spec": {"size": 3, "colour": "red"}}
        listed = await api.list(kind, namespace)
        assert [item.obj() for item in listed.items] == [shown]
        watching = Watching(api, kind, namespace, resource_version=listed.resource_version)
        await api.delete(kind, "w", namespace)
        await watching.told(1)
        gone = watching.events[0][1]
        assert int(version_of(gone)) > int(version_of(shown))
        assert gone == shown | {"metadata": shown["metadata"] | {"resourceVersion": version_of(gone)}}
        await watching.stop()


async def test_a_strategic_merge_needs_a_built_in_kind(api: Api, namespace: str) -> None:
    async with widgets(api, namespace) as kind:
        await api.create(kind, {"metadata": {"name": "w"}}, namespace)
        with pytest.raises(UnsupportedMediaType, match="the body of the request was in an unknown format - accepted"):
            await api.patch(kind, "w", namespace, {}, PatchType.STRATEGIC)


async def test_a_watch_ends_when_its_kind_is_served_no_more(api: Api, namespace: str) -> None:
    async with widgets(api, namespace) as kind:
        watching = Watching(api, kind, namespace)
        await api.create(kind, {"metadata": {"name": "w"}}, namespace)
        await watching.told(1)
    await watching.ended()
    with pytest.raises(NotFound):
        await api.list(kind, namespace)
