"""An informer is nearly current, tells every change once and in order, and comes back from whatever breaks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.builtin import CONFIG_MAPS, NAMESPACES
from fairlead.api.errors import InternalError, NotFound
from fairlead.api.meta import Object
from fairlead.api.resources import Resource
from fairlead.api.verbs import LIST, WATCH, Api, Listing, ListQuery, WatchEvent, WatchQuery
from fairlead.client.informer import RETRY_SECONDS, RETRY_UNKNOWN_SECONDS, Informer, Informers
from fairlead.runtime import loops, turns
from fairlead.runtime.clock import monotonic
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.server.storage import cache as caches
from fairlead.store.memory import MemoryStore
from tests.examples import examples
from tests.played import played
from tests.turns import counting_turns

#: What a subscriber heard: name@version before and after.
Told = tuple[str | None, str | None]


class Flaky:
    """The registry, behind a connection that breaks when a test says so."""

    def __init__(self, api: Api) -> None:
        self.connected = api
        self.failures = 0
        self.lists = 0
        self.broken = asyncio.Event()

    async def list(self, resource: Resource, namespace: str = "", query: ListQuery = LIST) -> Listing:
        self.lists += 1
        if self.failures:
            self.failures -= 1
            raise InternalError("the server is having a bad day")
        return await self.connected.list(resource, namespace, query)

    async def watch(
        self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH
    ) -> AsyncIterator[WatchEvent]:
        watching = aiter(self.connected.watch(resource, namespace, query))
        breaking = asyncio.create_task(self.broken.wait())
        while True:
            coming: asyncio.Future[WatchEvent | None] = asyncio.ensure_future(anext(watching, None))
            either: list[asyncio.Future[Any]] = [coming, breaking]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if breaking.done():
                coming.cancel()
                raise ConnectionResetError("the connection is gone")
            if (event := coming.result()) is None:
                return
            yield event


class World:
    def __init__(self, server: Server) -> None:
        self.registry, self.direct = server.registry, server.api
        self.api = Flaky(server.api)
        self.told: list[Told] = []

    async def put(self, name: str, namespace: str = "n", **labels: str) -> int:
        obj = {"metadata": {"name": name, "labels": labels}}
        found = await self.direct.create(CONFIG_MAPS, obj, namespace)
        return int(found.view(Object).metadata.resource_version)

    async def relabel(self, name: str, **labels: str) -> int:
        found = await self.direct.patch(CONFIG_MAPS, name, "n", {"metadata": {"labels": labels}})
        return int(found.view(Object).metadata.resource_version)

    async def delete(self, name: str) -> None:
        await self.direct.delete(CONFIG_MAPS, name, "n")

    def hear(self, old: Object | None, new: Object | None) -> None:
        self.told.append((_version(old), _version(new)))

    @asynccontextmanager
    async def informer(self, **only: str) -> AsyncIterator[Informer[Object]]:
        informer = Informer(self.api, CONFIG_MAPS, Object, **only)  # type: ignore[arg-type]  # reads are all it uses
        informer.subscribe(self.hear)
        running = asyncio.create_task(informer.run())
        await informer.synced()
        try:
            yield informer
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _version(item: Object | None) -> str | None:
    return f"{item.metadata.name}@{item.metadata.resource_version}" if item else None


def run(test: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        for name in ("n", "other"):
            await server.api.create(NAMESPACES, {"metadata": {"name": name}})
        await test(World(server))

    run_virtual(main())


def names(informer: Informer[Object]) -> list[str]:
    return sorted(one.metadata.key for one in informer)


@played(run)
async def test_it_holds_what_was_there_and_what_comes(world: World) -> None:
    await world.put("a")
    async with world.informer() as informer:
        assert names(informer) == ["n/a"]
        await informer.reached(await world.put("b", "other"))
        assert names(informer) == ["n/a", "other/b"]
        assert informer.get("n/a") is not None
        assert informer.get("n/b") is None


@played(run)
async def test_subscribers_hear_of_every_change_once_and_in_order(world: World) -> None:
    first = await world.put("a")
    async with world.informer() as informer:
        second = await world.relabel("a", k="v")
        await world.delete("a")
        third = await world.put("a")
        await informer.reached(third)
    assert world.told == [
        (None, f"a@{first}"),
        (f"a@{first}", f"a@{second}"),
        (f"a@{second}", None),
        (None, f"a@{third}"),
    ]


@played(run)
async def test_who_subscribes_late_hears_of_what_is_there(world: World) -> None:
    version = await world.put("a")
    async with world.informer() as informer:
        late: list[Object] = []
        informer.subscribe(lambda old, new: late.append(new) if new else None)
        assert [one.metadata.resource_version for one in late] == [str(version)]


@played(run)
async def test_it_sees_only_its_namespace_and_selection(world: World) -> None:
    async with world.informer(namespace="n", labels="k=v") as informer:
        await world.put("elsewhere", "other", k="v")
        await world.put("unlabelled")
        await world.put("wanted", k="v")
        await informer.reached(await world.relabel("unlabelled", k="v"))
        assert names(informer) == ["n/unlabelled", "n/wanted"]
        await world.relabel("wanted", k="w")
        await asyncio.sleep(1)
        assert names(informer) == ["n/unlabelled"]


@played(run)
async def test_waiting_for_a_version_ends_when_it_has_been_seen(world: World) -> None:
    """A controller waits until it sees its own writes."""
    async with world.informer() as informer:
        waiting = asyncio.create_task(informer.reached(informer.revision + 1))
        await asyncio.sleep(60)
        assert not waiting.done()
        await world.put("a")
        await asyncio.wait_for(waiting, 1)
        await asyncio.wait_for(informer.reached(1), 1)


@played(run)
async def test_a_broken_connection_costs_a_second_and_no_change(world: World) -> None:
    gone = await world.put("gone")
    async with world.informer() as informer:
        world.api.broken.set()
        await asyncio.sleep(0.5)
        world.api.broken.clear()
        began = monotonic()
        await world.delete("gone")
        await informer.reached(await world.put("new"))
        assert monotonic() - began <= RETRY_SECONDS
        assert names(informer) == ["n/new"]
    assert (f"gone@{gone}", None) in world.told
    assert len(world.told) == 3


@played(run)
async def test_an_object_that_was_made_anew_meanwhile_is_told_as_gone_and_as_new(world: World) -> None:
    """Who keeps something of each object, by its uid, would keep that of the former one for ever."""
    first = await world.put("again")
    async with world.informer() as informer:
        world.api.broken.set()
        await asyncio.sleep(0.5)
        await world.delete("again")
        second = await world.put("again")
        world.api.broken.clear()
        await informer.reached(second)
    assert world.told[1:] == [(f"again@{first}", None), (None, f"again@{second}")]


@played(run)
async def test_a_server_that_refuses_is_asked_again(world: World) -> None:
    world.api.failures = 3
    await world.put("a")
    began = monotonic()
    async with world.informer() as informer:
        assert names(informer) == ["n/a"]
    assert monotonic() - began == pytest.approx(3 * RETRY_SECONDS)


@played(run)
async def test_forgotten_history_is_caught_up_by_a_new_list(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-04: 410 means to list again; subscribers are told the difference, and nothing twice."""
    monkeypatch.setattr(caches, "HISTORY_EVENTS", 2)
    for name in ("stays", "changes", "goes"):
        await world.put(name)
    async with world.informer() as informer:
        world.told.clear()
        world.api.broken.set()
        await asyncio.sleep(0.5)
        world.api.failures = 1  # and the first attempt to list again fails as well
        await world.delete("goes")
        for value in "123":
            last = await world.relabel("changes", k=value)
        new = await world.put("comes")
        world.api.broken.clear()
        await informer.reached(new)
        assert names(informer) == ["n/changes", "n/comes", "n/stays"]
    assert {(old or "").partition("@")[0] + ">" + (now or "") for old, now in world.told} == {
        "goes>",
        f"changes>changes@{last}",
        f">comes@{new}",
    }
    assert len(world.told) == 3


