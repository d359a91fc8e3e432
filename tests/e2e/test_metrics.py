"""`kubectl top`, as with metrics-server, and what a kubelet answers through the API server (S0-66, S0-81)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.versions import every_kubectl
from tests.processes import fairlead_up

_PROXY = "kubectl get --raw /api/v1/nodes/node-1/proxy"


def _with_usage(name: str, cpu: str, memory: str) -> str:
    manifest = json.loads(pod(name, container()))
    usage = {"sim.fairlead.dev/usage-cpu": cpu, "sim.fairlead.dev/usage-memory": memory}
    manifest["metadata"] |= {"annotations": usage, "labels": {"app": name}}
    return json.dumps(manifest)


@pytest.mark.slow
@every_kubectl
def test_top_shows_what_pods_and_nodes_use(terminal: Terminal, namespace: str) -> None:
    for name, cpu, memory in (("busy", "700m", "100Mi"), ("large", "50m", "300Mi")):
        terminal.output("kubectl create -f -", _with_usage(name, cpu, memory))
    terminal.comes_to(
        "kubectl top pod --sort-by=memory",
        """
        NAME    CPU(cores)   MEMORY(bytes)
        large   50m          300Mi
        busy    700m         100Mi
        """,
    )
    terminal.prints(
        "kubectl top pod -l app=busy --containers",
        """
        POD    NAME   CPU(cores)   MEMORY(bytes)
        busy   c      700m         100Mi
        """,
    )
    everywhere = terminal.output("kubectl top pod -A --no-headers").split()
    assert everywhere[:4] == [namespace, "busy", "700m", "100Mi"]
    name, cpu, share, *_ = terminal.output("kubectl top node --no-headers").split()
    assert (name, cpu) == ("node-1", "750m")
    assert share.endswith("%")
    terminal.prints(
        "kubectl get pods.metrics.k8s.io",
        """
        NAME    CPU    MEMORY   WINDOW
        busy    700m   100Mi    15s
        large   50m    300Mi    15s
        """,
    )


@every_kubectl
def test_the_proxy_leads_to_what_a_kubelet_shows(terminal: Terminal, namespace: str) -> None:
    assert terminal.output(f"{_PROXY}/healthz") == "ok"
    summary = json.loads(terminal.output(f"{_PROXY}/stats/summary"))
    assert summary["node"]["nodeName"] == "node-1"
    assert "node_cpu_usage_seconds_total" in terminal.output(f"{_PROXY}/metrics/resource")
    assert json.loads(terminal.output(f"{_PROXY}/configz"))["kubeletconfig"]["maxPods"] == 110


@every_kubectl
def test_a_pod_without_metrics_is_told_of(terminal: Terminal, namespace: str) -> None:
    terminal.refuses("kubectl top pod none", 'Error from server (NotFound): pods "none" not found')


def test_a_cluster_without_nodes_of_its_own_has_no_metrics(tmp_path: Path, kubectl_of_minor: Path) -> None:
    with fairlead_up(tmp_path / "data", "--components", "api,controllers") as up:
        terminal = Terminal(tmp_path / "home", kubectl_of_minor, variables={"KUBECONFIG": str(up.kubeconfig)})
        terminal.refuses("kubectl top pod", "error: Metrics API not available")
