"""An autoscaler over simulated pods: what they use by their annotations decides how many there are."""

from __future__ import annotations

import asyncio

from fairlead.api.builtin import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS
from fairlead.api.objects import Obj
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform


def _deployment() -> Obj:
    labels = {"app": "web"}
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": "100m"}}}
    template = {
        "metadata": {"labels": labels, "annotations": {"sim.fairlead.dev/usage-cpu": "90m"}},
        "spec": {"containers": [container]},
    }
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def test_a_deployment_whose_pods_use_more_than_the_target_grows_to_its_maximum() -> None:
    async def story() -> None:
        async with simulation(Settings(nodes=tuple(uniform(2, NodeShape())))) as (api, _):
            await api.create(DEPLOYMENTS, _deployment(), "default")
            target = {"type": "Utilization", "averageUtilization": 50}
            spec = {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 3,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            }
            await api.create(HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": "web"}, "spec": spec}, "default")
            await asyncio.sleep(600)
            status = (await api.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")).obj()["status"]
            deployment = (await api.get(DEPLOYMENTS, "web", "default")).obj()
            assert deployment["status"]["readyReplicas"] == 3
            assert (status["currentReplicas"], status["desiredReplicas"]) == (3, 3)
            assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 90
            limited = next(entry for entry in status["conditions"] if entry["type"] == "ScalingLimited")
            assert (limited["status"], limited["reason"]) == ("True", "TooManyReplicas")

    run_virtual(story())
