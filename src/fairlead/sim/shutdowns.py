"""Simulated machines that go down: their kubelets end pods before, as far as their configuration gives them time.

An annotation has a machine go down; it is off then, as one that has failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from fairlead.api.builtin import NODES
from fairlead.api.errors import ApiError
from fairlead.api.event_types import NORMAL
from fairlead.api.nodes import Node
from fairlead.api.pods import Pod
from fairlead.api.verbs import Api
from fairlead.node.admission import Refusal
from fairlead.node.conditions import NodeHealth, node_conditions
from fairlead.node.configuration.load import Configured
from fairlead.node.plan import NodeEvent
from fairlead.node.pod_lifecycle import PodKill
from fairlead.node.shutdown import DETECTED, NODE_SHUTDOWN, REFUSAL, SHUTTING_DOWN, Turn, kill_of, periods_of, turns
from fairlead.runtime.clock import now, timestamp
from fairlead.sim.nodes import FAILED, is_going_down
from fairlead.sim.pod_manifest import manifest_of

log = logging.getLogger(__name__)

#: How soon a kubelet sees that the last pod of a turn has ended.
_LOOK_SECONDS: Final = 1.0


class Shutdowns:
    """`pods_on`: those of a node that have not ended; `kill` ends one."""

    def __init__(
        self,
        api: Api,
        as_node: Callable[[str], Api],
        configured: Callable[[Node], Configured],
        record: Callable[[Node, NodeEvent], None],
        pods_on: Callable[[str], Iterable[Pod]],
        kill: Callable[[Pod, PodKill], None],
    ) -> None:
        """`api` is that of whoever switches machines off."""
        self._api, self._as_node, self._configured, self._record = api, as_node, configured, record
        self._pods_on, self._kill = pods_on, kill
        self._going_down: dict[str, asyncio.Task[None]] = {}  # by node

    def put_node(self, node: Node) -> None:
        """It is there as that now."""
        name = node.metadata.name
        if not is_going_down(node):
            self.forget(name)
        elif name not in self._going_down:
            self._going_down[name] = asyncio.create_task(self._go_down(node), name=f"shutdown of {name}")

    def forget(self, name: str) -> None:
        """It is off, gone, or stays on after all."""
        if (task := self._going_down.pop(name, None)) is not None:
            task.cancel()

    def refusal(self, name: str) -> Refusal | None:
        """Why the node takes no pod any more."""
        return REFUSAL if name in self._going_down else None

    def close(self) -> None:
        for name in list(self._going_down):
            self.forget(name)

    async def _go_down(self, node: Node) -> None:
        name = node.metadata.name
        try:
            if periods := periods_of(self._configured(node)):
                self._record(node, NodeEvent(NORMAL, NODE_SHUTDOWN, DETECTED))
                await self._show(name)
                for turn in turns(periods, map(manifest_of, self._pods_on(name))):
                    await self._end(name, turn)
            await self._api.patch(NODES, name, "", {"metadata": {"annotations": {FAILED: "true"}}})
        except (ApiError, OSError) as problem:  # somebody has removed the node, say
            log.warning("node %s does not go down: %s", name, problem)

    async def _show(self, name: str) -> None:
        """That it is not ready."""
        api = self._as_node(name)
        status = (await api.get(NODES, name)).obj()["status"]
        found = node_conditions(status.get("conditions") or (), NodeHealth(errors=[SHUTTING_DOWN]), timestamp())
        await api.patch(NODES, name, "", {"status": {"conditions": found.conditions}}, subresource="status")

    async def _end(self, name: str, turn: Turn) -> None:
        """Until all of them have ended, or had their time."""
        manifests, until = {pod["metadata"]["uid"]: pod for pod in turn.pods}, now() + turn.seconds
        for pod in list(self._pods_on(name)):
            if (manifest := manifests.get(pod.metadata.uid)) is not None:
                self._kill(pod, kill_of(manifest, turn.seconds, now()))
        while now() < until and any(pod.metadata.uid in manifests for pod in self._pods_on(name)):  # noqa: ASYNC110
            await asyncio.sleep(min(_LOOK_SECONDS, until - now()))
