"""What a server finds when it starts: its own store, or the dump of another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PRIORITY_CLASSES
from fairlead.api.errors import Expired
from fairlead.api.resources import Resource
from fairlead.api.verbs import WatchQuery
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from fairlead.store.sqlite import SQLiteStore
from tests.played import played
from tests.server.crd_samples import crd, version
from tests.server.registry_world import NAMESPACE, Watching, World, run, world


def test_a_restarted_server_shows_the_same_objects_and_no_older_history() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with world(store) as made:
            await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            objects = [await made.config(name) for name in ("b", "a")]
            gone = await made.config("gone")
            await made.api.delete(CONFIG_MAPS, "gone", NAMESPACE)
            revision = made.registry.revision
        async with world(store) as made:
            assert made.registry.revision == revision
            assert await made.names(CONFIG_MAPS) == ["a", "b"]
            assert [await made.get(CONFIG_MAPS, obj["metadata"]["name"]) for obj in objects] == objects
            old = WatchQuery(resource_version=gone["metadata"]["resourceVersion"])
            with pytest.raises(Expired):
                await anext(aiter(made.api.watch(CONFIG_MAPS, NAMESPACE, old)))
            fresh = Watching(made.api, CONFIG_MAPS, resource_version=str(revision))
            await made.config("c")
            assert await fresh.seen_events() == [("ADDED", "c")]

    run_virtual(main())


@pytest.mark.parametrize(
    ("group", "kind", "name"),
    [
        ("rbac.authorization.k8s.io", "ClusterRole", "view"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", "workload-low"),
        ("apiregistration.k8s.io", "APIService", "v1.apps"),
    ],
)
def test_a_policy_that_refuses_what_a_start_puts_right_keeps_no_server_from_starting(
    group: str, kind: str, name: str
) -> None:
    """It could not be changed otherwise."""
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["*"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    binding = {"policyName": "p", "validationActions": ["Deny"]}

    async def main() -> None:
        store = MemoryStore()
        async with world(store) as made:
            rows = {row.kind: row for row in made.registry.catalogue.rows()}
            await made.api.create(rows["ValidatingAdmissionPolicy"], {"metadata": {"name": "p"}, "spec": spec})
            row = rows["ValidatingAdmissionPolicyBinding"]
            await made.api.create(row, {"metadata": {"name": "b"}, "spec": binding})
            await made.api.delete(rows[kind], name)
        async with world(store) as made:
            assert name not in await made.names(rows[kind])
            await made.api.delete(row, "b")
        async with world(store) as made:
            assert name in await made.names(rows[kind])

    run_virtual(main())


WIDGETS = Resource("example.com", "v1", "widgets", "Widget")


def test_watches_go_on_across_a_restart(tmp_path: Path) -> None:
    """Of built-in and of custom kinds; a list at an older version is there, too."""

    async def events(made: World, resource: Resource, revision: str) -> list[tuple[str, Any]]:
        watching = Watching(made.api, resource, resource_version=revision)
        await asyncio.sleep(0.05)
        watching.task.cancel()
        return [(type_, obj.get("data") or obj.get("spec")) for type_, obj in watching.events]

    async def change(made: World, resource: Resource, field: str) -> tuple[str, str]:
        """Two versions: after the create of `a`, and after its first change; then more happens."""
        first = await made.create(resource, {"metadata": {"name": "a"}, field: {"color": "red"}})
        second = await made.api.update(resource, first | {field: {"color": "blue"}})
        await made.create(resource, {"metadata": {"name": "b"}, field: {"color": "red"}})
        await made.api.delete(resource, "a", NAMESPACE)
        versions = first["metadata"]["resourceVersion"], second.obj()["metadata"]["resourceVersion"]
        assert await events(made, resource, versions[0]) == [
            ("MODIFIED", {"color": "blue"}),
            ("ADDED", {"color": "red"}),
            ("DELETED", {"color": "blue"}),
        ]
        return versions

    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        async with world(store) as made:
            await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            definition = crd(version(schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
            await made.api.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            for _ in range(1000):
                if made.registry.catalogue.stored("widgets.example.com") is not None:
                    break
                await asyncio.sleep(0.01)
            fields = {CONFIG_MAPS: "data", WIDGETS: "spec"}
            versions = {row: await change(made, row, field) for row, field in fields.items()}
        await store.close()
        store = SQLiteStore(tmp_path / "store.db")
        async with world(store) as made:
            for row, (first, second) in versions.items():
                seen = await events(made, row, first)
                assert [type_ for type_, _ in seen] == ["MODIFIED", "ADDED", "DELETED"]
                assert [spec["color"] for _, spec in seen] == ["blue", "red", "blue"]
                assert await made.names(row, resource_version=second, resource_version_match="Exact") == ["a"]
            made.registry.compact(made.registry.revision)
            with pytest.raises(Expired):
                await anext(aiter(made.api.watch(CONFIG_MAPS, NAMESPACE, WatchQuery(resource_version="1"))))
        await store.close()

    asyncio.run(main())


def test_an_unknown_admission_plugin_is_refused_at_start() -> None:
    with pytest.raises(ValueError, match="Nonsense"):
        run_virtual(Server(MemoryStore()).open(["Nonsense"]))


@played(run)
async def test_a_cluster_scoped_kind_has_no_namespace(world: World) -> None:
    made = await world.create(PRIORITY_CLASSES, {"metadata": {"name": "p", "namespace": "n"}, "value": 1})
    assert "namespace" not in made["metadata"]
