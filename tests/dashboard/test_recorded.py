"""What a dashboard tells of a kept run: its figures, and where its pods were at any time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.dashboard.recorded import RecordedRun, batches_of
from fairlead.dashboard.rows import Batch
from fairlead.sim.histories import LOST, Disruption, PodHistory
from fairlead.study.outcome import Outcome
from tests.dashboard.runs import BEGAN, HOUR, kept_run, troubled_run
from tests.dashboard.shown import Picture, events, on_source, visitor


def test_the_stream_has_the_chart_and_each_pod_where_it_ended() -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session:
            async with events(session, "after") as stream:
                assert [await anext(stream), await anext(stream)] == [
                    ("begin", {}),
                    (
                        "chart",
                        {
                            "began": BEGAN,
                            "ended": BEGAN + 2 * HOUR,
                            "lines": {"cpu requested": [0.5, 0.4]},
                            "marks": [[BEGAN + HOUR, "remove node node-1"]],
                            "findings": [],
                        },
                    ),
                ]
                picture = Picture(stream)
                rows = await picture.until(lambda rows: rows.get("shop/late", {}).get("node") == "node-2")
                assert rows["shop/web"]["phase"] == "Gone"
                assert (
                    rows["shop/web"]["note"] == "lost with its node by remove node node-1: PodGC: node no longer exists"
                )
                assert rows["team/large"] == {"key": "team/large", "phase": "Pending", "note": "3 Insufficient cpu."}
                assert {"node-1", "node-2"} <= rows.keys()
                assert picture.shares[0]["deserved"] == {"share": 500}
            async with events(session, "before") as stream:
                rows = await Picture(stream).until(lambda rows: rows.get("shop/late", {}).get("node") == "node-2")
                assert rows["shop/web"]["phase"] == "Running"

    on_source(test, RecordedRun(kept_run()))


def test_why_tells_the_story_of_the_variant() -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session:
            query = {"pod": "shop/web", "variant": "after"}
            async with session.get("/why", params=query) as answer:
                told = await answer.json()
            assert told["headline"].startswith("after: shop/web was placed on node-1 after 5s")
            assert any("lost with its node by remove node node-1" in line for line in told["story"])
            async with session.get("/why", params={"pod": "nowhere/web"}) as answer:
                assert answer.status == 404
                assert "no pod in namespace 'nowhere'" in await answer.text()

    on_source(test, RecordedRun(kept_run()))


def test_what_no_pod_shows_is_told_in_words() -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session, events(session, "after") as stream:
            await anext(stream)
            _, chart = await anext(stream)
            assert chart["findings"] == [
                [
                    "Not done at the end",
                    "01:00 drain node-1",
                    "shop/web cannot be evicted from node-1: The disruption budget web needs 1 healthy pod",
                ],
                ["Not there any more", "team/Deployment/etl  2 pods gone since 01:00, after: drain node-1"],
                ["3 pods fewer came than before", "shop/CronJob/night  1 instead of 4: exceeded quota: cap"],
            ]

    on_source(test, RecordedRun(troubled_run()))


def test_the_last_variant_is_shown_first() -> None:
    assert RecordedRun(kept_run()).about.variants == ["after", "before"]


def shown_at(batches: Sequence[Batch], at: float) -> dict[str, str]:
    """Where each pod is at that time, as a page would find out; "" while it waits."""
    places: dict[str, str] = {}
    for batch in batches:
        if batch.at <= at:
            places |= {row.key: row.node for row in batch.pods if row.phase != "Gone"}
            for key in (*batch.gone, *(row.key for row in batch.pods if row.phase == "Gone")):
                places.pop(key, None)
    return places


@st.composite
def histories(draw: st.DrawFn) -> list[PodHistory]:
    moments = st.integers(0, 50)
    found = []
    for number in range(draw(st.integers(0, 8))):
        created, bound, ended = sorted(draw(st.tuples(moments, moments, moments)))
        pod = PodHistory(f"ns/{number}", f"ns/{number}", str(number), 0, float(created))
        if draw(st.booleans()):
            pod.bound, pod.node = float(bound), f"node-{draw(st.integers(1, 3))}"
        if draw(st.booleans()):
            pod.ended = float(ended)
            if draw(st.booleans()):
                pod.disruptions = [Disruption(float(ended), LOST)]
        found.append(pod)
    return found


@given(histories(), st.integers(0, 60))
def test_at_every_time_each_pod_is_where_its_history_says(pods: list[PodHistory], at: int) -> None:
    batches = batches_of(Outcome("x", 0.0, 60.0, {"digest": ""}, pods, 0, 0, [], {}, 0))
    expected = {
        pod.pod: pod.node if pod.bound is not None and pod.bound <= at else ""
        for pod in pods
        if pod.created <= at and (pod.ended is None or pod.ended > at)
    }
    assert shown_at(batches, at) == expected
    assert [batch.at for batch in batches] == sorted(batch.at for batch in batches)


@pytest.mark.parametrize("name", ["", "no such variant"])
def test_a_variant_that_is_not_known_is_the_last_one(name: str) -> None:
    async def test(link: str) -> None:
        async with visitor(link) as session, events(session, name) as stream:
            rows = await Picture(stream).until(lambda rows: "shop/late" in rows)
            assert rows["shop/web"]["phase"] == "Gone"

    on_source(test, RecordedRun(kept_run()))
