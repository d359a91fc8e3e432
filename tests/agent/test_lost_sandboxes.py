"""What the containers of a pod share goes behind the node's back: they end, and it is made again, as a kubelet does."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fairlead.agent import linux
from fairlead.agent.grpc.client import Client
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.specs import ROOT_LABEL
from fairlead.api.objects import Obj
from tests.agent.containerd import with_containerd
from tests.agent.machine import in_loop, mounts_below, real_containers, until
from tests.agent.oci_node import RealNode, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import CONTAINERD, IMAGE

CHANGED = ("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
SERVE = ("sh", "-c", "trap 'exit 3' TERM; while true; do sleep 0.05; done")


@asynccontextmanager
async def _client(node: RealNode) -> AsyncIterator[Client]:
    assert node.containerd is not None
    client = Client(node.containerd.endpoint)
    try:
        yield client
    finally:
        client.close()


async def _sandboxes(node: RealNode) -> list[cri.PodSandbox]:
    async with _client(node) as client:
        own = cri.ListPodSandboxRequest(filter=cri.LabelFilter(labels={ROOT_LABEL: str(node.root)}))
        return (await client.call(cri.LIST_SANDBOXES, own)).items


async def _ready(node: RealNode) -> str:
    (found,) = [each.id for each in await _sandboxes(node) if each.state == cri.READY]
    return found


async def _stop_sandbox(node: RealNode) -> None:
    """As `crictl stopp` does."""
    id_ = await _ready(node)
    async with _client(node) as client:
        await client.call(cri.STOP_SANDBOX, cri.PodSandboxId(pod_sandbox_id=id_))


async def _kill_process(node: RealNode) -> None:
    """That of the sandbox, with which its namespaces go."""
    id_ = await _ready(node)
    (pid,) = [pid for pid in _processes() if _is_in(pid, id_)]
    os.kill(pid, signal.SIGKILL)


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _is_in(pid: int, id_: str) -> bool:
    try:
        return id_ in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False


def _restarted(pod: Obj, name: str = "c") -> bool:
    return is_running(pod) and state(pod, name)["restartCount"] == 1


@with_containerd
@in_loop
async def test_a_pod_whose_sandbox_dies_is_restarted_in_another_with_another_address(tmp_path: Path) -> None:
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        await node.create(manifest("web", *SERVE))
        first = await node.until("web", is_running)
        await _kill_process(node)
        again = await node.until("web", lambda pod: _restarted(pod) and _has_moved(first, pod))
        ended = state(again)["lastState"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (3, "Error")
        assert ended["containerID"] == state(first)["containerID"]
        await node.told("web", *CHANGED)
        await node.told("web", "Killing", "Stopping container c")
        assert {each.metadata.attempt for each in await _sandboxes(node)} == {0, 1}
        await node.delete("web", 0)
        await node.gone("web")
        await until(lambda: not node.remains())


def _has_moved(before: Obj, pod: Obj) -> bool:
    return bool(pod["status"].get("podIP")) and pod["status"]["podIP"] != before["status"]["podIP"]


@pytest.mark.slow
@with_containerd
@in_loop
async def test_init_containers_run_again_and_no_more_than_two_sandboxes_are_kept(tmp_path: Path) -> None:
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        init = {"name": "first", "image": IMAGE, "command": ["true"]}
        await node.create(manifest("web", *SERVE, spec={"initContainers": [init], "restartPolicy": "OnFailure"}))
        await node.until("web", is_running)
        await _stop_sandbox(node)
        again = await node.until("web", _restarted)
        assert state(again, "first")["restartCount"] == 1
        assert state(again, "first")["lastState"]["terminated"]["exitCode"] == 0
        assert state(again)["lastState"]["terminated"]["exitCode"] in (3, 137)
        await _stop_sandbox(node)
        await node.until("web", lambda pod: is_running(pod) and state(pod)["restartCount"] == 2, 40)
        assert {each.metadata.attempt for each in await _sandboxes(node)} == {1, 2}


@with_containerd
@in_loop
async def test_a_pod_that_is_never_restarted_fails_with_its_sandbox(tmp_path: Path) -> None:
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        await node.create(manifest("once", *SERVE, spec={"restartPolicy": "Never"}))
        await node.until("once", is_running)
        await _kill_process(node)
        failed = await node.until("once", is_phase("Failed"))
        assert state(failed)["restartCount"] == 0 and state(failed)["state"]["terminated"]["exitCode"] == 3
        assert CHANGED not in await node.events("once")


@pytest.mark.slow
@with_containerd
@in_loop
async def test_a_sandbox_that_went_while_no_agent_was_there_is_made_again(tmp_path: Path) -> None:
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        await node.create(manifest("web", *SERVE))
        await node.create(manifest("gone", *SERVE, spec={"hostNetwork": True}))
        first = await node.until("web", is_running)
        await node.until("gone", is_running)
        await node.stop()
        async with _client(node) as client:
            for each in await _sandboxes(node):
                await client.call(cri.STOP_SANDBOX, cri.PodSandboxId(pod_sandbox_id=each.id))
        await node.delete("gone", 0)
        await node.start()
        again = await node.until("web", _restarted)
        ended = state(again)["lastState"]["terminated"]
        assert ended["containerID"] == state(first)["containerID"] and ended["reason"] == "Error"
        await node.told("web", *CHANGED)
        await node.gone("gone")


@pytest.mark.slow
@real_containers
@in_loop
@pytest.mark.parametrize("loss", ["process", "network"])
async def test_shared_processes_and_namespaces_that_go_are_made_again(tmp_path: Path, loss: str) -> None:
    """Without a daemon no process keeps a namespace but that of shared processes; somebody may unmount the others."""
    async with real_node(tmp_path) as node:
        await node.create(manifest("web", *SERVE, spec={"shareProcessNamespace": loss == "process"}))
        first = await node.until("web", is_running)
        (sandbox,) = node.root.glob("sandboxes/*")
        if loss == "process":
            os.kill(int((sandbox / "holder.pid").read_text()), signal.SIGKILL)
        else:
            linux.unmount(sandbox / "net")
            await node.stop()
            await node.start()
        again = await node.until("web", lambda pod: _restarted(pod) and ready_to_start(pod))
        assert state(again)["lastState"]["terminated"]["containerID"] == state(first)["containerID"]
        assert state(again)["lastState"]["terminated"]["exitCode"] == (137 if loss == "process" else 3)
        await node.told("web", *CHANGED)
        assert sandbox / "net" in mounts_below(sandbox)


def ready_to_start(pod: Obj) -> bool:
    conditions: dict[str, str] = {each["type"]: each["status"] for each in pod["status"]["conditions"]}
    return "True" in conditions["PodReadyToStartContainers"]
