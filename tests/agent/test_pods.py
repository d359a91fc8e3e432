"""Pods on a real node, as `kubectl` would see them."""

from __future__ import annotations

from pathlib import Path

from fairlead.api.builtin import NODES
from tests.agent.machine import in_loop, real_containers
from tests.agent.real_node import NODE, is_phase, manifest, real_node, state

pytestmark = real_containers


@in_loop
async def test_a_pod_runs_says_something_and_completes(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "echo hello $FROM_IMAGE; hostname; echo -n done > /dev/termination-log"
        await node.create(manifest("task", "sh", "-c", script, spec={"restartPolicy": "Never"}))
        pod = await node.until("task", is_phase("Succeeded"))
        ended = state(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"], ended["message"]) == (0, "Completed", "done")
        assert node.log("task") == ["hello yes", "task"]
        assert state(pod)["imageID"].startswith("sha256:")
        assert state(pod)["containerID"].startswith("fairlead-oci://")
        registered = (await node.api.get(NODES, NODE)).obj()
        ready = registered["status"]["conditions"][-1]
        assert (ready["type"], ready["status"]) == ("Ready", "True")
