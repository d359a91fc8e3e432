"""`fairlead scheduler` as a process of its own, against an API server without one."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.e2e.helpers.clusters import cluster_of, node
from tests.e2e.helpers.terminal import Terminal
from tests.processes import Up, component, free_port

NAMES = ("default-scheduler", "tight")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    nodes = [node("node-1"), node("node-2", cpu="2")]
    with cluster_of(tmp_path_factory.mktemp("cluster"), *nodes, options=("--components", "controllers,nodes")) as up:
        yield up


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "scheduler.yaml"
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    profiles = [{"schedulerName": NAMES[0]}, {"schedulerName": NAMES[1], "pluginConfig": [fit]}]
    election = {"leaderElect": True, "leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "200ms"}
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(yaml.safe_dump(document | {"profiles": profiles, "leaderElection": election}))
    return file


@contextmanager
def scheduler(up: Up, config: Path) -> Iterator[int]:
    """A scheduler process; yields its port."""
    port = free_port()
    with component(up, "scheduler", "--config", str(config), "--port", str(port)):
        yield port


def asked(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
        text: str = response.read().decode()
        return text


def test_it_places_the_pods_of_its_profiles_and_another_takes_over(
    terminal: Terminal, cluster: Up, config: Path
) -> None:
    """S0-80: two compete for one lease; pods are placed by whoever holds it, by the profile that they ask for."""
    with scheduler(cluster, config) as second:
        with scheduler(cluster, config):
            terminal.output("kubectl run a --image=nginx")
            terminal.output("kubectl wait --for=condition=Ready pod/a --timeout=20s")
        overrides = '{"spec":{"schedulerName":"tight"}}'
        terminal.output(f"kubectl run b --image=nginx --overrides='{overrides}'")
        terminal.output("kubectl wait --for=condition=Ready pod/b --timeout=20s")
        who = "jsonpath='{.items[*].reportingInstance}'"
        told = terminal.output(f"kubectl get events --field-selector reason=Scheduled,involvedObject.name=a -o {who}")
        assert told == f"default-scheduler-{socket.gethostname()}"
        assert asked(second, "/healthz") == "ok"
        metrics = asked(second, "/metrics")
        assert 'scheduler_schedule_attempts_total{profile="tight",result="scheduled"} 1\n' in metrics
        assert 'scheduler_pending_pods{queue="active"} 0\n' in metrics
        assert 'leader_election_master_status{name="kube-scheduler"} 1\n' in metrics
        assert re.search(r'rest_client_requests_total\{code="201",host="127.0.0.1:\d+",method="POST"\} ', metrics)


def test_it_gives_pods_the_volumes_that_others_make(terminal: Terminal, cluster: Up, config: Path) -> None:
    """Over the wire, and with the claims made by another process: as beside a real Kubernetes."""
    with scheduler(cluster, config):
        terminal.output("kubectl create -f database.yaml")
        terminal.output("kubectl rollout status statefulset/db --timeout=30s")
        told = terminal.output("kubectl get pvc -o jsonpath='{.items[*].status.phase}'")
        assert told == "Bound Bound"


def test_a_wrong_configuration_is_told_in_a_sentence(cluster: Up, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{nmae: x}]\n"
    )
    command = [
        sys.executable,
        "-m",
        "fairlead",
        "scheduler",
        "--kubeconfig",
        str(cluster.kubeconfig),
        "--config",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert 'strict decoding error: unknown field "profiles[0].nmae"' in done.stderr


def test_why_tells_of_a_live_cluster(terminal: Terminal, cluster: Up, namespace: str) -> None:
    terminal.output("kubectl run huge --image=nginx --overrides='" + _huge("64") + "'")
    command = [
        sys.executable,
        "-m",
        "fairlead",
        "why",
        "huge",
        "-n",
        namespace,
        "--kubeconfig",
        str(cluster.kubeconfig),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"{namespace}/huge waits: 0/2 nodes are available: 2 Insufficient cpu." in done.stdout
    assert "would help: cpu: wants 64, at most 4 of 4 free" in done.stdout


def _huge(cpu: str) -> str:
    return (
        f'{{"spec":{{"containers":[{{"name":"huge","image":"nginx","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}'
    )
