"""The runner wakes, waits and tries again, so that controllers need not (architecture: patterns)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import ClassVar

import pytest

from fairlead.api import builtin
from fairlead.api.errors import ServiceUnavailable
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import WATCH, WatchEvent, WatchQuery
from fairlead.client.informer import Informers
from fairlead.controllers.actions import Actions, Create, Delete, Kind, Patch, Requeue, Together
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import controller_reference, owner_of
from fairlead.controllers.table import ControllerManager
from fairlead.runtime import loops, turns
from fairlead.runtime.clock import monotonic
from fairlead.runtime.loops import VirtualLoop, run_virtual
from tests.registry_api import RegistryApi

BUDGETS, MAPS = Kind(builtin.POD_DISRUPTION_BUDGETS, Object), Kind(builtin.CONFIG_MAPS, Object)


class SlowWatch(RegistryApi):
    """Informers learn of everything a second late, or of these kinds alone."""

    def __init__(self, *kinds: Resource) -> None:
        super().__init__()
        self._kinds = kinds

    async def watch(
        self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH
    ) -> AsyncIterator[WatchEvent]:
        async for event in super().watch(resource, namespace, query):
            if not self._kinds or resource in self._kinds:
                await asyncio.sleep(1)
            yield event


class Keeper(Controller[Object]):
    """Keeps as many config maps for each budget as its annotation says."""

    name, kind = "keeper", BUDGETS
    watches = (Watch(MAPS, owner_of(BUDGETS)),)

    def __init__(self) -> None:
        self.turns: list[tuple[float, str]] = []
        self.thinks = 0.0  # for how many seconds, at every turn

    def reconcile(self, obj: Object, world: World) -> Actions:
        self.turns.append((monotonic(), obj.metadata.name))
        wanted, loop = obj.metadata.annotations["wanted"], asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.pass_by(self.thinks)
        if wanted == "a bug":
            raise KeyError(wanted)
        if wanted == "a refusal" and len(self.turns) < 4:
            raise ServiceUnavailable("later")
        if wanted == "patience":
            yield Requeue(60)
            return
        have, count = world.owned(MAPS, obj), int(wanted) if wanted.isdecimal() else 0
        owner = controller_reference(BUDGETS, obj)
        meta = {"generateName": "m-", "namespace": "n", "ownerReferences": [owner]}
        yield Together([Create(MAPS, {"metadata": dict(meta)}) for _ in range(count - len(have))])
        yield Together([Delete(MAPS, one) for one in have[count:]])


class Taker(Keeper):
    """Takes for each budget a config map that nobody has."""

    watches = (Watch(MAPS),)
    workers = 1

    def reconcile(self, obj: Object, world: World) -> Actions:
        free = next(one for one in world.within(MAPS, "n") if not one.metadata.labels)
        yield Patch(MAPS, free, {"metadata": {"labels": {"for": obj.metadata.name}}})


def run(
    test: Callable[[RegistryApi, Keeper], Awaitable[None]], api: RegistryApi, make: Callable[[], Keeper] = Keeper
) -> None:
    async def main() -> None:
        async with api:
            keeper, informers = make(), Informers(api)
            manager = ControllerManager(lambda account: api, informers, [lambda: keeper])
            tasks = [asyncio.create_task(informers.run()), asyncio.create_task(manager.run())]
            await asyncio.sleep(2)
            await test(api, keeper)
            for task in tasks:
                assert not task.done()
                task.cancel()

    run_virtual(main())


def budget(name: str, wanted: str) -> Obj:
    return {"metadata": {"name": name, "annotations": {"wanted": wanted}}, "spec": {"maxUnavailable": 1}}


async def count(api: RegistryApi) -> int:
    return len((await api.list(builtin.CONFIG_MAPS, "n")).items)


def test_a_key_waits_until_its_own_writes_are_seen() -> None:
    async def test(api: RegistryApi, keeper: Keeper) -> None:
        await api.create(builtin.POD_DISRUPTION_BUDGETS, budget("s", "3"), "n")
        await asyncio.sleep(1.5)
        for number in range(5):  # changes that arrive before the config maps do must not make more of them
            await api.patch(builtin.POD_DISRUPTION_BUDGETS, "s", "n", {"metadata": {"labels": {"n": str(number)}}})
        await asyncio.sleep(20)
        assert await count(api) == 3
        await api.patch(builtin.POD_DISRUPTION_BUDGETS, "s", "n", {"metadata": {"annotations": {"wanted": "1"}}})
        await asyncio.sleep(20)
        assert await count(api) == 1

    run(test, SlowWatch())


def test_a_single_worker_sees_what_it_wrote_for_another_key() -> None:
    async def test(api: RegistryApi, keeper: Keeper) -> None:
        for name in ("m-1", "m-2", "m-3"):
            await api.create(builtin.CONFIG_MAPS, {"metadata": {"name": name}}, "n")
        await asyncio.sleep(5)
        for name in ("a", "b", "c"):
            await api.create(builtin.POD_DISRUPTION_BUDGETS, budget(name, "0"), "n")
        await asyncio.sleep(20)
        taken = [one.view(Object).metadata.labels for one in (await api.list(builtin.CONFIG_MAPS, "n")).items]
        assert taken == [{"for": "a"}, {"for": "b"}, {"for": "c"}]

    run(test, SlowWatch(builtin.CONFIG_MAPS), Taker)


def test_changes_of_many_dependents_are_one_turn() -> None:
    async def test(api: RegistryApi, keeper: Keeper) -> None:
        await api.create(builtin.POD_DISRUPTION_BUDGETS, budget("s", "50"), "n")
        await asyncio.sleep(1)
        keeper.turns.clear()
        for item in (await api.list(builtin.CONFIG_MAPS, "n")).items:
            await api.patch(builtin.CONFIG_MAPS, item.view(Object).metadata.name, "n", {"data": {"a": "b"}})
        await asyncio.sleep(1)
        assert len(keeper.turns) == 1

    run(test, RegistryApi())


def test_who_thinks_for_long_is_woken_the_less_often_but_for_what_is_wanted_of_it() -> None:
    """Thousands of pods that become ready one after the other must not take all the time there is."""

    async def test(api: RegistryApi, keeper: Keeper) -> None:
        await api.create(builtin.POD_DISRUPTION_BUDGETS, budget("s", "1"), "n")
        keeper.thinks = 0.05
        for number in range(100):
            await asyncio.sleep(0.02)
            [item] = (await api.list(builtin.CONFIG_MAPS, "n")).items
            name = item.view(Object).metadata.name
            await api.patch(builtin.CONFIG_MAPS, name, "n", {"data": {"a": str(number)}})
            await api.patch(builtin.POD_DISRUPTION_BUDGETS, "s", "n", {"metadata": {"labels": {"n": str(number)}}})
        assert 3 <= len(keeper.turns) <= 6  # in two seconds, each after half a second
        keeper.turns.clear()
        await asyncio.sleep(2)
        keeper.turns.clear()
        began = monotonic()
        await api.patch(builtin.POD_DISRUPTION_BUDGETS, "s", "n", {"spec": {"maxUnavailable": 2}})
        await asyncio.sleep(2)
        assert keeper.turns[0][0] == began

    run(test, RegistryApi())


def test_who_holds_the_loop_again_and_again_is_put_back_ever_longer() -> None:
    async def test(api: RegistryApi, keeper: Keeper) -> None:
        await api.create(builtin.POD_DISRUPTION_BUDGETS, budget("s", "0"), "n")
        await api.create(builtin.POD_DISRUPTION_BUDGETS, budget("other", "0"), "n")
        await asyncio.sleep(1)
        keeper.turns.clear()

        async def change(seconds: int) -> list[float]:
            for number in range(10 * seconds):
                await asyncio.sleep(0.1)
                await api.patch(builtin.POD_DISRUPTION_BUDGETS, "s", "n", {"spec": {"maxUnavailable": number}})
            times = [at for at, name in keeper.turns if name == "s"]
            return [round(b - a) for a, b in pairwise(times)]

        keeper.thinks = 1.0
        assert await change(100) == [3, 5, 9, 17, 33]
        await api.patch(builtin.POD_DISRUPTION_BUDGETS, "other", "n", {"spec": {"maxUnavailable": 2}})
        await asyncio.sleep(1)
        assert keeper.turns[-1][1] == "other"  # nobody else waits
        keeper.thinks = 0.0
        await change(70)
        keeper.turns.clear()
        assert set(await change(2)) == {0}

    run(test, RegistryApi())


def test_a_refused_key_is_tried_again_ever_later() -> None:
    async def test(api: RegistryApi, keeper: Keeper) -> None:
        await api.create(builtin.POD_DISRUPTION_BUDGETS, budget("s", "a refusal"), "n")
        await asyncio.sleep(1)
        waits = [round(b[0] - a[0], 3) for a, b in zip(keeper.turns, keeper.turns[1:], strict=False)]
        assert waits == [0.005, 0.01, 0.02]

    run(test, RegistryApi())


def test_a_bug_on_one_key_does_not_stop_the_others() -> None:
    async def test(api: RegistryApi, keeper: Keeper) -> None:
        await api.create(builtin.POD_DISRUPTION_BUDGETS, budget("bad", "a bug"), "n")
        await api.create(builtin.POD_DISRUPTION_BUDGETS, budget("good", "2"), "n")
        await asyncio.sleep(1)
        assert await count(api) == 2

    run(test, RegistryApi())


def test_a_key_can_ask_to_be_looked_at_later() -> None:
    async def test(api: RegistryApi, keeper: Keeper) -> None:
        await api.create(builtin.POD_DISRUPTION_BUDGETS, budget("s", "patience"), "n")
        await asyncio.sleep(150)
        assert [round(at) - round(keeper.turns[0][0]) for at, _ in keeper.turns] == [0, 60, 120]

    run(test, RegistryApi())


def test_a_queue_of_many_that_wait_for_nothing_lets_others_have_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a start there is one of every object: 40,000 pods had been one turn of 1.6 s."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)
    passed, all_seen = 0, asyncio.Event()

    class Idle(Keeper):
        workers = 1
        seen: ClassVar[list[int]] = []

        def reconcile(self, obj: Object, world: World) -> Actions:
            self.seen.append(passed)
            if len(self.seen) == 50:
                all_seen.set()
            yield from ()

    async def pass_turns() -> None:
        nonlocal passed
        while True:
            passed += 1
            await asyncio.sleep(0)

    async def main() -> None:
        async with RegistryApi() as api:
            for number in range(50):
                await api.create(builtin.POD_DISRUPTION_BUDGETS, budget(f"b-{number}", "0"), "n")
            informers = Informers(api)
            manager = ControllerManager(lambda account: api, informers, [Idle])
            tasks = [asyncio.create_task(part) for part in (informers.run(), manager.run(), pass_turns())]
            async with asyncio.timeout(30):
                await all_seen.wait()
            for task in tasks:
                task.cancel()

    loops.run(main())
    assert len(set(Idle.seen)) >= 50
