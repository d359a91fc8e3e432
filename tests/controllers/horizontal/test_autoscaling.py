"""Autoscalers over a served source of metrics, in virtual time: replicas, conditions and events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.controllers.horizontal import HorizontalPodAutoscalers
from fairlead.node.stats.endpoints import NodeAnswer
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.runtime.clock import now, timestamp
from tests import measured_nodes
from tests.controllers.cluster import Cluster, run

_AVAILABLE = "the HPA controller was able to get the target's current scale"
_NO_METRICS = (
    "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource "
    "metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
)


class _Agents:
    """A node whose pods use what the test says."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self.milli = cluster, dict[str, int]()

    async def measure(self, node: str) -> NodeMeasurements | None:
        pods = [
            measured_nodes.pod(
                pod["metadata"]["name"], pod["metadata"]["uid"], measured_nodes.container("web", milli, 1)
            )
            for pod in await self._cluster.all(builtin.PODS)
            if (milli := self.milli.get(pod["metadata"]["name"])) is not None
        ]
        return measured_nodes.node(node, *pods)

    async def get(self, node: str, path: str, query: Mapping[str, str]) -> NodeAnswer | None:
        return None


async def _pod(cluster: Cluster, name: str, *, is_ready: bool = True) -> None:
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "100m"}}}],
    }
    await cluster.create(builtin.PODS, {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec})
    long_ago = timestamp(now() - 3600)
    ready = {"type": "Ready", "status": "True" if is_ready else "False", "lastTransitionTime": long_ago}
    status = {"phase": "Running", "startTime": long_ago, "conditions": [ready]}
    await cluster.patch(builtin.PODS, name, {"status": status}, "status")


async def _workload(cluster: Cluster, replicas: int, **spec: Any) -> _Agents:
    agents = _Agents(cluster)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    target = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    await cluster.create(builtin.REPLICA_SETS, {"metadata": {"name": "web"}, "spec": target})
    for index in range(replicas):
        await _pod(cluster, f"web-{index}")
    await _autoscaler(cluster, "web", **spec)
    return agents


async def _autoscaler(cluster: Cluster, name: str, **spec: Any) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
    whole = {"scaleTargetRef": reference, "maxReplicas": 10, "metrics": [_metric()]} | spec
    await cluster.create(builtin.HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": name}, "spec": whole})


def _metric(percent: int = 50, container: str = "") -> Obj:
    what: Obj = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}
    if container:
        return {"type": "ContainerResource", "containerResource": what | {"container": container}}
    return {"type": "Resource", "resource": what}


async def _replicas(cluster: Cluster) -> int:
    found = await cluster.get(builtin.REPLICA_SETS, "web")
    assert found is not None
    return int(found["spec"]["replicas"])


async def _status(cluster: Cluster) -> tuple[Obj, dict[str, tuple[str, str, str]]]:
    found = await cluster.get(builtin.HORIZONTAL_POD_AUTOSCALERS, "web")
    assert found is not None
    conditions = found["status"].get("conditions", [])
    return found["status"], {
        entry["type"]: (entry["status"], entry["reason"], entry["message"]) for entry in conditions
    }


def _serve(cluster: Cluster, agents: _Agents) -> None:
    cluster.server.serve_nodes(agents)


