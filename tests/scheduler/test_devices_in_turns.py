"""Devices are looked for in turns of the event loop, and what changes meanwhile counts (the 200 ms of a turn)."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.runtime import loops, turns
from fairlead.scheduler.configuration import load
from fairlead.scheduler.decide import Chosen, Unfit
from fairlead.scheduler.scheduling_request import SchedulingRequest
from tests.scheduler.devices_world import (
    asked,
    claim,
    claim_obj,
    class_obj,
    named_claims,
    of_class,
    published,
    slice_obj,
)
from tests.scheduler.scheduler_world import Cluster, node, pod
from tests.turns import counting_turns

NODES = [f"n{number}" for number in range(8)]
TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
#: Takes some 300,000 units, a third of what one evaluation may.
COSTLY = f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, a + b + c + d >= 0))))"


def world(*expressions: str, filter_timeout: str = "10s") -> Cluster:
    """Nodes with one device each, and a claim for one that the expressions mean."""
    config = {"name": "DynamicResources", "args": {"filterTimeout": filter_timeout}}
    profile = load({"profiles": [{"pluginConfig": [config]}]}).profiles[0]
    cluster = Cluster(*(node(name) for name in NODES), profile=profile)
    offers, claims = cluster.snapshot.device_offers, cluster.snapshot.device_claims
    offers.set_class(None, of_class(class_obj()))
    for name in NODES:
        offers.set_slice(None, published(slice_obj(name, "d0", node=name)))
    claims.set(None, claim(claim_obj("c", asked("gpu", 1, *expressions))))
    return cluster


def request(cluster: Cluster) -> SchedulingRequest:
    return cluster.request(pod("w", resourceClaims=named_claims("c")))


async def looked(cluster: Cluster, wanted: SchedulingRequest) -> None:
    for plugin in cluster.runtime.profile.lookers:
        await plugin.look_in_turns(wanted.requirements, cluster.snapshot)


def test_others_have_turns_between_nodes_and_the_choice_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)
    cluster = world("device.driver != ''")
    wanted = request(cluster)

    async def story() -> int:
        _, count = await counting_turns(looked(cluster, wanted))
        return count

    assert loops.run(story()) >= len(NODES)
    assert cluster.decider.best(wanted).tolist() == world().decider.best(wanted).tolist()


def test_a_selector_that_takes_long_does_not_hold_the_loop() -> None:
    cluster = world(COSTLY)

    async def story() -> int:
        _, count = await counting_turns(looked(cluster, request(cluster)))
        return count

    assert loops.run(story()) > 0


def test_what_changes_meanwhile_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device is taken and a node goes after both were looked at, or before."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)

    async def story(turns_before: int) -> None:
        cluster = world("device.driver != ''")
        wanted = request(cluster)
        looking = asyncio.create_task(looked(cluster, wanted))
        for _ in range(turns_before):
            await asyncio.sleep(0)
        results = [{"request": "r0", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}]
        other = claim_obj("other") | {"status": {"allocation": {"devices": {"results": results}}}}
        cluster.snapshot.device_claims.set(None, claim(other))
        cluster.snapshot.remove_node("n2")
        await looking
        decision = cluster.decider.best(wanted).tolist()
        names = {cluster.snapshot.names[row] for row in decision}
        assert names == set(NODES) - {"n1", "n2"}

    for turns_before in (1, 4, 20):
        loops.run(story(turns_before))


def test_no_node_takes_longer_than_the_filter_timeout() -> None:
    cluster = world("device.driver != ''", filter_timeout="1ns")
    wanted = request(cluster)
    loops.run(looked(cluster, wanted))
    decision = cluster.decider.decide(wanted)
    assert isinstance(decision, Unfit)
    assert decision.found.reasons == {"timed out trying to allocate devices": len(NODES)}
    without_one = world("device.driver != ''", filter_timeout="0s")
    loops.run(looked(without_one, wanted))
    assert isinstance(without_one.decider.decide(wanted), Chosen)
