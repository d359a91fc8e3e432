"""A ReplicaSet that an autoscaler scales, and pods that use what a test says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.node.stats.measurements import NodeMeasurements, PodsUse
from fairlead.runtime.clock import now, timestamp
from fairlead.runtime.http.replies import Reply
from tests import measured_nodes
from tests.controllers.cluster import Cluster


class Agents:
    """A node whose pods use what the test says."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self.milli = cluster, dict[str, int]()

    def has(self, node: str) -> bool:
        return True

    async def measure(self, node: str) -> NodeMeasurements:
        pods = [
            measured_nodes.pod(
                pod["metadata"]["name"], pod["metadata"]["uid"], measured_nodes.container("web", milli, 1)
            )
            for pod in await self._cluster.all(builtin.PODS)
            if (milli := self.milli.get(pod["metadata"]["name"])) is not None
        ]
        return measured_nodes.node(node, *pods)

    async def pods_use(self, node: str, uids: Collection[str]) -> PodsUse:
        return (await self.measure(node)).pods_use()

    async def get(self, node: str, path: str, query: Mapping[str, str]) -> Reply | None:
        return None


async def create_pod(cluster: Cluster, name: str, *, is_ready: bool = True) -> None:
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "100m"}}}],
    }
    await cluster.create(builtin.PODS, {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec})
    long_ago = timestamp(now() - 3600)
    ready = {"type": "Ready", "status": "True" if is_ready else "False", "lastTransitionTime": long_ago}
    status = {"phase": "Running", "startTime": long_ago, "conditions": [ready]}
    await cluster.patch(builtin.PODS, name, {"status": status}, "status")


async def create_workload(cluster: Cluster, replicas: int, **spec: Any) -> Agents:
    agents = Agents(cluster)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    target = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    await cluster.create(builtin.REPLICA_SETS, {"metadata": {"name": "web"}, "spec": target})
    for index in range(replicas):
        await create_pod(cluster, f"web-{index}")
    await create_autoscaler(cluster, "web", **spec)
    return agents


async def create_autoscaler(cluster: Cluster, name: str, **spec: Any) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
    whole = {"scaleTargetRef": reference, "maxReplicas": 10, "metrics": [cpu_metric()]} | spec
    await cluster.create(builtin.HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": name}, "spec": whole})


def cpu_metric(percent: int = 50, container: str = "") -> Obj:
    what: Obj = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}
    if container:
        return {"type": "ContainerResource", "containerResource": what | {"container": container}}
    return {"type": "Resource", "resource": what}


async def replicas_of(cluster: Cluster) -> int:
    found = await cluster.get(builtin.REPLICA_SETS, "web")
    assert found is not None
    return int(found["spec"]["replicas"])


async def status_of(cluster: Cluster) -> tuple[Obj, dict[str, tuple[str, str, str]]]:
    found = await cluster.get(builtin.HORIZONTAL_POD_AUTOSCALERS, "web")
    assert found is not None
    conditions = found["status"].get("conditions", [])
    return found["status"], {
        entry["type"]: (entry["status"], entry["reason"], entry["message"]) for entry in conditions
    }


def serve(cluster: Cluster, agents: Agents) -> None:
    cluster.server.serve_nodes(agents)
