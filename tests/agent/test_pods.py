"""Pods on a real node, as `kubectl` would see them."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.pods import remnants
from fairlead.api.builtin import NODES
from tests.agent.machine import in_loop, mounts_below, until
from tests.agent.oci_node import NODE, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import IMAGE, OCI, on_each

pytestmark = on_each


@in_loop
async def test_a_pod_runs_says_something_and_completes(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        script = "echo hello $FROM_IMAGE; hostname; echo -n done > /dev/termination-log"
        await node.create(manifest("task", "sh", "-c", script, spec={"restartPolicy": "Never"}))
        pod = await node.until("task", is_phase("Succeeded"))
        ended = state(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"], ended["message"]) == (0, "Completed", "done")
        assert node.log("task") == ["hello yes", "task"]
        assert state(pod)["imageID"].startswith("sha256:")
        assert state(pod)["containerID"].startswith("fairlead-oci://" if kind == OCI else "containerd://")
        registered = (await node.api.get(NODES, NODE)).obj()
        ready = registered["status"]["conditions"][-1]
        assert (ready["type"], ready["status"]) == ("Ready", "True")


@in_loop
async def test_extended_resources_that_an_operator_adds_may_be_given_away(tmp_path: Path, kind: str) -> None:
    dongle = "example.com/dongle"

    async with real_node(tmp_path, {"nodeStatusUpdateFrequency": "1s"}, kind=kind) as node, asyncio.timeout(40):
        await node.create(manifest("task", "true"))
        await node.until("task", lambda pod: bool(pod["spec"].get("nodeName")) and bool(state(pod)))
        for amount in ("4", "2", None):
            capacity = {"status": {"capacity": {dongle: amount}}}
            await node.api.patch(NODES, NODE, "", capacity, subresource="status")
            while (await node.api.get(NODES, NODE)).obj()["status"]["allocatable"].get(dongle) != amount:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


@in_loop
async def test_a_crashing_container_is_restarted_with_back_off(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        await node.create(manifest("crash", "sh", "-c", "echo run; exit 3"))
        pod = await node.until("crash", lambda pod: state(pod).get("restartCount", 0) >= 1)
        last = state(pod)["lastState"]["terminated"]
        assert (last["exitCode"], last["reason"]) == (3, "Error")
        waits = "CrashLoopBackOff"
        pod = await node.until("crash", lambda pod: state(pod)["state"].get("waiting", {}).get("reason") == waits)
        assert node.log("crash", attempt=1) == ["run"]
        name = f"crash_default({pod['metadata']['uid']})"
        await node.told("crash", "BackOff", f"Back-off restarting failed container c in pod {name}")


@in_loop
async def test_the_kernel_kills_what_exceeds_its_limit(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        hog = manifest("hog", "sh", "-c", "x=a; while true; do x=$x$x; done", spec={"restartPolicy": "Never"})
        hog["spec"]["containers"][0]["resources"] = {"limits": {"memory": "16Mi"}}
        await node.create(hog)
        pod = await node.until("hog", is_phase("Failed"))
        ended = state(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


@in_loop
async def test_a_deleted_pod_gets_its_signal_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        script = "trap 'echo bye > /said/bye; exit 0' TERM; while true; do sleep 0.05; done"
        said = tmp_path / "said"
        volumes = [{"name": "said", "hostPath": {"path": str(said), "type": "DirectoryOrCreate"}}]
        mounts = [{"name": "said", "mountPath": "/said"}]
        await node.create(manifest("web", "sh", "-c", script, spec={"volumes": volumes}, volumeMounts=mounts))
        await node.until("web", is_running)
        await node.delete("web", grace=20)
        await node.gone("web")
        assert (said / "bye").read_text() == "bye\n"
        assert node.remains() == []
        await until(lambda: not list(node.root.glob("logs/*")))
        assert mounts_below(node.root) == ([node.root] if kind == OCI else [])


@in_loop
async def test_what_does_not_listen_is_killed_when_its_time_is_over(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        await node.create(manifest("deaf", "sh", "-c", "trap '' TERM; while true; do sleep 0.05; done"))
        await node.until("deaf", is_running)
        await node.delete("deaf", grace=2)
        await node.gone("deaf")


@in_loop
async def test_a_new_agent_adopts_what_runs_and_sees_what_ended(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        await node.create(manifest("web", "sleep", "1000"))
        said = tmp_path / "said"
        volumes = [{"name": "said", "hostPath": {"path": str(said), "type": "DirectoryOrCreate"}}]
        mounts = [{"name": "said", "mountPath": "/said"}]
        spec = {"restartPolicy": "Never", "volumes": volumes}
        await node.create(manifest("task", "sh", "-c", "sleep 1; : > /said/x; exit 4", spec=spec, volumeMounts=mounts))
        before = state(await node.until("web", is_running))
        await node.until("task", is_running)
        await node.stop()
        await until((said / "x").exists)
        await node.start()
        pod = await node.until("task", is_phase("Failed"))
        assert state(pod)["state"]["terminated"]["exitCode"] == 4
        after = state(await node.pod("web"))
        assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
        assert is_running(await node.pod("web"))


@in_loop
async def test_a_pod_that_went_while_no_agent_was_there_is_torn_down(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        await node.create(manifest("web", "sleep", "1000"))
        await node.until("web", is_running)
        await node.stop()
        await node.delete("web", grace=0)
        await node.gone("web")
        await node.start()
        await until(lambda: not node.remains())


@in_loop
async def test_cgroups_that_come_back_when_their_pod_has_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As a runtime makes one that is killed and goes on with what it had begun; somebody may even run in it."""
    monkeypatch.setattr(remnants, "SWEEP_SECONDS", 0.2)
    async with real_node(tmp_path, kind=kind) as node:
        await node.create(manifest("stays", "sleep", "1000"))
        uid = (await node.until("stays", is_running))["metadata"]["uid"]
        cgroups, parent = Cgroups(hierarchies()), f"{node.cgroup}/kubepods/besteffort"
        cgroups.ensure(f"{parent}/podgone/c", {})
        left = await asyncio.create_subprocess_exec("sleep", "1000")
        pids = cgroups.hierarchies.root_of("pids.max")
        assert pids is not None
        Path(f"{pids}{parent}/podgone/c/cgroup.procs").write_text(str(left.pid))  # noqa: ASYNC240
        await until(lambda: cgroups.children(parent) == {f"pod{uid}"})
        assert await left.wait() == -signal.SIGKILL
        assert is_running(await node.pod("stays"))


