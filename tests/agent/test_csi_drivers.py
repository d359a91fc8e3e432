"""What a node takes of a CSI driver that registers, and what it does not: over real sockets, without containers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.csi.drivers import CSI, CsiDrivers
from fairlead.agent.csi.messages import BYTES, GET_STATS, NodeInfo, Topology, Usage
from fairlead.agent.csi.stats import CsiStats, Measurable
from fairlead.agent.csi.volumes import PUBLISHED, CsiVolumes
from fairlead.agent.plugins.messages import PluginInfo
from fairlead.agent.pods.sources import Sources
from fairlead.api.builtin import CSI_NODES, NODES
from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.node.stats.measurements import FilesystemMeasurements
from fairlead.server.assembly import Server
from fairlead.server.registry.registry import UserApi
from fairlead.store.memory import MemoryStore
from tests.agent.csi_driver import NAME, CsiDriver, serving
from tests.agent.device_driver import short as short
from tests.agent.machine import in_loop, until

NODE = "somewhere"
RACK = "topology.fairlead.test/rack"
NODE_IDS = "csi.volume.kubernetes.io/nodeid"


async def cluster(**meta: Obj) -> UserApi:
    """Of one node, with these labels and annotations and without drivers."""
    server = Server(MemoryStore())
    await server.open(["ServiceAccount"])
    await server.api.create(NODES, {"metadata": {"name": NODE, **meta}})
    await server.api.create(CSI_NODES, {"metadata": {"name": NODE}, "spec": {"drivers": []}})
    return server.api


async def registered(driver: CsiDriver, **meta: Obj) -> tuple[str, Obj]:
    """What comes of it on a node with these labels and annotations, and its labels then."""
    api = await cluster(**meta)
    drivers = CsiDrivers(api, NODE)
    async with serving(driver):
        info = PluginInfo(type=CSI, name=NAME, endpoint=str(driver.socket), supported_versions=["1.0.0"])
        try:
            problem = await drivers.register(info, info.endpoint)
            assert (drivers.get(NAME) is None) is bool(problem)
            return problem, (await api.get(NODES, NODE)).obj()["metadata"]
        finally:
            drivers.close()


@in_loop
async def test_what_drivers_call_the_node_must_be_readable(short: Path) -> None:
    """Whoever may write annotations of nodes could end its agent, which then ended at each start."""
    for annotation, why in (
        ("none", "invalid character 'o' in literal null (expecting 'u')"),
        ("[]", "Expected `object`, got `array`"),
    ):
        problem, meta = await registered(CsiDriver(short), annotations={NODE_IDS: annotation})
        stated = f'failed to parse node\'s "{NODE_IDS}" annotation value ("{annotation}") err='
        assert problem == f"plugin registration failed with err: {stated}{why}"
        assert meta["annotations"][NODE_IDS] == annotation
    problem, meta = await registered(CsiDriver(short), annotations={NODE_IDS: '{"other":"7"}'})
    assert not problem
    assert meta["annotations"][NODE_IDS] == f'{{"{NAME}":"machine-7","other":"7"}}'


@in_loop
async def test_a_driver_does_not_move_the_node_elsewhere(short: Path) -> None:
    problem, meta = await registered(CsiDriver(short), labels={RACK: "r2"})
    told = f'driver reported "{RACK}":"r1" but existing label is "{RACK}":"r2"'
    assert problem == f"plugin registration failed with err: detected topology value collision: {told}"
    assert meta["labels"][RACK] == "r2"
    assert not (await registered(CsiDriver(short), labels={RACK: "r1"}))[0]


@in_loop
async def test_a_driver_must_call_the_node_something(short: Path) -> None:
    nameless = NodeInfo(node_id="", accessible_topology=Topology(segments={RACK: "r1"}))
    problem, meta = await registered(CsiDriver(short, about=nameless))
    assert problem == (
        "plugin registration failed with err: error adding CSI driver node info: driverNodeID must not be empty"
    )
    assert "labels" not in meta


@in_loop
async def test_a_driver_may_take_more_volumes_than_a_csinode_can_tell(short: Path) -> None:
    problem, _ = await registered(CsiDriver(short, about=NodeInfo(node_id="m", max_volumes_per_node=1 << 40)))
    assert problem == ""


@in_loop
async def test_a_csinode_that_somebody_has_deleted_is_made_anew(short: Path) -> None:
    server = Server(MemoryStore())
    await server.open(["ServiceAccount"])
    made = (await server.api.create(NODES, {"metadata": {"name": NODE}})).obj()
    drivers = CsiDrivers(server.api, NODE)
    async with serving(driver := CsiDriver(short)):
        info = PluginInfo(type=CSI, name=NAME, endpoint=str(driver.socket), supported_versions=["1.0.0"])
        assert await drivers.register(info, info.endpoint) == ""
        drivers.close()
    found = (await server.api.get(CSI_NODES, NODE)).obj()
    assert [each["name"] for each in found["spec"]["drivers"]] == [NAME]
    assert [each["uid"] for each in found["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]


class Slow:
    """An API server that takes its time to take a driver out of a CSINode."""

    def __init__(self, api: UserApi) -> None:
        self._api, self.goes_on = api, asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def update(self, resource: Resource, obj: Obj, **more: Any) -> Encoded:
        if resource == CSI_NODES and not obj["spec"]["drivers"]:
            await self.goes_on.wait()
        return await self._api.update(resource, obj, **more)


@in_loop
async def test_a_driver_that_starts_anew_is_there_however_long_it_takes_to_take_out_the_old_one(short: Path) -> None:
    api = await cluster()
    slow: Any = Slow(api)
    drivers = CsiDrivers(slow, NODE)
    async with serving(driver := CsiDriver(short)):
        info = PluginInfo(type=CSI, name=NAME, endpoint=str(driver.socket), supported_versions=["1.0.0"])
        assert await drivers.register(info, info.endpoint) == ""
        drivers.deregister(NAME, info.endpoint)
        (leaving,) = (task for task in asyncio.all_tasks() if task.get_name() == f"CSI driver {NAME}")
        again = asyncio.create_task(drivers.register(info, info.endpoint))
        await asyncio.wait([again], timeout=1)
        slow.goes_on.set()
        await asyncio.gather(again, leaving)
        assert drivers.get(NAME) is not None
        drivers.close()
    found = (await api.get(CSI_NODES, NODE)).obj()
    assert [each["name"] for each in found["spec"]["drivers"]] == [NAME]
    annotations = (await api.get(NODES, NODE)).obj()["metadata"]["annotations"]
    assert annotations[NODE_IDS] == f'{{"{NAME}":"machine-7"}}'


@pytest.mark.parametrize("left", [[], ["mount/"], ["vol_data.json"], ["mount/", "vol_data.json.new"]])
@in_loop
async def test_what_an_agent_leaves_that_is_killed_as_it_mounts_is_removed(tmp_path: Path, left: list[str]) -> None:
    """The pod could not go, for what was left of its volume kept its folder."""
    server, pods = Server(MemoryStore()), tmp_path / "pods"
    for name in ("data", "more"):
        folder = pods / "uid" / PUBLISHED / name
        folder.mkdir(parents=True)
        for each in left:
            (folder / each).mkdir() if each.endswith("/") else (folder / each).touch()
    drivers = CsiDrivers(server.api, NODE)
    volumes = CsiVolumes(tmp_path, pods, Sources(server.api), NODE, drivers, lambda: None, lambda: None)
    assert volumes.folders() == [pods / "uid"]
    await volumes.unmount(pods / "uid")
    assert not volumes.folders()


@in_loop
async def test_how_full_the_volumes_of_one_driver_are_is_told_while_another_hangs(short: Path) -> None:
    usage = [Usage(unit=BYTES, total=10, available=7, used=3)]
    slow, quick = (CsiDriver(short / name, capabilities=[GET_STATS], usage=usage) for name in ("slow", "quick"))
    slow.hangs.add("stats")
    drivers = CsiDrivers(await cluster(), NODE)
    async with serving(slow), serving(quick):
        for name, driver in (("slow", slow), ("quick", quick)):
            info = PluginInfo(type=CSI, name=name, endpoint=str(driver.socket), supported_versions=["1.0.0"])
            assert await drivers.register(info, info.endpoint) == ""
        volumes = [Measurable("u", name, name, "v", short, "") for name in ("slow", "quick")]
        stats = CsiStats(drivers, lambda: volumes)
        asking = asyncio.create_task(stats.run(1))
        await until(lambda: "quick" in stats.last)
        assert stats.last == {"quick": {"u": {"quick": FilesystemMeasurements(10, 7, 3)}}}
        quick.usage = [Usage(unit=BYTES, total=10, available=6, used=4)]
        await until(lambda: stats.last["quick"]["u"]["quick"].used == 4)
        asking.cancel()
        drivers.close()
