"""Autoscalers over a served source of metrics, in virtual time: replicas, conditions and events."""

from __future__ import annotations

import asyncio

from fairlead.controllers.horizontal import HorizontalPodAutoscalers
from tests.controllers.cluster import Cluster, run
from tests.controllers.horizontal.autoscaled import (
    cpu_metric,
    create_autoscaler,
    create_pod,
    create_workload,
    replicas_of,
    serve,
    status_of,
)

_AVAILABLE = "the HPA controller was able to get the target's current scale"
_NO_METRICS = (
    "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource "
    "metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
)


def test_pods_above_the_target_get_more_replicas_and_the_status_says_why() -> None:
    async def story(cluster: Cluster) -> None:
        agents = await create_workload(cluster, 2)
        serve(cluster, agents)
        agents.milli |= {"web-0": 80, "web-1": 80}
        await asyncio.sleep(14)
        assert await replicas_of(cluster) == 2
        await asyncio.sleep(3)
        assert await replicas_of(cluster) == 4
        status, conditions = await status_of(cluster)
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
        agents = await create_workload(cluster, 4)
        serve(cluster, agents)
        agents.milli |= {f"web-{index}": 25 for index in range(4)}
        await asyncio.sleep(300)
        assert await replicas_of(cluster) == 4
        _, conditions = await status_of(cluster)
        assert conditions["AbleToScale"][1] == "ScaleDownStabilized"
        await asyncio.sleep(40)
        assert await replicas_of(cluster) == 2
        assert (
            "Normal",
            "SuccessfulRescale",
            "New size: 2; reason: All metrics below target",
        ) in await cluster.events()

    run(story, HorizontalPodAutoscalers)


def test_a_policy_limits_how_many_go_in_its_period() -> None:
    async def story(cluster: Cluster) -> None:
        policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
        agents = await create_workload(
            cluster, 4, behavior={"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [policy]}}
        )
        serve(cluster, agents)
        agents.milli |= {f"web-{index}": 10 for index in range(4)}
        await asyncio.sleep(20)
        assert await replicas_of(cluster) == 3
        assert (await status_of(cluster))[1]["ScalingLimited"][:2] == ("True", "ScaleDownLimit")
        await asyncio.sleep(40)
        assert await replicas_of(cluster) == 3

    run(story, HorizontalPodAutoscalers)


def test_without_a_metrics_api_the_conditions_and_events_are_the_real_ones() -> None:
    async def story(cluster: Cluster) -> None:
        await create_workload(cluster, 2)
        await asyncio.sleep(20)
        status, conditions = await status_of(cluster)
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
        agents = await create_workload(cluster, 2)
        serve(cluster, agents)
        await create_pod(cluster, "web-new")
        agents.milli |= {"web-0": 100, "web-1": 100}
        await asyncio.sleep(20)
        assert await replicas_of(cluster) == 4  # 200 of 300 requested is 66 %, of a target of 50: 3 x 1.32

    run(story, HorizontalPodAutoscalers)


def test_one_container_can_be_the_measure() -> None:
    async def story(cluster: Cluster) -> None:
        agents = await create_workload(cluster, 1, metrics=[cpu_metric(container="web")])
        serve(cluster, agents)
        agents.milli["web-0"] = 150
        await asyncio.sleep(20)
        assert await replicas_of(cluster) == 3
        status, _ = await status_of(cluster)
        assert status["currentMetrics"][0]["containerResource"]["container"] == "web"

    run(story, HorizontalPodAutoscalers)


def test_a_target_that_does_not_exist_is_told_once_a_look() -> None:
    async def story(cluster: Cluster) -> None:
        await create_autoscaler(cluster, "web")
        await asyncio.sleep(20)
        _, conditions = await status_of(cluster)
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
        agents = await create_workload(cluster, 2)
        serve(cluster, agents)
        await create_autoscaler(cluster, "web2")
        await asyncio.sleep(40)
        text = "pods by selector app=web are controlled by multiple HPAs: [{web n} {web2 n}]"
        assert (await status_of(cluster))[1]["ScalingActive"] == ("False", "AmbiguousSelector", text)
        assert ("Warning", "AmbiguousSelector", text) in await cluster.events()

    run(story, HorizontalPodAutoscalers)


def test_replicas_outside_the_bounds_are_brought_within_them_without_metrics() -> None:
    async def story(cluster: Cluster) -> None:
        await create_workload(cluster, 2, minReplicas=3)
        await asyncio.sleep(20)
        assert await replicas_of(cluster) == 3
        text = "New size: 3; reason: Current number of replicas below Spec.MinReplicas"
        assert await cluster.events() == [("Normal", "SuccessfulRescale", text)]

    run(story, HorizontalPodAutoscalers)
