"""A node whose containers are containerd's: what only a runtime that is a daemon of its own can do to it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.grpc.client import CallFailed, Client
from fairlead.agent.pods import remnants
from fairlead.agent.runtimes.base import SandboxSpec
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.specs import sandbox_config
from fairlead.api.builtin import NODES
from fairlead.api.objects import Obj
from tests.agent.containerd import PAUSE, with_containerd
from tests.agent.machine import in_loop, until
from tests.agent.oci_node import NODE, RealNode, is_running, manifest, real_node, state
from tests.agent.runtime_place import CONTAINERD, IMAGE

pytestmark = with_containerd


def _first_process(node: RealNode, pod: Obj) -> int:
    """Of its one container."""
    id_ = state(pod)["containerID"].removeprefix("containerd://")
    cgroup = f"{node.cgroup}/kubepods/besteffort/pod{pod['metadata']['uid']}/{id_}"
    return min(Cgroups(hierarchies()).processes(cgroup))


async def _ready(node: RealNode, status: str) -> Obj:
    """The node's condition, once it has that status."""
    async with asyncio.timeout(40):
        while True:
            conditions = (await node.api.get(NODES, NODE)).obj()["status"]["conditions"]
            found: Obj = next(each for each in conditions if each["type"] == "Ready")
            if found["status"] == status:
                return found
            await asyncio.sleep(0.1)


@pytest.mark.slow
@in_loop
async def test_a_runtime_that_is_restarted_finds_its_pods_and_the_node_finds_the_runtime(tmp_path: Path) -> None:
    async with real_node(tmp_path, {"nodeStatusUpdateFrequency": "1s"}, kind=CONTAINERD) as node:
        await node.create(manifest("lasting", "sleep", "1000"))
        await node.create(manifest("dying", "sleep", "1000"))
        lasting, dying = [await node.until(name, is_running) for name in ("lasting", "dying")]
        assert node.containerd is not None
        node.containerd.stop()
        down = await _ready(node, "False")
        assert down["reason"] == "KubeletNotReady" and "container runtime is down" in down["message"]
        os.kill(_first_process(node, dying), signal.SIGKILL)
        await asyncio.to_thread(node.containerd.start)
        await _ready(node, "True")
        again = await node.until("dying", lambda pod: state(pod)["restartCount"] == 1 and is_running(pod))
        assert state(again)["lastState"]["terminated"]["exitCode"] in (137, 255)  # containerd 1.6 did not see how
        after = await node.pod("lasting")
        assert is_running(after) and state(after)["containerID"] == state(lasting)["containerID"]
        assert state(after)["restartCount"] == 0


