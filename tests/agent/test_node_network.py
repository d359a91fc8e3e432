"""`fairlead up --node-runtime oci` on a machine of its own (a network namespace): pods, services, names, policies."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.api.objects import Obj
from fairlead.cli.main import main
from fairlead.client.kubeconfig import load
from tests.agent.machine import own_cgroup, real_containers, root_file_system, write_configuration
from tests.agent.network.namespaces import Namespace, Wire, real
from tests.agent.network.nodes import eventually
from tests.agent.oci_node import manifest
from tests.agent.runtime_place import IMAGE
from tests.processes import fairlead_up

pytestmark = [real_containers, real]

ADDRESS = "192.168.77.1"
HTTP = "busybox httpd -f -p 8080 -h /etc"
POLICY: Obj = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "web"},
    "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]},
}
SERVICE: Obj = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
}


@dataclass(frozen=True)
class Machine:
    """A namespace that a node has for itself, another on the same wire, and a cluster that runs there."""

    netns: Namespace
    neighbour: Namespace
    kubectl_path: Path
    kubeconfig: Path

    def begin(self, *words: str) -> subprocess.Popen[str]:
        command = [*within(self.netns), str(self.kubectl_path), "--kubeconfig", str(self.kubeconfig), *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def kubectl(self, *words: str, typed: str = "") -> str:
        process = self.begin(*words)
        out, err = process.communicate(typed, timeout=60)
        assert process.returncode == 0, err
        return out

    def create(self, *objects: Obj) -> None:
        self.kubectl("create", "-f", "-", typed=yaml.safe_dump_all(objects))

    def until_ready(self, *pods: str) -> None:
        self.kubectl("wait", "--for=condition=Ready", "--timeout=40s", *(f"pod/{pod}" for pod in pods))

    def fetched(self, pod: str, url: str, seconds: int = 2) -> str:
        """What a pod gets there; nothing if it gets nothing."""
        fetch = f"busybox timeout {seconds} wget -q -O - {url}"  # the wget of a static busybox has no time limit
        process = self.begin("exec", pod, "--", *fetch.split())
        return process.communicate(timeout=60)[0].strip()


def within(netns: Namespace) -> list[str]:
    return ["nsenter", f"--net={netns.path}"]


def pod(name: str, *argv: str, **container: Any) -> Obj:
    made = manifest(name, *argv, spec=None, **container)
    made["metadata"]["labels"] = {"app": name}
    return {"apiVersion": "v1", "kind": "Pod", **made}


@pytest.fixture
def machine(tmp_path: Path, kubectl_path: Path) -> Iterator[Machine]:
    """Nothing of the network is left when the node is reset."""
    with contextlib.closing(Wire()) as wire:
        netns, neighbour = wire.host("node", 1), wire.host("other", 2)
        before = left(netns)
        with own_cgroup(Cgroups(hierarchies())) as cgroup:
            yield from cluster_in(netns, neighbour, tmp_path, kubectl_path, cgroup)
        assert left(netns) == before


def cluster_in(
    netns: Namespace, neighbour: Namespace, folder: Path, kubectl_path: Path, cgroup: str
) -> Iterator[Machine]:
    """A cluster that runs there, and is reset in the end."""
    root = folder / "node"
    rootfs = root_file_system(folder / "rootfs")
    loading = ["images", "load", "--root", str(root), "--name", IMAGE, "--cmd", "sh", str(rootfs)]
    assert CliRunner().invoke(main, loading).exit_code == 0
    yield from machine_with(netns, neighbour, folder, kubectl_path, cgroup, "--node-runtime", "oci")


def machine_with(
    netns: Namespace, neighbour: Namespace, folder: Path, kubectl_path: Path, cgroup: str, *runtime: str
) -> Iterator[Machine]:
    config, root = folder / "kubelet.yaml", folder / "node"
    write_configuration(config, cgroup)
    options = (*runtime, "--node-root", str(root), "--node-config", str(config))
    try:
        with fairlead_up(folder / "data", *options, within=within(netns)) as up:
            yield Machine(netns, neighbour, kubectl_path, up.kubeconfig)
    finally:
        reset = [*within(netns), sys.executable, "-m", "fairlead", "node", "reset", "--root", str(root)]
        subprocess.run(reset, check=True)


def left(machine: Namespace) -> list[str]:
    """Where a network would be seen."""
    return [machine.run(command) for command in ("nft list tables", "ip -o link show", "ip -4 route show")]


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_pods_of_a_cluster_have_a_network(machine: Machine) -> None:
    web = {"ports": [{"name": "http", "containerPort": 8080, "hostPort": 8088}]}
    probes = {
        "readinessProbe": {"httpGet": {"port": "http", "path": "/hostname"}, "periodSeconds": 1},
        "livenessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    }
    machine.create(
        pod("web", *HTTP.split(), **web, **probes),
        pod("asker", "sleep", "1000"),
        pod("cat", "cat", stdin=True),
        SERVICE,
    )
    machine.until_ready("web", "asker", "cat")
    status = json.loads(machine.kubectl("get", "pod", "web", "-o", "json"))["status"]
    assert status["podIP"].startswith("10.244.") and status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["hostIP"] == ADDRESS
    assert machine.fetched("asker", f"http://{status['podIP']}:8080/hostname") == "web"
    for name in ("web", "web.default", "web.default.svc.cluster.local"):
        eventually(partial(is_fetched, machine, f"http://{name}/hostname"))
    assert "10.0.0.10" in machine.kubectl("get", "service", "kube-dns", "-n", "kube-system")
    assert got(machine.neighbour, f"http://{ADDRESS}:8088/hostname") == "web"

    with running(machine.begin("port-forward", "pod/web", ":8080")) as forwarding:
        assert forwarding.stdout is not None
        port = forwarding.stdout.readline().split(" -> ")[0].rpartition(":")[2]
        assert got(machine.netns, f"http://127.0.0.1:{port}/hostname") == "web"
    with running(machine.begin("attach", "-i", "cat")) as attached:
        assert attached.stdin is not None and attached.stdout is not None
        attached.stdin.write("to and fro\n")
        attached.stdin.flush()
        assert attached.stdout.readline() == "to and fro\n"

    machine.create(POLICY)
    eventually(lambda: machine.fetched("asker", "http://web/hostname", seconds=1) == "")
    machine.kubectl("delete", "networkpolicy", "web")
    eventually(lambda: machine.fetched("asker", "http://web/hostname", seconds=1) == "web")


def is_fetched(machine: Machine, url: str) -> bool:
    return machine.fetched("asker", url) == "web"


def got(machine: Namespace, url: str) -> str:
    """What a program of that machine gets there."""

    def work() -> str:
        with urllib.request.urlopen(url, timeout=5) as answer:
            text: str = answer.read().decode().strip()
            return text

    return machine.inside(work)


def test_a_pod_finds_the_api_server_as_in_any_cluster(machine: Machine) -> None:
    """By the service `kubernetes`, with its own token, as kubectl does in a pod; others on the network of the machine
    are not heard.
    """
    asker = pod("asker", "sleep", "1000", volumeMounts=[{"name": "bin", "mountPath": "/programs"}])
    asker["spec"]["volumes"] = [{"name": "bin", "hostPath": {"path": str(machine.kubectl_path.parent)}}]
    machine.create(asker)
    machine.until_ready("asker")
    whoami = ["/programs/" + machine.kubectl_path.name, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]
    assert machine.kubectl("exec", "asker", "--", *whoami) == "system:serviceaccount:default:default"

    endpoints = json.loads(machine.kubectl("get", "endpoints", "kubernetes", "-o", "json"))
    (subset,) = endpoints["subsets"]
    assert subset["addresses"] == [{"ip": ADDRESS}]
    port = subset["ports"][0]["port"]
    name = "kubernetes.default.svc.cluster.local"
    assert "10.0.0.1" in machine.netns.inside(partial(names_shown, "10.0.0.1", 443, name, machine.kubeconfig))
    with pytest.raises(OSError):
        machine.neighbour.inside(partial(names_shown, ADDRESS, port, name, machine.kubeconfig))


def names_shown(address: str, port: int, name: str, kubeconfig: Path) -> set[str]:
    """Those of the certificate that somebody shows there, which is one of the cluster's for that name."""
    context = ssl.create_default_context(cadata=(load(kubeconfig).ca or b"").decode())
    with (
        socket.create_connection((address, port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=name) as shown,
    ):
        certificate: Any = shown.getpeercert()
        return {value for _, value in certificate["subjectAltName"]}
