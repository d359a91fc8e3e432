"""What a node takes of a CSI driver that registers, and what it does not: over real sockets, without containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.agent.csi.drivers import CSI, CsiDrivers
from fairlead.agent.csi.messages import NodeInfo, Topology
from fairlead.agent.csi.volumes import PUBLISHED, CsiVolumes
from fairlead.agent.plugins.messages import PluginInfo
from fairlead.api.builtin import CSI_NODES, NODES
from fairlead.api.objects import Obj
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from tests.agent.csi_driver import NAME, CsiDriver, serving
from tests.agent.device_driver import short as short
from tests.agent.machine import in_loop

NODE = "somewhere"
RACK = "topology.fairlead.test/rack"
NODE_IDS = "csi.volume.kubernetes.io/nodeid"


async def registered(root: Path, driver: CsiDriver, **meta: Obj) -> tuple[str, Obj]:
    """What comes of it on a node with these labels and annotations, and its labels then."""
    server = Server(MemoryStore())
    await server.open(["ServiceAccount"])
    await server.api.create(NODES, {"metadata": {"name": NODE, **meta}})
    await server.api.create(CSI_NODES, {"metadata": {"name": NODE}, "spec": {"drivers": []}})
    drivers = CsiDrivers(server.api, NODE)
    async with serving(driver):
        info = PluginInfo(type=CSI, name=NAME, endpoint=str(driver.socket), supported_versions=["1.0.0"])
        try:
            problem = await drivers.register(info, info.endpoint)
            assert (drivers.get(NAME) is None) is bool(problem)
            return problem, (await server.api.get(NODES, NODE)).obj()["metadata"]
        finally:
            drivers.close()


@in_loop
async def test_what_drivers_call_the_node_must_be_readable(short: Path) -> None:
    """Whoever may write annotations of nodes could end its agent, which then ended at each start."""
    for annotation, why in (
        ("none", "invalid character 'o' in literal null (expecting 'u')"),
        ("[]", "Expected `object`, got `array`"),
    ):
        problem, meta = await registered(short, CsiDriver(short), annotations={NODE_IDS: annotation})
        stated = f'failed to parse node\'s "{NODE_IDS}" annotation value ("{annotation}") err='
        assert problem == f"plugin registration failed with err: {stated}{why}"
        assert meta["annotations"][NODE_IDS] == annotation
    problem, meta = await registered(short, CsiDriver(short), annotations={NODE_IDS: '{"other":"7"}'})
    assert not problem
    assert meta["annotations"][NODE_IDS] == f'{{"{NAME}":"machine-7","other":"7"}}'


@in_loop
async def test_a_driver_does_not_move_the_node_elsewhere(short: Path) -> None:
    problem, meta = await registered(short, CsiDriver(short), labels={RACK: "r2"})
    told = f'driver reported "{RACK}":"r1" but existing label is "{RACK}":"r2"'
    assert problem == f"plugin registration failed with err: detected topology value collision: {told}"
    assert meta["labels"][RACK] == "r2"
    assert not (await registered(short, CsiDriver(short), labels={RACK: "r1"}))[0]


@in_loop
async def test_a_driver_must_call_the_node_something(short: Path) -> None:
    nameless = NodeInfo(node_id="", accessible_topology=Topology(segments={RACK: "r1"}))
    problem, meta = await registered(short, CsiDriver(short, about=nameless))
    assert problem == (
        "plugin registration failed with err: error adding CSI driver node info: driverNodeID must not be empty"
    )
    assert "labels" not in meta


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
    volumes = CsiVolumes(tmp_path, pods, server.api, NODE, drivers, lambda: None, lambda: None)
    assert volumes.folders() == [pods / "uid"]
    await volumes.unmount(pods / "uid")
    assert not volumes.folders()