@pytest.mark.slow
@in_loop
async def test_an_agent_that_is_started_before_the_runtime_waits_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A kubelet ends, and systemd starts it again and again; nobody would start us."""
    async with real_node(tmp_path, {"nodeStatusUpdateFrequency": "1s"}, kind=CONTAINERD) as node:
        for name in ("lasting", "goes"):
            await node.create(manifest(name, "sleep", "1000"))
        lasting, _ = [await node.until(name, is_running) for name in ("lasting", "goes")]
        daemon = node.containerd
        assert daemon is not None
        await node.stop()
        await asyncio.to_thread(daemon.stop)
        await node.api.delete(NODES, NODE)
        await node.start()
        assert node.agent is not None
        await node.agent.registered.wait()
        down = await _ready(node, "False")
        assert down["reason"] == "KubeletNotReady"
        assert down["message"].startswith(
            f"container runtime is down: the container runtime at {daemon.folder}/containerd.sock does not answer: "
            "[Errno 2] No such file or directory"
        )
        assert (await node.api.get(NODES, NODE)).obj()["status"]["nodeInfo"]["containerRuntimeVersion"] == "://Unknown"
        await node.delete("goes", 1)
        await node.create(manifest("late", "sleep", "1000", spec={"nodeName": NODE}))
        await asyncio.to_thread(daemon.start)
        await _ready(node, "True")
        await node.until("late", is_running)
        await node.gone("goes")
        after = await node.pod("lasting")
        assert state(after)["containerID"] == state(lasting)["containerID"] and state(after)["restartCount"] == 0
        assert len(daemon.containers()) == 4
        found = (await node.api.get(NODES, NODE)).obj()["status"]["nodeInfo"]["containerRuntimeVersion"]
        assert found.startswith("containerd://") and not found.endswith("Unknown")
        assert caplog.text.count("waiting for it") == 1  # not at each attempt


@in_loop
async def test_a_pod_has_an_address_of_the_runtimes_network(tmp_path: Path) -> None:
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        probe = {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1}
        serve = "mkdir /www; echo hi > /www/index.html; exec busybox httpd -f -p 8080 -h /www"
        await node.create(manifest("web", "sh", "-c", serve, readinessProbe=probe))
        pod = await node.until("web", lambda pod: bool(state(pod).get("ready")))
        address = pod["status"]["podIP"]
        assert address.startswith("10.") and address != pod["status"]["hostIP"]
        reader, writer = await asyncio.open_connection(address, 8080)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert (await reader.read()).endswith(b"hi\n")
        writer.close()


@in_loop
async def test_what_sandboxes_are_made_of_is_no_unused_image(tmp_path: Path) -> None:
    marks = {"imageGCHighThresholdPercent": 1, "imageGCLowThresholdPercent": 0}
    async with real_node(tmp_path, marks, kind=CONTAINERD) as node:
        daemon = node.containerd
        assert daemon is not None
        await until(lambda: f"docker.io/{IMAGE}" not in daemon.images())
        assert PAUSE in daemon.images()


@in_loop
async def test_a_sandbox_that_comes_when_its_pod_has_gone_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime finishes what an agent had asked for that was killed; the next one had looked before."""
    monkeypatch.setattr(remnants, "SWEEP_SECONDS", 0.2)
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        await node.create(manifest("stays", "sleep", "1000"))
        await node.until("stays", is_running)
        daemon = node.containerd
        assert daemon is not None
        before = set(daemon.containers())
        cgroup = f"{node.cgroup}/kubepods/besteffort/podgone"
        client = Client(daemon.endpoint)
        logs = tmp_path / "logs"
        late = SandboxSpec(uid="gone", namespace="default", name="late", hostname="late", cgroup=cgroup, logs=logs)
        with suppress(CallFailed):  # it may go while it is being made
            await client.call(cri.RUN_SANDBOX, cri.RunPodSandboxRequest(config=sandbox_config(late, node.root)))
        client.close()
        await until(lambda: set(daemon.containers()) == before)
        await until(lambda: not Cgroups(hierarchies()).exists(cgroup))
        assert is_running(await node.pod("stays"))


@in_loop
async def test_what_the_runtime_refuses_to_remove_is_told_and_tried_again_also_by_the_next_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remnants, "SWEEP_SECONDS", 0.2)
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        for name in ("ends", "goes"):
            await node.create(manifest(name, "sleep", "1000"))
        ends, _ = [await node.until(name, is_running) for name in ("ends", "goes")]
        assert node.containerd is not None
        with node.containerd.without_leases():
            await node.delete("ends", 1)
            await node.reasons("ends", lambda found: "FailedKillPod" in found)
            message, *_ = [message for reason, message in await node.events("ends") if reason == "FailedKillPod"]
            uid = ends["metadata"]["uid"]
            assert message.startswith(f'error killing pod: failed to "KillPodSandbox" for "{uid}" with ')
            assert "leases" in message
            await node.stop()
            await node.delete("goes", 0)
            await node.start()
            await until(lambda: "cannot be torn down yet" in caplog.text)
        await node.gone("ends")
        await until(lambda: not node.remains())
        assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.slow
@in_loop
async def test_a_pod_does_not_wait_for_one_of_its_name_that_the_runtime_refuses_to_remove(tmp_path: Path) -> None:
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        await node.create(manifest("again", "sleep", "1000"))
        first = await node.until("again", is_running)
        assert node.containerd is not None
        with node.containerd.without_leases():
            await node.delete("again", 0)
            await node.create(manifest("again", "sleep", "1000", spec={"hostNetwork": True}))
            second = await node.until("again", is_running)
            assert second["metadata"]["uid"] != first["metadata"]["uid"]
        cgroups, parent = Cgroups(hierarchies()), f"{node.cgroup}/kubepods/besteffort"
        await until(lambda: cgroups.children(parent) == {f"pod{second['metadata']['uid']}"}, 30)
        assert is_running(await node.pod("again"))
