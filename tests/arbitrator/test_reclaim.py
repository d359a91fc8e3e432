"""What is lent is taken back politely: with notice, by the Eviction API, and no more than is needed (SC-58, SC-59)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fairlead.api import builtin
from fairlead.arbitrator.objects import POLICIES
from fairlead.arbitrator.reclaim import MOST_TRIALS
from tests.arbitrator.world import World, scene
from tests.played import played

GRACE = 30


async def _two_consumers(world: World) -> None:
    """T1 and T2 of the documents: one has everything, then there is another."""
    await world.namespace("consumer-1")
    await world.controller("consumer-1", "a", 2)
    await world.settle()
    status = await world.status("consumer-1")
    assert status["deserved"] == {"requests.cpu": "2", "requests.memory": "2Gi"} | _storage(status["deserved"])
    assert await world.running("consumer-1") == [2]
    await world.namespace("consumer-2")
    await world.controller("consumer-2", "b", 1)
    await world.settle()
    assert await world.deserved("consumer-1", "consumer-2") == ["1", "1"]
    assert await world.condition("consumer-1", "Overused") == ("True", "UsesMoreThanDeserved")
    assert (await world.status("consumer-2"))["granted"]["requests.cpu"] == "0"
    assert await world.running("consumer-2") == [0]


def _storage(amounts: dict[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if name not in ("requests.cpu", "requests.memory")}


async def _is_t3(world: World) -> None:
    for name in ("consumer-1", "consumer-2"):
        status = await world.status(name)
        assert status["deserved"]["requests.cpu"] == status["used"]["requests.cpu"] == "1"
    assert await world.running("consumer-1", "consumer-2") == [1, 1]


@played(scene, cpu="2", memory="2Gi")
async def test_an_owner_who_makes_room_in_time_loses_nobody(world: World) -> None:
    """SC-58, branch A; S2-36, S2-38."""
    await _two_consumers(world)
    (event,) = await world.events("consumer-1", "Overused")
    assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "Allocation")
    await world.scale("consumer-1", "a", 1)
    await world.settle(3 * GRACE)
    await _is_t3(world)
    assert world.evicted == []


@played(scene, cpu="2", memory="2Gi")
async def test_otherwise_one_pod_is_evicted_when_the_grace_is_over(world: World) -> None:
    """SC-58, branch B; S2-36, S2-39."""
    await _two_consumers(world)
    (victim,) = (await world.status("consumer-1"))["proposal"]["victims"]
    await world.settle(GRACE - 15)
    assert world.evicted == []
    await world.settle(3 * GRACE)
    assert world.evicted == [f"consumer-1/{victim['name']}"]
    await _is_t3(world)
    (message,) = await world.why("consumer-1")
    assert "Allocation consumer-1" in message
    (event,) = await world.events("consumer-1", "Reclaimed")
    assert event["involvedObject"]["name"] == victim["name"]
    assert "consumer-2/b-" in event["message"]
    await world.settle(3600)
    assert len(world.evicted) == 1


@played(scene, cpu="2", memory="2Gi")
async def test_a_disruption_budget_is_never_broken(world: World) -> None:
    """SC-58; S2-40."""
    await world.namespace("consumer-1")
    await world.budget("consumer-1", "a", 2)
    await _two_consumers_later(world)
    await world.settle(10 * GRACE)
    assert world.evicted == []
    assert await world.condition("consumer-1", "ReclaimBlocked") == ("True", "DisruptionBudget")
    await world.api.delete(builtin.POD_DISRUPTION_BUDGETS, "a", "consumer-1")
    await world.settle(3 * GRACE)
    assert len(world.evicted) == 1
    assert await world.condition("consumer-1", "ReclaimBlocked") == ("False", "AsItShouldBe")
    await _is_t3(world)


async def _two_consumers_later(world: World) -> None:
    await world.controller("consumer-1", "a", 2)
    await world.settle()
    await world.namespace("consumer-2")
    await world.controller("consumer-2", "b", 1)
    await world.settle()


@played(scene, cpu="2", memory="2Gi")
async def test_nobody_is_brought_below_what_is_reserved(world: World) -> None:
    """SC-58; S2-41."""
    await world.namespace("consumer-1", reserved={"requests.cpu": "2"})
    await _two_consumers_later(world)
    await world.settle(10 * GRACE)
    assert world.evicted == []
    assert await world.deserved("consumer-1", "consumer-2") == ["2", "0"]
    assert await world.running("consumer-1", "consumer-2") == [2, 0]


@played(scene)
async def test_what_was_lent_comes_back_from_the_borrower_alone(world: World) -> None:
    """SC-59; S2-02, S2-03, S2-07, S2-42."""
    await world.namespace("app", weight=4)
    await world.namespace("bigdata", weight=6)
    await world.controller("bigdata", "b", 10)
    await world.settle()
    assert await world.running("bigdata") == [10]
    assert (await world.status("bigdata"))["borrowed"]["requests.cpu"] == "10"
    await world.controller("app", "a", 4)
    await world.settle(3 * GRACE)
    assert await world.running("app", "bigdata") == [4, 6]
    assert len(world.evicted) == 4
    assert all(name.startswith("bigdata/") for name in world.evicted)
    await world.settle(3600)
    assert len(world.evicted) == 4
    await world.scale("app", "a", 0)
    await world.settle(3 * GRACE)
    assert await world.running("bigdata") == [10]


@played(scene, cpu="12")
async def test_the_most_overused_give_first(world: World) -> None:
    """S2-42."""
    await world.api.create(POLICIES, {"metadata": {"name": "default"}, "spec": {"maxEvictionsPerCycle": 2}})
    for name, replicas in (("little", 4), ("much", 8)):
        await world.namespace(name)
        await world.controller(name, name, replicas)
    await world.settle()
    assert await world.running("little", "much") == [4, 8]
    await world.namespace("owner", weight=10)
    await world.controller("owner", "owner", 8)
    await world.settle(3 * GRACE)
    assert await world.running("little", "much", "owner") == [2, 2, 8]
    assert all(name.startswith("much/") for name in world.evicted[:4])


@played(scene)
async def test_a_bound_on_the_borrower_gives_room_to_the_other(world: World) -> None:
    """SC-59; S2-26."""
    await world.namespace("app", weight=4)
    await world.namespace("bigdata", weight=6, hard={"requests.cpu": "5"})
    await world.controller("bigdata", "b", 10)
    await world.controller("app", "a", 10)
    await world.settle(GRACE)
    assert await world.running("app", "bigdata") == [5, 5]
    assert world.evicted == []


@played(scene)
async def test_members_of_a_group_share_what_the_group_has(world: World) -> None:
    """SC-59; S2-04."""
    await world.group("bigdata", weight=6)
    await world.namespace("app", weight=4)
    await world.namespace("hadoop", parent="bigdata")
    await world.namespace("spark", parent="bigdata", weight=2)
    await world.controller("hadoop", "h", 10)
    await world.settle()
    assert await world.running("hadoop") == [10]
    await world.controller("spark", "s", 10)
    await world.settle(3 * GRACE)
    running = await world.running("hadoop", "spark")
    assert running == [3, 7] or running == [4, 6]
    await world.controller("app", "a", 10)
    await world.settle(3 * GRACE)
    assert await world.running("app", "hadoop", "spark") == [4, 2, 4]
    assert not any(name.startswith("app/") for name in world.evicted)
    before = list(world.evicted)
    await world.settle(3600)
    assert world.evicted == before


@played(scene)
async def test_the_system_is_given_what_it_asks_for_and_nothing_is_taken_from_it(world: World) -> None:
    """S2-28."""
    await world.namespace("a")
    await world.controller("a", "a", 10)
    await world.settle()
    await world.controller("kube-system", "k", 3)
    await world.settle(3 * GRACE)
    assert await world.running("kube-system", "a") == [3, 7]
    assert len(world.evicted) == 3
    assert all(name.startswith("a/") for name in world.evicted)


@played(scene)
async def test_no_more_than_the_cap_are_evicted_in_one_cycle(world: World) -> None:
    policy = {"metadata": {"name": "default"}, "spec": {"maxEvictionsPerCycle": 1, "cycle": "10s"}}
    await world.api.create(POLICIES, policy)
    await world.namespace("a")
    await world.controller("a", "a", 10)
    await world.settle(20)
    await world.namespace("b")
    await world.settle(20)
    await world.controller("b", "b", 3)
    counts = []
    for _ in range(20):
        await world.settle(10)
        counts.append(len(world.evicted))
    assert counts[-1] == 3
    assert all(later - sooner <= 1 for sooner, later in pairwise(counts))
    assert await world.running("a", "b") == [7, 3]


@played(scene)
async def test_pods_are_left_alone_until_they_have_run_for_long_enough(world: World) -> None:
    await world.namespace("a", minRuntime="10m", evictionGrace="0s")
    await world.controller("a", "a", 10)
    await world.settle()
    await world.namespace("b")
    await world.controller("b", "b", 2)
    await world.settle(9 * 60)
    assert world.evicted == []
    assert await world.condition("a", "ReclaimBlocked") == ("True", "MinRuntime")
    await world.settle(120)
    assert len(world.evicted) == 2
    assert await world.running("a", "b") == [8, 2]


@played(scene)
async def test_pods_of_daemon_sets_stay(world: World) -> None:
    await world.namespace("a")
    await world.daemons("a", "d", cpu="2")
    await world.settle()
    await world.controller("a", "a", 2, cpu="4")
    await world.settle()
    assert await world.running("a") == [3]
    await world.namespace("b", weight=5)
    await world.controller("b", "b", 8)
    await world.settle(3 * GRACE)
    assert await world.running("a", "b") == [1, 8]
    assert not any(name.startswith("a/d-") for name in world.evicted)


@played(scene, nodes=2)
async def test_nobody_goes_when_that_would_help_nobody(world: World) -> None:
    """A pod that fits on no node, however many go, is no reason to evict, and what it deserves is lent."""
    await world.namespace("a")
    await world.controller("a", "a", 20)
    await world.settle()
    await world.namespace("b", weight=2)
    await world.pods("b", 1, cpu="11")
    await world.settle(10 * GRACE)
    assert world.evicted == []
    assert await world.deserved("a", "b") == ["9", "11"]
    assert await world.condition("a", "ReclaimBlocked") == ("True", "NotHelpful")
    await world.scale("a", "a", 12)
    await world.scale("a", "a", 20)
    await world.settle(GRACE)
    assert await world.running("a") == [20]


@played(scene, nodes=2)
async def test_a_large_pod_is_given_room_on_one_node(world: World) -> None:
    """The youngest of the borrower's pods are on both nodes; five of each would not do."""
    await world.namespace("a")
    await world.controller("a", "a", 20)
    await world.settle()
    await world.namespace("b")
    await world.pods("b", 1, cpu="8")
    await world.settle(3 * GRACE)
    assert await world.running("a", "b") == [12, 1]
    assert len(world.evicted) == 8


