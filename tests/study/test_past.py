"""What came to a cluster before its dump comes again: by its Events, Jobs and pods."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.cli.main import main
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.clock import now, parse_timestamp, stopwatch, timestamp
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.study.past.arrivals import Past, arrivals_of_past
from fairlead.study.past.made import stem
from tests.study.clusters import namespace, node, running

TAKEN = parse_timestamp("2026-03-01T12:00:00Z")
HOUR = 3600.0


def ago(minutes: float) -> str:
    return timestamp(TAKEN - 60 * minutes)


def job(name: str, at: float, took: float | None = None, cpu: str = "1", **more: Any) -> Obj:
    """A Job of so many minutes ago, which took so many (None: it runs)."""
    meta: Obj = {"name": name, "namespace": "ci", "uid": name, "creationTimestamp": ago(at)}
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
    }
    labels = {"app": "ci", "controller-uid": name, "job-name": name}
    labels |= {f"batch.kubernetes.io/{label}": name for label in ("controller-uid", "job-name")}
    status: Obj = {"startTime": ago(at)}
    if took is not None:
        status["completionTime"] = ago(at - took)
        status["conditions"] = [{"type": "Complete", "status": "True", "lastTransitionTime": ago(at - took)}]
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": name}}
    spec = {"selector": selector, "template": {"metadata": {"labels": labels}, "spec": pod}, **more}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": status}


def owned(obj: Obj, kind: str, name: str) -> Obj:
    owner = {"apiVersion": "v1", "kind": kind, "name": name, "uid": name, "controller": True}
    obj["metadata"]["ownerReferences"] = [owner]
    return obj


def event(kind: str, name: str, reason: str, at: float, message: str = "") -> Obj:
    meta = {"name": f"{name}.{reason}.{at}", "namespace": "ci", "creationTimestamp": ago(at)}
    about = {"kind": kind, "namespace": "ci", "name": name}
    times = {"firstTimestamp": ago(at), "lastTimestamp": ago(at)}
    said = {"involvedObject": about, "reason": reason, "message": message, "type": "Normal", **times}
    return {"apiVersion": "v1", "kind": "Event", "metadata": meta, **said}


def pod(name: str, at: float, phase: str = "Running", took: float = 0.0) -> Obj:
    meta = {"name": name, "namespace": "ci", "uid": name, "creationTimestamp": ago(at)}
    spec = {
        "nodeName": "n",
        "priority": 7,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}],
    }
    found = running(meta, spec)
    if phase != "Running":
        ended = {"startedAt": ago(at), "finishedAt": ago(at - took), "exitCode": int(phase == "Failed")}
        found["status"] |= {"phase": phase, "containerStatuses": [{"name": "c", "state": {"terminated": ended}}]}
    return found


def past(*objects: Obj, span: float = HOUR, length: float | None = None, seed: int = 1) -> Past:
    with rng.seeded(seed):
        return arrivals_of_past(objects, TAKEN, span, length)


def shown(found: Past) -> list[tuple[float, str, str, float]]:
    """When (in minutes), what, of what size, and for how long (in minutes)."""
    rows = []
    for arrival in found.arrivals:
        template = arrival.obj["spec"]["template"]
        life = float(template["metadata"]["annotations"]["sim.fairlead.dev/lifetime-seconds"]) / 60
        cpu = template["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        rows.append((arrival.at / 60, arrival.obj["metadata"]["name"], cpu, life))
    return rows


def test_jobs_of_the_last_hour_come_again_hour_after_hour() -> None:
    found = past(job("build-17", 50, 5), job("build-18", 20, 10, cpu="3"), job("old-1", 90, 1), length=2 * HOUR)
    assert shown(found) == [
        (10, "build-again-1", "1", 5),
        (40, "build-again-2", "3", 10),
        (70, "build-again-3", "1", 5),
        (100, "build-again-4", "3", 10),
    ]
    assert found.notes[0] == "2 arrivals within 1h (2 ci/build) come again"


def test_of_a_job_that_is_gone_events_tell_and_its_kind_says_how_large_it_was() -> None:
    found = past(
        job("build-9", 200, 4, cpu="2"),
        event("Job", "build-10", "SuccessfulCreate", 30, "Created pod: build-10-x7k2p"),
        event("Pod", "build-10-x7k2p", "Scheduled", 30, "Successfully assigned ci/build-10-x7k2p to n"),
        event("Pod", "build-10-x7k2p", "Started", 30, "Container started"),
        event("Job", "build-10", "Completed", 18, "Job completed"),
    )
    assert shown(found) == [(30, "build-again-1", "2", 12)]


def test_a_single_pod_comes_again_as_long_as_it_lived() -> None:
    found = past(pod("train-bcdfg", 40, "Failed", took=15), event("Pod", "train-fghjk", "Scheduled", 25))
    assert shown(found) == [(20, "train-again-1", "2", 15), (35, "train-again-2", "2", 15)]
    spec = found.arrivals[0].obj["spec"]["template"]["spec"]
    assert not {"nodeName", "priority"} & spec.keys()
    assert found.arrivals[0].obj["spec"]["template"]["metadata"]["annotations"]["sim.fairlead.dev/exit-code"] == "1"


@pytest.mark.parametrize(
    "objects",
    [
        [owned(pod("web-5f6d7c8b9-bcdfg", 10), "ReplicaSet", "web-5f6d7c8b9")],
        [
            event("ReplicaSet", "web-5f6d7c8b9", "SuccessfulCreate", 9, "Created pod: web-5f6d7c8b9-bcdfg"),
            event("Pod", "web-5f6d7c8b9-bcdfg", "Scheduled", 9),
        ],
        [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "ci"}},
            event("Pod", "db-0", "Scheduled", 9),
        ],
        [
            {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "hourly", "namespace": "ci"}},
            owned(job("hourly-29000000", 20, 1), "CronJob", "hourly"),
            event("Job", "hourly-28999940", "SuccessfulCreate", 55, "Created pod: hourly-28999940-bcdfg"),
            event("Pod", "hourly-28999940-bcdfg", "Scheduled", 55),
        ],
        [owned(pod("etl-7-bcdfg", 10), "Job", "etl-7"), job("etl-7", 100)],
    ],
    ids=["replica set", "gone, by who made it", "gone, by its name", "cron job", "counted with its job"],
)
def test_what_controllers_make_again_does_not_come_twice(objects: list[Obj]) -> None:
    assert shown(past(*objects)) == []


def test_what_runs_lives_as_long_as_one_of_its_kind_that_lived_longer() -> None:
    found = past(job("etl-1", 300, 3), job("etl-2", 200, 40), job("etl-3", 30))
    assert shown(found) == [(30, "etl-again-1", "1", 40)]


def test_where_none_has_ended_littles_law_says_how_long_they_live() -> None:
    """One an hour comes, and six are there: six hours each."""
    found = past(*(job(f"notebook-{number}", 90 + number) for number in range(5)), job("notebook-6", 30))
    assert shown(found) == [(30, "notebook-again-1", "1", 360)]
    assert "of 1 ci/notebook none has ended: how long they live is estimated" in found.notes


def test_of_which_nothing_says_how_large_it_was_is_left_out_and_named() -> None:
    found = past(event("Pod", "gone-bcdfg", "Scheduled", 20), job("build-1", 59, 1))
    assert [row[1] for row in shown(found)] == ["build-again-1"]
    assert "of 1 ci/gone nothing says how large they were: they do not come again" in found.notes


def test_events_that_do_not_go_back_so_far_are_named() -> None:
    assert (
        "Events go back 20m: what came before and is gone is not known"
        in past(job("build-1", 59, 1), event("Pod", "gone-bcdfg", "Scheduled", 20)).notes
    )


def test_a_job_of_several_rounds_keeps_them() -> None:
    found = past(job("wide-1", 40, 30, parallelism=2, completions=6, suspend=False))
    spec = found.arrivals[0].obj["spec"]
    assert (spec["parallelism"], spec["completions"]) == (2, 6)
    assert not {"selector", "suspend"} & spec.keys()
    assert spec["template"]["metadata"]["labels"] == {"app": "ci"}
    assert shown(found)[0][3] == 10


def test_a_job_of_millions_is_refused_and_not_tried() -> None:
    with pytest.raises(ValueError, match="more than 5,000,000 pods"):
        past(job("a-1", 5, 1, parallelism=9_000_000))


def test_tens_of_thousands_are_read_at_once() -> None:
    """Each that runs draws its life from those of all that ended."""
    objects = [
        *(job(f"a-{number}", 200, 30) for number in range(10_000)),
        *(job(f"b-{number}", 9) for number in range(9)),
    ]
    objects += [job(f"a-{number}", 20) for number in range(10_000, 20_000)]
    began = stopwatch()
    assert len(past(*objects, length=2 * HOUR).arrivals) == 20_018
    assert stopwatch() - began < 20


def test_so_many_that_no_run_would_end_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 5,000,000 pods"):
        past(*(job(f"a-{number}", 0.5, 0.1) for number in range(100)), span=60, length=60 * 60_000)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("build-17", "build"),
        ("etl-29000000-x7k2p", "etl"),
        ("train", "train"),
        ("web-debug", "web-debug"),
        ("-1", "-1"),
    ],
)
def test_the_stem_of_a_name_is_what_its_kind_has_in_common(name: str, expected: str) -> None:
    assert stem(name) == expected


FIELDS = ["spec", "status", "template", "metadata", "containers", "conditions", "startTime", "completionTime", "state"]
FIELDS += ["labels", "annotations", "parallelism", "completions", "terminated", "involvedObject", "kind", "name"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", ago(3), "Job", "2026-99-99T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.lists(st.tuples(st.sampled_from(["Job", "Pod", "Event"]), JSON, JSON, JSON), max_size=4))
def test_whatever_a_dump_holds_is_read_or_left_out(things: list[tuple[str, Any, Any, Any]]) -> None:
    objects = []
    for kind, spec, status, more in things:
        owner = {"controller": True, "kind": more, "name": more}
        meta = {"name": "a-1", "namespace": "ci", "creationTimestamp": ago(5), "ownerReferences": [owner]}
        said = {"reason": more or "Scheduled", "involvedObject": status, "firstTimestamp": ago(2)}
        objects.append({"kind": kind, "metadata": meta, "spec": spec, "status": status, **said})
    assert all(0 <= arrival.at <= HOUR for arrival in past(*objects).arrivals)


def test_equal_seeds_bring_the_same() -> None:
    objects = [*(job(f"etl-{number}", 100 + number, number + 1) for number in range(40)), job("etl-99", 1)]
    lives = {shown(past(*objects, seed=seed))[0][3] for seed in (1, 1, 2, 3, 4)}
    assert shown(past(*objects, seed=1)) == shown(past(*objects, seed=1))
    assert len(lives) > 1


def hour_of_jobs(keeps: int) -> tuple[list[Obj], float]:
    """A cluster after an hour of eight jobs, of which all but the last so many are deleted when they are over."""

    async def main() -> tuple[list[Obj], float]:
        async with simulation(Settings(nodes=tuple(uniform(2, NodeShape("4", "8Gi"))))) as (api, _):
            for number in range(8):
                kept = {} if number >= 8 - keeps else {"ttlSecondsAfterFinished": 0}
                made = job(f"etl-{number}", 0, cpu="500m", **kept)
                del made["spec"]["selector"], made["spec"]["template"]["metadata"]
                annotations = {"sim.fairlead.dev/lifetime-seconds": str(60 + 30 * number)}
                made["spec"]["template"]["metadata"] = {"annotations": annotations}
                made["metadata"] = {"name": made["metadata"]["name"]}
                await api.create(builtin.JOBS, made, "default")
                await asyncio.sleep(400)
            kinds = (builtin.JOBS, builtin.PODS, builtin.EVENTS)
            return [item.obj() for kind in kinds for item in (await api.list(kind, "")).items], now()

    with rng.seeded(1):
        return run_virtual(main())


@pytest.mark.parametrize("keeps", [8, 1])
def test_events_of_a_cluster_tell_what_its_jobs_tell(keeps: int) -> None:
    """Of those that are gone, too: when they came, how long their pods lived, and what their kind asks for."""
    objects, taken = hour_of_jobs(keeps)
    assert sum(obj["kind"] == "Job" for obj in objects) == keeps
    with rng.seeded(1):
        found = arrivals_of_past(objects, taken, HOUR, None)
    first = shown(found)[0][0]
    rows = [(round(at - first), cpu, round(life * 60)) for at, _, cpu, life in shown(found)]
    assert [row[:2] for row in rows] == [(round(400 * number / 60), "500m") for number in range(8)]
    assert all(abs(life - (60 + 30 * number)) <= 2 for number, (_, _, life) in enumerate(rows))


def simulated(folder: Path, objects: list[Obj], *options: str) -> Obj:
    path = folder / "prod.json"
    path.write_bytes(msgspec.json.encode({"kind": "List", "items": objects}))
    arguments = ["simulate", "--import", str(path), "--pods-from-past", "1h", "--no-keep", *options, "-o", "json"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    found: Obj = msgspec.json.decode(done.stdout)
    return found


def test_a_study_plays_them_on_and_every_run_is_the_same(tmp_path: Path) -> None:
    """24 an hour of ten minutes each: four of the cluster's eight processors are busy."""
    jobs = [job(f"build-{number}", 59.5 - 2 * number, 10) for number in range(24)]
    objects = [namespace("ci"), node("n", cpu="8"), *jobs]
    first = simulated(tmp_path, objects, "--for", "3h")
    assert first["placed"] == 72
    assert first == simulated(tmp_path, objects, "--for", "3h")


def test_without_a_dump_there_is_no_past(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["simulate", "--pods-from-past", "1h"])
    assert done.exit_code == 2
    assert "--pods-from-past takes a dump of a cluster" in done.output