def test_pods_above_the_target_get_more_replicas_and_the_status_says_why() -> None:
    async def story(cluster: Cluster) -> None:
        agents = await _workload(cluster, 2)
        _serve(cluster, agents)
        agents.milli |= {"web-0": 80, "web-1": 80}
        await asyncio.sleep(14)
        assert await _replicas(cluster) == 2
        await asyncio.sleep(3)
        assert await _replicas(cluster) == 4
        status, conditions = await _status(cluster)
        assert conditions == {
            "AbleToScale": ("True", "SucceededRescale", "the HPA controller was able to update the target scale to 4"),
            "ScalingActive": (
                "True",
                "ValidMetricFound",
                "the HPA was able to successfully calculate a replica count from cpu resource utilization "
                "(percentage of request)",
            ),
            "ScalingLimited": ("False", "DesiredWithinRange", "the desired count is within the acceptable range"),
        }
        assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 4)
        assert status["lastScaleTime"]
        current = {"averageUtilization": 80, "averageValue": "80m"}
        assert status["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
        reason = "cpu resource utilization (percentage of request) above target"
        assert await cluster.events() == [("Normal", "SuccessfulRescale", f"New size: 4; reason: {reason}")]

    run(story, HorizontalPodAutoscalers)


def test_replicas_go_down_only_when_five_minutes_proposed_fewer() -> None:
    async def story(cluster: Cluster) -> None:
        agents = await _workload(cluster, 4)
        _serve(cluster, agents)
        agents.milli |= {f"web-{index}": 25 for index in range(4)}
        await asyncio.sleep(300)
        assert await _replicas(cluster) == 4
        _, conditions = await _status(cluster)
        assert conditions["AbleToScale"][1] == "ScaleDownStabilized"
        await asyncio.sleep(40)
        assert await _replicas(cluster) == 2
        assert (
            "Normal",
            "SuccessfulRescale",
            "New size: 2; reason: All metrics below target",
        ) in await cluster.events()

    run(story, HorizontalPodAutoscalers)


def test_a_policy_limits_how_many_go_in_its_period() -> None:
    async def story(cluster: Cluster) -> None:
        policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
        agents = await _workload(
            cluster, 4, behavior={"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [policy]}}
        )
        _serve(cluster, agents)
        agents.milli |= {f"web-{index}": 10 for index in range(4)}
        await asyncio.sleep(20)
        assert await _replicas(cluster) == 3
        assert (await _status(cluster))[1]["ScalingLimited"][:2] == ("True", "ScaleDownLimit")
        await asyncio.sleep(40)
        assert await _replicas(cluster) == 3

    run(story, HorizontalPodAutoscalers)


def test_without_a_metrics_api_the_conditions_and_events_are_the_real_ones() -> None:
    async def story(cluster: Cluster) -> None:
        await _workload(cluster, 2)
        await asyncio.sleep(20)
        status, conditions = await _status(cluster)
        assert conditions == {
            "AbleToScale": ("True", "SucceededGetScale", _AVAILABLE),
            "ScalingActive": (
                "False",
                "FailedGetResourceMetric",
                f"the HPA was unable to compute the replica count: {_NO_METRICS}",
            ),
        }
        assert status["currentMetrics"] == [{"type": ""}]
        first = f"failed to get cpu resource metric value: {_NO_METRICS}"
        summary = f"invalid metrics (1 invalid out of 1), first error is: {first}"
        assert await cluster.events() == [
            ("Warning", "FailedComputeMetricsReplicas", summary),
            ("Warning", "FailedGetResourceMetric", _NO_METRICS),
        ]

    run(story, HorizontalPodAutoscalers)


def test_unready_pods_and_pods_without_a_sample_damp_the_change() -> None:
    async def story(cluster: Cluster) -> None:
        agents = await _workload(cluster, 2)
        _serve(cluster, agents)
        await _pod(cluster, "web-new")
        agents.milli |= {"web-0": 100, "web-1": 100}
        await asyncio.sleep(20)
        assert await _replicas(cluster) == 4  # 200 of 300 requested is 66 %, of a target of 50: 3 x 1.32

    run(story, HorizontalPodAutoscalers)


def test_one_container_can_be_the_measure() -> None:
    async def story(cluster: Cluster) -> None:
        agents = await _workload(cluster, 1, metrics=[_metric(container="web")])
        _serve(cluster, agents)
        agents.milli["web-0"] = 150
        await asyncio.sleep(20)
        assert await _replicas(cluster) == 3
        status, _ = await _status(cluster)
        assert status["currentMetrics"][0]["containerResource"]["container"] == "web"

    run(story, HorizontalPodAutoscalers)


def test_a_target_that_does_not_exist_is_told_once_a_look() -> None:
    async def story(cluster: Cluster) -> None:
        await _autoscaler(cluster, "web")
        await asyncio.sleep(20)
        _, conditions = await _status(cluster)
        text = 'replicasets.apps "web" not found'
        assert conditions["AbleToScale"] == (
            "False",
            "FailedGetScale",
            f"the HPA controller was unable to get the target's current scale: {text}",
        )
        assert await cluster.events() == [("Warning", "FailedGetScale", text)]

    run(story, HorizontalPodAutoscalers)


def test_two_autoscalers_of_the_same_pods_are_ambiguous() -> None:
    async def story(cluster: Cluster) -> None:
        agents = await _workload(cluster, 2)
        _serve(cluster, agents)
        await _autoscaler(cluster, "web2")
        await asyncio.sleep(40)
        text = "pods by selector app=web are controlled by multiple HPAs: [{web n} {web2 n}]"
        assert (await _status(cluster))[1]["ScalingActive"] == ("False", "AmbiguousSelector", text)
        assert ("Warning", "AmbiguousSelector", text) in await cluster.events()

    run(story, HorizontalPodAutoscalers)


def test_replicas_outside_the_bounds_are_brought_within_them_without_metrics() -> None:
    async def story(cluster: Cluster) -> None:
        await _workload(cluster, 2, minReplicas=3)
        await asyncio.sleep(20)
        assert await _replicas(cluster) == 3
        text = "New size: 3; reason: Current number of replicas below Spec.MinReplicas"
        assert await cluster.events() == [("Normal", "SuccessfulRescale", text)]

    run(story, HorizontalPodAutoscalers)