@played(run)
async def test_a_watch_that_ends_is_taken_up_where_it_ended(world: World) -> None:
    async with world.informer() as informer:
        lists = world.api.lists
        served = world.registry.catalogue.stored("configmaps")
        assert served is not None
        await asyncio.sleep(1)
        served.cache.end_watches()
        await informer.reached(await world.put("a"))
        assert names(informer) == ["n/a"]
        assert world.api.lists - lists <= 1


@played(run)
async def test_watches_that_end_as_soon_as_they_begin_are_not_asked_for_without_pause(world: World) -> None:
    served = world.registry.catalogue.stored("configmaps")
    assert served is not None
    async with world.informer():
        began, ended = monotonic(), 0
        while monotonic() < began + 5:
            await asyncio.sleep(0.01)
            ended += served.cache.watchers
            served.cache.end_watches()
        assert 0 < ended <= 6


@played(run)
async def test_an_index_follows_every_change(world: World) -> None:
    await world.put("before", k="x")
    async with world.informer() as informer:
        by_label = informer.index("k", lambda one: [one.metadata.labels.get("k", "")])
        assert informer.index("k", lambda one: ["never asked"]) is by_label
        assert [one.metadata.name for one in by_label["x"]] == ["before"]
        await informer.reached(await world.relabel("before", k="y"))
        assert (by_label["x"], by_label.count("y")) == ([], 1)
        await world.delete("before")
        await asyncio.sleep(1)
        assert by_label.count("y") == 0


_OPERATIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "relabel", "delete", "break", "wait"])), max_size=40
)


@settings(max_examples=examples(30))
@given(_OPERATIONS)
def test_whatever_happens_it_ends_up_with_what_the_server_has(operations: list[tuple[str, str]]) -> None:
    """Also: replaying what subscribers are told gives the same."""

    async def test(world: World) -> None:
        async with world.informer() as informer:
            for name, operation in operations:
                known = world.registry.find("configmaps", name, "n") is not None
                if operation == "put" and not known:
                    await world.put(name)
                elif operation == "relabel" and known:
                    await world.relabel(name, k=str(world.registry.revision))
                elif operation == "delete" and known:
                    await world.delete(name)
                elif operation == "break":
                    world.api.broken.set()
                    await asyncio.sleep(0)
                elif operation == "wait":
                    world.api.broken.clear()
                    await asyncio.sleep(0.3)
            world.api.broken.clear()
            await asyncio.sleep(3)
            there = {one.view(Object).metadata.key for one in world.registry.each("configmaps")}
            assert set(names(informer)) == there
            state: dict[str, str] = {}
            for old, new in world.told:
                if old:
                    assert state.pop(old.partition("@")[0]) == old
                if new:
                    state[new.partition("@")[0]] = new
            assert {f"n/{name}" for name in state} == there

    run(test)


@played(run)
async def test_components_share_one_copy_of_a_kind(world: World) -> None:
    await world.put("a")
    informers = Informers(world.direct)
    early = informers.of(CONFIG_MAPS, Object)
    running = asyncio.create_task(informers.run())
    await informers.synced()
    assert informers.of(CONFIG_MAPS, Object) is early
    late = informers.of(NAMESPACES, Object)
    await asyncio.wait_for(late.synced(), 5)
    assert {"n", "other"} <= set(names(late))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@played(run)
async def test_a_kind_that_is_dropped_is_told_to_be_empty(world: World) -> None:
    await world.put("a")
    informers = Informers(world.direct)
    informer = informers.of(CONFIG_MAPS, Object)
    informer.subscribe(world.hear)
    running = asyncio.create_task(informers.run())
    await informers.synced()
    informers.drop(CONFIG_MAPS, Object)
    assert [new for _, new in world.told] == [world.told[0][1], None]
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@played(run)
async def test_a_kind_that_a_server_does_not_know_is_empty_until_it_does(world: World) -> None:
    class Older:
        """The registry of a server that learns a kind."""

        def __init__(self, api: Api) -> None:
            self._api, self.knows = api, False

        async def list(self, resource: Resource, namespace: str = "", query: ListQuery = LIST) -> Listing:
            if not self.knows:
                raise NotFound("the server could not find the requested resource")
            return await self._api.list(resource, namespace, query)

        def watch(self, *args: Any) -> AsyncIterator[WatchEvent]:
            return self._api.watch(*args)

    await world.put("a")
    older = Older(world.direct)
    informer = Informer(older, CONFIG_MAPS, Object)  # type: ignore[arg-type]  # reads are all it uses
    informer.may_be_unknown = True
    running = asyncio.create_task(informer.run())
    await informer.synced()
    assert names(informer) == []
    older.knows = True
    await asyncio.sleep(RETRY_UNKNOWN_SECONDS + 1)
    assert "n/a" in names(informer)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class _Numbered(Object, frozen=True, kw_only=True):
    """Config maps whose data are numbers; some are not."""

    data: dict[str, int] = {}


def test_an_object_that_cannot_be_read_is_told_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        api = world.direct

        async def put(name: str, **data: str) -> int:
            found = await api.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, "n")
            return int(found.view(Object).metadata.resource_version)

        await put("listed", k="no number")
        await put("good")
        informer = Informer(api, CONFIG_MAPS, _Numbered)
        running = asyncio.create_task(informer.run())
        await informer.synced()
        assert sorted(one.metadata.key for one in informer) == ["n/good"]
        await informer.reached(await put("watched", k="no number either"))
        await api.patch(CONFIG_MAPS, "good", "n", {"data": {"k": "spoilt"}})
        await informer.reached(await put("other"))
        assert sorted(one.metadata.key for one in informer) == ["n/other"]
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(test)
    assert any("leaving out n/watched" in one for one in caplog.messages)


def test_many_events_at_once_leave_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)
    count = 50

    async def story() -> int:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        world = World(server)
        await world.direct.create(NAMESPACES, {"metadata": {"name": "n"}})
        async with world.informer() as informer:
            revisions = await asyncio.gather(*(world.put(f"m{number}") for number in range(count)))
            before = len(informer)
            _, turns_of_others = await counting_turns(informer.reached(max(revisions)))
            assert (before, len(informer)) == (0, count)
            return turns_of_others

    assert loops.run(story()) >= count
