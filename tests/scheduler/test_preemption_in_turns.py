"""What takes long lets others have turns, and what they change meanwhile counts (the 200 ms of a turn of the loop)."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.runtime import loops, turns
from fairlead.scheduler.candidate_search import CandidateSearch
from fairlead.scheduler.framework import Nominate, NoRoom
from fairlead.scheduler.plugins.default_preemption import EnoughCandidates
from fairlead.scheduler.preemption import Preemptor
from tests.scheduler.preemption_world import names_of
from tests.scheduler.scheduler_world import Cluster, node, pod

NODES = [f"n{number}" for number in range(8)]
PORT = 80


@pytest.fixture(autouse=True)
def a_turn_per_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)


def full(*, ports: list[int]) -> Cluster:
    """Every node has one pod that takes all of it, the later the less important."""
    cluster = Cluster(*(node(name) for name in NODES))
    for number, name in enumerate(NODES):
        cluster.place(pod(f"on-{name}", cpu=4, priority=-number, ports=ports), name)
    return cluster


def begun(cluster: Cluster, *, ports: list[int]) -> tuple[Preemptor, CandidateSearch]:
    newcomer = pod(priority=5, cpu=1, ports=ports)
    request = cluster.request(newcomer)
    found, preemptor = cluster.decider.diagnose(request), cluster.runtime.preemptor
    search = preemptor.search(newcomer, request, found, EnoughCandidates())
    assert isinstance(search, CandidateSearch)
    return preemptor, search


@pytest.mark.parametrize("ports", [[], [PORT]], ids=["by arithmetic", "by asking"])
def test_others_have_turns_and_the_choice_is_the_same(ports: list[int]) -> None:
    async def story() -> int:
        preemptor, search = begun(full(ports=ports), ports=ports)
        searching, count = asyncio.create_task(search.run()), 0
        while not searching.done():
            count += 1
            await asyncio.sleep(0)
        outcome = preemptor.outcome(search)
        assert isinstance(outcome, Nominate)
        assert (outcome.node, names_of(outcome)) == ("n7", {"on-n7"})
        return count

    assert loops.run(story()) >= len(NODES)


@pytest.mark.parametrize("ports", [[], [PORT]], ids=["by arithmetic", "by asking"])
@pytest.mark.parametrize("turns_before", [1, 5])
def test_a_node_where_something_changes_meanwhile_is_no_candidate(ports: list[int], turns_before: int) -> None:
    """Whether it was looked at before or not; nor is one that is gone."""

    async def story() -> None:
        cluster = full(ports=ports)
        preemptor, search = begun(cluster, ports=ports)
        searching = asyncio.create_task(search.run())
        for _ in range(turns_before):
            await asyncio.sleep(0)
        cluster.snapshot.remove("default/on-n7")
        cluster.snapshot.remove_node("n6")
        cluster.place(pod("another", cpu=0), "n5")
        await searching
        outcome = preemptor.outcome(search)
        assert isinstance(outcome, Nominate)
        assert (outcome.node, names_of(outcome)) == ("n4", {"on-n4"})

    loops.run(story())


def test_if_all_candidates_change_the_pod_is_tried_again() -> None:
    async def story() -> None:
        cluster = full(ports=[])
        preemptor, search = begun(cluster, ports=[])
        searching = asyncio.create_task(search.run())
        await asyncio.sleep(0)
        for name in NODES:
            cluster.place(pod(f"another-on-{name}", cpu=0), name)
        await searching
        outcome = preemptor.outcome(search)
        assert isinstance(outcome, NoRoom)
        assert outcome.is_overtaken

    loops.run(story())


def test_in_virtual_time_nothing_happens_in_between() -> None:
    """Or a run would depend on how fast the machine is."""

    async def story() -> None:
        preemptor, search = begun(full(ports=[PORT]), ports=[PORT])
        searching = asyncio.create_task(search.run())
        await asyncio.sleep(0)
        assert searching.done()
        assert isinstance(preemptor.outcome(search), Nominate)

    loops.run_virtual(story())
