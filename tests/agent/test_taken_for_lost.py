"""A node that the node controller took for lost says again that it is there, and its pods are ready again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fairlead.api.builtin import NODES, PODS
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType, WatchQuery
from tests.agent.machine import in_loop
from tests.agent.oci_node import NODE, RealNode, is_running, manifest, real_node


@in_loop
async def test_what_others_said_of_a_silent_node_is_put_right(tmp_path: Path) -> None:
    """tryUpdateNodeStatus compares with what the API server has, each `nodeStatusUpdateFrequency`."""
    async with real_node(tmp_path, {"nodeStatusUpdateFrequency": "1s"}) as node:
        await node.create(manifest("p", "sleep", "1000"))
        await node.until("p", lambda pod: is_running(pod) and _ready(pod) == "True")
        assert _ready(await _node(node)) == "True"
        for resource, name, namespace, status in ((NODES, NODE, "", "Unknown"), (PODS, "p", "default", "False")):
            said = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
            await node.api.patch(resource, name, namespace, said, PatchType.STRATEGIC, subresource="status")
        await node.until("p", lambda pod: _ready(pod) == "True")
        async with asyncio.timeout(20):
            async for event in node.api.watch(NODES, "", WatchQuery(resource_version="0")):
                if _ready(event.object.obj()) == "True":
                    break


async def _node(node: RealNode) -> Obj:
    found: Obj = (await node.api.get(NODES, NODE)).obj()
    return found


def _ready(obj: Obj) -> str:
    status: str = next(each["status"] for each in obj["status"]["conditions"] if each["type"] == "Ready")
    return status
