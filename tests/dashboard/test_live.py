"""What a dashboard tells of a live cluster."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from fairlead.api.builtin import CONFIG_MAPS, NODES, PODS, SECRETS
from fairlead.api.encoded import Encoded
from fairlead.api.errors import Forbidden
from fairlead.api.nodes import Node
from fairlead.api.users import DASHBOARD_USER
from fairlead.api.verbs import DeleteOptions, PatchType
from fairlead.dashboard.live import LiveCluster
from fairlead.dashboard.rows import Batch, has_moved
from fairlead.runtime import turns
from tests.dashboard.shown import Picture, Shown, events, on_dashboard, visitor
from tests.test_what_comes_and_goes import largest_kept
from tests.turns import counting_turns

#: The pods whose rows are to be made anew when somebody looks.
_STALE = "fairlead.dashboard.live.LiveCluster._stale_pods"


def test_first_what_is_there_then_what_changes_and_what_goes() -> None:
    async def test(shown: Shown) -> None:
        await shown.create("first", cpu="250m")
        async with visitor(shown.link) as session, events(session) as stream:
            picture = Picture(stream)
            rows = await picture.until(lambda rows: rows.get("default/first", {}).get("phase") == "Running")
            await picture.until(lambda rows: {"node-1", "node-2", "node-3"} <= rows.keys())
            assert {name: rows["node-1"][name] for name in ("cpu", "pods")} == {"cpu": 4000, "pods": 110}
            first = rows["default/first"]
            assert (first["qos"], first["cpu"], first["node"][:5]) == ("Burstable", 250, "node-")
            await shown.create("second")
            await picture.until(lambda rows: "default/second" in rows)
            await shown.cluster.api.delete(PODS, "first", "default")
            await picture.until(lambda rows: "default/first" not in rows)

    on_dashboard(test)


def test_a_cordoned_node_and_the_reason_of_a_pod_that_waits_are_told() -> None:
    async def test(shown: Shown) -> None:
        await shown.create("large", cpu="64")
        async with visitor(shown.link) as session, events(session) as stream:
            picture = Picture(stream)
            await picture.until(lambda rows: "Insufficient cpu" in rows.get("default/large", {}).get("note", ""))
            cordon = {"spec": {"unschedulable": True}}
            await shown.cluster.api.patch(NODES, "node-1", "", cordon, PatchType.MERGE)
            await picture.until(lambda rows: rows["node-1"].get("open") is False)

    on_dashboard(test)


def test_why_is_what_fairlead_why_tells() -> None:
    async def test(shown: Shown) -> None:
        await shown.create("large", cpu="64")
        async with visitor(shown.link) as session, session.get("/why", params={"pod": "default/large"}) as answer:
            told = await answer.json()
        assert told["headline"].startswith("default/large waits: 0/3 nodes are available: 3 Insufficient cpu.")
        (group,) = told["groups"]
        assert (group["plugin"], group["count"]) == ("NodeResourcesFit", 3)
        assert group["helps"].startswith("cpu: wants 64")
        async with visitor(shown.link) as session, session.get("/why", params={"pod": "default/none"}) as answer:
            assert answer.status == 404

    on_dashboard(test)


def test_shares_are_told_where_an_arbitrator_divides_the_cluster() -> None:
    async def test(shown: Shown) -> None:
        await shown.create("web", cpu="500m")
        async with visitor(shown.link) as session, events(session) as stream:
            picture = Picture(stream)

            def is_divided(_: object) -> bool:
                return any(row["used"].get("cpu") == 500 for row in picture.shares)

            await picture.until(is_divided)
            share = next(row for row in picture.shares if row["namespace"] == "default")
            assert share["deserved"]["cpu"] == 500

    on_dashboard(test, arbitrator=True)


def test_whoever_comes_late_or_again_is_told_everything() -> None:
    async def test(shown: Shown) -> None:
        for number in range(5):
            await shown.create(f"pod-{number}")
        async with visitor(shown.link) as session:
            for _ in range(2):
                async with events(session) as stream:
                    await Picture(stream).until(lambda rows: len(rows) == 8)

    on_dashboard(test)


def test_a_page_that_does_not_read_gets_the_latest_state_once() -> None:
    async def test(shown: Shown) -> None:
        await shown.create("web")
        source = LiveCluster(shown.cluster.registry.as_user(DASHBOARD_USER), "test")
        showing = asyncio.create_task(source.run())
        async with aclosing(source.batches("")) as batches:
            while not (batch := await anext(batches)) or not isinstance(batch, Batch) or not batch.is_whole:
                pass
            for number in range(1, 51):
                changed = {"status": {"message": f"message {number}"}}
                await shown.cluster.api.patch(PODS, "web", "default", changed, PatchType.MERGE, subresource="status")
                await asyncio.sleep(0.01)
            notes: list[str] = []
            async for batch in batches:
                notes += [row.note for row in batch.pods if row.note] if isinstance(batch, Batch) else []
                if notes and notes[-1] == "message 50":
                    break
        assert len(notes) <= 2  # the last of before the first tick, perhaps, and the last of all
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)

    on_dashboard(test)


def test_pods_that_come_and_go_while_nobody_looks_are_not_remembered() -> None:
    async def test(shown: Shown) -> None:
        for number in range(30):
            await shown.create(f"pod-{number}")
        while largest_kept()[_STALE] < 30:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)
        for number in range(30):
            await shown.cluster.api.delete(PODS, f"pod-{number}", "default", DeleteOptions(grace_period_seconds=0))
        while shown.cluster.count("pods"):  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert largest_kept()[_STALE] < 10

    on_dashboard(test)


def test_rows_are_made_in_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five hundred at a time, of which each may have three thousand containers."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)

    async def test(shown: Shown) -> None:
        for number in range(50):
            await shown.create(f"pod-{number}")
        source = LiveCluster(shown.cluster.registry.as_user(DASHBOARD_USER), "test")
        showing = asyncio.create_task(source.run())
        await asyncio.sleep(1)
        async with aclosing(source.batches("")) as batches:
            _, others = await counting_turns(anext(batches))
        assert others > 50
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)

    on_dashboard(test)


def test_what_is_used_is_told_when_it_has_moved_by_a_hundredth_of_the_node() -> None:
    node = Encoded(b'{"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"4","memory":"16Gi"}}}').view(Node)
    idle = {"cpu": "100m", "memory": "1Gi"}
    assert not has_moved(node, None, None)
    assert has_moved(node, None, idle)
    assert has_moved(node, idle, None)
    assert not has_moved(node, idle, {"cpu": "139m", "memory": "1Gi"})
    assert has_moved(node, idle, {"cpu": "140m", "memory": "1Gi"})
    assert has_moved(node, idle, {"cpu": "100m", "memory": "800Mi"})


def test_the_dashboard_may_read_what_it_shows_and_nothing_else() -> None:
    async def test(shown: Shown) -> None:
        await shown.create("web")
        api = shown.cluster.registry.as_user(DASHBOARD_USER)
        for secretive in (SECRETS, CONFIG_MAPS):
            with pytest.raises(Forbidden):
                await api.list(secretive)
        with pytest.raises(Forbidden):
            await api.delete(PODS, "web", "default")
        with pytest.raises(Forbidden):
            await api.patch(NODES, "node-1", "", {"spec": {"unschedulable": True}}, PatchType.MERGE)

    on_dashboard(test)
