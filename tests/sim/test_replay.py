"""A workload replayed in virtual time through the real server, scheduler, controllers and nodes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fairlead.api.objects import Obj
from fairlead.compose import Settings
from fairlead.sim.behaviour import LIFETIME_SECONDS
from fairlead.sim.durations import seconds_of
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.sim.openb import Arrival, read_nodes, read_pods
from tests.conftest import SHARED
from tests.studies import summary_of

TRACE = SHARED / "data" / "openb"


def simulated(nodes: int, arrivals: list[Arrival], limit: float | None = None, seed: int = 1) -> Obj:
    return summary_of(Settings(nodes=tuple(uniform(nodes, NodeShape("2", "4Gi")))), arrivals, limit, seed)


def job(name: str, at: float, lifetime: float, cpu: str = "1") -> Arrival:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "annotations": {LIFETIME_SECONDS: str(lifetime)}}
    return Arrival(at, {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}})


def test_pods_wait_for_room_and_everything_ends() -> None:
    summary = simulated(1, [job(f"p{number}", 0, 3600) for number in range(5)])
    assert (summary["placed"], summary["succeeded"], summary["waiting"]) == (5, 5, 0)
    longest = summary["longestWaits"][0]["seconds"]
    assert 7200 <= longest < 7230, "two hours for the third pair, and a back-off of ten seconds at most each time"
    assert summary["utilisation"]["cpu"]["peak"] == 1.0


def test_a_pod_that_fits_nowhere_waits_to_the_end() -> None:
    summary = simulated(2, [job("big", 0, 60, cpu="3"), job("small", 10, 60)])
    assert (summary["placed"], summary["waiting"]) == (1, 1)
    assert summary["longestWaits"][0]["pod"] == "default/big"


def test_a_week_passes_in_a_moment() -> None:
    began = time.perf_counter()
    summary = simulated(2, [job(f"d{day}", day * 86400, 3600) for day in range(7)])
    assert summary["seconds"] > 6 * 86400
    assert summary["succeeded"] == 7
    assert time.perf_counter() - began < 60


def test_a_run_stops_at_its_limit() -> None:
    summary = simulated(1, [job("p", 0, 10_000)], limit=600)
    assert summary["seconds"] == pytest.approx(600, abs=1)
    assert summary["succeeded"] == 0


def test_equal_seeds_give_equal_runs() -> None:
    arrivals = [job(f"p{number}", number % 7, 60 + number) for number in range(40)]
    assert simulated(4, arrivals)["digest"] == simulated(4, arrivals)["digest"]


@pytest.mark.parametrize("image", ["i", "nowhere.invalid/i"])
def test_a_run_is_over_when_a_pod_can_only_go_round_and_round(image: str, caplog: pytest.LogCaptureFixture) -> None:
    """A pod that crashes for ever, or asks for an image for ever: everything that it does, it has done."""
    crashing = job("p", 0, 1)
    crashing.obj["metadata"]["annotations"]["sim.fairlead.dev/exit-code"] = "1"
    crashing.obj["spec"]["restartPolicy"] = "Always"
    crashing.obj["spec"]["containers"][0]["image"] = image
    summary = simulated(1, [crashing])
    assert (summary["placed"], summary["succeeded"], summary["failed"]) == (1, 0, 0)
    assert summary["seconds"] < 3600
    assert simulated(1, [crashing])["digest"] == summary["digest"]
    assert not caplog.messages


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("90", 90), ("1d12h", 129600), ("15m", 900)])
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.slow
@pytest.mark.trace
@pytest.mark.skipif(not TRACE.exists(), reason="../shared/data/openb is not here")
def test_the_production_trace_replays_with_the_same_digest_every_time() -> None:
    def run() -> Obj:
        settings = Settings(nodes=tuple(read_nodes(Path(TRACE, "openb_node_list_all_node.csv"))))
        arrivals = read_pods(Path(TRACE, "openb_pod_list_default.csv"))[:1500]
        return summary_of(settings, arrivals)

    first, second = run(), run()
    assert first["placed"] == 1500
    assert first["digest"] == second["digest"]
