"""The leak of the documents, on a real node: killed again and again, it waits longer each time (SC-17)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from fairlead.agent.images.examples import build
from fairlead.agent.images.rootfs import RunAs
from fairlead.agent.images.store import ImageStore
from fairlead.api.objects import Obj
from tests.agent.machine import in_loop, real_containers, root_file_system
from tests.agent.oci_node import RealNode, manifest, real_node, state
from tests.agent.runtime_place import IMAGE

pytestmark = [
    real_containers,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: apt install gcc libc6-dev"),
]

NAME = "simmemleak-hra99"
LEAK = "saadali/simmemleak"
LAST_STATES = (
    '{{range .status.containerStatuses}}{{"Container Name: "}}{{.name}}{{"\\r\\nLastState: "}}{{.lastState}}{{end}}'
)


async def _store(folder: Path) -> ImageStore:
    store, examples = ImageStore(folder / "root"), folder / "examples"
    examples.mkdir()
    for image, program, rootfs in build(examples):
        await store.load(rootfs, image, RunAs(entrypoint=[program]))
    await store.load(root_file_system(folder / "busybox"), IMAGE)
    return store


def _leaking() -> Obj:
    leak = {"name": "simmemleak", "image": LEAK, "resources": {"limits": {"cpu": "100m", "memory": "50Mi"}}}
    pod = manifest(NAME, "sleep", "10000")
    pod["metadata"]["labels"] = {"name": "simmemleak"}
    pod["spec"]["containers"].insert(0, leak | {"imagePullPolicy": "IfNotPresent"})
    return pod


@in_loop
async def test_it_is_killed_five_times_and_waits_longer_each_time(tmp_path: Path, kubectl_path: Path) -> None:
    document = {"crashLoopBackOff": {"maxContainerRestartPeriod": "15s"}}  # five minutes would take the test as long
    async with real_node(tmp_path, document, store=await _store(tmp_path)) as node:
        await node.create(_leaking())

        async def kubectl(*words: str) -> str:
            command = [str(kubectl_path), "--kubeconfig", str(node.running.kubeconfig), *words]
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            said, _ = await process.communicate()
            return said.decode()

        waits = await _waits(node, 5)
        assert waits == ["back-off 10s", "back-off 15s"]
        described = [" ".join(line.split()) for line in (await kubectl("describe", "pod", NAME)).splitlines()]
        own = described[described.index("simmemleak:") : described.index("c:")]
        for line in ("Last State: Terminated", "Reason: OOMKilled", "Exit Code: 137", "Restart Count: 5"):
            assert line in own
        assert "Restart Count: 0" in described[described.index("c:") :]
        shown = await kubectl("get", "pod", NAME, "-o", f"go-template={LAST_STATES}")
        first = "Container Name: simmemleak\r\nLastState: map[terminated:map[containerID:"
        assert shown.startswith(first) and " exitCode:137 " in shown and " reason:OOMKilled " in shown
        told = await node.events(NAME)
        assert ("Scheduled", f"Successfully assigned default/{NAME} to n1") in told
        assert {"Pulled", "Created", "Started", "BackOff"} <= {reason for reason, _ in told}


async def _waits(node: RealNode, restarts: int) -> list[str]:
    """How it has waited by when it was started so often again: each wait is longer, so it is seen once."""
    found: list[str] = []
    while True:
        status = state(pod := await node.pod(NAME), "simmemleak")
        message = ((status.get("state") or {}).get("waiting") or {}).get("message") or ""
        if message.startswith("back-off") and (wait := message.partition(" restarting")[0]) not in found:
            found.append(wait)
            ready = {each["type"]: each["status"] for each in pod["status"]["conditions"]}
            assert ready["Ready"] == "False" and status["lastState"]["terminated"]["reason"] == "OOMKilled"
        if status.get("restartCount", 0) >= restarts:
            return found
        await asyncio.sleep(0.2)
