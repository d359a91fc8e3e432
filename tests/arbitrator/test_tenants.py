"""What the documents promise to those who share a cluster, as they see it in pods, Allocations and refusals."""

from __future__ import annotations

import pytest

from fairlead.api import builtin
from fairlead.api.errors import Forbidden
from fairlead.api.quantity import parse
from fairlead.arbitrator.objects import ALLOCATIONS, CONSUMERS, THE_NAME
from tests.arbitrator.world import World, scene
from tests.played import played

GRACE = 30


@played(scene)
async def test_services_of_one_department_get_their_part_back_from_the_batches_of_another(world: World) -> None:
    """S2-01, S2-06: one is below its guarantee, needs it, and nothing is free."""
    await world.namespace("shop", reserved={"requests.cpu": "6"})
    await world.namespace("nightly", weight=100)
    await world.controller("nightly", "batch", 20)
    await world.controller("shop", "web", 2)
    await world.settle(3 * GRACE)
    assert await world.running("shop", "nightly") == [2, 8]
    await world.scale("shop", "web", 9)
    await world.settle(6 * GRACE)
    assert await world.running("shop", "nightly") == [6, 4]


@played(scene)
async def test_overused_is_who_uses_more_than_is_deserved_and_not_who_uses_all_of_it(world: World) -> None:
    """S2-09."""
    await world.namespace("a", evictionGrace="1h")
    await world.namespace("b")
    await world.pods("a", 6)
    await world.pods("b", 4)
    await world.settle()
    assert await world.condition("a", "Overused") == ("False", "AsItShouldBe")
    await world.pods("b", 1, cpu="500m")
    assert await world.deserved("a", "b") == ["5500m", "4500m"]
    assert await world.condition("a", "Overused") == ("True", "UsesMoreThanDeserved")
    assert await world.condition("b", "Overused") == ("False", "AsItShouldBe")


@played(scene)
async def test_an_allocation_follows_its_consumer_within_a_cycle(world: World) -> None:
    """S2-19: what is copied is what is reserved; what is deserved never was in the Consumer."""
    await world.namespace("a", hard={"requests.cpu": "8"}, reserved={"requests.cpu": "2"})
    await world.settle(1.5)
    spec = (await world.api.get(ALLOCATIONS, THE_NAME, "a")).obj()["spec"]
    assert (spec["hard"], spec["reserved"]) == ({"requests.cpu": "8"}, {"requests.cpu": "2"})
    await world.consumer("a", hard={"requests.cpu": "5"}, reserved={"requests.cpu": "3"})
    await world.settle(1.5)
    spec = (await world.api.get(ALLOCATIONS, THE_NAME, "a")).obj()["spec"]
    assert (spec["hard"], spec["reserved"]) == ({"requests.cpu": "5"}, {"requests.cpu": "3"})
    assert "deserved" not in (await world.api.get(CONSUMERS, THE_NAME, "a")).obj()["spec"]


@played(scene, nodes=2, cpu="7", memory="20Gi")
async def test_what_all_deserve_together_is_no_more_than_there_is(world: World) -> None:
    """S2-25, of every resource, through the rounding of what is published."""
    for number, (cpu, memory) in enumerate((("1", "3Gi"), ("700m", "1Gi"), ("3", "100Mi"))):
        name = f"n{number}"
        await world.namespace(name, weight=number + 1)
        await world.controller(name, "work", 30, cpu=cpu, memory=memory)
    await world.settle()
    for resource, there_is in (("requests.cpu", "14"), ("requests.memory", "40Gi")):
        deserved = await world.deserved("n0", "n1", "n2", resource=resource)
        assert sum(parse(amount).nanos for amount in deserved) <= parse(there_is).nanos


@played(scene)
async def test_weights_divide_until_somebody_has_all_that_is_asked_for_or_allowed(world: World) -> None:
    """S2-29."""
    await world.namespace("one", weight=1)
    await world.namespace("two", weight=2)
    await world.namespace("seven", weight=7)
    for name in ("one", "two", "seven"):
        await world.pods(name, 10)
    assert await world.deserved("one", "two", "seven") == ["1", "2", "7"]
    await world.consumer("seven", hard={"requests.cpu": "4"})
    assert await world.deserved("one", "two", "seven") == ["2", "4", "4"]
    await world.consumer("seven", hard=None)
    for number in range(9):
        await world.api.delete(builtin.PODS, f"1-1gi-{number}", "seven")
    await world.settle(GRACE + 5)
    assert await world.deserved("one", "two", "seven") == ["3", "6", "1"]


@played(scene, nodes=3)
async def test_an_allocation_names_no_node_even_where_it_names_victims(world: World) -> None:
    """S2-30."""
    await world.namespace("a", evictionGrace="1h")
    await world.namespace("b")
    await world.controller("a", "work", 30)
    await world.settle()
    await world.controller("b", "work", 30)
    await world.settle()
    assert (await world.status("a"))["proposal"]["victims"]
    nodes = [node.obj()["metadata"]["name"] for node in (await world.api.list(builtin.NODES)).items]
    texts = [str(allocation.obj()) for allocation in (await world.api.list(ALLOCATIONS)).items]
    assert [(name, text) for name in nodes for text in texts if name in text] == []


