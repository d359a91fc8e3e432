"""Autoscalers sleep while nothing changes (`controllers/horizontal/resting.py`), and do the same as if they did not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.builtin import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, NODES, PODS
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Listing, ListQuery
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.loops import run_virtual
from fairlead.server.nodes.resource_metrics import PodMetricsKind
from fairlead.server.registry.registry import UserApi
from fairlead.sim.machine.machines import Machines
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.sim.usage.objects import USAGE_PROFILES
from tests.examples import examples

USAGE = "sim.fairlead.dev/usage-cpu"
LABELS = {"app": "web"}


async def workload(api: UserApi, cpu: str = "50m", **spec: Any) -> None:
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": LABELS, "annotations": {USAGE: cpu}}, "spec": {"containers": [container]}}
    body = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template}
    await api.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": body}, "default")
    await api.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler("web", **spec), "default")


def autoscaler(name: str, **spec: Any) -> Obj:
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    whole = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 6}
    return {"metadata": {"name": name}, "spec": whole | {"metrics": [{"type": "Resource", "resource": metric}]} | spec}


def nodes() -> Settings:
    return Settings(nodes=tuple(uniform(2, NodeShape(cpu="2"))))


def test_an_autoscaler_whose_pods_use_the_same_all_day_is_not_looked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[float]()
    listed = PodMetricsKind.list

    def counted(own: PodMetricsKind, *arguments: Any) -> Awaitable[Listing]:
        read.append(now())
        return listed(own, *arguments)

    monkeypatch.setattr(PodMetricsKind, "list", counted)

    async def story() -> None:
        async with simulation(nodes()) as (api, _):
            await workload(api)
            await asyncio.sleep(3600)
            in_the_first_hour = len(read)
            await asyncio.sleep(23 * 3600)
            assert len(read) == in_the_first_hour < 60
            (pod, _) = (await api.list(PODS, "default", ListQuery())).items
            await patched(api, PODS, pod.obj()["metadata"]["name"], {"metadata": {"annotations": {USAGE: "200m"}}})
            await asyncio.sleep(16)
            assert await replicas(api) > 2

    run_virtual(story())


async def replicas(api: UserApi) -> int:
    found: int = (await api.get(DEPLOYMENTS, "web", "default")).obj()["spec"]["replicas"]
    return found


async def patched(api: UserApi, resource: Resource, name: str, change: Obj, namespace: str = "default") -> None:
    await api.patch(resource, name, namespace, change)


def _busy(name: str) -> Obj:
    """It takes what cpu a node has, and has no label of the others."""
    meta = {"name": name, "annotations": {USAGE: "1900m"}}
    container = {"name": "busy", "image": "busy", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": meta, "spec": {"nodeName": "node-1", "containers": [container]}}


def _profile(cpu: str) -> Obj:
    meta = {"name": "web", "namespace": "default"}
    kind = {"apiVersion": USAGE_PROFILES.api_version, "kind": USAGE_PROFILES.kind}
    spec = {"selector": {"matchLabels": LABELS}, "usage": {"cpu": cpu}}
    return {**kind, "metadata": meta, "spec": spec}


class Player:
    """Does to the cluster what a step says; whatever is refused is left out."""

    def __init__(self, api: UserApi) -> None:
        self._api = api

    async def play(self, step: str, value: int) -> None:
        with suppress(ApiError):
            await getattr(self, step)(value)

    async def pod_uses(self, value: int) -> None:
        pods = (await self._api.list(PODS, "default", ListQuery(labels="app=web"))).items
        if pods:
            name = pods[value % len(pods)].obj()["metadata"]["name"]
            await patched(self._api, PODS, name, {"metadata": {"annotations": {USAGE: f"{20 * value}m"}}})

    async def pod_goes(self, value: int) -> None:
        pods = (await self._api.list(PODS, "default", ListQuery(labels="app=web"))).items
        if pods:
            await self._api.delete(PODS, pods[value % len(pods)].obj()["metadata"]["name"], "default")

    async def pod_leaves(self, value: int) -> None:
        pods = (await self._api.list(PODS, "default", ListQuery(labels="app=web"))).items
        if pods:
            name = pods[value % len(pods)].obj()["metadata"]["name"]
            await patched(self._api, PODS, name, {"metadata": {"labels": {"app": "other"}}})

    async def scaled_by_hand(self, value: int) -> None:
        await patched(self._api, DEPLOYMENTS, "web", {"spec": {"replicas": value % 8}})

    async def paused(self, value: int) -> None:
        await patched(self._api, DEPLOYMENTS, "web", {"spec": {"paused": bool(value % 2), "replicas": value % 8}})

    async def rolled_out(self, value: int) -> None:
        meta = {"annotations": {USAGE: f"{20 * value}m"}}
        await patched(self._api, DEPLOYMENTS, "web", {"spec": {"template": {"metadata": meta}}})

    async def at_most(self, value: int) -> None:
        await patched(self._api, HORIZONTAL_POD_AUTOSCALERS, "web", {"spec": {"maxReplicas": 1 + value % 8}})

    async def another_scales(self, value: int) -> None:
        await self._api.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler("another"), "default")

    async def no_other_scales(self, value: int) -> None:
        await self._api.delete(HORIZONTAL_POD_AUTOSCALERS, "another", "default")

    async def neighbour_comes(self, value: int) -> None:
        await self._api.create(PODS, _busy("busy"), "kube-system")

    async def neighbour_goes(self, value: int) -> None:
        await self._api.delete(PODS, "busy", "kube-system")

    async def daemons_use(self, value: int) -> None:
        annotations = {"metadata": {"annotations": {USAGE: f"{200 * (value % 9)}m"}}}
        await patched(self._api, NODES, "node-1", annotations, namespace="")

    async def profile_comes(self, value: int) -> None:
        await self._api.create(USAGE_PROFILES, _profile(f"{20 * value}m"), "default")

    async def profile_changes(self, value: int) -> None:
        await patched(self._api, USAGE_PROFILES, "web", {"spec": {"usage": {"cpu": f"{10 * value}m"}}})

    async def profile_goes(self, value: int) -> None:
        await self._api.delete(USAGE_PROFILES, "web", "default")

    async def node_leaves(self, value: int) -> None:
        await self._api.delete(NODES, f"node-{1 + value % 2}", "")


STEPS = sorted(name for name in vars(Player) if not name.startswith("_") and name != "play")
Step = tuple[str, int, int]


def _told(steps: Sequence[Step], behavior: Obj) -> list[Obj]:
    """What the autoscaler says after each step, some time later."""

    async def story() -> list[Obj]:
        found = []
        async with simulation(nodes()) as (api, _):
            await workload(api, behavior=behavior)
            player = Player(api)
            await asyncio.sleep(1000.37)  # no step comes at the moment of a look: which of them is first would decide
            for step, value, seconds in steps:
                await player.play(step, value)
                await asyncio.sleep(seconds)
                told = (await api.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")).obj()["status"]
                found.append({"replicas": await replicas(api), **told})
        return found

    with rng.seeded(1):
        return run_virtual(story())


BEHAVIORS: tuple[Obj, ...] = (
    {},
    {"scaleDown": {"stabilizationWindowSeconds": 60}},
    {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}]}},
)


@settings(max_examples=examples(8))
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 20), st.integers(1, 1500)), min_size=1, max_size=6),
    behavior=st.sampled_from(BEHAVIORS),
)
def test_whether_it_rests_makes_no_difference(steps: Sequence[Step], behavior: Obj) -> None:
    resting = _told(steps, behavior)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machines, "stands_still", lambda own, name: False)
        awake = _told(steps, behavior)
    assert resting == awake
