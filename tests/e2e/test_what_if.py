"""A round trip: a live cluster is dumped, a change is foretold of the dump, and then made: both agree, pod by pod."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.helpers.clusters import node
from tests.e2e.helpers.terminal import Terminal
from tests.processes import Up

NODES = [node("node-1", cpu="4"), node("node-2", cpu="4"), node("node-3", cpu="4")]

WORKLOAD = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: i, command: [sleep, private-argument], env: [{name: P, value: private-value}],
         resources: {requests: {cpu: 3}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: log}
spec:
  selector: {matchLabels: {app: log}}
  template:
    metadata: {labels: {app: log}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
"""
KINDS = (
    "ns,nodes,pods,deploy,rs,rc,sts,ds,controllerrevisions,jobs,cronjobs,hpa,quota,limits,pdb,pvc,pv,sc,sa,"
    "priorityclasses,runtimeclasses"
)


def settled(terminal: Terminal) -> None:
    for command in ("deployment/web", "statefulset/db", "daemonset/log"):
        terminal.output(f"kubectl rollout status {command} --timeout=30s")


def simulated(terminal: Terminal, dump: Path, *options: str) -> dict[str, Any]:
    command = f"FAIRLEAD_RUNS={dump.parent} {sys.executable} -m fairlead simulate -q --import {dump} --for 1h -o json"
    found: dict[str, Any] = json.loads(terminal.output(f"{command} {' '.join(options)}"))
    return found


@pytest.mark.slow
def test_what_is_foretold_of_a_drain_happens(terminal: Terminal, cluster: Up, namespace: str, tmp_path: Path) -> None:
    terminal.output("kubectl apply -f -", WORKLOAD)
    settled(terminal)
    dump, captured = tmp_path / "prod.yaml", tmp_path / "prod.json"
    terminal.output(f"kubectl get {KINDS} -A -o yaml > {dump}")
    told = terminal.run(f"{sys.executable} -m fairlead capture --kubeconfig {cluster.kubeconfig} -f {captured}")
    assert told.code == 0, told.err
    assert "3 Node" in told.err
    assert "private" not in captured.read_text()

    before = simulated(terminal, dump)
    assert before["created"] == len([obj for obj in yaml.safe_load(dump.read_text())["items"] if obj["kind"] == "Pod"])
    assert (before["waiting"], before["failed"]) == (0, 0), "a settled cluster stays settled"

    on_node = "kubectl get pods --field-selector spec.nodeName=node-2 -o jsonpath='{.items[*].metadata.name}'"
    were_there = {name for name in terminal.output(on_node).split() if not name.startswith("log-")}
    assert were_there
    foretold = [simulated(terminal, path, "--drain", "node-2")["variants"][0] for path in (dump, captured)]
    terminal.output("kubectl drain node-2 --ignore-daemonsets --timeout=30s")
    terminal.comes_to("kubectl get pods -o jsonpath='{.items[?(@.status.phase==\"Pending\")].status.phase}'", "Pending")
    terminal.output("kubectl rollout status statefulset/db --timeout=30s")
    waiting = json.loads(terminal.output("kubectl get pods -o json --field-selector spec.nodeName="))["items"]
    terminal.output("kubectl uncordon node-2")
    for variant in foretold:
        hurt = variant["worse"]
        evicted = {pod["pod"].partition("/")[2] for pod in hurt if pod["how"] == "evicted"}
        assert evicted == were_there
        waits = [pod for pod in hurt if pod["how"] == "waits"]
        assert len(waits) == len(waiting) == 1
        (condition,) = [each for each in waiting[0]["status"]["conditions"] if each["type"] == "PodScheduled"]
        assert waits[0]["reason"] == condition["message"]
        assert f"{namespace}/{waiting[0]['metadata']['generateName']}" == waits[0]["pod"][: -len("xxxxx")]
