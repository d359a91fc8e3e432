"""Pods that name a RuntimeClass, on each runtime; crun and runc are both installed where these run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairlead.api.builtin import NODES, RUNTIME_CLASSES
from tests.agent.machine import in_loop
from tests.agent.oci_node import NODE, RealNode, is_running, manifest, real_node, state
from tests.agent.runtime_place import OCI, on_each

pytestmark = [
    on_each,
    pytest.mark.skipif(not (shutil.which("crun") and shutil.which("runc")), reason="apt-get install crun runc"),
]


async def _class(node: RealNode, handler: str) -> None:
    await node.api.create(RUNTIME_CLASSES, {"metadata": {"name": f"by-{handler}"}, "handler": handler})


def _keeper(container: Path) -> list[str]:
    """The words of its command."""
    keeper = (container / "conmon.pid").read_text().strip()
    return Path(f"/proc/{keeper}/cmdline").read_text().split("\0")


@in_loop
async def test_a_class_names_who_runs_the_containers_of_a_pod(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        await _class(node, "runc")
        liveness = {"exec": {"command": ["true"]}, "periodSeconds": 1}
        spec = {"runtimeClassName": "by-runc"}
        await node.create(manifest("chosen", "sleep", "1000", spec=spec, readinessProbe=liveness))
        await node.create(manifest("usual", "sleep", "1000"))
        pod = await node.until("chosen", lambda pod: bool(state(pod).get("ready")))
        await node.until("usual", is_running)
        if kind == OCI:
            id_ = state(pod)["containerID"].removeprefix("fairlead-oci://")
            assert shutil.which("runc") in _keeper(node.root / "containers" / id_)
            handlers = (await node.api.get(NODES, NODE)).obj()["status"]["runtimeHandlers"]
            assert [each["name"] for each in handlers] == ["", "crun", "runc"]
        await node.stop()
        await node.start()  # the next agent knows it, too
        await node.delete("chosen", grace=1)
        await node.gone("chosen")
        assert len(node.remains()) == (2 if kind == OCI else 3)  # what is left is the other's


@in_loop
async def test_a_handler_that_is_not_there_is_told(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        await _class(node, "absent")
        await node.create(manifest("lost", "sleep", "1000", spec={"runtimeClassName": "by-absent"}))
        reason = "FailedCreatePodSandBox"
        await node.reasons("lost", lambda reasons: reason in reasons)
        (message,) = {message for why, message in await node.events("lost") if why == reason}
        assert message.endswith('no runtime for "absent" is configured')
