"""`simulate` as a program calls it: what `fairlead simulate` says, as data."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli.main import main as fairlead
from fairlead.sim.replay import ArrivalRefused
from fairlead.simulation import simulate
from tests.simulation.test_virtual import pod
from tests.study.real_clusters import CLUSTERS

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: night}
spec:
  completions: 4
  parallelism: 4
  template:
    metadata: {annotations: {sim.fairlead.dev/lifetime-seconds: "3600"}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: batch, resources: {requests: {cpu: "2"}}}]
"""
CRON = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: hourly}
spec:
  schedule: "0 * * * *"
  successfulJobsHistoryLimit: 1
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {sim.fairlead.dev/lifetime-seconds: "60"}}
        spec: {restartPolicy: Never, containers: [{name: main, image: batch}]}
"""
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def test_objects_are_played_to_their_end() -> None:
    run = simulate(JOB, nodes=1)
    assert (run.summary["placed"], run.summary["succeeded"], run.summary["waiting"]) == (4, 4, 0)
    assert 7200 <= run.summary["seconds"] < 7230
    assert sorted(row.waited_seconds // 3600 for row in run.pods) == [0, 0, 1, 1]
    assert len(run.pods.succeeded()) == 4
    assert run.events.of("Completed").where(lambda event: event.object == "Job/night")
    assert run.digest == simulate(JOB, nodes=1, events=False).digest != simulate(JOB, nodes=2).digest


def test_pods_that_went_are_told_of_as_they_were_last() -> None:
    run = simulate(CRON, duration="3h30m", events=False)
    assert len(run.pods) == 3
    assert [row.is_gone for row in sorted(run.pods, key=lambda row: row.created)] == [True, True, False]
    assert run.events.empty()


def test_what_never_comes_to_rest_needs_a_duration() -> None:
    with pytest.raises(ValueError, match="with CronJob a cluster never comes to rest: say how long"):
        simulate(CRON)


def test_it_says_what_the_command_says(tmp_path: Path) -> None:
    file = tmp_path / "pods.csv"
    file.write_text(
        PODS + "".join(f"pod-{n},2000,1024,0,0,,LS,Succeeded,{100 * n},{100 * n + 500},{100 * n}\n" for n in range(8))
    )
    printed = CliRunner().invoke(
        fairlead, ["simulate", "--nodes", "1", "--pods-from", str(file), "-o", "json", "-q"], catch_exceptions=False
    )
    told = json.loads(printed.output)
    run = simulate(file, nodes=1)
    assert run.summary == told
    assert run.summary["placed"] == 8


def test_it_runs_where_a_loop_runs_as_in_a_notebook() -> None:
    async def cell() -> str:
        return simulate(JOB, nodes=1, events=False).digest

    assert asyncio.run(cell()) == simulate(JOB, nodes=1, events=False).digest


def test_a_pod_that_the_server_refuses_is_named(tmp_path: Path) -> None:
    file = tmp_path / "pods.csv"
    file.write_text(PODS + "twice,100,64,0,0,,LS,Running,0,,\ntwice,100,64,0,0,,LS,Running,1,,\n")
    with pytest.raises(ArrivalRefused, match='pod twice: pods "twice" already exists'):
        simulate(file)


def test_nodes_may_be_manifests() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "big"},
        "status": {"capacity": {"cpu": "64", "memory": "64Gi", "pods": "10"}},
    }
    run = simulate(pod("wide", cpu="60"), nodes=node, duration=60)
    assert [(row.name, row.node) for row in run.pods] == [("wide", "big")]


@pytest.mark.parametrize("name", ["nowhere.csv", "nowhere.yaml"])
def test_a_file_that_is_missing_is_told_with_the_folder(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=rf"there is no file {name} \(looked in /"):
        simulate(name)


def test_a_dump_goes_on_as_with_the_command(tmp_path: Path) -> None:
    """Its jobs run on, and what is bad in it stays so."""
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTERS["kubeadm"]()}))
    found = CliRunner().invoke(fairlead, ["simulate", "--import", str(path), "--for", "1h", "-q", "-o", "json"])
    told = json.loads(found.stdout)
    assert simulate(imported=str(path), duration="1h").digest == told["digest"]
    with pytest.raises(ValueError, match=r"has a uid: it is of a cluster that is there, whose dump is imported="):
        simulate(str(path), duration="1h")


def test_a_folder_stands_for_the_manifests_in_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(pod(name, lifetime=60)))
    assert [row.name for row in simulate(tmp_path, nodes=1).pods] == ["a", "b"]
