"""A node and the drivers of its devices, over real sockets: who registers, what is prepared, and what is given back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairlead.agent.devices.claims import STATE, ClaimManager
from fairlead.agent.devices.drivers import DRA, DeviceDrivers
from fairlead.agent.devices.messages import HEALTHY, UNHEALTHY
from fairlead.agent.plugins.sockets import PluginSockets
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.api.builtin import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.users import node_user
from fairlead.runtime.metrics import Counts
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from tests.agent.device_driver import NAME, V1BETA1, Driver, serving
from tests.agent.device_driver import short as short
from tests.agent.machine import in_loop
from tests.controllers.test_resourceclaims import one_device, pod

NODE = "somewhere"


@dataclass
class World:
    server: Server
    root: Path
    claims: ClaimManager

    async def pod(self, name: str, *claims: str) -> Pod:
        """A pod of the node that its claims are reserved for."""
        made = await self.server.api.create(PODS, pod(name, claims=claims, node=NODE), "default")
        found = made.view(Pod)
        for claim in claims:
            await self.reserve(claim, found)
        return found

    async def reserve(self, claim: str, user: Pod) -> None:
        api = self.server.api
        if self.server.registry.find(RESOURCE_CLAIMS.qualified, claim, "default") is None:
            await api.create(RESOURCE_CLAIMS, {"metadata": {"name": claim}, "spec": one_device()}, "default")
        known = (await api.get(RESOURCE_CLAIMS, claim, "default")).obj().get("status") or {}
        result = {"request": "r", "driver": NAME, "pool": "p", "device": "gadget-0"}
        consumer = {"resource": "pods", "name": user.metadata.name, "uid": user.metadata.uid}
        reserved = [*known.get("reservedFor", ()), consumer]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        await api.patch(RESOURCE_CLAIMS, claim, "default", {"status": status}, subresource="status")

    async def slices(self) -> list[str]:
        return [one.obj()["metadata"]["name"] for one in (await self.server.api.list(RESOURCE_SLICES)).items]

    async def offers(self, names: list[str]) -> None:
        """Return once it is so."""
        async with asyncio.timeout(20):
            while await self.slices() != names:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def offer(self, name: str, driver: str = NAME) -> None:
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": NODE, "pool": pool, "devices": [{"name": "gadget-0"}]}
        await self.server.api.create(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": spec})


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110  (sockets tell nobody)
            await asyncio.sleep(0.01)


@asynccontextmanager
async def world(root: Path, wipe_seconds: float = 30.0, server: Server | None = None) -> AsyncIterator[World]:
    if server is None:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
    api = server.registry.as_user(node_user(NODE))
    drivers = DeviceDrivers(api, NODE, wipe_seconds)
    tasks = [asyncio.create_task(each.run()) for each in (drivers, PluginSockets(root, {DRA: drivers}))]
    try:
        yield World(server, root, ClaimManager(root, api, drivers))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def with_driver(here: World, driver: Driver, *, is_killed: bool = False) -> AsyncIterator[Driver]:
    """It has registered."""
    async with serving(driver, is_killed=is_killed):
        await until(lambda: bool(driver.told))
        assert driver.told[-1].plugin_registered, driver.told
        yield driver


@in_loop
async def test_claims_are_prepared_once_for_all_pods_and_given_back_by_the_last(short: Path) -> None:
    async with world(short) as here, with_driver(here, Driver(short, cdi=("v.test/g=1",))) as driver:
        first, second = await here.pod("p1", "shared"), await here.pod("p2", "shared", "own")
        assert await here.claims.prepare(first) == ""
        assert await here.claims.prepare(second) == ""
        assert driver.asked == ["prepare shared", "prepare own"]
        container = {"name": "c", "resources": {"claims": [{"name": "n-shared"}]}}
        assert here.claims.cdi_devices(second, {}, container) == ["v.test/g=1"]
        assert here.claims.cdi_devices(second, {}, {"name": "c"}) == []
        other = {"name": "c", "resources": {"claims": [{"name": "n-shared", "request": "another"}]}}
        assert here.claims.cdi_devices(second, {}, other) == []
        assert await here.claims.unprepare(second.metadata.uid) == ""
        assert driver.asked[2:] == ["unprepare own"]
        assert await here.claims.unprepare(first.metadata.uid) == ""
        assert driver.asked[3:] == ["unprepare shared"]
        assert not here.claims.is_held(first.metadata.uid)


@in_loop
async def test_what_an_agent_has_prepared_the_next_one_gives_back(short: Path) -> None:
    driver = Driver(short, cdi=("v.test/g=1",))
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(world(short))
        await stack.enter_async_context(with_driver(here, driver))
        user, gone = await here.pod("p", "c"), await here.pod("gone", "of-gone")
        for each in (user, gone):
            assert await here.claims.prepare(each) == ""
        again = await stack.enter_async_context(world(short, server=here.server))
        await until(lambda: len(driver.told) == 2)
        container = {"name": "c", "resources": {"claims": [{"name": "n-c"}]}}
        assert again.claims.cdi_devices(user, {}, container) == ["v.test/g=1"]
        collecting = asyncio.create_task(again.claims.run(lambda uid: uid == user.metadata.uid))
        await until(lambda: "unprepare of-gone" in driver.asked)
        collecting.cancel()
        assert await again.claims.unprepare(user.metadata.uid) == ""
        assert driver.asked == ["prepare c", "prepare of-gone", "unprepare of-gone", "unprepare c"]


@in_loop
async def test_a_state_that_cannot_be_read_is_put_aside(short: Path) -> None:
    (short / STATE).write_text("{")
    async with world(short) as here:
        assert not here.claims.is_held("u")
        assert (short / f"{STATE}.unreadable").read_text() == "{"


@in_loop
async def test_why_claims_cannot_be_prepared_is_told(short: Path) -> None:
    async with world(short) as here:
        user = await here.pod("p", "c")
        assert await here.claims.prepare(user) == f"DRA driver {NAME} is not registered"
        assert not here.claims.is_held(user.metadata.uid)  # nobody has to give anything back
        async with with_driver(here, Driver(short, versions=(V1BETA1,))) as driver:
            driver.errors["c"] = "out of gadgets"
            assert await here.claims.prepare(user) == "NodePrepareResources failed for ResourceClaim c: out of gadgets"
            assert await here.claims.unprepare(user.metadata.uid) == (
                "NodeUnprepareResources failed for ResourceClaim c: out of gadgets"
            )
            assert here.claims.is_held(user.metadata.uid)
            driver.errors.clear()
            driver.skipped.add("c")
            assert await here.claims.prepare(user) == "NodePrepareResources skipped 1 ResourceClaims"
            driver.skipped.clear()
            assert await here.claims.prepare(user) == ""


@in_loop
async def test_what_drivers_took_is_counted(short: Path) -> None:
    async with world(short) as here, with_driver(here, Driver(short)) as driver:
        first, second = await here.pod("p1", "c1"), await here.pod("p2", "c2")
        driver.errors["c2"] = "out of gadgets"
        assert await here.claims.prepare(first) == ""
        assert await here.claims.prepare(second) != ""
        operations, calls, in_use = here.claims.families
        assert dict(in_use.read()) == {("<any>",): 2, (NAME,): 2}  # the second has to be given back as well
        done = {labels: sum(counts.buckets) for labels, counts in operations.read() if isinstance(counts, Counts)}
        assert done == {("PrepareResources", "false"): 1, ("PrepareResources", "true"): 1}
        method = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
        assert [labels for labels, _ in calls.read()] == [(NAME, method, "OK")]


@in_loop
async def test_a_slow_driver_holds_up_those_of_its_claims_alone(short: Path) -> None:
    async with world(short) as here, with_driver(here, Driver(short)) as driver:
        slow, second, other = await here.pod("p1", "c1"), await here.pod("p2", "c1"), await here.pod("p3", "c2")
        driver.goes_on.clear()
        waiting = asyncio.create_task(here.claims.prepare(slow))
        await until(lambda: driver.asked == ["prepare c1"])
        same = asyncio.create_task(here.claims.prepare(second))
        more = asyncio.create_task(here.claims.prepare(other))
        await until(lambda: driver.asked == ["prepare c1", "prepare c2"])
        driver.goes_on.set()
        assert set(await asyncio.gather(waiting, same, more)) == {""}
        assert driver.asked == ["prepare c1", "prepare c2"]


@in_loop
async def test_who_cannot_be_a_driver_here_is_told_why_and_harms_nobody(short: Path) -> None:
    async with world(short) as here:
        async with serving(Driver(short, kind="DevicePlugin")) as strange:
            await until(lambda: bool(strange.told))
            where = f"no handler registered for plugin type: DevicePlugin at socket {strange.registration}"
            assert strange.told[0].error == f"RegisterPlugin error -- {where}"
        async with serving(Driver(short, versions=("v7.DRAPlugin",))) as strange:
            await until(lambda: bool(strange.told))
            assert not strange.told[0].plugin_registered
            assert 'supported by the plugin (["v7.DRAPlugin"])' in strange.told[0].error
        async with serving(Driver(short, endpoint="dra.sock")) as strange:
            await until(lambda: bool(strange.told))
            assert "endpoint dra.sock is no absolute path" in strange.told[0].error
        async with with_driver(here, Driver(short, mishears=1)):
            assert (await here.claims.prepare(await here.pod("p", "c"))) == ""


@in_loop
async def test_what_a_driver_offered_goes_some_time_after_it(short: Path) -> None:
    """At the start of an agent everything does, until drivers register again."""
    server = Server(MemoryStore())
    await server.open(["ServiceAccount"])
    async with world(short, server=server) as before, with_driver(before, Driver(short)):
        await before.offer("old")
    async with world(short, wipe_seconds=0.2, server=server) as here:
        await here.offers([])
        async with with_driver(here, Driver(short)):
            await here.offer("mine")
            await here.offer("another", driver="others.fairlead.test")
            await asyncio.sleep(0.5)  # longer than it may be away
            assert await here.slices() == ["another", "mine"]
        await here.offers(["another"])
        async with with_driver(here, Driver(short), is_killed=True):
            await here.offer("mine")
            assert await here.claims.prepare(await here.pod("p", "c")) == ""
        await here.offers(["another"])  # also where its socket is left


@in_loop
async def test_a_driver_that_starts_anew_in_time_keeps_what_it_offers(short: Path) -> None:
    async with world(short, wipe_seconds=5.0) as here:
        user = await here.pod("p", "c")
        async with with_driver(here, Driver(short)):
            await here.offer("mine")
            assert await here.claims.prepare(user) == ""
        driver = Driver(short)
        async with with_driver(here, driver):
            assert await here.slices() == ["mine"]
            assert await here.claims.unprepare(user.metadata.uid) == ""
            assert driver.asked == ["unprepare c"]


@in_loop
async def test_how_devices_are_is_shown_as_their_driver_tells_it(short: Path) -> None:
    driver = Driver(short, cdi=("v.test/g=1", "v.test/g=2"), tells_health=True)
    async with world(short) as here, with_driver(here, driver):
        told: list[str] = []
        here.claims.subscribe_health(told.append)
        user = await here.pod("p", "c")
        claims = [{"name": "n-c"}, {"name": "n-c", "request": "r/sub"}, {"name": "n-c", "request": "other"}]
        container = {"name": "c", "resources": {"claims": claims}}
        assert here.claims.shown_health(user, container) == []
        assert await here.claims.prepare(user) == ""

        def shown(**health: str) -> list[Obj]:
            resources = [{"resourceID": "v.test/g=1", **health}]
            return [{"name": name, "resources": resources} for name in ("claim:n-c", "claim:n-c/r/sub")]

        assert here.claims.shown_health(user, container) == shown(health="Unknown")
        driver.becomes(HEALTHY)
        await until(lambda: here.claims.shown_health(user, container) == shown(health="Healthy"))
        driver.becomes(UNHEALTHY, "hot " * 300)
        await until(lambda: len(told) == 2)
        (first, _) = here.claims.shown_health(user, container)
        assert first["resources"][0]["health"] == "Unhealthy"
        assert len(first["resources"][0]["message"]) == 1024
        driver.becomes(UNHEALTHY, "hot " * 300)
        driver.becomes(HEALTHY, seconds=2)  # believed for a second or two
        await until(lambda: here.claims.shown_health(user, container) == shown(health="Healthy"))
        await until(lambda: here.claims.shown_health(user, container) == shown(health="Unknown"))
        assert told == [user.metadata.uid] * 3
        assert await here.claims.unprepare(user.metadata.uid) == ""
        assert here.claims.shown_health(user, container) == []


@in_loop
async def test_a_container_has_its_devices_again_though_nobody_knows_them_any_more(short: Path) -> None:
    """Its pod runs on when the file was damaged, and had been given nothing when a container of it started anew."""
    async with world(short) as here, with_driver(here, Driver(short, cdi=("v.test/g=1",))) as driver:
        user, container = await here.pod("p", "own"), {"name": "c", "resources": {"claims": [{"name": "n-own"}]}}
        assert await here.claims.prepare(user) == ""
        assert await here.claims.given(user, {}, container) == ["v.test/g=1"]
        assert driver.asked == ["prepare own"]
        (short / STATE).write_bytes(b"nonsense")
        drivers = here.claims._drivers
        again = ClaimManager(short, here.server.api, drivers)
        driver.errors["own"] = "not now"
        with pytest.raises(RuntimeFailure, match="not now"):
            await again.given(user, {}, container)
        driver.errors.clear()
        assert await again.given(user, {}, container) == ["v.test/g=1"]
        assert await again.given(user, {}, {"name": "d"}) == []
        assert driver.asked == ["prepare own"] * 3


@in_loop
async def test_a_driver_that_has_gone_is_listened_to_no_more(short: Path) -> None:
    """Its connection is closed as who listens is cancelled, who was told of the one alone and listened on."""
    device = NAME, "p", "gadget-0"
    async with world(short) as here, with_driver(here, Driver(short, tells_health=True)) as driver:
        driver.becomes(HEALTHY)
        await until(lambda: here.claims._healths.of(device) == {"health": "Healthy"})
        driver.registration.unlink()
        await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("health of")])


@in_loop
async def test_an_extended_resource_stands_for_requests_of_a_claim(short: Path) -> None:
    async with world(short) as here, with_driver(here, Driver(short, cdi=("v.test/g=1",))):
        container: Obj = {"name": "c", "image": "i", "resources": {"limits": {"example.com/gadget": "1"}}}
        spec = {"containers": [container], "nodeName": NODE}
        await here.server.api.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
        mapping = {"containerName": "c", "resourceName": "example.com/gadget", "requestName": "r"}
        status = {"resourceClaimName": "made", "requestMappings": [mapping]}
        patch = {"status": {"extendedResourceClaimStatus": status}}
        shown = await here.server.api.patch(PODS, "p", "default", patch, subresource="status")
        user = shown.view(Pod)
        await here.reserve("made", user)
        assert await here.claims.prepare(user) == ""
        manifest = shown.obj()
        (one,) = manifest["spec"]["containers"]
        assert here.claims.cdi_devices(user, manifest, one) == ["v.test/g=1"]
        assert here.claims.cdi_devices(user, manifest, {"name": "other"}) == []
