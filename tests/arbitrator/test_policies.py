"""What an ArbitratorPolicy, quotas and the arbitrator's own gate change, in virtual time."""

from __future__ import annotations

from typing import Any

from fairlead.api import builtin
from fairlead.arbitrator.accounting import MOST_OTHERS
from fairlead.arbitrator.objects import GATE, GRANTED, POLICIES
from tests.arbitrator.world import World, scene
from tests.played import played


async def _policy(world: World, **spec: Any) -> None:
    await world.api.create(POLICIES, {"metadata": {"name": "default"}, "spec": spec})
    await world.settle()


def _limited(cpu: str, limit: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": limit}}
    return {"containers": [{"name": "c", "image": "x", "resources": resources}]}


@played(scene)
async def test_limits_are_divided_where_the_policy_says_so(world: World) -> None:
    """S2-53: a limit-oriented policy."""
    for name in ("a", "b"):
        await world.namespace(name)
    for number in range(8):
        await world.pod("a", f"a-{number}", **_limited("100m", "2"))
        await world.pod("b", f"b-{number}", **_limited("100m", "1"))
    await world.settle()
    assert await world.deserved("a", "b") == ["800m", "800m"]
    await _policy(world, policy="limits")
    assert await world.deserved("a", "b", resource="limits.cpu") == ["5", "5"]
    assert await world.condition("a", "Overused") == ("True", "UsesMoreThanDeserved")
    await world.consumer("b", hard={"limits.cpu": "4", "requests.cpu": "100m"})
    assert await world.deserved("a", "b", resource="limits.cpu") == ["6", "4"]
    await world.api.delete(POLICIES, "default")
    await world.consumer("b", hard=None)
    assert await world.deserved("a", "b") == ["800m", "800m"]


@played(scene)
async def test_a_pod_over_the_limits_that_are_granted_waits(world: World) -> None:
    await _policy(world, policy="limits")
    await world.namespace("a", hard={"limits.cpu": "3"})
    for number in range(2):
        await world.pod("a", f"a-{number}", **_limited("100m", "2"))
    await world.settle()
    assert await world.running("a") == [1]
    (message,) = await world.why("a")
    assert "not enough limits.cpu is granted" in message


@played(scene)
async def test_only_the_resources_that_are_named_count_towards_a_share(world: World) -> None:
    await _policy(world, resources=["cpu"])
    for name, memory in (("a", "6Gi"), ("b", "1Gi")):
        await world.namespace(name)
        await world.pods(name, 10, memory=memory)
    assert await world.deserved("a", "b") == ["5", "5"]
    assert "requests.memory" not in (await world.status("a"))["deserved"]


@played(scene)
async def test_of_a_node_with_thousands_of_resources_some_are_divided_and_it_holds_nobody_up(world: World) -> None:
    """All of them in the Allocation of each namespace had been too large to be written, and nothing was divided."""
    many = {f"example.com/r{number:05}": "1" for number in range(24_000)}
    status = {"allocatable": many | {"cpu": "1"}, "capacity": many | {"cpu": "1"}}
    await world.api.create(builtin.NODES, {"metadata": {"name": "boastful"}})
    await world.api.patch(builtin.NODES, "boastful", "", {"status": status}, subresource="status")
    await world.namespace("late")
    await world.pods("late", 1)
    await world.settle()
    deserved = (await world.status("late"))["deserved"]
    assert deserved["requests.cpu"] == "1"
    assert sum(name.startswith("requests.example.com/") for name in deserved) == MOST_OTHERS


@played(scene, cpu="9", memory="18Gi")
async def test_in_proportion_every_resource_is_divided_by_itself(world: World) -> None:
    for name, cpu, memory in (("a", "1", "4Gi"), ("b", "3", "1Gi")):
        await world.namespace(name)
        await world.pods(name, 9, cpu=cpu, memory=memory)
    await _policy(world, policy="proportion")
    assert await world.deserved("a", "b") == ["4500m", "4500m"]
    assert await world.deserved("a", "b", resource="requests.memory") == ["9Gi", "9Gi"]


@played(scene, nodes=0)
async def test_a_cluster_without_nodes_is_divided_in_proportion_too(world: World) -> None:
    """The arbitrator had failed in each of its cycles until the first node came."""
    await _policy(world, policy="proportion")
    await world.namespace("a")
    await world.pods("a", 2)
    assert (await world.status("a"))["deserved"] == {}


@played(scene, nodes=2)
async def test_only_the_nodes_that_are_selected_are_divided(world: World) -> None:
    await _policy(world, nodeSelector={"pool": "shared"})
    await world.namespace("a")
    await world.pods("a", 20)
    assert await world.deserved("a") == ["0"]
    name = (await world.api.list(builtin.NODES)).items[0].obj()["metadata"]["name"]
    await world.api.patch(builtin.NODES, name, "", {"metadata": {"labels": {"pool": "shared"}}})
    assert await world.deserved("a") == ["10"]


@played(scene)
async def test_a_quota_that_is_lower_than_hard_is_what_counts_and_is_told(world: World) -> None:
    """S2-13, S2-21, S2-48."""
    await world.namespace("a", hard={"requests.cpu": "8"})
    await world.pods("a", 10)
    assert await world.deserved("a") == ["8"]
    quota = {"metadata": {"name": "q", "namespace": "a"}, "spec": {"hard": {"requests.cpu": "5"}}}
    await world.api.create(builtin.RESOURCE_QUOTAS, quota, "a")
    assert await world.deserved("a") == ["5"]
    assert await world.condition("a", "HardAboveQuota") == ("True", "QuotaIsLower")
    await world.api.patch(builtin.RESOURCE_QUOTAS, "q", "a", {"spec": {"hard": {"requests.cpu": "3"}}})
    assert await world.deserved("a") == ["3"]
    await world.api.delete(builtin.RESOURCE_QUOTAS, "q", "a")
    assert await world.deserved("a") == ["8"]
    assert await world.condition("a", "HardAboveQuota") == ("False", "AsItShouldBe")


@played(scene)
async def test_the_gate_is_lifted_from_as_many_pods_as_are_granted_the_most_important_first(world: World) -> None:
    """Where no scheduler can be told to ask."""
    await world.api.create(builtin.PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
    await world.namespace("a", hard={"requests.cpu": "2"})
    gates = [{"name": GATE}]
    for name, extra in (("one", {}), ("two", {}), ("vip", {"priorityClassName": "high"})):
        await world.pod("a", name, schedulingGates=gates, **extra)
    await world.pod("a", "theirs", schedulingGates=[*gates, {"name": "example.com/other"}])
    await world.settle()
    pods = {pod["metadata"]["name"]: pod for pod in await world.of("a")}
    assert {name for name, pod in pods.items() if pod["status"]["phase"] == "Running"} == {"one", "vip"}
    assert GRANTED in pods["vip"]["metadata"]["annotations"]
    assert GRANTED not in pods["two"]["metadata"].get("annotations", {})
    await world.consumer("a", hard={"requests.cpu": "3"})
    await world.settle()
    assert await world.running("a") == [3]


@played(scene)
async def test_a_pod_that_was_let_go_keeps_its_room_until_it_finds_a_node(world: World) -> None:
    await world.namespace("a", hard={"requests.cpu": "1"})
    gates = [{"name": GATE}]
    await world.pod("a", "picky", schedulingGates=gates, nodeSelector={"gpu": "true"})
    await world.settle()
    await world.pod("a", "other", schedulingGates=gates)
    await world.settle(300)
    gated = {pod["metadata"]["name"] for pod in await world.of("a") if pod["spec"].get("schedulingGates")}
    assert gated == {"other"}


@played(scene)
async def test_those_who_hold_what_they_reserve_keep_it_idle(world: World) -> None:
    """S2-05: `reservedPolicy: Hold`."""
    await world.namespace("a", reserved={"requests.cpu": "4"}, reservedPolicy="Hold")
    await world.namespace("b")
    await world.controller("b", "b", 10)
    await world.settle(60)
    assert await world.running("b") == [6]
    await world.controller("a", "a", 4)
    await world.settle()
    assert await world.running("a", "b") == [4, 6]
    assert world.evicted == []
