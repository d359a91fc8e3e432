"""`fairlead why` on a dump: the groups of nodes, what would help, and the scores of a pod that has a node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fairlead.cli.main import main
from tests.scheduler.scheduler_world import node_obj, pod_obj

Obj = dict[str, Any]


def of_kind(kind: str, obj: Obj) -> Obj:
    obj["metadata"].pop("uid", None)
    return {"apiVersion": "v1", "kind": kind} | obj


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    nodes = [
        node_obj("n1", cpu=2),
        node_obj("n2", cpu=8, unschedulable=True),
        node_obj("n3", cpu=8, taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}]),
        node_obj("n4", cpu=8),
    ]
    pods = [
        pod_obj("a", cpu="1500m", nodeName="n1"),
        pod_obj("b", cpu=7, nodeName="n4"),
        pod_obj("w", cpu=2),
        pod_obj("important", cpu=2, priority=10),
        pod_obj("gated", schedulingGates=[{"name": "test.dev/g"}]),
        pod_obj("theirs", schedulerName="volcano"),
    ]
    objects = [of_kind("Namespace", {"metadata": {"name": "default"}})]
    objects += [of_kind("Node", one) for one in nodes] + [of_kind("Pod", one) for one in pods]
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}))
    return file


def asked(dump: Path, pod: str, *options: str) -> str:
    done = CliRunner().invoke(main, ["why", pod, "--dump", str(dump), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_each_group_of_nodes_says_what_refuses_and_what_would_help(dump: Path) -> None:
    told = asked(dump, "w")
    assert told.startswith(
        "default/w waits: 0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were"
    )
    assert "2 nodes  n1, n4\n    NodeResourcesFit: Insufficient cpu\n" in told
    assert "would help: cpu: wants 2, at most 1 of 8 free" in told
    assert "would help: kubectl uncordon n2" in told
    assert "would help: a toleration for gpu=true:NoSchedule" in told


def test_a_placed_pod_says_how_the_scores_came_about(dump: Path) -> None:
    told = json.loads(asked(dump, "b", "-o", "json"))
    assert told["headline"] == "default/b is on n4"
    (only,) = told["scored"]
    assert only["node"] == "n4" and only["total"] == sum(only["scores"].values())
    assert set(only["scores"]) == {"TaintToleration", "NodeResourcesFit", "NodeResourcesBalancedAllocation"}


def test_an_important_pod_says_whom_it_may_drive_away(dump: Path) -> None:
    told = asked(dump, "important")
    assert "preemption: it may drive away default/" in told


def test_a_pod_that_is_not_tried_says_why(dump: Path) -> None:
    assert "not tried yet: waiting for scheduling gates: [test.dev/g]" in asked(dump, "gated")
    assert 'asks for the scheduler "volcano", which is another one' in asked(dump, "theirs")


def test_a_pod_that_is_not_there_is_a_failure(dump: Path) -> None:
    done = CliRunner().invoke(main, ["why", "nobody", "--dump", str(dump)])
    assert done.exit_code == 1 and 'pods "nobody" not found in namespace default' in done.output


def test_without_a_cluster_it_asks_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    done = CliRunner().invoke(main, ["why", "w"])
    assert done.exit_code == 2 and "which cluster?" in done.output
