"""Who sees whose processes: containers that share them, and ephemeral ones that join a pod to look at another."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.api.builtin import PODS
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from tests.agent.machine import in_loop, mounts_below, real_containers, until
from tests.agent.oci_node import RealNode, is_phase, is_running, manifest, real_node
from tests.agent.runtime_place import IMAGE

pytestmark = real_containers


async def _debug(node: RealNode, pod: str, name: str, script: str, **container: object) -> None:
    own = {"name": name, "image": IMAGE, "command": ["sh", "-c", script], **container}
    wanted = {"spec": {"ephemeralContainers": [own]}}
    await node.api.patch(PODS, pod, "default", wanted, PatchType.STRATEGIC, subresource="ephemeralcontainers")


def _joined(pod: Obj, name: str) -> Obj:
    statuses = pod["status"].get("ephemeralContainerStatuses") or ()
    return next((each for each in statuses if each["name"] == name), {})


def _has(name: str, state: str) -> object:
    return lambda pod: state in _joined(pod, name).get("state", {})


@pytest.mark.parametrize("users", [{}, {"hostUsers": False}])
@in_loop
async def test_containers_of_a_pod_that_says_so_see_each_other(tmp_path: Path, users: Obj) -> None:
    async with real_node(tmp_path) as node:
        look = "until ps | grep -v grep | grep -q 'sleep 4242'; do sleep 0.1; done; ls /proc/1/root/; echo pid $$"
        other = {"name": "other", "image": IMAGE, "command": ["sleep", "4242"]}
        spec = {"shareProcessNamespace": True, "restartPolicy": "Never", **users}
        pod = manifest("shared", "sh", "-c", look, spec=spec)
        pod["spec"]["containers"].append(other)
        pod["spec"]["containers"][0]["securityContext"] = {"capabilities": {"add": ["SYS_PTRACE"]}}
        await node.create(pod)
        await until(lambda: bool(list(node.root.glob("logs/*/c/0.log"))) and "pid" in str(node.log("shared")))
        # the first process has an empty root, into which users of the pod's own may not even look
        (said,) = (line for line in node.log("shared") if line != "ls: /proc/1/root/: Permission denied")
        assert said != "pid 1"
        await node.delete("shared", grace=1)
        await node.gone("shared")
        assert mounts_below(node.root) == [node.root]
        assert not list((node.root / "sandboxes").iterdir())


@pytest.mark.parametrize("users", [{}, {"hostUsers": False}])
@in_loop
async def test_who_traces_the_first_process_of_a_pod_gains_nothing(tmp_path: Path, users: Obj) -> None:
    async with real_node(tmp_path) as node:
        await node.create(manifest("shared", "sleep", "1000", spec={"shareProcessNamespace": True, **users}))
        await node.until("shared", is_running)
        (file,) = node.root.glob("sandboxes/*/holder.pid")
        process = Path("/proc", file.read_text())
        assert not _capabilities(process)
        assert _namespaces(process).isdisjoint(_namespaces(Path("/proc/self")))


def _capabilities(process: Path) -> set[str]:
    lines = (line.split() for line in (process / "status").read_text().splitlines())
    return {line[1] for line in lines if line[0].startswith("Cap") and line[1].strip("0")}


def _namespaces(process: Path) -> set[Path]:
    """But for that of users, which the machine may share."""
    return {(process / "ns" / kind).readlink() for kind in ("net", "ipc", "uts", "mnt", "pid", "cgroup")}


@in_loop
async def test_what_a_container_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        spec = {"shareProcessNamespace": True, "restartPolicy": "Never"}
        look = "sleep 1; while ps | grep -v grep | grep -q 'sleep 4343'; do sleep 0.1; done; echo alone"
        pod = manifest("shared", "sh", "-c", look, spec=spec)
        pod["spec"]["containers"].append(
            {"name": "other", "image": IMAGE, "command": ["sh", "-c", "sleep 4343 & exit 0"]}
        )
        await node.create(pod)
        await node.until("shared", is_phase("Succeeded"))
        assert node.log("shared") == ["alone"]


@in_loop
async def test_an_ephemeral_container_looks_at_its_target_and_is_not_restarted(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.create(manifest("web", "sleep", "4242"))
        await node.until("web", is_running)
        await _debug(node, "web", "look", "ps | grep 'sleep 424[2]'; exit 3", targetContainerName="c")
        pod = await node.until("web", _has("look", "terminated"))  # type: ignore[arg-type]
        assert _joined(pod, "look")["state"]["terminated"]["exitCode"] == 3
        assert node.log("web", "look")[0].split()[0] == "1"
        await _debug(node, "web", "blind", "ps | grep -v grep | grep 'sleep 424[2]' || echo nobody; sleep 1000")
        pod = await node.until("web", _has("blind", "running"))  # type: ignore[arg-type]
        await until(lambda: node.log("web", "blind") == ["nobody"])
        assert (_joined(pod, "blind")["ready"], _joined(pod, "look")["restartCount"]) == (False, 0)
        assert is_running(pod) and pod["status"]["phase"] == "Running"
        await node.told("web", "Started", "Container started")
        await node.stop()
        await node.start()
        await _debug(node, "web", "third", "echo here; sleep 1000")
        pod = await node.until("web", _has("third", "running"))  # type: ignore[arg-type]
        assert len(list((node.root / "containers").iterdir())) == 4  # each has run once
        assert "running" in _joined(pod, "blind")["state"] and _joined(pod, "blind")["restartCount"] == 0
        await node.delete("web", grace=1)
        await node.gone("web")
        assert not list((node.root / "containers").iterdir())


@in_loop
async def test_a_target_that_does_not_run_is_named(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        both = manifest("web", "sleep", "1000", spec={"restartPolicy": "Never"})
        both["spec"]["containers"].append({"name": "gone", "image": IMAGE, "command": ["true"]})
        await node.create(both)
        await node.until("web", is_running)
        await _debug(node, "web", "look", "true", targetContainerName="gone")
        pod = await node.until("web", lambda pod: "message" in _joined(pod, "look").get("state", {}).get("waiting", {}))
        waiting = _joined(pod, "look")["state"]["waiting"]
        assert waiting == {"reason": "CreateContainerConfigError", "message": 'unable to find target container "gone"'}
