"""A cluster in virtual time: what happens at once has happened, and a day passes in a moment."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas
import pytest

from fairlead.api.objects import Obj
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.simulation import VirtualCluster, run_virtual, virtual_cluster
from fairlead.testing import ApiError, ClusterStopped


def pod(name: str, cpu: str = "1", lifetime: int | None = None) -> Obj:
    container = {"name": "main", "image": "batch", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    annotations = {} if lifetime is None else {"sim.fairlead.dev/lifetime-seconds": str(lifetime)}
    metadata = {"name": name, "annotations": annotations}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def test_what_is_applied_has_its_node_at_once() -> None:
    async def main() -> None:
        async with virtual_cluster(nodes=1, node_cpu="2") as c:
            began = c.now
            await c.apply([pod("a"), pod("b"), pod("big")])
            assert c.now == began
            assert [row.name for row in c.pods().on("node-1")] == ["a", "b"]
            (waiting,) = c.pods().waiting()
            assert (waiting.name, waiting.reason) == ("big", "Unschedulable")
            assert "Insufficient cpu" in waiting.message
            await c.delete("pod/a", grace_period_seconds=0)
            await c.run_for("1m")
            assert c.pods().waiting().empty()

    run_virtual(main())


def test_what_is_deleted_takes_its_pods_with_it_as_with_kubectl() -> None:
    """The API alone would leave those of a Job."""

    async def main() -> None:
        async with virtual_cluster(nodes=1) as c:
            template = {key: pod("work", lifetime=3600)[key] for key in ("metadata", "spec")}
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
            await c.apply(job)
            assert len(c.pods().running()) == 1
            await c.delete("job/j")
            await c.run_for("1m")
            assert c.pods().empty()

    run_virtual(main())


def test_a_year_passes_in_a_moment_and_ends_when_it_was_said() -> None:
    async def main() -> None:
        async with virtual_cluster(nodes=1, start="2026-03-01T22:00:00Z") as c:
            await c.apply(pod("night", lifetime=3600))
            await c.run_until("06:00")
            assert c.now == datetime(2026, 3, 2, 6, tzinfo=UTC)
            (row,) = c.pods().succeeded()
            assert (row.node, row.cpu_milli, row.memory_bytes, row.waited_seconds) == ("node-1", 1000, 2**30, 0)
            await c.run_until("2027-03-01T00:00:00Z")
            assert c.now == datetime(2027, 3, 1, tzinfo=UTC)
            with pytest.raises(ValueError, match="has passed: it is 2027-03-01T00:00:00"):
                await c.run_until("2026-01-01T00:00:00Z")

    began = time.perf_counter()
    run_virtual(main())
    assert time.perf_counter() - began < 60


def test_waiting_takes_virtual_time() -> None:
    async def main() -> None:
        async with virtual_cluster(nodes=1) as c:
            await c.apply(pod("long", lifetime=7200))
            began = c.now
            done = await c.wait_for("pod/long", lambda pod: pod["status"]["phase"] == "Succeeded")
            assert 7200 <= (c.now - began).total_seconds() < 7210
            assert done["metadata"]["name"] == "long"
            with pytest.raises(TimeoutError, match="there is no such object"):
                await c.wait_for("pod/nobody", "Ready", timeout=86_400)
            assert (c.now - began).total_seconds() > 86_400

    run_virtual(main())


def test_time_passes_until_something_is_so() -> None:
    async def main() -> None:
        async with virtual_cluster(nodes=1, node_cpu="1") as c:
            began = c.now
            await c.apply([pod("first", lifetime=3600), pod("second", lifetime=3600)])
            await c.run_until(lambda: len(c.pods().succeeded()) == 2)
            assert 7200 <= (c.now - began).total_seconds() < 7210
            ends = c.now + timedelta(hours=2)
            with pytest.raises(TimeoutError, match="'nobody_comes' did not come to be within 7200 s"):
                await c.run_until(nobody_comes, timeout="2h")
            assert c.now == ends

    def nobody_comes() -> bool:
        return False

    run_virtual(main())


def test_a_controller_of_the_test_watches_and_writes() -> None:
    async def greet(c: VirtualCluster) -> None:
        async for event, each in c.watch("pods", labels="app=web"):
            if event == "ADDED":
                await asyncio.to_thread(time.sleep, 0.01)  # as a handler that blocks
                await c.patch(f"pod/{each['metadata']['name']}", {"metadata": {"labels": {"greeted": "yes"}}})

    async def main() -> None:
        async with virtual_cluster(nodes=1) as c:
            labelled = pod("before") | {"metadata": {"name": "before", "labels": {"app": "web"}}}
            await c.apply([labelled, pod("other")])
            controller = asyncio.create_task(greet(c))
            began = c.now
            await c.apply(labelled | {"metadata": {"name": "after", "labels": {"app": "web"}}})
            assert [each["metadata"]["name"] for each in await c.list("pods", labels="greeted")] == ["after", "before"]
            assert c.now == began
            controller.cancel()

    run_virtual(main())


def test_two_clusters_of_a_loop_have_one_time() -> None:
    async def main() -> None:
        async with virtual_cluster(nodes=0, start="2026-05-01T00:00:00Z") as first:
            with pytest.raises(ValueError, match=r"it is 2026-05-01T00:00:00.* begin at 2026-03-01"):
                async with virtual_cluster(nodes=0, start="2026-03-01T00:00:00Z"):
                    pass
            async with virtual_cluster(nodes=0) as second:
                assert second.now == first.now
        async with virtual_cluster(nodes=0, start="2026-03-01T00:00:00Z") as later:
            assert later.now.month == 3

    run_virtual(main())


def test_in_a_cluster_that_is_over_nothing_happens_and_it_says_so() -> None:
    async def main() -> None:
        async with virtual_cluster(nodes=1) as c:
            await c.apply(pod("a"))
        assert [row.name for row in c.pods()] == ["a"]
        assert (await c.get("pod/a"))["spec"]["nodeName"] == "node-1"
        for late in (c.apply(pod("b")), c.delete("pod/a"), c.run_for("1h"), c.wait_for("pod/a", "Ready")):
            with pytest.raises(ClusterStopped, match="after its block"):
                await late

    run_virtual(main())


def test_events_tell_what_happened() -> None:
    async def main() -> None:
        async with virtual_cluster(nodes=1) as c:
            await c.apply(pod("web"))
            scheduled = (await c.events(namespace="default")).of("Scheduled")
            assert [(event.object, event.count) for event in scheduled] == [("Pod/web", 1)]
            assert scheduled[0].at == c.now.timestamp()
            assert (await c.events(namespace="kube-system")).empty()

    run_virtual(main())


def test_a_dump_is_taken_up_when_it_was_made() -> None:
    dumped = pod("old") | {"status": {"startTime": "2026-05-01T12:00:00Z"}}

    async def main() -> None:
        async with virtual_cluster(imported=dumped) as c:
            assert c.now == datetime(2026, 5, 1, 12, tzinfo=UTC)
            assert [row.name for row in c.pods()] == ["old"]

    run_virtual(main())


def test_a_refusal_is_the_servers() -> None:
    async def main() -> None:
        async with virtual_cluster(nodes=0) as c:
            with pytest.raises(ApiError, match='namespaces "nowhere" not found'):
                await c.apply(pod("p"), namespace="nowhere")

    run_virtual(main())


def test_extenders_are_refused() -> None:
    config: Obj = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config |= {"extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]}

    async def main() -> None:
        async with virtual_cluster(scheduler_config=config):
            pass

    with pytest.raises(ValueError, match="extenders answer in real time"):
        run_virtual(main())


def test_equal_seeds_give_equal_runs_and_disturb_nobody() -> None:
    async def uids(seed: int) -> list[str]:
        async with virtual_cluster(nodes=2, seed=seed) as c:
            return [obj["metadata"]["uid"] for obj in await c.apply([pod("a"), pod("b")])]

    async def main(seed: int) -> tuple[list[str], str]:
        return await uids(seed), rng.uid()

    (first, free), (second, free_again) = run_virtual(main(7)), run_virtual(main(7))
    assert first == second
    assert free != free_again
    assert run_virtual(main(8))[0] != first


def test_rows_are_a_list_and_a_data_frame() -> None:
    async def main() -> Any:
        async with virtual_cluster(nodes=1, node_cpu="2") as c:
            await c.apply([pod("a"), pod("b"), pod("c")])
            assert isinstance(c.pods(), list)
            return c.pods().to_frame(), c.pods(namespace="nowhere").to_frame(), c.pods().where(lambda p: p.name > "a")

    frame, nothing, later = run_virtual(main())
    assert isinstance(frame, pandas.DataFrame)
    assert frame.set_index("name").node.to_dict() == {"a": "node-1", "b": "node-1", "c": ""}
    assert frame.cpu_milli.sum() == 3000
    assert list(nothing.columns) == list(frame.columns)
    assert [row.name for row in later] == ["b", "c"]


def test_without_pandas_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)

    async def main() -> None:
        async with virtual_cluster(nodes=0) as c:
            with pytest.raises(ImportError, match=r"pip install 'fairlead\[frames\]'"):
                c.pods().to_frame()

    run_virtual(main())


@pytest.mark.parametrize("imported", [[], [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}]])
def test_of_a_cluster_nothing_is_left_once_the_next_has_begun(imported: list[Obj]) -> None:
    """Thousands of them are made in one process by those who test an operator."""
    seen = list[weakref.ref[object]]()

    async def main() -> None:
        async with simulation(Settings(imported=tuple(imported))) as (api, _):
            seen.append(weakref.ref(api.registry))
            await asyncio.sleep(60)

    run_virtual(main())
    run_virtual(main())
    gc.collect()
    assert [ref() for ref in seen] == [None, None]
