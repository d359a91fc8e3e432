"""The arbitrator over the real api, in virtual time: what it publishes when consumers come, ask and go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.errors import Forbidden, NotFound
from fairlead.api.verbs import DeleteOptions
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.definitions import definitions
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.objects import ALLOCATIONS, CONSUMER_GROUPS, CONSUMERS, POLICIES, THE_NAME
from fairlead.arbitrator_wiring.component import ArbitratorComponent
from fairlead.client.informer import Informers
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from tests.arbitrator.wire import Call, Wire, api_of
from tests.arbitrator.world import World, scene
from tests.played import played

ADVICE = "deploy/arbitrator/crds.yaml has it"


@played(scene)
async def test_every_namespace_gets_a_consumer_without_bounds_and_the_system_gets_what_it_asks_for(
    world: World,
) -> None:
    """S2-17, S2-28."""
    await world.namespace("a")
    spec = (await world.api.get(CONSUMERS, THE_NAME, "a")).obj()["spec"]
    assert (spec["weight"], spec["reservedPolicy"], spec.get("hard"), spec.get("reserved")) == (
        1,
        "Lend",
        None,
        None,
    )
    assert (await world.api.get(CONSUMERS, THE_NAME, "kube-system")).obj()["spec"]["unlimited"] is True
    await world.pods("kube-system", 3)
    await world.pods("a", 10)
    assert await world.deserved("kube-system", "a") == ["3", "7"]


@played(scene, cpu="2", memory="2Gi")
async def test_t1_to_t2_of_the_documents(world: World) -> None:
    """S2-34, S2-35: what is deserved changes at once, what is granted only when it is free."""
    await world.namespace("consumer-1")
    await world.pods("consumer-1", 2)
    await world.settle()
    first = await world.status("consumer-1")
    assert first["deserved"]["requests.cpu"] == first["used"]["requests.cpu"] == "2"
    assert first["deserved"]["requests.memory"] == "2Gi"
    await world.namespace("consumer-2")
    await world.pods("consumer-2", 2)
    await world.settle()
    first, second = await world.status("consumer-1"), await world.status("consumer-2")
    assert (first["deserved"]["requests.cpu"], second["deserved"]["requests.cpu"]) == ("1", "1")
    assert (second["granted"]["requests.cpu"], second["used"].get("requests.cpu")) == ("0", None)
    assert first["overusedSince"] and not second.get("overusedSince")
    await world.api.delete(builtin.PODS, "1-1gi-0", "consumer-1", DeleteOptions(grace_period_seconds=0))
    await world.settle()
    first, second = await world.status("consumer-1"), await world.status("consumer-2")
    assert (first["used"]["requests.cpu"], second["used"]["requests.cpu"], second["granted"]["requests.cpu"]) == (
        "1",
        "1",
        "1",
    )
    assert not first.get("overusedSince")


@played(scene)
async def test_weights_bounds_and_guarantees(world: World) -> None:
    """SC-59."""
    await world.namespace("app", weight=4)
    await world.namespace("bigdata", weight=6)
    await world.pods("bigdata", 10)
    assert await world.deserved("app", "bigdata") == ["0", "10"]
    await world.pods("app", 10)
    assert await world.deserved("app", "bigdata") == ["4", "6"]
    await world.consumer("bigdata", hard={"requests.cpu": "5"})
    assert await world.deserved("app", "bigdata") == ["5", "5"]
    await world.consumer("bigdata", hard=None, weight=9)
    await world.consumer("app", reserved={"requests.cpu": 3}, weight=1)
    assert await world.deserved("app", "bigdata") == ["3", "7"]
    await world.consumer("app", reserved={"requests.cpu": None, "cpu": "50%"})
    assert await world.deserved("app", "bigdata") == ["5", "5"]


@played(scene)
async def test_groups_share_first_and_their_members_share_that(world: World) -> None:
    """S2-02, S2-04."""
    await world.group("bigdata", weight=6)
    await world.namespace("app", weight=4)
    await world.namespace("hadoop", parent="bigdata")
    await world.namespace("spark", parent="bigdata", weight=2)
    for name in ("app", "hadoop", "spark"):
        await world.pods(name, 10)
    assert await world.deserved("app", "hadoop", "spark") == ["4", "2", "4"]


@played(scene, cpu="9", memory="18Gi")
async def test_drf_of_two_namespaces(world: World) -> None:
    """S2-23, the example of the paper."""
    await world.namespace("m")
    await world.namespace("c")
    await world.pods("m", 9, memory="4Gi")
    await world.pods("c", 9, cpu="3")
    assert await world.deserved("m", "c") == ["3", "6"]
    assert await world.deserved("m", "c", resource="requests.memory") == ["12Gi", "2Gi"]
    assert [(await world.status(namespace))["dominantShare"] for namespace in ("m", "c")] == ["0.6667", "0.6667"]


@played(scene)
async def test_the_share_of_the_cluster_is_exact_whatever_the_weight(world: World) -> None:
    """A weight of a thousand millions leaves nothing of the share by weight but zeros."""
    await world.namespace("a", weight=10**9)
    await world.namespace("b", weight=0)
    await world.pods("a", 10)
    await world.pods("b", 10)
    assert await world.deserved("a", "b") == ["10", "0"]
    assert [(await world.status(namespace))["clusterShare"] for namespace in ("a", "b")] == ["1.0000", "0.0000"]


@played(scene, nodes=2)
async def test_guarantees_beyond_the_cluster_are_cut_in_proportion_and_say_so(world: World) -> None:
    """S2-27."""
    for name, reserved in (("a", "8"), ("b", "12")):
        await world.namespace(name, reserved={"requests.cpu": reserved})
        await world.pods(name, 20)
    node = (await world.api.list(builtin.NODES)).items[0].obj()["metadata"]["name"]
    await world.api.patch(builtin.NODES, node, "", {"spec": {"unschedulable": True}})
    assert await world.deserved("a", "b") == ["4", "6"]
    assert await world.condition("a", "ReservedUnsatisfiable") == ("True", "NotEnough")


@played(scene, nodes=2)
async def test_cordoned_nodes_are_not_divided_and_an_idle_cycle_writes_nothing(world: World) -> None:
    await world.namespace("a")
    await world.pods("a", 30)
    assert await world.deserved("a") == ["20"]
    nodes = (await world.api.list(builtin.NODES)).items
    name = nodes[0].obj()["metadata"]["name"]
    await world.api.patch(builtin.NODES, name, "", {"spec": {"unschedulable": True}})
    assert await world.deserved("a") == ["10"]
    before = (await world.api.list(ALLOCATIONS)).items[0].obj()["metadata"]["resourceVersion"]
    await asyncio.sleep(600)
    assert (await world.api.list(ALLOCATIONS)).items[0].obj()["metadata"]["resourceVersion"] == before


@played(scene)
async def test_a_namespace_that_goes_takes_its_share_along(world: World) -> None:
    for name in ("a", "b"):
        await world.namespace(name)
        await world.pods(name, 10)
    assert await world.deserved("a", "b") == ["5", "5"]
    await world.api.delete(builtin.NAMESPACES, "b")
    await asyncio.sleep(120)
    assert await world.deserved("a") == ["10"]
    with pytest.raises(NotFound):
        await world.status("b")


@played(scene)
async def test_an_allocation_that_is_edited_or_deleted_is_put_right_within_a_cycle(world: World) -> None:
    """S2-18: where nothing refuses it; and so is the status of a group."""
    await world.group("zone")
    await world.namespace("a", parent="zone")
    await world.pods("a", 3)
    await world.settle()
    right = (await world.api.get(ALLOCATIONS, THE_NAME, "a")).obj()
    wrong: dict[str, Any] = {"deserved": {"requests.cpu": "99"}}
    for patch, subresource in (({"spec": wrong}, ""), ({"status": wrong}, "status"), ({"status": None}, "status")):
        await world.api.patch(ALLOCATIONS, THE_NAME, "a", patch, subresource=subresource)
        await asyncio.sleep(1.5)
        found = (await world.api.get(ALLOCATIONS, THE_NAME, "a")).obj()
        assert (found["spec"], found["status"]) == (right["spec"], right["status"])
    await world.api.delete(ALLOCATIONS, THE_NAME, "a")
    await asyncio.sleep(1.5)
    assert (await world.status("a"))["deserved"] == right["status"]["deserved"]
    group = (await world.api.get(CONSUMER_GROUPS, "zone")).obj()
    await world.api.patch(CONSUMER_GROUPS, "zone", "", {"status": wrong}, subresource="status")
    await asyncio.sleep(1.5)
    assert (await world.api.get(CONSUMER_GROUPS, "zone")).obj()["status"] == group["status"]
    await world.api.delete(CONSUMER_GROUPS, "zone")
    await world.group("zone")
    await asyncio.sleep(1.5)
    assert (await world.api.get(CONSUMER_GROUPS, "zone")).obj()["status"] == group["status"]


@played(scene)
async def test_a_new_namespace_has_its_consumer_and_its_allocation_within_a_cycle(world: World) -> None:
    """S2-17, S2-24: but not before what follows in a manifest."""
    for number in range(10):
        await asyncio.sleep(0.13)
        name = f"n{number}"
        await world.api.create(builtin.NAMESPACES, {"metadata": {"name": name}})
        await asyncio.sleep(0.2)
        with pytest.raises(NotFound):
            await world.api.get(CONSUMERS, THE_NAME, name)
        await asyncio.sleep(1.2)
        await world.api.get(CONSUMERS, THE_NAME, name)
        await world.status(name)


def test_kinds_that_exist_are_not_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """Where the arbitrator may not install them itself."""

    def ask(call: Call) -> None:
        if (call.verb, call.resource) == ("create", "customresourcedefinitions"):
            raise Forbidden("no rule allows it")

    async def play() -> None:
        async with simulation(Settings()) as (direct, _):
            wire = Wire(direct)
            wire.before = ask
            api = api_of(wire)
            informers = Informers(api)
            working = [informers.run(), ArbitratorComponent(api, informers, GrantTable(Accounting())).run()]
            tasks = [asyncio.create_task(job) for job in working]
            await asyncio.sleep(5)
            advice = [record.getMessage() for record in caplog.records if "may not install" in record.getMessage()]
            assert advice == ["may not install consumers.kube-arbitrator.incubator.k8s.io: " + ADVICE]
            caplog.clear()
            for definition in definitions():
                await direct.create(builtin.CUSTOM_RESOURCE_DEFINITIONS, definition)
            await asyncio.sleep(5)
            assert not [record for record in caplog.records if "may not install" in record.getMessage()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(play())


@played(scene)
async def test_the_policy_may_serve_guarantees_first_and_divide_the_rest(world: World) -> None:
    await world.namespace("a", reserved={"requests.cpu": "6"})
    await world.namespace("b")
    await world.pods("a", 10)
    await world.pods("b", 10)
    assert await world.deserved("a", "b") == ["6", "4"]
    await world.api.create(POLICIES, {"metadata": {"name": "default"}, "spec": {"surplusMode": "Surplus"}})
    assert await world.deserved("a", "b") == ["8", "2"]
