"""`fairlead arbitrator` as two processes, beside an API server that knows nothing of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from fairlead.api.objects import Obj
from tests.e2e.helpers.clusters import cluster_of, node
from tests.e2e.helpers.terminal import Terminal
from tests.processes import Up, component, free_port

ENDPOINT = "kubectl get endpointslice extender-ipv4 -n default -o jsonpath='{.endpoints[*].addresses}{.ports[0].port}'"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with cluster_of(tmp_path_factory.mktemp("cluster"), node("node-1", cpu="4")) as up:
        yield up


@dataclass(frozen=True, slots=True)
class Replica:
    """A process, its port, and what it answers."""

    process: subprocess.Popen[str]
    port: int

    def ask(self, path: str, body: Obj | None = None) -> tuple[int, str]:
        data = json.dumps(body).encode() if body is not None else None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", data, timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:  # it does not listen yet
            return 0, str(error)

    def comes_to(self, status: int, path: str, body: Obj | None = None, seconds: float = 30) -> str:
        deadline = time.monotonic() + seconds
        while (found := self.ask(path, body))[0] != status:
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
        return found[1]


@contextmanager
def replica(up: Up, pod_ip: str) -> Iterator[Replica]:
    port = free_port()
    options = ["--listen", f"127.0.0.1:{port}", "--extender-service", "default/extender", "--pod-ip", pod_ip]
    with component(up, "arbitrator", *options) as process:
        yield Replica(process, port)


def asking(namespace: str, name: str) -> Obj:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "3"}}}
    pod = {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": {"containers": [container]}}
    return {"Pod": pod, "Nodes": None, "NodeNames": ["node-1"]}


def test_followers_answer_webhooks_and_the_extenders_service_leads_to_the_leader(
    terminal: Terminal, cluster: Up, namespace: str
) -> None:
    """S2-44, S2-47."""
    consumer = {"apiVersion": "kube-arbitrator.incubator.k8s.io/v1", "kind": "Consumer", "spec": {"weight": -1}}
    request = {"uid": "1", "operation": "CREATE", "kind": {"kind": "Consumer"}, "namespace": namespace}
    review = {"request": request | {"object": consumer | {"metadata": {"name": "defaults"}}}}
    with replica(cluster, "10.0.0.1") as one:
        one.comes_to(200, "/readyz")
        terminal.output("kubectl wait --for=create consumer/defaults --timeout=20s")
        with replica(cluster, "10.0.0.2") as two:
            two.comes_to(200, "/readyz")
            for each in (one, two):
                assert "spec.weight: Invalid value: -1" in each.comes_to(200, "/validate", review)
            assert two.ask("/filter", asking(namespace, "a"))[0] == 503
            terminal.comes_to(ENDPOINT, f'["10.0.0.1"]{one.port}')
            one.comes_to(200, "/filter", asking(namespace, "a"))
            assert f'deserved{{namespace="{namespace}"' in one.ask("/metrics")[1]
            one.process.terminate()
            one.process.wait(15)
            terminal.comes_to(ENDPOINT, f'["10.0.0.2"]{two.port}')
            told = json.loads(two.comes_to(200, "/filter", asking(namespace, "a")))
            assert told["NodeNames"] == [] and "not enough requests.cpu is granted" in str(told)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--listen", "9443"], "'9443' is not HOST:PORT"),
        (["--listen", ":9443"], "every address is not loopback: listening there needs --tls-cert-file"),
        (["--extender-service", "a/b"], "say nothing without --listen"),
        (["--listen", "127.0.0.1:0", "--extender-service", "a/b"], "--pod-ip"),
        (["--listen", "127.0.0.1:0", "--tls-cert-file", __file__], "go together"),
        (["--listen", "127.0.0.1:0", "--tls-cert-file", __file__, "--tls-private-key-file", __file__], "PEM"),
    ],
)
def test_wrong_options_are_told_in_a_sentence(cluster: Up, options: list[str], said: str) -> None:
    command = [sys.executable, "-m", "fairlead", "arbitrator", "--kubeconfig", str(cluster.kubeconfig), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
