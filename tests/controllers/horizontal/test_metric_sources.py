"""What kinds of metrics, tolerances and targets there are, and what an autoscaler makes of each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.controllers.horizontal import HorizontalPodAutoscalers
from tests.controllers.cluster import Cluster, run
from tests.controllers.horizontal.autoscaled import (
    Agents,
    cpu_metric,
    create_autoscaler,
    create_pod,
    create_workload,
    replicas_of,
    serve,
    status_of,
)
from tests.registry_api import definition_of

_WIDGETS = Resource(group="x.io", version="v1", plural="widgets", kind="Widget", singular="widget")
_INGRESS = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"}
_NO_CUSTOM = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
_NO_EXTERNAL = (
    "unable to fetch metrics from external metrics API: the server could not find the requested resource "
    "(get queue.external.metrics.k8s.io)"
)
_VALUE, _AVERAGE = {"type": "Value", "value": "10"}, {"type": "AverageValue", "averageValue": "10"}
_ON_INGRESS = f"unable to get metric rate: Ingress on n main/{_NO_CUSTOM}"
_QUEUE = f"unable to get external metric n/queue/nil: {_NO_EXTERNAL}"
_SELECTED_QUEUE = (
    "unable to get external metric n/queue/&LabelSelector{MatchLabels:map[string]string{topic: a,},"
    f"MatchExpressions:[]LabelSelectorRequirement{{}},}}: {_NO_EXTERNAL}"
)


def _custom(type_: str, name: str, target: Obj, **more: Any) -> Obj:
    selector = more.pop("selector", {})
    return {"type": type_, type_.lower(): {"metric": {"name": name} | selector, "target": target} | more}


@pytest.mark.parametrize(
    ("metric", "reason", "text", "context"),
    [
        (
            _custom("Pods", "hits", _AVERAGE),
            "FailedGetPodsMetric",
            f"unable to get metric hits: {_NO_CUSTOM}",
            "failed to get pods metric value",
        ),
        (
            _custom("Object", "rate", _VALUE, describedObject=_INGRESS),
            "FailedGetObjectMetric",
            _ON_INGRESS,
            "failed to get object metric value",
        ),
        (
            _custom("Object", "rate", _AVERAGE, describedObject=_INGRESS),
            "FailedGetObjectMetric",
            _ON_INGRESS,
            "failed to get object metric value: failed to get rate object metric",
        ),
        (
            _custom("External", "queue", _VALUE),
            "FailedGetExternalMetric",
            _QUEUE,
            "failed to get queue external metric value: failed to get external metric queue",
        ),
        (
            _custom("External", "queue", _AVERAGE, selector={"selector": {"matchLabels": {"topic": "a"}}}),
            "FailedGetExternalMetric",
            _SELECTED_QUEUE,
            "failed to get queue external metric value: failed to get queue external metric",
        ),
    ],
)
def test_a_metric_that_nobody_serves_is_reported_as_by_the_real_controller(
    metric: Obj, reason: str, text: str, context: str
) -> None:
    async def story(cluster: Cluster) -> None:
        await create_workload(cluster, 2, metrics=[metric])
        await asyncio.sleep(20)
        _, conditions = await status_of(cluster)
        message = f"the HPA was unable to compute the replica count: {text}"
        assert conditions["ScalingActive"] == ("False", reason, message)
        summary = f"invalid metrics (1 invalid out of 1), first error is: {context}: {text}"
        assert sorted(await cluster.events()) == sorted(
            [("Warning", "FailedComputeMetricsReplicas", summary), ("Warning", reason, text)]
        )

    run(story, HorizontalPodAutoscalers)


@pytest.mark.parametrize(("milli", "replicas"), [(80, 4), (10, 2)])
def test_beside_a_metric_that_fails_others_may_add_replicas_but_take_none_away(milli: int, replicas: int) -> None:
    async def story(cluster: Cluster) -> None:
        behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
        metrics = [_custom("Pods", "hits", _AVERAGE), cpu_metric()]
        agents = await create_workload(cluster, 2, metrics=metrics, behavior=behavior)
        serve(cluster, agents)
        agents.milli |= {"web-0": milli, "web-1": milli}
        await asyncio.sleep(20)
        assert await replicas_of(cluster) == replicas

    run(story, HorizontalPodAutoscalers)


def test_pods_can_have_a_target_of_their_own_instead_of_a_share_of_their_requests() -> None:
    async def story(cluster: Cluster) -> None:
        target = {"type": "AverageValue", "averageValue": "50m"}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        agents = await create_workload(cluster, 2, metrics=[metric])
        serve(cluster, agents)
        agents.milli |= {"web-0": 50, "web-1": 72}
        await asyncio.sleep(20)
        assert await replicas_of(cluster) == 3
        status, _ = await status_of(cluster)
        current = {"averageValue": "61m"}
        assert status["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
        assert await cluster.events() == [
            ("Normal", "SuccessfulRescale", "New size: 3; reason: cpu resource above target")
        ]

    run(story, HorizontalPodAutoscalers)


@pytest.mark.parametrize(
    ("behavior", "milli", "replicas"),
    [
        ({}, 54, 2),
        ({"scaleUp": {"tolerance": "0.05"}}, 54, 3),
        ({"scaleUp": {"tolerance": "500m"}}, 74, 2),
        ({"scaleDown": {"tolerance": "0.05"}}, 54, 2),
        ({"scaleDown": {"tolerance": "0.7", "stabilizationWindowSeconds": 0}}, 20, 2),
        ({"scaleDown": {"stabilizationWindowSeconds": 0}}, 20, 1),
    ],
)
def test_each_direction_has_its_own_tolerance(behavior: Obj, milli: int, replicas: int) -> None:
    async def story(cluster: Cluster) -> None:
        agents = await create_workload(cluster, 2, behavior=behavior)
        serve(cluster, agents)
        agents.milli |= {"web-0": milli, "web-1": milli}
        await asyncio.sleep(20)
        assert await replicas_of(cluster) == replicas

    run(story, HorizontalPodAutoscalers)


def test_unready_pods_use_nothing_where_more_replicas_are_asked_for() -> None:
    """320m of 600m requested are 53 %, near enough to 50 %; of the four that are ready alone it would be 80 %."""

    async def story(cluster: Cluster) -> None:
        agents = await create_workload(cluster, 4)
        serve(cluster, agents)
        for name in ("web-new", "web-newer"):
            await create_pod(cluster, name, is_ready=False)
        agents.milli |= {f"web-{index}": 80 for index in range(4)} | {"web-new": 900, "web-newer": 900}
        await asyncio.sleep(20)
        assert await replicas_of(cluster) == 4
        status, _ = await status_of(cluster)
        assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 80

    run(story, HorizontalPodAutoscalers)


def test_a_container_that_no_pod_has_fails_alone() -> None:
    async def story(cluster: Cluster) -> None:
        agents = await create_workload(cluster, 1, metrics=[cpu_metric(container="web"), cpu_metric(container="log")])
        serve(cluster, agents)
        agents.milli["web-0"] = 50
        await asyncio.sleep(20)
        _, conditions = await status_of(cluster)
        text = (
            "failed to get cpu utilization: unable to get metrics for resource cpu: failed to get container metrics: "
            "container log not present in metrics for pod n/web-0"
        )
        assert ("Warning", "FailedGetContainerResourceMetric", text) in await cluster.events()
        assert conditions["ScalingActive"][1] == "ValidMetricFound"

    run(story, HorizontalPodAutoscalers)


@pytest.mark.parametrize(
    ("rules", "first", "second"),
    [
        ({"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}, 3, 4),
        ({"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}, 3, 4),
        ({"policies": [{"type": "Percent", "value": 200, "periodSeconds": 60}]}, 6, 10),
        (
            {
                "selectPolicy": "Min",
                "policies": [
                    {"type": "Percent", "value": 200, "periodSeconds": 60},
                    {"type": "Pods", "value": 2, "periodSeconds": 60},
                ],
            },
            4,
            6,
        ),
    ],
)
def test_a_policy_limits_how_many_come_in_its_period(rules: Obj, first: int, second: int) -> None:
    async def story(cluster: Cluster) -> None:
        agents = await create_workload(cluster, 2, behavior={"scaleUp": rules})
        serve(cluster, agents)
        agents.milli |= {f"web-{index}": 1000 for index in range(10)}
        await asyncio.sleep(20)
        assert await replicas_of(cluster) == first
        assert (await status_of(cluster))[1]["ScalingLimited"][:2] == ("True", "ScaleUpLimit")
        await asyncio.sleep(50)
        assert await replicas_of(cluster) == first
        await asyncio.sleep(30)
        assert await replicas_of(cluster) == second

    run(story, HorizontalPodAutoscalers)


def test_replicas_go_up_only_when_the_whole_window_proposed_more() -> None:
    async def story(cluster: Cluster) -> None:
        agents = await create_workload(cluster, 2, behavior={"scaleUp": {"stabilizationWindowSeconds": 60}})
        serve(cluster, agents)
        agents.milli |= {"web-0": 80, "web-1": 80}
        await asyncio.sleep(70)
        assert await replicas_of(cluster) == 2
        assert (await status_of(cluster))[1]["AbleToScale"][1] == "ScaleUpStabilized"
        await asyncio.sleep(20)
        assert await replicas_of(cluster) == 4

    run(story, HorizontalPodAutoscalers)


def test_a_custom_kind_with_a_scale_is_scaled() -> None:
    async def story(cluster: Cluster) -> None:
        serving = asyncio.create_task(cluster.server.run())
        await cluster.create(builtin.CUSTOM_RESOURCE_DEFINITIONS, definition_of(_WIDGETS))
        await asyncio.sleep(5)
        widget = {"metadata": {"name": "web"}, "spec": {"replicas": 2}, "status": {"selector": "app=web"}}
        await cluster.create(_WIDGETS, widget)
        agents = Agents(cluster)
        serve(cluster, agents)
        for index in range(2):
            await create_pod(cluster, f"web-{index}")
            agents.milli[f"web-{index}"] = 80
        reference = {"apiVersion": "x.io/v1", "kind": "Widget", "name": "web"}
        await create_autoscaler(cluster, "web", scaleTargetRef=reference)
        await asyncio.sleep(20)
        found = await cluster.get(_WIDGETS, "web")
        assert found is not None
        assert found["spec"]["replicas"] == 4
        serving.cancel()

    run(story, HorizontalPodAutoscalers)
