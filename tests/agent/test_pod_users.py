"""Pods whose users are not the machine's."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import msgspec
import pytest

from fairlead.agent.pods.user_ranges import UserRanges
from fairlead.agent.runtimes.base import IdRange, RuntimeFailure, SandboxSpec
from fairlead.agent.runtimes.cri.specs import sandbox_config
from fairlead.agent.runtimes.oci.user_namespace import is_possible
from fairlead.api.builtin import CONFIG_MAPS, NODES, RUNTIME_CLASSES
from fairlead.api.objects import Obj
from tests.agent.containerd import before_containerd_2, since_containerd_2, with_containerd
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import NODE, RealNode, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import CONTAINERD

OWN: Obj = {"hostUsers": False}


def test_each_pod_has_a_range_of_its_own_until_its_folder_goes(tmp_path: Path) -> None:
    ranges = UserRanges(tmp_path, 2)
    first, second = ranges.of("a"), ranges.of("b")
    assert (first, second) == (IdRange(65536, 65536), IdRange(131072, 65536))
    assert UserRanges(tmp_path, 2).of("b") == second
    with pytest.raises(RuntimeFailure, match="could not find an empty slot to allocate a user namespace"):
        ranges.of("c")
    shutil.rmtree(tmp_path / "a")
    assert ranges.of("c") == first


def test_ranges_of_an_earlier_configuration_are_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old/users.json").write_bytes(msgspec.json.encode(IdRange(131072, 131072)))
    assert UserRanges(tmp_path, 3).of("a") == IdRange(65536, 65536)
    assert UserRanges(tmp_path, 9).of("b") == IdRange(65536 * 4, 65536)
    assert UserRanges(tmp_path, 9, 1 << 17).of("c") == IdRange(3 << 17, 1 << 17)


def test_a_range_that_was_cut_off_is_as_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/users.json").write_text("[655")
    assert UserRanges(tmp_path, 1).of("a") == IdRange(65536, 65536)


def test_a_range_that_cannot_be_kept_is_a_failure_and_hinders_no_other(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b/users.json").mkdir(parents=True)
    ranges = UserRanges(tmp_path, 1)
    for uid in "ab":
        with pytest.raises(RuntimeFailure, match="create user namespace: "):
            ranges.of(uid)
    assert ranges.of("c") == IdRange(65536, 65536)


def test_a_runtime_behind_cri_is_told_the_range() -> None:
    spec = SandboxSpec(
        uid="u", namespace="n", name="p", hostname="p", cgroup="/u", logs=Path("/l"), users=IdRange(7, 9)
    )
    told = sandbox_config(spec, Path("/root")).linux.security_context.namespace_options.userns_options
    assert told is not None and told.mode == 0 and told.uids == told.gids
    assert [(each.host_id, each.container_id, each.length) for each in told.uids] == [(7, 0, 9)]


@with_containerd
@before_containerd_2
@in_loop
async def test_a_runtime_that_gives_no_users_of_their_own_is_named(tmp_path: Path) -> None:
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        await node.create(manifest("own", "sleep", "1000", spec=OWN))
        problem = (
            'can\'t set `spec.hostUsers: false`, runtime does not support user namespaces: the handler "" is not known'
        )
        await node.told("own", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {problem}")


@since_containerd_2
@in_loop
async def test_containerd_gives_a_pod_users_of_its_own(tmp_path: Path) -> None:
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        await node.api.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"a": "A"}}, "default")
        volumes = [{"name": "cm", "configMap": {"name": "cm"}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]
        mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
        script = "cat /proc/self/uid_map /cm/a; echo; ls -n /cm/..data/a; touch /memory/x && echo written"
        spec = {**OWN, "volumes": volumes, "restartPolicy": "Never"}
        await node.create(manifest("own", "sh", "-c", script, spec=spec, volumeMounts=mounts))
        await node.until("own", is_phase("Succeeded"))
        users, data, owner, wrote = node.log("own")[-4:]  # of what CRI-O tells runc that warns first
        assert users.split() == ["0", "65536", "65536"]
        assert data == "A" and owner.split()[2:4] == ["0", "0"] and wrote == "written"


def _first_process(node: RealNode, pod: Obj) -> int:
    """Of its one container."""
    return int((node.root / "containers" / state(pod)["containerID"].rpartition("/")[2] / "pid").read_text())


def _first_id(node: RealNode, pod: Obj) -> int:
    """Who root of the pod is on the machine."""
    return int(Path(f"/proc/{_first_process(node, pod)}/uid_map").read_text().split()[1])


@real_containers
@pytest.mark.parametrize("handler", ["crun", "runc"])
@in_loop
async def test_root_of_a_pod_is_nobody_on_the_machine_and_files_stay_as_they_are(tmp_path: Path, handler: str) -> None:
    if not is_possible(tmp_path):
        pytest.skip("this machine maps no owners of files")
    data = tmp_path / "data"
    data.mkdir()
    (data / "of-app").write_text("kept")
    shutil.chown(data / "of-app", 1000, 1001)
    async with real_node(tmp_path) as node:
        await node.api.create(RUNTIME_CLASSES, {"metadata": {"name": "by"}, "handler": handler})
        await node.api.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"a": "A"}}, "default")
        volumes = [
            {"name": "data", "hostPath": {"path": str(data)}},
            {"name": "cm", "configMap": {"name": "cm"}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ]
        mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
        mounts.append({"name": "data", "mountPath": "/file", "subPath": "of-app"})
        script = """
            id -u; cat /cm/a; echo; ls -ln /data/of-app | { read mode links uid gid rest; echo $uid $gid; }
            touch /data/of-root /memory/x /file /written && mkdir /tmp/m && mount -t tmpfs none /tmp/m && echo mounted
            cat /etc/hostname; hostname; test -w /dev/shm && test -c /dev/null && echo devices
            echo x > /proc/sys/kernel/hostname || echo refused
            sleep 1000
        """
        security = {"capabilities": {"add": ["SYS_ADMIN"]}}
        ready = {"exec": {"command": ["test", "-e", "/written"]}, "periodSeconds": 1}
        spec = {**OWN, "volumes": volumes, "runtimeClassName": "by"}
        wanted = manifest(
            "own", "sh", "-c", script, spec=spec, securityContext=security, volumeMounts=mounts, readinessProbe=ready
        )
        await node.create(wanted)
        pod = await node.until("own", lambda pod: bool(state(pod).get("ready")))
        assert node.log("own")[:7] == ["0", "A", "1000 1001", "mounted", "own", "own", "devices"]
        assert (data / "of-root").stat().st_uid == 0
        first = _first_id(node, pod)
        assert first == 65536
        id_ = state(pod)["containerID"].rpartition("/")[2]
        assert (node.root / f"containers/{id_}/upper/written").stat().st_uid == first
        await node.create(manifest("other", "sleep", "1000", spec=OWN))
        assert _first_id(node, await node.until("other", is_running)) == 131072
        shown = (await node.api.get(NODES, NODE)).obj()["status"]["runtimeHandlers"]
        assert {each["features"]["userNamespaces"] for each in shown} == {True}


@real_containers
@in_loop
async def test_a_range_is_kept_by_a_pod_and_given_to_the_next(tmp_path: Path) -> None:
    if not is_possible(tmp_path):
        pytest.skip("this machine maps no owners of files")
    async with real_node(tmp_path) as node:
        await node.create(manifest("own", "sleep", "1000", spec=OWN))
        await node.until("own", is_running)
        await node.stop()
        await node.start()
        os.kill(_first_process(node, await node.pod("own")), signal.SIGKILL)
        again = await node.until("own", lambda pod: state(pod)["restartCount"] == 1 and is_running(pod))
        assert _first_id(node, again) == 65536
        await node.delete("own", grace=1)
        await node.gone("own")
        assert node.remains() == []
        await node.create(manifest("next", "sleep", "1000", spec=OWN))
        assert _first_id(node, await node.until("next", is_running)) == 65536


@real_containers
@in_loop
async def test_what_the_kernel_does_not_map_is_named(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        spec = {**OWN, "volumes": [{"name": "p", "hostPath": {"path": "/proc"}}]}
        await node.create(manifest("maps", "true", spec=spec, volumeMounts=[{"name": "p", "mountPath": "/p"}]))
        problem = "the owners of /proc cannot be mapped to users of the pod: Invalid argument"
        await node.told("maps", "Failed", f"Error: {problem}")


@real_containers
@in_loop
async def test_settings_of_the_kernel_are_those_of_its_own_namespaces(tmp_path: Path) -> None:
    if not is_possible(tmp_path):
        pytest.skip("this machine maps no owners of files")
    settings = {
        "kernel.shm_rmid_forced": "1",
        "kernel.sem": "32000 1024000000 500 3200",
        "kernel.msgmax": "4096",
        "fs.mqueue.msg_max": "12",
        "net.ipv4.ping_group_range": "0 5",
    }
    files = [f"/proc/sys/{name.replace('.', '/')}" for name in settings]
    before = _texts(files)
    async with real_node(tmp_path, {"allowedUnsafeSysctls": ["kernel.sem", "kernel.msg*", "fs.mqueue.*"]}) as node:
        sysctls = [{"name": name, "value": value} for name, value in settings.items()]
        spec = {**OWN, "restartPolicy": "Never", "securityContext": {"sysctls": sysctls}}
        await node.create(manifest("own", "cat", *files, spec=spec))
        await node.until("own", is_phase("Succeeded"))
        assert [" ".join(line.split()) for line in node.log("own")] == list(settings.values())
        sysctls[0]["value"] = "no number"
        await node.create(manifest("wrong", "true", spec=spec))
        await node.reasons("wrong", lambda reasons: "FailedCreatePodSandBox" in reasons)
        assert "/proc/sys/kernel/shm_rmid_forced cannot be no number" in str(await node.events("wrong"))
    assert _texts(files) == before


def _texts(files: list[str]) -> list[str]:
    return [Path(file).read_text() for file in files]
