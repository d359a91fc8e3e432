"""`metrics.k8s.io` and the way to a node's kubelet, over nodes whose measurements are stated (S0-66, S0-81)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.api.metrics import NODE_METRICS, POD_METRICS, NodeMetrics, PodMetrics
from fairlead.api.verbs import ListQuery
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access
from tests import measured_nodes
from tests.measured_nodes import GI, MI, MeasuredNodes
from tests.server.http_world import Server

_ROOT = "/apis/metrics.k8s.io/v1beta1"
_TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def _node(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]},
    }


def _pod(name: str, node: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "web", "image": "web"}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    agents = MeasuredNodes()
    server = Server(agents=agents)
    server.start()
    pods = []
    for name, seconds in (("busy", 60.0), ("idle", 60.0), ("young", 5.0)):
        made = server.ask("POST", "/api/v1/namespaces/default/pods", _pod(name, "n1")).obj
        containers = [measured_nodes.container("web", 250, 300 * MI, seconds)]
        if name == "busy":
            containers.append(measured_nodes.container("log", 1, 4 * MI))
        pods.append(measured_nodes.pod(name, made["metadata"]["uid"], *containers))
    server.ask("POST", "/api/v1/namespaces/default/pods", _pod("pending"))
    for node in (_node("n1", zone="a"), _node("n2", zone="b")):
        assert server.ask("POST", "/api/v1/nodes", node).code == 201
    agents.nodes["n1"] = measured_nodes.node("n1", *pods)
    yield server
    server.stop()


def test_pods_that_have_run_for_a_while_have_metrics_with_their_labels(world: Server) -> None:
    listed = world.ask("GET", f"{_ROOT}/namespaces/default/pods").obj
    assert (listed["kind"], listed["apiVersion"], listed["metadata"]) == (
        "PodMetricsList",
        "metrics.k8s.io/v1beta1",
        {},
    )
    assert [item["metadata"]["name"] for item in listed["items"]] == ["busy", "idle"]
    busy = listed["items"][0]
    assert busy["metadata"]["labels"] == {"app": "busy"}
    assert (busy["timestamp"], busy["window"]) == ("2026-01-02T03:04:05Z", "15s")
    assert busy["containers"] == [
        {"name": "web", "usage": {"cpu": "250m", "memory": "300Mi"}},
        {"name": "log", "usage": {"cpu": "1m", "memory": "4Mi"}},
    ]


def test_nodes_that_are_measured_have_metrics(world: Server) -> None:
    listed = world.ask("GET", f"{_ROOT}/nodes").obj["items"]
    assert [(item["metadata"]["name"], item["usage"]) for item in listed] == [("n1", {"cpu": "1500m", "memory": "3Gi"})]
    assert world.ask("GET", f"{_ROOT}/nodes/n1").obj["kind"] == "NodeMetrics"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("labelSelector=app%3Didle", ["idle"]),
        ("labelSelector=app+notin+(busy)", ["idle"]),
        ("fieldSelector=metadata.name%3Dbusy", ["busy"]),
    ],
)
def test_selectors_mean_the_pods(world: Server, query: str, names: list[str]) -> None:
    listed = world.ask("GET", f"{_ROOT}/pods?{query}").obj["items"]
    assert [item["metadata"]["name"] for item in listed] == names


def test_pages_lead_to_every_pod(world: Server) -> None:
    names, token = [], ""
    while True:
        page = world.ask("GET", f"{_ROOT}/pods?limit=1&continue={token}").obj
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert names == ["busy", "idle"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("namespaces/default/pods/young", 'podmetrics.metrics.k8s.io "default/young" not found'),
        ("namespaces/default/pods/pending", 'podmetrics.metrics.k8s.io "default/pending" not found'),
        ("namespaces/default/pods/none", 'pods "none" not found'),
        ("nodes/n2", 'nodemetrics.metrics.k8s.io "n2" not found'),
        ("nodes/none", 'nodes "none" not found'),
    ],
)
def test_what_is_not_measured_is_not_found(world: Server, path: str, message: str) -> None:
    reply = world.ask("GET", f"{_ROOT}/{path}")
    assert (reply.code, reply.obj["message"]) == (404, message)


@pytest.mark.parametrize(
    "request_", [("GET", "pods?watch=1"), ("POST", "namespaces/default/pods"), ("DELETE", "nodes")]
)
def test_metrics_can_only_be_read(world: Server, request_: tuple[str, str]) -> None:
    method, path = request_
    assert world.ask(method, f"{_ROOT}/{path}", {} if method == "POST" else None).code == 405


def test_a_table_shows_the_sum_over_containers(world: Server) -> None:
    table = world.ask("GET", f"{_ROOT}/namespaces/default/pods", headers=_TABLE).obj
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
    assert [row["cells"] for row in table["rows"]] == [
        ["busy", "251m", "304Mi", "15s"],
        ["idle", "250m", "300Mi", "15s"],
    ]


def test_discovery_and_schemas_know_the_kinds(world: Server) -> None:
    rows = world.ask("GET", _ROOT).obj["resources"]
    assert [(row["name"], row["kind"], row["verbs"]) for row in rows] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]
    schemas = world.ask("GET", "/openapi/v3/apis/metrics.k8s.io/v1beta1").obj["components"]["schemas"]
    pod = next(schema for name, schema in schemas.items() if name.endswith("v1beta1.PodMetrics"))
    assert set(pod["required"]) == {"timestamp", "window", "containers"}


def test_without_a_source_the_group_is_unknown() -> None:
    server = Server()
    server.start()
    try:
        groups = server.ask("GET", "/apis").obj["groups"]
        assert "metrics.k8s.io" not in {group["name"] for group in groups}
        assert server.ask("GET", f"{_ROOT}/pods").code == 404
        server.ask("POST", "/api/v1/nodes", _node("n1"))
        reply = server.ask("GET", "/api/v1/nodes/n1/proxy/stats/summary")
        message = "error trying to reach service: dial tcp 10.0.0.7:10250: connect: connection refused"
        assert (reply.code, reply.obj["reason"], reply.obj["message"]) == (503, "ServiceUnavailable", message)
    finally:
        server.stop()


def test_the_proxy_leads_to_the_kubelet(world: Server) -> None:
    """S1-27: the summary lists the cgroups of the system."""
    shown = world.ask("GET", "/api/v1/nodes/n1/proxy/stats/summary").obj
    assert [entry["name"] for entry in shown["node"]["systemContainers"]] == ["kubelet", "runtime", "pods"]
    assert shown["node"]["memory"]["availableBytes"] == 13 * GI
    assert world.ask("GET", "/api/v1/nodes/n1:10250/proxy/healthz").body == b"ok"
    assert world.ask("GET", "/api/v1/nodes/https:n1:10250/proxy/healthz/").body == b"ok"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "n1/proxy/nothing/here", 404),
        ("GET", "n1/proxy", 404),
        ("POST", "n1/proxy/healthz", 405),
        ("GET", "none/proxy/healthz", 404),
        ("GET", "n2/proxy/healthz", 503),
        ("GET", "n1:1/proxy/healthz", 503),
    ],
)
def test_what_the_proxy_does_not_lead_to(world: Server, method: str, path: str, code: int) -> None:
    assert world.ask(method, f"/api/v1/nodes/{path}").code == code


def test_api_over_http_reads_metrics_as_any_kind(world: Server) -> None:
    async def names() -> list[str]:
        async with HttpApi(Access(f"http://127.0.0.1:{world.port}")) as api:
            pods = await api.list(POD_METRICS, "default", ListQuery(labels="app=busy"))
            node = await api.get(NODE_METRICS, "n1")
            return [*(item.view(PodMetrics).metadata.name for item in pods.items), node.view(NodeMetrics).usage["cpu"]]

    assert asyncio.run(names()) == ["busy", "1500m"]
