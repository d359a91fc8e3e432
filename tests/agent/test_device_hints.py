"""Devices of plugins are of the NUMA nodes where their containers have the rest, if the node's policy wants that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fairlead.agent.device_plugins.hints import PluginHints
from fairlead.agent.device_plugins.holdings import Holdings
from fairlead.agent.device_plugins.inventory import Inventory
from fairlead.agent.device_plugins.manager import DevicePlugins
from fairlead.agent.device_plugins.messages import HEALTHY, Device, NumaNode, Options, Topology
from fairlead.agent.topology.manager import TopologyManager
from fairlead.api.objects import Obj
from fairlead.node.allocatable import Machine
from fairlead.node.configuration.load import configure
from fairlead.node.cpus import topology as cpus
from fairlead.node.numa_hints import NumaNodes
from fairlead.node.plan import node_plan
from tests.agent.device_driver import short as short
from tests.agent.device_plugin import RESOURCE, FakePlugin, offering
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import is_phase, is_running, manifest, real_node
from tests.agent.test_device_plugins import devices_of, has, node_with_plugins, until
from tests.work import calls

MACHINE = Machine(cpus=8, memory_bytes=1 << 33, ephemeral_storage_bytes=1 << 36, max_pid=32768)
#: CPUs 0 to 3 are of NUMA node 0, 4 to 7 of node 1.
CPUS = cpus.Topology({cpu: cpus.Location(cpu, cpu // 4, cpu // 4, cpu // 4) for cpu in range(8)})


def device(name: str, *nodes: int) -> Device:
    return Device(id=name, health=HEALTHY, topology=Topology(nodes=[NumaNode(id=node) for node in nodes]))


def pod(uid: str, *counts: int, cpu: int = 0, init: Sequence[int] = ()) -> Obj:
    """Its containers want so many devices."""

    def container(name: str, count: int) -> Obj:
        amounts = {RESOURCE: str(count)} if count else {}
        amounts |= {"cpu": str(cpu), "memory": "1Mi"} if cpu else {}
        return {"name": name, "resources": {"requests": amounts, "limits": amounts}}

    return {
        "metadata": {"name": uid, "uid": uid},
        "spec": {
            "initContainers": [container(f"i{number}", count) for number, count in enumerate(init)],
            "containers": [container(f"c{number}", count) for number, count in enumerate(counts)],
        },
    }


def topology(root: Path, policy: str = "single-numa-node", scope: str = "container") -> TopologyManager:
    stated = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "topologyManagerPolicy": policy,
        "topologyManagerScope": scope,
    }
    configured = configure(stated)
    plan = node_plan(configured, MACHINE, topology=CPUS)
    found = TopologyManager(root, configured, plan, NumaNodes(frozenset({0, 1})))
    found.restore()
    return found


async def admitted(of: TopologyManager, plugins: DevicePlugins, manifest: Obj) -> str:
    """The reason why not; else nothing, and it has what it wants."""
    uid = manifest["metadata"]["uid"]
    foretold = of.foretold(manifest, plugins.hints(manifest, of.numa_nodes))
    if foretold.refusal is not None:
        return foretold.refusal.reason
    assert await plugins.allocate(manifest, foretold.affinity) == ""
    refusal = of.allocate(manifest, lambda _: True, plugins.hints(manifest, of.numa_nodes))
    if refusal is not None:
        plugins.release(uid)
    return refusal.reason if refusal is not None else ""


NEAR_AND_FAR = [device("near-0", 0), device("far-0", 1), device("near-1", 0), device("far-1", 1), device("far-2", 1)]


@in_loop
async def test_a_container_has_devices_and_cpus_of_one_numa_node(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short, devices=NEAR_AND_FAR)):
        await until(has(plugins, 5, 5))
        of = topology(short)
        assert await admitted(of, plugins, pod("a", 2, cpu=1)) == ""
        assert devices_of(plugins, "a", "c0") == ["near-0", "near-1"]
        assert of.own_cpus("a", "c0") == [1]
        assert await admitted(of, plugins, pod("b", 1, cpu=1)) == ""  # though CPUs of node 0 come first
        assert devices_of(plugins, "b", "c0") == ["far-0"]
        assert of.own_cpus("b", "c0") == [4]
        assert await admitted(of, plugins, pod("c", 2, cpu=4)) == "TopologyAffinityError"  # node 1 has three CPUs left
        assert await admitted(of, plugins, pod("d", 3)) == "TopologyAffinityError"  # and two devices
        assert devices_of(plugins, "c", "c0") == devices_of(plugins, "d", "c0") == []
        of.release("a")
        plugins.release("a")
        assert await admitted(of, plugins, pod("e", 1, 1)) == ""  # each container by itself
        assert [devices_of(plugins, "e", name) for name in ("c0", "c1")] == [["near-0"], ["near-1"]]


@in_loop
async def test_the_containers_of_a_pod_share_a_numa_node_if_that_is_the_scope(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short, devices=NEAR_AND_FAR)):
        await until(has(plugins, 5, 5))
        of = topology(short, scope="pod")
        assert await admitted(of, plugins, pod("a", 1, 2, cpu=1)) == ""
        assert devices_of(plugins, "a", "c0") + devices_of(plugins, "a", "c1") == ["far-0", "far-1", "far-2"]
        assert of.own_cpus("a", "c0") + of.own_cpus("a", "c1") == [4, 5]
        assert await admitted(of, plugins, pod("b", 2, 1)) == "TopologyAffinityError"


@in_loop
async def test_who_takes_what_there_is_gets_as_much_as_can_be_from_where_it_is_best(short: Path) -> None:
    devices = [device("far-0", 1), Device(id="anywhere", health=HEALTHY), device("near-0", 0), device("near-1", 0)]
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short, devices=devices)):
        await until(has(plugins, 4, 4))
        of = topology(short, "best-effort")
        assert await admitted(of, plugins, pod("a", 2)) == ""
        assert devices_of(plugins, "a", "c0") == ["near-0", "near-1"]
        plugins.release("a")
        assert await plugins.allocate(pod("b", 3), {"c0": frozenset({0})}) == ""
        assert devices_of(plugins, "b", "c0") == ["near-0", "near-1", "anywhere"]


@in_loop
async def test_what_init_containers_had_is_where_those_after_them_are(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short, devices=NEAR_AND_FAR)):
        await until(has(plugins, 5, 5))
        of = topology(short)
        assert await admitted(of, plugins, pod("a", 2, init=[2, 1])) == ""
        assert [devices_of(plugins, "a", name) for name in ("i0", "i1", "c0")] == [
            ["near-0", "near-1"],
            ["near-0"],
            ["near-0", "near-1"],
        ]


@in_loop
async def test_the_plugin_prefers_among_those_that_are_near(short: Path) -> None:
    options = Options(get_preferred_allocation_available=True)
    plugin = FakePlugin(short, devices=NEAR_AND_FAR, options=options, preference=["far-0", "near-1"])
    async with node_with_plugins(short) as plugins, offering(plugin):
        await until(has(plugins, 5, 5))
        assert await admitted(topology(short), plugins, pod("a", 1)) == ""
        assert devices_of(plugins, "a", "c0") == ["near-1"]
        assert plugin.asked == ["prefer 1 of 2", "allocate near-1"]


@real_containers
@in_loop
async def test_a_pod_that_cannot_be_where_its_device_is_is_refused(short: Path) -> None:
    document = {"topologyManagerPolicy": "single-numa-node"}
    devices = [device("near", 0), device("nowhere", 77)]
    async with real_node(short, document) as node, offering(FakePlugin(node.root, devices=devices)):
        names: Sequence[str] = ("first", "second")
        for name in names:
            await node.create(manifest(name, "sleep", "1000", resources={"limits": {RESOURCE: "1"}}))
            await node.until(name, lambda pod: is_running(pod) or is_phase("Failed")(pod))
        status = (await node.pod("second"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "TopologyAffinityError")
        assert status["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"


def test_a_plugin_that_names_numa_nodes_that_no_machine_has_makes_little_more_work(tmp_path: Path) -> None:
    def work(nodes: Callable[[int], tuple[int, ...]]) -> int:
        offered = {RESOURCE: Inventory({f"d{each}": nodes(each) for each in range(1000)}, frozenset())}
        wanting = pod("a", 1)
        hints = PluginHints(wanting, frozenset(range(8)), offered, Holdings(tmp_path), lambda _: {RESOURCE: 1})
        return calls(lambda: hints.of_container(wanting["spec"]["containers"][0]))

    assert work(lambda each: (each % 8, 1000 + each)) < 5 * work(lambda each: (each % 8,))
