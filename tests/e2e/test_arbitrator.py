"""`fairlead up --arbitrator` with the real kubectl, and `fairlead shares`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.helpers.clusters import cluster_of, node
from tests.e2e.helpers.terminal import Terminal
from tests.processes import Up

DESERVED = "kubectl get allocation defaults -o jsonpath='{.status.deserved.requests\\.cpu}'"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with cluster_of(tmp_path_factory.mktemp("cluster"), node("node-1", cpu="10"), options=("--arbitrator",)) as up:
        yield up


def test_kubectl_shows_what_a_namespace_deserves(terminal: Terminal, cluster: Up, namespace: str) -> None:
    """S2-10, S2-17, S2-26, S2-33."""
    terminal.output("kubectl wait --for=create consumer/defaults --timeout=20s")
    terminal.output("kubectl create deployment web --image=nginx --replicas=3")
    terminal.output("kubectl set resources deployment web --requests=cpu=1")
    terminal.output(
        "kubectl wait --for=jsonpath='{.status.deserved.requests\\.cpu}'=3 allocation/defaults --timeout=30s"
    )
    bound = '{"spec":{"hard":{"requests.cpu":"2"}}}'
    terminal.output(f"kubectl patch consumer defaults --type=merge -p '{bound}'")
    terminal.output(
        "kubectl wait --for=jsonpath='{.status.deserved.requests\\.cpu}'=2 allocation/defaults --timeout=30s"
    )
    refused = terminal.run('kubectl patch consumer defaults --type=merge -p \'{"spec":{"weight":-1}}\'')
    assert refused.code != 0 and "spec.weight: Invalid value: -1" in refused.err
    command = [sys.executable, "-m", "fairlead", "shares", "--kubeconfig", str(cluster.kubeconfig)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    (row,) = [line.split() for line in told.splitlines() if line.startswith(namespace)]
    assert row[:6] == [namespace, "1", "-", "2", "2", "3"]
    assert "overused since" in told


#: As the documents have it, misspelt group and all (S2-11, S2-12).
CONSUMER = """
apiVersion: kuabe-arbitrator.incubator.k8s.io/v1
kind: Consumer
metadata:
  name: defaults
spec:
  hard:
    requests.cpu: "1"
    requests.memory: 1Gi
    limits.cpu: "2"
    limits.memory: 2Gi
  reserved:
    limits.memory: 1Gi
"""
#: Its sample of an answer, which promises more than the bound (S2-20).
ALLOCATION = """
apiVersion: kuabe-arbitrator.incubator.k8s.io/v1
kind: Allocation
metadata:
  name: defaults
spec:
  deserved:
    cpu: "1.5"
    memory: 2Gi
  hard:
    requests.cpu: "1"
    requests.memory: 1Gi
    limits.cpu: "2"
    limits.memory: 2Gi
  reserved:
    limits.memory: 1Gi
"""


def test_the_documents_manifests_are_understood_as_they_are_written(terminal: Terminal) -> None:
    """S2-10, S2-11, S2-12, S2-20."""
    terminal.output("kubectl wait --for=create consumer/defaults --timeout=20s")
    terminal.output("kubectl create deployment web --image=nginx --replicas=3")
    terminal.output("kubectl set resources deployment web --requests=cpu=1")
    terminal.output("kubectl apply -f -", CONSUMER)
    bounded = "kubectl wait --for=jsonpath='{{.status.deserved.requests\\.cpu}}'={} allocation/defaults --timeout=30s"
    terminal.output(bounded.format(1))
    assert terminal.output("kubectl get consumers -o name") == "consumer.kube-arbitrator.incubator.k8s.io/defaults"
    spec = "kubectl get consumer defaults -o jsonpath='{.spec.hard.limits\\.memory} {.spec.reserved.limits\\.memory}'"
    terminal.comes_to(spec, "2Gi 1Gi")
    terminal.output('kubectl patch consumer defaults --type=merge -p \'{"spec":{"hard":{"requests.cpu":"2"}}}\'')
    terminal.output(bounded.format(2))
    refused = terminal.run("kubectl apply -f -", CONSUMER.replace("limits.memory: 1Gi", "limits.memory: 3Gi"))
    assert refused.code != 0 and "must be less than or equal to hard (2Gi)" in refused.err
    refused = terminal.run("kubectl apply -f -", ALLOCATION)
    assert refused.code != 0 and 'spec.deserved[cpu]: Invalid value: "1.5"' in refused.err
