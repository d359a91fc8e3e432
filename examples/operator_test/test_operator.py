"""What an operator does is tested against a real API server, with controllers, a scheduler and nodes: `pytest` here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.testing import Cluster

HERE = Path(__file__).parent
SOON = 30.0  # seconds, on a machine that has other things to do


@pytest.fixture
def cluster(fairlead_cluster: Cluster) -> Iterator[Cluster]:
    """A fresh cluster that knows Backups, and the operator at work in it."""
    fairlead_cluster.apply(HERE / "backups.yaml")
    environment = os.environ | {"KUBECONFIG": str(fairlead_cluster.kubeconfig)}
    command = [sys.executable, "-m", "kopf", "run", "--all-namespaces", str(HERE / "backups.py")]
    operator = subprocess.Popen(command, env=environment)
    yield fairlead_cluster
    operator.terminate()
    operator.wait(30)


def backup(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"database": "orders", **spec}
    return {"apiVersion": "example.com/v1", "kind": "Backup", "metadata": {"name": name}, "spec": spec}


def is_complete(obj: dict[str, Any]) -> bool:
    return bool(obj.get("status", {}).get("phase") == "Complete")


def test_a_backup_is_made_and_told_of(cluster: Cluster) -> None:
    cluster.apply(backup("nightly"))
    cluster.wait_for("job/nightly-dump", "Complete", timeout=SOON)
    cluster.wait_for("backup/nightly", is_complete, timeout=SOON)


def test_it_survives_the_loss_of_its_pod(cluster: Cluster) -> None:
    cluster.apply(backup("nightly", seconds=3))
    cluster.wait_for("job/nightly-dump", lambda job: job.get("status", {}).get("ready") == 1, timeout=SOON)
    (pod,) = cluster.list("pods", labels="job-name=nightly-dump")
    cluster.delete(f"pod/{pod['metadata']['name']}")
    cluster.wait_for("backup/nightly", is_complete, timeout=SOON)
    assert pod["metadata"]["uid"] not in {each["metadata"]["uid"] for each in cluster.list("pods")}


@pytest.mark.fairlead(nodes=1, node_cpu="2")
def test_one_that_does_not_fit_waits_and_runs_when_there_is_room(cluster: Cluster) -> None:
    cluster.apply(backup("large", cpu="4"))
    cluster.wait_for("job/large-dump", "create", timeout=SOON)
    with pytest.raises(TimeoutError):
        cluster.wait_for("backup/large", is_complete, timeout=1)
    (pod,) = cluster.list("pods", labels="job-name=large-dump")
    assert pod["status"]["conditions"][0]["reason"] == "Unschedulable"
    capacity = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "larger"}, "status": {"capacity": capacity}}
    cluster.apply(node)
    cluster.wait_for("backup/large", is_complete, timeout=SOON)
