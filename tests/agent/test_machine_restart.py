"""The machine is started anew, or as good as that: no process of pods is left, no mount, no cgroup."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.runtimes.oci import runtime as oci
from fairlead.api.objects import Obj
from tests.agent.machine import in_loop
from tests.agent.oci_node import RealNode, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import CONTAINERD, IMAGE, on_each

CHANGED = ("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
_KEEPERS = (b"conmon", b"containerd-shim-runc-v2")
FOREVER = ("sh", "-c", "echo $HOSTNAME >> /disk/runs; cat /disk/runs; ls /memory; touch /memory/x; exec sleep 1000")


def _go_down(node: RealNode) -> None:
    """Everything ends at once."""
    cgroups, daemon = Cgroups(hierarchies()), node.containerd
    pinned = _namespaces(cgroups, node.cgroup)
    if daemon is not None:
        daemon.stop()
    _kill_keepers(str(daemon.folder if daemon is not None else node.root))
    cgroups.kill(node.cgroup)
    for path in pinned:
        with suppress(OSError):
            linux.unmount(path)
            path.unlink()
    linux.unmount_below(node.root)
    for cgroup in cgroups.children(node.cgroup):
        for _ in range(500):  # what was killed takes a moment on a busy machine
            if cgroups.remove(f"{node.cgroup}/{cgroup}"):
                break
            time.sleep(0.02)
        assert not cgroups.exists(f"{node.cgroup}/{cgroup}")
    if daemon is not None:
        linux.unmount_below(daemon.folder)
        shutil.rmtree(daemon.folder / "state")
        daemon.start()


def _kill_keepers(word: str) -> None:
    """Those who have it among their words, before they could tell of anything."""
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0") if path.name.isdigit() else []
            if any(os.fsencode(word) in each for each in words[1:]) and words[0].endswith(_KEEPERS):
                os.kill(int(path.name), signal.SIGKILL)


def _namespaces(cgroups: Cgroups, cgroup: str) -> list[Path]:
    """Those of networks of the processes in there, where the runtime has pinned them itself."""
    inodes = set()
    for pid in cgroups.processes(cgroup):
        with suppress(OSError):
            inodes.add(Path(f"/proc/{pid}/ns/net").stat().st_ino)
    own = Path("/proc/self/ns/net").stat().st_ino
    return [path for path in linux.mount_points(Path("/run/netns")) if path.stat().st_ino in inodes - {own}]


@on_each
@in_loop
async def test_pods_start_again_when_the_machine_does(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        init = {"name": "first", "image": IMAGE, "command": ["true"]}
        volumes = [{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]
        always = manifest("always", *FOREVER, spec={"initContainers": [init], "volumes": volumes})
        always["spec"]["containers"][0]["volumeMounts"] = [
            {"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes
        ]
        await node.create(always)
        await node.create(manifest("never", "sleep", "1000", spec={"restartPolicy": "Never"}))
        await node.create(manifest("done", "true", spec={"restartPolicy": "OnFailure"}))
        before = [await node.until(name, is_running) for name in ("always", "never")]
        await node.until("done", is_phase("Succeeded"))
        await node.stop()
        if kind != CONTAINERD:
            boot = tmp_path / "boot-id"
            boot.write_text("another\n")
            monkeypatch.setattr(oci, "_BOOT_ID", boot)
        _go_down(node)
        await node.start()

        again = await node.until("always", lambda pod: is_running(pod) and state(pod)["restartCount"] == 1)
        _was_lost(state(again)["lastState"]["terminated"], before[0])
        assert state(again, "first")["restartCount"] == 1
        await node.told("always", *CHANGED)
        assert node.log("always", attempt=1) == ["always", "always"]  # the disk is kept, the memory is new
        failed = await node.until("never", is_phase("Failed"))
        _was_lost(state(failed)["state"]["terminated"], before[1])
        assert state(failed)["restartCount"] == 0
        assert state(await node.pod("done"))["restartCount"] == 0
        for name in ("always", "never", "done"):
            await node.delete(name, 0)
            await node.gone(name)


def _was_lost(ended: Obj, before: Obj) -> None:
    assert (ended["exitCode"], ended["reason"]) == (255, "Unknown")
    assert ended["containerID"] == state(before)["containerID"]
