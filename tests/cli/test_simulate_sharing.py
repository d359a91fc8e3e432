"""`fairlead simulate --arbitrator`: what shares would do, before anybody has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fairlead.cli.main import main

Obj = dict[str, Any]

CONSUMER = {"apiVersion": "kube-arbitrator.incubator.k8s.io/v1", "kind": "Consumer"}


def _pod(namespace: str, number: int) -> Obj:
    requests = {"cpu": "1", "memory": "1Gi"}
    annotations = {"sim.fairlead.dev/lifetime-seconds": "3600"}
    metadata = {"name": f"p-{number}", "namespace": namespace, "annotations": annotations}
    container = {"name": "c", "image": "x", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def _simulated(folder: Path, weights: dict[str, int], pods: int, *options: str) -> Obj:
    tenants = [
        CONSUMER | {"metadata": {"name": "defaults", "namespace": name}, "spec": {"weight": weight}}
        for name, weight in weights.items()
    ]
    (folder / "tenants.yaml").write_text(yaml.safe_dump_all(tenants))
    (folder / "pods.yaml").write_text(
        yaml.safe_dump_all([_pod(name, number) for number in range(pods) for name in weights])
    )
    files = ["--import", str(folder / "tenants.yaml"), "--pods-from", str(folder / "pods.yaml")]
    done = CliRunner().invoke(main, ["simulate", "--nodes", "5", "--node-cpu", "2", *files, *options, "-o", "json"])
    assert done.exit_code == 0, done.output
    found: Obj = json.loads(done.stdout)
    return found


def test_each_namespace_gets_its_share_and_every_run_is_the_same(tmp_path: Path) -> None:
    first = _simulated(tmp_path, {"app": 4, "batch": 6}, 30, "--arbitrator", "--for", "30m")
    assert {name: namespace["placed"] for name, namespace in first["namespaces"].items()} == {"app": 4, "batch": 6}
    assert first["namespaces"]["batch"]["mean"]["cpu"] == pytest.approx(0.6, abs=0.01)
    again = _simulated(tmp_path, {"app": 4, "batch": 6}, 30, "--arbitrator", "--for", "30m")
    assert again["digest"] == first["digest"]


def test_what_one_does_not_use_the_other_gets(tmp_path: Path) -> None:
    result = _simulated(tmp_path, {"app": 4, "batch": 6}, 10, "--arbitrator")
    assert {name: namespace["placed"] for name, namespace in result["namespaces"].items()} == {"app": 10, "batch": 10}
    assert result["seconds"] < 7210  # no processor was idle while somebody waited, but for a cycle or two


@pytest.mark.parametrize("command", ["up", "simulate"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--overused-namespaces=refuse", "--overused-namespaces needs --arbitrator"),
        ("--arbitrator --overused-namespaces=refuse,evict", "unknown strategy evict; known are refuse, evict-first"),
    ],
)
def test_nodes_cannot_follow_shares_that_nobody_works_out(command: str, options: str, message: str) -> None:
    """S2-51."""
    done = CliRunner().invoke(main, [command, *options.split()])
    assert done.exit_code == 2
    assert message in done.output