@played(scene, cpu="4", memory="4Gi")
async def test_a_pod_without_requests_counts_for_nothing_and_is_never_held_back_or_taken(world: World) -> None:
    """S2-31, and limits alone count as what they make of requests."""
    for name in ("a", "b"):
        await world.namespace(name)
    await world.pods("a", 4)
    container = {"name": "c", "image": "x"}
    for number in range(20):
        await world.pod("a", f"free-{number}", containers=[container])
    await world.settle()
    assert await world.running("a") == [24]
    assert (await world.status("a"))["used"]["requests.cpu"] == "4"
    await world.pod("b", "b", containers=[container | {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}])
    await world.settle(3 * GRACE)
    assert await world.running("a", "b") == [23, 1]
    (victim,) = world.evicted
    assert victim.startswith("a/1-1gi-")


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_of_equals_the_one_whose_name_comes_first_gets_the_pod_that_is_left(order: str) -> None:
    """S2-32: whoever came first."""

    async def act(world: World) -> None:
        (node,) = [node.obj()["metadata"]["name"] for node in (await world.api.list(builtin.NODES)).items]
        await world.api.patch(builtin.NODES, node, "", {"spec": {"unschedulable": True}})
        for name in order:
            await world.namespace(name)
            await world.pods(name, 5)
        await world.settle()
        await world.api.patch(builtin.NODES, node, "", {"spec": {"unschedulable": False}})
        await world.settle(6 * GRACE)
        assert await world.deserved("a", "b") == ["2500m", "2500m"]
        assert (await world.running("a", "b"), world.evicted) == ([3, 2], [])

    scene(act, cpu="5")


@played(scene, nodes=2, cpu="4")
async def test_nobody_is_moved_to_make_one_large_gap_of_two_small_ones(world: World) -> None:
    """S2-43."""
    for name in ("a", "b"):
        await world.namespace(name)
    await world.pods("a", 2, cpu="1500m")
    await world.pods("b", 2, cpu="1500m")
    await world.settle()
    await world.pod("b", "large", cpu="2")
    await world.settle(10 * GRACE)
    waiting = [pod["metadata"]["name"] for pod in await world.of("b") if pod["status"]["phase"] == "Pending"]
    assert (waiting, world.evicted) == (["large"], [])


@played(scene)
async def test_a_quota_refuses_and_counts_as_without_an_arbitrator(world: World) -> None:
    """S2-49: pods that wait for their share are counted like others, and a refusal has its usual words."""
    await world.namespace("a", hard={"requests.cpu": "2"})
    hard = {"requests.cpu": "3", "pods": "5"}
    quota = {"metadata": {"name": "cap", "namespace": "a"}, "spec": {"hard": hard}}
    await world.api.create(builtin.RESOURCE_QUOTAS, quota, "a")
    await world.settle()
    await world.pods("a", 3)
    await world.settle()
    assert await world.running("a") == [2]
    with pytest.raises(Forbidden, match=r"exceeded quota: cap, requested: requests\.cpu=1, used: requests\.cpu=3, "):
        await world.pod("a", "fourth")
    status = (await world.api.get(builtin.RESOURCE_QUOTAS, "cap", "a")).obj()["status"]
    assert status["used"] == {"requests.cpu": "3", "pods": "3"}


@played(scene)
async def test_within_a_namespace_nobody_divides(world: World) -> None:
    """S2-50: users balance among their controllers, or give one a namespace of its own."""
    await world.namespace("a", hard={"requests.cpu": "4"})
    await world.controller("a", "first", 4)
    await world.settle()
    await world.controller("a", "second", 4)
    await world.settle(10 * GRACE)
    running = [pod["metadata"]["labels"]["app"] for pod in await world.of("a") if pod["status"]["phase"] == "Running"]
    assert (running, world.evicted) == (["first"] * 4, [])
    await world.scale("a", "first", 1)
    await world.settle(2 * GRACE)
    running = [pod["metadata"]["labels"]["app"] for pod in await world.of("a") if pod["status"]["phase"] == "Running"]
    assert sorted(running) == ["first", "second", "second", "second"]


@played(scene)
async def test_a_critical_addon_finds_its_place_in_a_cluster_that_is_lent_out(world: World) -> None:
    """S2-52: by priority and preemption at once, not by a rescheduler, and not after somebody's grace."""
    await world.namespace("a", evictionGrace="1h")
    await world.controller("a", "work", 20)
    await world.settle()
    assert await world.running("a") == [10]
    await world.pod("kube-system", "dns", priorityClassName="system-cluster-critical")
    await world.settle(GRACE + 15)
    assert await world.running("kube-system", "a") == [1, 9]
    await world.settle(20 * GRACE)
    assert await world.running("kube-system", "a") == [1, 9]