@played(scene)
async def test_the_least_important_and_the_youngest_go_first(world: World) -> None:
    """S2-37."""
    await world.api.create(builtin.PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
    await world.namespace("a")
    for name, extra in (("high-old", {"priorityClassName": "high"}), ("old", {}), ("young", {})):
        await world.pod("a", name, cpu="3", **extra)
        await world.settle(60)
    await world.namespace("b")
    await world.pod("b", "b", cpu="3")
    await world.settle(3 * GRACE)
    assert world.evicted == ["a/young"]


@pytest.mark.slow
@played(scene)
async def test_of_many_sizes_that_fit_nowhere_all_are_looked_at_again(world: World) -> None:
    """In turns, a bounded number in each cycle; until then others use what they deserve."""
    await world.namespace("a")
    await world.namespace("b")
    await world.controller("b", "lender", 10)
    for number in range(MOST_TRIALS + 50):
        await world.pod("a", f"a-{number}", cpu=f"{1000 + number}m", memory="1Mi", nodeSelector={"pool": "later"})
    await world.settle(60)
    assert await world.running("a", "b") == [0, 10]
    node = (await world.api.list(builtin.NODES)).items[0].obj()["metadata"]["name"]
    await world.api.patch(builtin.NODES, node, "", {"metadata": {"labels": {"pool": "later"}}})
    await world.until(lambda: world.are_running(["a", "b"], [4, 5]), seconds=300)