@in_loop
async def test_init_containers_sidecars_and_the_end_of_both(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        shared = [{"name": "shared", "mountPath": "/shared"}]
        common = {"image": IMAGE, "volumeMounts": shared}
        init = [
            common | {"name": "first", "command": ["sh", "-c", "echo one > /shared/file"]},
            common | {"name": "side", "command": ["sleep", "1000"], "restartPolicy": "Always"},
        ]
        spec = {
            "initContainers": init,
            "restartPolicy": "Never",
            "volumes": [{"name": "shared", "emptyDir": {}}],
        }
        script = "cat /shared/file; sleep 0.5"
        await node.create(manifest("both", "sh", "-c", script, spec=spec, volumeMounts=shared))
        pod = await node.until("both", is_phase("Succeeded"))
        assert node.log("both") == ["one"]
        assert state(pod, "first")["state"]["terminated"]["reason"] == "Completed"
        assert state(pod, "side")["state"]["terminated"]["exitCode"] != 0


@in_loop
async def test_a_program_that_does_not_exist_is_a_start_error(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        await node.create(manifest("bad", "/no/such/program", spec={"restartPolicy": "Never"}))
        pod = await node.until("bad", is_phase("Failed"))
        ended = state(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
        assert "/no/such/program" in ended["message"]


@in_loop
async def test_a_field_that_this_node_does_not_honour_is_named(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        volumes = [{"name": "far", "nfs": {"server": "s", "path": "/"}}]
        await node.create(manifest("odd", "true", spec={"volumes": volumes}))
        pod = await node.until("odd", is_phase("Failed"))
        assert pod["status"]["reason"] == "UnsupportedField"
        assert "spec.volumes[0].nfs" in pod["status"]["message"]


@in_loop
async def test_a_deadline_ends_a_pod(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        await node.create(manifest("long", "sleep", "1000", spec={"activeDeadlineSeconds": 1}))
        pod = await node.until("long", is_phase("Failed"))
        assert pod["status"]["reason"] == "DeadlineExceeded"
