"""What `fairlead up` tells Prometheus of all its parts (S0-81)."""

from __future__ import annotations

import socket
import ssl
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from fairlead.client.kubeconfig import load
from fairlead.client.tls import tls_of
from tests.e2e.helpers.clusters import node
from tests.e2e.helpers.terminal import Terminal
from tests.processes import Up

NODES = [node("node-1")]

_PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: web}]}
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: web, image: web, resources: {requests: {cpu: 1k}}}]}
"""


def metrics(up: Up) -> dict[str, Metric]:
    access = load(up.kubeconfig)
    with urlopen(f"{access.server}/metrics", timeout=60, context=tls_of(access)) as answer:
        return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}


def value(families: dict[str, Metric], sample: str, **labels: str) -> float:
    """The sum of the series that have these labels."""
    return sum(
        each.value
        for family in families.values()
        for each in family.samples
        if each.name == sample and labels.items() <= each.labels.items()
    )


def test_the_scheduler_and_the_controllers_are_told_of(cluster: Up, terminal: Terminal) -> None:
    before = metrics(cluster)
    terminal.output("kubectl create -f -", _PODS)
    terminal.output("kubectl create deployment two --image=web --replicas=2")
    terminal.output("kubectl wait --for=condition=Ready pod/web --timeout=60s")
    terminal.output("kubectl wait --for=condition=Available deployment/two --timeout=60s")
    terminal.output("kubectl wait --for=condition=PodScheduled=false pod/large --timeout=60s")
    after = metrics(cluster)

    def grown(sample: str, **labels: str) -> float:
        return value(after, sample, **labels) - value(before, sample, **labels)

    profile = {"profile": "default-scheduler"}
    assert grown("scheduler_schedule_attempts_total", result="scheduled", **profile) == 3
    assert grown("scheduler_schedule_attempts_total", result="unschedulable", **profile) >= 1
    assert grown("scheduler_scheduling_attempt_duration_seconds_count", result="scheduled", **profile) == 3
    assert grown("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 3
    assert grown("scheduler_queue_incoming_pods_total", queue="active", event="UnscheduledPodAdd") == 4
    points = "scheduler_framework_extension_point_duration_seconds_count"
    assert grown(points, extension_point="Bind", status="Success", **profile) == 3
    assert grown(points, extension_point="PostFilter", status="Unschedulable", **profile) >= 1
    assert value(after, "scheduler_unschedulable_pods", plugin="NodeResourcesFit", **profile) == 1
    assert value(after, "scheduler_pending_pods", queue="unschedulable") == 1
    assert value(after, "scheduler_cache_size", type="nodes") == 1
    for queue in ("deployment", "replicaset"):
        assert grown("workqueue_adds_total", name=queue) >= 1
        assert grown("workqueue_work_duration_seconds_count", name=queue) >= 1
    running = {"name": "deployment-controller", "manager": "kube-controller-manager"}
    assert value(after, "running_managed_controllers", **running) == 1
    created = {"verb": "POST", "resource": "pods", "code": "201"}
    assert grown("apiserver_request_total", **created) == 2, "components of the same process ask without HTTP"


def test_who_fails_in_the_handshake_is_counted(cluster: Up) -> None:
    def failed() -> float:
        return value(metrics(cluster), "apiserver_tls_handshake_errors_total")

    before = failed()
    address = load(cluster.kubeconfig).server.removeprefix("https://").split(":")
    with socket.create_connection((address[0], int(address[1])), 10) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        sock.recv(1000)
    assert failed() == before + 1


def test_who_has_the_role_of_monitoring_may_read_them(cluster: Up, terminal: Terminal, namespace: str) -> None:
    terminal.output("kubectl create serviceaccount prometheus")
    account = f"{namespace}:prometheus"
    binding = f"--clusterrole=system:monitoring --serviceaccount={account}"
    access = load(cluster.kubeconfig)

    def asked(path: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        context = ssl.create_default_context(cadata=(access.ca or b"").decode())
        try:
            with urlopen(Request(access.server + path, headers=headers), timeout=60, context=context) as answer:
                return int(answer.status)
        except HTTPError as refusal:
            return refusal.code

    token = terminal.output("kubectl create token prometheus --duration=8760h").strip()
    assert asked("/metrics") == 403
    terminal.output(f"kubectl create clusterrolebinding {namespace} {binding}")
    assert [asked(path) for path in ("/metrics", "/metrics/slis", "/readyz/etcd")] == [200, 200, 200]
    terminal.output(f"kubectl delete clusterrolebinding {namespace}")


def test_pods_that_a_taint_drives_away_are_counted(cluster: Up, terminal: Terminal) -> None:
    deletions = "taint_eviction_controller_pod_deletions_total"
    before = metrics(cluster)
    terminal.output("kubectl run web --image=web")
    terminal.output("kubectl wait --for=condition=Ready pod/web --timeout=60s")
    terminal.output("kubectl taint node node-1 bye:NoExecute")
    terminal.output("kubectl wait --for=delete pod/web --timeout=60s")
    terminal.output("kubectl taint node node-1 bye:NoExecute-")
    after = metrics(cluster)
    assert value(after, deletions) >= value(before, deletions) + 1
    assert value(after, "taint_eviction_controller_pod_deletion_duration_seconds_count") == value(after, deletions)
    assert value(after, "node_collector_zone_size") == 1
    assert value(after, "node_collector_zone_health") == 100
