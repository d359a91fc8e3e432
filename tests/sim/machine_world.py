"""A cluster of one simulated node whose usage a test declares as it goes, over the real server in virtual time."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.builtin import EVENTS, NODES, PODS
from fairlead.api.objects import Obj
from fairlead.compose import Settings, simulation
from fairlead.node.explain import node_story
from fairlead.node.throttling import throttling_of
from fairlead.runtime import rng
from fairlead.runtime.loops import run_virtual
from fairlead.server.registry.registry import UserApi
from fairlead.sim.nodes import NodeShape, uniform

USAGE = "sim.fairlead.dev/usage-"


class World:
    """A cluster of one node, `node-1`, and short ways to say what is on it."""

    def __init__(self, api: UserApi) -> None:
        self.api = api

    async def pod(self, pod_name: str, usage: dict[str, str], **fields: Any) -> None:
        resources = {kind: fields.pop(kind) for kind in ("requests", "limits") if kind in fields}
        container = {"name": pod_name, "image": fields.pop("image", "i"), "resources": resources}
        spec = {"nodeName": "node-1", "containers": [container], **fields}
        spec = {name: value for name, value in spec.items() if value is not None}
        annotations = {USAGE + measure: text for measure, text in usage.items()}
        await self.api.create(
            PODS, {"metadata": {"name": pod_name, "annotations": annotations}, "spec": spec}, "default"
        )

    async def use(self, name: str, **usage: str) -> None:
        changed = {USAGE + measure.replace("_", "-"): text for measure, text in usage.items()}
        await self.api.patch(PODS, name, "default", {"metadata": {"annotations": changed}})

    async def system(self, **usage: str) -> None:
        """Usage outside pods."""
        changed = {USAGE + measure.replace("_", "-"): text for measure, text in usage.items()}
        await self.api.patch(NODES, "node-1", "", {"metadata": {"annotations": changed}})

    async def kubelet(self, **settings: Any) -> None:
        """Its kubelet starts again with these settings."""
        document = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **settings}
        await self.annotate(kubelet_config=json.dumps(document))

    async def annotate(self, **values: str) -> None:
        """What the node is made of."""
        changed = {f"sim.fairlead.dev/{name.replace('_', '-')}": value for name, value in values.items()}
        await self.api.patch(NODES, "node-1", "", {"metadata": {"annotations": changed}})

    async def node(self) -> Obj:
        return (await self.api.get(NODES, "node-1")).obj()

    async def condition(self, kind: str) -> Obj:
        conditions = (await self.node())["status"]["conditions"]
        return next(condition for condition in conditions if condition["type"] == kind)

    async def status(self, name: str) -> Obj:
        status: Obj = (await self.api.get(PODS, name, "default")).obj()["status"]
        return status

    async def state(self, name: str) -> tuple[str, str]:
        status = await self.status(name)
        return status["phase"], status.get("reason", "")

    async def story(self, name: str) -> list[str]:
        """What `fairlead why` says of it."""
        pod = (await self.api.get(PODS, name, "default")).obj()
        found = [item.obj() for item in (await self.api.list(EVENTS, "")).items]
        of_pod = [event for event in found if event["involvedObject"]["name"] == name]
        of_node = [event for event in found if event["involvedObject"]["kind"] == "Node"]
        siblings = [item.obj() for item in (await self.api.list(PODS, "default")).items]
        throttled = throttling_of(pod, (await self.kubelet_says("metrics/cadvisor")).decode())
        story = node_story(pod, of_pod, of_node, siblings, throttled)
        return [story.headline, *story.notes] if story else []

    async def kubelet_says(self, path: str) -> bytes:
        """What the kubelet of the node answers to a GET."""
        assert self.api.registry.agents is not None
        found = await self.api.registry.agents.get("node-1", path, {})
        assert found is not None and found.code == 200, path
        return found.body

    async def events(self, reason: str) -> list[Obj]:
        found = await self.api.list(EVENTS, "")
        return [event for event in (item.obj() for item in found.items) if event["reason"] == reason]


def played(check: Callable[[World], Awaitable[None]], memory: str = "10Gi") -> None:
    async def run() -> None:
        nodes = tuple(uniform(1, NodeShape(cpu="16", memory=memory)))
        async with simulation(Settings(nodes=nodes)) as (api, _):
            await check(World(api))

    rng.seed(1)
    run_virtual(run())
