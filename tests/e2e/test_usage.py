"""`fairlead usage` against a cluster, with the real kubectl beside it."""

from __future__ import annotations

import sys

import pytest

from tests.e2e.helpers.terminal import Terminal
from tests.examples import each_time
from tests.processes import Up

POD = """apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: app, image: app, resources: {requests: {cpu: 200m, memory: 100Mi}}}
  - {name: beside, image: beside}
  volumes:
  - {name: data, emptyDir: {}}
"""
PROFILE = """apiVersion: sim.fairlead.dev/v1alpha1
kind: UsageProfile
metadata: {name: webs}
spec:
  selector: {matchLabels: {app: web}}
  containers: [beside]
  usage: {memory: trace(day), volume.data: 1Gi}
  traces:
    day:
      csv: |
        0,10Mi
        60,20Mi
"""


@pytest.fixture
def usage(cluster: Up) -> str:
    return f"KUBECONFIG={cluster.kubeconfig} {sys.executable} -m fairlead usage"


def test_usage_is_set_shown_and_taken_back(terminal: Terminal, usage: str, namespace: str) -> None:
    terminal.output("kubectl apply -f -", POD)
    terminal.output("kubectl apply -f -", PROFILE)
    done = terminal.output(f"{usage} set web -n {namespace} -c app 'memory=leak(1Mi/s, from=20Mi)' cpu=50%")
    assert done == "pod/web uses memory=leak(1Mi/s, from=20Mi), cpu=50%"
    shown = terminal.output(f"{usage} show web -n {namespace}").splitlines()
    assert [line.split() for line in shown] == [
        ["CONTAINER", "MEASURE", "USAGE", "FROM"],
        ["app", "cpu", "50%", "annotation", "app.sim.fairlead.dev/usage-cpu"],
        ["app", "memory", "leak(1Mi/s,", "from=20Mi)", "annotation", "app.sim.fairlead.dev/usage-memory"],
        ["app", "pids", "1", "default"],
        ["beside", "cpu", "1m", "default"],
        ["beside", "memory", "trace(day)", "UsageProfile", "webs"],
        ["beside", "pids", "1", "default"],
        ["-", "volume.data", "1Gi", "UsageProfile", "webs"],
    ]
    assert "app.sim.fairlead.dev/usage-cpu: 50%" in terminal.output("kubectl describe pod web")
    assert terminal.output(f"{usage} clear web cpu -c app -n {namespace}") == "pod/web: 1 taken back"
    assert terminal.output(f"{usage} clear web -n {namespace}") == "pod/web: 1 taken back"
    assert "annotation" not in terminal.output(f"{usage} show web -n {namespace}")


def test_the_usage_of_a_node_is_its_annotation(terminal: Terminal, usage: str) -> None:
    assert terminal.output(f"{usage} set node/node-1 nodefs=1Gi") == "node/node-1 uses nodefs=1Gi"
    assert "nodefs" in terminal.output(f"{usage} show node/node-1")
    path = r"{.metadata.annotations.sim\.fairlead\.dev/usage-nodefs}"
    assert terminal.output(f"kubectl get node node-1 -o jsonpath='{path}'") == "1Gi"
    assert terminal.output(f"{usage} clear node/node-1") == "node/node-1: 1 taken back"


REFUSED = [
    ("set web memory=lots", 2, "sim.fairlead.dev/usage-memory: 'lots' is no amount: write one such as 300Mi"),
    ("set web 'memory=60% of limit'", 2, "'60% of limit' makes no sense where there is no limit"),
    ("set web memry=1Mi", 2, "there is no measure 'memry'"),
    ("set web -c db memory=1Mi", 2, "the pod has no container 'db'"),
    ("set web memory", 2, "'memory' is no setting: write MEASURE=USAGE, such as memory=300Mi"),
    ("set web volume.dat=1Mi", 2, "the pod has no volume 'dat'"),
    ("set web pids=0.5", 2, "'0.5' is no whole number of processes"),
    ("set node/node-1 memory=1Ti", 2, "that the node has"),
    ("set node/node-1 memory=60%", 2, "makes no sense where there is no request"),
    ("set node/node-1 -c app memory=1Mi", 2, "a node has no containers"),
    ("set a/b/c memory=1Mi", 2, "'a/b/c' is no pod"),
    ("set gone memory=1Mi", 1, 'pods "gone" not found'),
    ("show node/gone", 1, 'nodes "gone" not found'),
]


@pytest.mark.parametrize(("arguments", "code", "message"), each_time([REFUSED[0], REFUSED[-1]], REFUSED))
def test_wrong_usage_is_refused_before_anything_is_written(
    terminal: Terminal, usage: str, namespace: str, arguments: str, code: int, message: str
) -> None:
    terminal.output("kubectl apply -f -", POD)
    is_of_pod = "node/" not in arguments and "/b/" not in arguments
    answer = terminal.run(f"{usage} {arguments}" + (f" -n {namespace}" if is_of_pod else ""))
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert "fairlead.dev/usage-" not in terminal.output("kubectl get pod web -o jsonpath='{.metadata.annotations}'")
