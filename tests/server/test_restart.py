"""What a server finds when it starts: its own store, or the dump of another."""

from __future__ import annotations

import pytest

from fairlead.api.builtin import (
    CONFIG_MAPS,
    NAMESPACES,
    PRIORITY_CLASSES,
)
from fairlead.api.errors import (
    Expired,
)
from fairlead.api.verbs import WatchQuery
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from tests.played import played
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


def test_an_unknown_admission_plugin_is_refused_at_start() -> None:
    with pytest.raises(ValueError, match="Nonsense"):
        run_virtual(Server(MemoryStore()).open(["Nonsense"]))


@played(run)
async def test_a_cluster_scoped_kind_has_no_namespace(world: World) -> None:
    made = await world.create(PRIORITY_CLASSES, {"metadata": {"name": "p", "namespace": "n"}, "value": 1})
    assert "namespace" not in made["metadata"]
