"""Which configuration the kubelet of a simulated node runs with, and what the node then gives away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from fairlead.api.builtin import EVENTS, NODES
from fairlead.api.objects import Obj
from fairlead.api.selector_text import parse as parse_selector
from fairlead.api.verbs import Api, WatchQuery
from fairlead.compose import Cluster, Settings, components, simulation
from fairlead.node.configuration.errors import StartupError
from fairlead.runtime.loops import DEFAULT_EPOCH, run_virtual
from fairlead.server.assembly import Server
from fairlead.sim.machine.hardware import CGROUP_VERSION
from fairlead.sim.node_settings import KUBELET_CONFIG, MISSING_CGROUPS, NodeConfigurations, NodeGroup
from fairlead.sim.nodes import NodeShape, kubelet_nodes, node_manifest, uniform
from fairlead.store.memory import MemoryStore

_KUBELET = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
KUBE_RESERVED = "kubeReserved: {cpu: 100m, memory: 100Mi}"


def allocatable(node: Obj, configurations: NodeConfigurations | None = None) -> dict[str, str]:
    found: dict[str, str] = (configurations or NodeConfigurations()).completed(node)["status"]["allocatable"]
    return found


def own_node(cpu: str = "4", memory: str = "8Gi", **labels: str) -> Obj:
    (node,) = kubelet_nodes(1, NodeShape(cpu, memory))
    node["metadata"]["labels"] |= labels
    return node


def test_an_own_node_keeps_what_an_empty_configuration_keeps() -> None:
    """S1-24, S1-25: 100Mi of memory, 10 % of the disk (a 32-bit float)."""
    assert allocatable(own_node()) == {
        "cpu": "4",
        "memory": "8092Mi",
        "ephemeral-storage": "96636764000",
        "pods": "110",
    }


def test_part_of_a_cpu_stays_a_part() -> None:
    assert allocatable(own_node("500m"))["cpu"] == "500m"


@pytest.mark.parametrize(
    ("cpu", "memory", "flags", "expected"),
    [
        ("4", "8Gi", ["--kube-reserved=cpu=100m,memory=100Mi"], {"cpu": "3900m", "memory": "7992Mi"}),
        (
            "16",
            "32Gi",
            [
                "--kube-reserved=cpu=1,memory=2Gi",
                "--system-reserved=cpu=500m,memory=1Gi",
                "--eviction-hard=memory.available<500Mi",
            ],
            {"cpu": "14500m", "memory": "29196Mi"},
        ),
        ("4", "10Gi", ["--eviction-hard=memory.available<10%"], {"memory": "9663676400"}),
        (
            "4",
            "10Gi",
            ["--eviction-hard=memory.available<500Mi", "--system-reserved=memory=1.5Gi"],
            {"memory": "8204Mi"},
        ),
        ("4", "8Gi", ["--max-pods=20"], {"pods": "20"}),
    ],
)
def test_flags_lower_what_a_node_gives_away(cpu: str, memory: str, flags: list[str], expected: dict[str, str]) -> None:
    """SC-31, SC-32."""
    found = allocatable(own_node(cpu, memory), NodeConfigurations(flags=flags))
    assert {name: found[name] for name in expected} == expected


def test_more_reserved_than_there_is_does_not_start() -> None:
    """SC-31, case 4."""
    with pytest.raises(StartupError, match='Resource "memory" has a reservation of 41060Mi but capacity of 32Gi'):
        NodeConfigurations(flags=["--kube-reserved=memory=40Gi"]).check([own_node("16", "32Gi")])


def test_a_group_of_nodes_has_its_file_and_the_rest_the_one_for_all() -> None:
    groups = [
        NodeGroup({"maxPods": 30}, "all.yaml"),
        NodeGroup({"maxPods": 10}, "batch.yaml", parse_selector("pool=batch")),
    ]
    configurations = NodeConfigurations(groups)
    found = [allocatable(own_node(pool=pool), configurations)["pods"] for pool in ("batch", "web")]
    assert found == ["10", "30"]


def test_an_annotation_is_all_that_a_kubelet_is_told() -> None:
    node = own_node()
    node["metadata"]["annotations"] |= {KUBELET_CONFIG: KUBE_RESERVED}
    found = allocatable(node, NodeConfigurations(flags=["--max-pods=20"]))
    assert (found["cpu"], found["pods"]) == ("3900m", "110")


def test_nodes_that_state_what_they_give_away_keep_it() -> None:
    (node,) = uniform(1, NodeShape())
    assert NodeConfigurations(flags=["--max-pods=20"]).completed(node)["status"].items() >= node["status"].items()


def test_a_node_that_comes_with_a_configuration_and_states_nothing_follows_it() -> None:
    """An API server fills in that all is allocatable."""
    node = node_manifest("n", {"cpu": "4", "memory": "8Gi"})
    node["metadata"]["annotations"] = {KUBELET_CONFIG: KUBE_RESERVED}
    assert allocatable(node)["memory"] == "7992Mi"
    node["status"]["allocatable"] = {"cpu": "2", "memory": "2Gi"}
    assert allocatable(node)["memory"] == "2Gi"


def test_swap_is_said_to_do_nothing() -> None:
    configurations = NodeConfigurations([NodeGroup({**_KUBELET, "memorySwap": {"swapBehavior": "LimitedSwap"}}, "f")])
    assert configurations.check([]) == [
        "memorySwap.swapBehavior LimitedSwap does nothing: simulated machines have no swap"
    ]


# -- live

Run = Callable[[Api], Awaitable[None]]


def run(test: Run, nodes: list[Obj], configurations: NodeConfigurations | None = None) -> None:
    async def main() -> None:
        settings = Settings(nodes=tuple(nodes), configurations=configurations or NodeConfigurations())
        async with simulation(settings) as (api, _):
            await test(api)

    coroutine: Coroutine[Any, Any, None] = main()
    run_virtual(coroutine, DEFAULT_EPOCH)


async def annotated(api: Api, **annotations: str | None) -> Obj:
    """The node a while after it was annotated."""
    names = {"config": KUBELET_CONFIG, "cgroups": CGROUP_VERSION, "missing": MISSING_CGROUPS}
    patch = {"metadata": {"annotations": {names[name]: value for name, value in annotations.items()}}}
    await api.patch(NODES, "node-1", "", patch)
    await asyncio.sleep(5)
    return (await api.get(NODES, "node-1")).obj()


async def events(api: Api) -> list[tuple[str, str, str]]:
    listed = (await api.list(EVENTS, "")).items
    objects = [item.obj() for item in listed]
    return [
        (event["type"], event["reason"], event["message"])
        for event in objects
        if event["involvedObject"]["kind"] == "Node" and event["source"]["component"] == "kubelet"
    ]


def test_a_kubelet_starts_again_with_another_configuration() -> None:
    async def test(api: Api) -> None:
        node = await annotated(api, config=KUBE_RESERVED)
        assert (node["status"]["allocatable"]["memory"], node["status"]["capacity"]["memory"]) == ("7992Mi", "8Gi")
        assert await events(api) == [
            ("Normal", "Starting", "Starting kubelet."),
            ("Normal", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods"),
        ]
        node = await annotated(api, config=None)
        assert node["status"]["allocatable"]["memory"] == "8092Mi"

    run(test, [own_node()])


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"config": "evictionHard: {memory.available: 50}"}, "failed to load Kubelet config file"),
        ({"config": "["}, "yaml: line 1"),
        ({"config": "- 1"}, "not a KubeletConfiguration"),
        ({"config": "x" * (1 << 17)}, "longer than 64 KiB"),
        ({"config": "kubeReserved: {memory: 40Gi}"}, "invalid Node Allocatable configuration"),
        ({"config": "evictionHard: {memory.available: 1Xi}"}, "quantities must match"),
        ({"cgroups": "1"}, "cgroup v1"),
        ({"cgroups": "3"}, "neither 1 nor 2"),
    ],
)
def test_a_kubelet_that_does_not_start_says_why_and_changes_nothing(annotations: dict[str, str], message: str) -> None:
    async def test(api: Api) -> None:
        node = await annotated(api, **annotations)
        assert node["status"]["allocatable"]["memory"] == "8092Mi"
        assert all(
            condition["status"] == ("True" if condition["type"] == "Ready" else "False")
            for condition in node["status"]["conditions"]
        )
        ((type_, reason, text),) = await events(api)
        assert (type_, reason) == ("Warning", "KubeletNotStarted")
        assert message in text

    run(test, [own_node()])


def test_a_cgroup_of_daemons_that_is_not_there_stops_the_kubelet() -> None:
    """SC-31, case 5; S1-20."""
    config = """{
        "enforceNodeAllocatable": ["pods", "system-reserved"],
        "systemReserved": {"memory": "1Gi"}, "systemReservedCgroup": "/sysd"
    }"""

    async def test(api: Api) -> None:
        node = await annotated(api, config=config, missing="/sysd")
        assert node["status"]["allocatable"]["memory"] == "8092Mi"
        assert (await events(api))[-1][:2] == ("Warning", "FailedNodeAllocatableEnforcement")
        node = await annotated(api, missing=None)
        assert node["status"]["allocatable"]["memory"] == "7068Mi"
        assert (await events(api))[-1][2] == "Updated limits on system reserved cgroup /sysd"

    run(test, [own_node()])


def test_a_node_with_nothing_but_a_name_gets_a_kubelet() -> None:
    async def test(api: Api) -> None:
        await api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
        await asyncio.sleep(5)
        status = (await api.get(NODES, "node-1")).obj()["status"]
        assert (status["capacity"]["memory"], status["allocatable"]["memory"]) == ("16Gi", "16284Mi")

    run(test, [])


def test_groups_follow_labels() -> None:
    configurations = NodeConfigurations([NodeGroup({"maxPods": 10}, "batch.yaml", parse_selector("pool=batch"))])

    async def test(api: Api) -> None:
        await api.patch(NODES, "node-1", "", {"metadata": {"labels": {"pool": "batch"}}})
        await asyncio.sleep(5)
        assert (await api.get(NODES, "node-1")).obj()["status"]["capacity"]["pods"] == "10"

    run(test, [own_node()], configurations)


def test_nodes_of_an_earlier_run_follow_other_flags_unless_they_state_what_they_give_away() -> None:
    """`up` again: the nodes that it makes, those that are left of before, and one that kubectl made."""
    amounts = {"cpu": "2", "memory": "4Gi", "pods": "10"}

    async def allocatable_after(running: Cluster, nodes: list[Obj], *flags: str) -> list[str]:
        settings = Settings(nodes=tuple(nodes), configurations=NodeConfigurations(flags=flags))
        async with components(running, settings, heartbeats=False):
            if not flags:
                await running.api.create(NODES, node_manifest("stated", amounts))
            await asyncio.sleep(5)
            found = [node.obj() for node in (await running.api.list(NODES)).items]
            return [f"{node['metadata']['name']} {node['status']['allocatable']['memory']}" for node in found]

    async def main() -> None:
        running = Cluster(server := Server(MemoryStore()))
        await server.open()
        before = await allocatable_after(running, kubelet_nodes(2, NodeShape("4", "8Gi")))
        assert before == ["node-1 8092Mi", "node-2 8092Mi", "stated 4Gi"]
        after = await allocatable_after(running, kubelet_nodes(1, NodeShape("4", "8Gi")), "--kube-reserved=memory=1Gi")
        assert after == ["node-1 7068Mi", "node-2 7068Mi", "stated 4Gi"]

    run_virtual(main(), DEFAULT_EPOCH)


def test_an_annotation_of_an_earlier_run_counts_from_the_first_moment() -> None:
    """Not even for a moment has the node more to give: the scheduler would use it."""
    seen: set[str] = set()

    async def watched(running: Cluster) -> None:
        async for event in running.api.watch(NODES, "", WatchQuery()):
            seen.add(event.object.obj()["status"]["allocatable"]["memory"])

    async def main() -> None:
        running = Cluster(server := Server(MemoryStore()))
        await server.open()
        settings = Settings(nodes=(own_node(),))
        async with components(running, settings, heartbeats=False):
            await annotated(running.api, config=KUBE_RESERVED)
        async with components(running, settings, heartbeats=False):
            watching = asyncio.create_task(watched(running))
            await asyncio.sleep(5)
            watching.cancel()
        assert seen == {"7992Mi"}

    run_virtual(main(), DEFAULT_EPOCH)
