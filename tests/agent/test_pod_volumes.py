"""Volumes and environments of real containers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent import linux
from fairlead.agent.pods.sources import Sources
from fairlead.agent.volumes.payload import Owner, PayloadFile, write_payload
from fairlead.agent.volumes.subpaths import OutsideOfVolume, mount_subpath
from fairlead.api.builtin import CONFIG_MAPS, EVENTS, PODS, SECRETS
from fairlead.api.objects import Obj
from fairlead.compose import restored
from fairlead.runtime.loops import run_virtual
from tests.agent.folder_images import FolderImage
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import NODE, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import IMAGE, on_each

#: What came from the API is looked at again so often.
OFTEN = {"syncFrequency": "100ms"}


def _task(name: str, script: str, volumes: list[Obj], mounts: list[Obj], **more: Any) -> Obj:
    spec = {"volumes": volumes, "restartPolicy": "Never"} | more.pop("spec", {})
    return manifest(name, "sh", "-c", script, spec=spec, volumeMounts=mounts, **more)


@real_containers
@in_loop
async def test_volumes_from_the_api(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.api.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"a": "A", "b": "B"}}, "default")
        await node.api.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}}, "default")
        down = [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.memory", "divisor": "1Mi"}},
        ]
        volumes = [
            {"name": "cm", "configMap": {"name": "cm", "items": [{"key": "a", "path": "deep/a", "mode": 0o400}]}},
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "down", "downwardAPI": {"items": down}},
            {"name": "one", "configMap": {"name": "cm"}},
        ]
        mounts = [{"name": name, "mountPath": f"/v/{name}"} for name in ("cm", "s", "down")]
        mounts.append({"name": "one", "mountPath": "/v/only-b", "subPath": "b"})
        script = (
            "cat /v/cm/deep/a; echo; cat /v/s/key; echo; cat /v/down/labels; echo; cat /v/down/cpu; echo; cat "
            "/v/only-b; echo; ls /var/run/secrets/kubernetes.io/serviceaccount; mount | grep -c '/v/s type tmpfs'"
        )
        pod = _task("reads", script, volumes, mounts, resources={"limits": {"memory": "64Mi"}})
        pod["metadata"]["labels"] = {"app": "x"}
        await node.create(pod)
        await node.until("reads", is_phase("Succeeded"))
        said = node.log("reads")
        assert said == ["A", "hidden", 'app="x"', "64", "B", "ca.crt", "namespace", "token", "1"]


@real_containers
@in_loop
async def test_nobody_in_a_container_changes_what_comes_from_the_api(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.api.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"a": "A"}}, "default")
        await node.api.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "A"}}, "default")
        labels = {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
        volumes = [
            {"name": "cm", "configMap": {"name": "cm"}},
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "down", "downwardAPI": labels},
            {"name": "all", "projected": {"sources": [{"downwardAPI": labels}]}},
        ]
        mounts = [{"name": volume["name"], "mountPath": f"v/{volume['name']}"} for volume in volumes]
        mounts.append({"name": "cm", "mountPath": "/v/part", "subPath": "a"})
        script = "for at in cm/x s/x down/x all/x part; do { echo > /v/$at; } 2>/dev/null || echo refused; done"
        await node.create(_task("writes", script, volumes, mounts))
        await node.until("writes", is_phase("Succeeded"))
        assert node.log("writes") == ["refused"] * 5


@real_containers
@in_loop
async def test_the_environment(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.api.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"a": "A"}}, "default")
        env = [
            {"name": "ONE", "value": "1"},
            {"name": "TWO", "value": "$(ONE)$(NOBODY)$$(ONE)"},
            {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "a"}}},
            {"name": "OF", "value": "$(CM_a)$(KEY)"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
        ]
        whole = [{"prefix": "CM_", "configMapRef": {"name": "cm"}}]
        pod = manifest(
            "env",
            "sh",
            "-c",
            "echo $TWO $KEY $NODE $CPU $CM_a $OF; echo $(ONE)",
            spec={"restartPolicy": "Never"},
            env=env,
            envFrom=whole,
            resources={"requests": {"cpu": "250m"}},
        )
        await node.create(pod)
        await node.until("env", is_phase("Succeeded"))
        assert node.log("env") == [f"1$(NOBODY)$(ONE) A {NODE} 250 A AA", "1"]


@real_containers
@in_loop
async def test_variables_that_double_cost_no_more_than_a_program_can_be_given(tmp_path: Path) -> None:
    """Forty of them would be a terabyte, and so would a long command of one that is as long as one may be."""
    doubling = [{"name": f"V{number}", "value": f"$(V{number - 1})" * 2} for number in range(1, 40)]
    env = [{"name": "V0", "value": "x"}, *doubling]
    most = os.sysconf("SC_PAGE_SIZE") * 32
    long = {"name": "V0", "value": "x" * 100_000}
    async with real_node(tmp_path) as node:
        await node.create(manifest("doubles", "true", env=env))
        await node.create(manifest("echoes", "echo", *["$(V0)"] * 10_000, env=[long]))
        await node.create(
            manifest("many", "true", env=[long, *({"name": f"V{it}", "value": "$(V0)"} for it in range(1, 70))])
        )
        for name, said in (
            ("doubles", f'"$(V17)$(V17)" comes to more than {most} bytes' if most == 1 << 17 else "comes to more than"),
            ("echoes", f"the command is longer than {6 << 20} bytes"),
            ("many", f"the environment is longer than {6 << 20} bytes"),
        ):
            pod = await node.until(name, lambda pod: state(pod).get("state", {}).get("waiting", {}).get("message"))
            waiting = state(pod)["state"]["waiting"]
            assert waiting["reason"] == "CreateContainerConfigError" and said in waiting["message"]


@real_containers
@in_loop
async def test_a_pod_waits_for_what_it_refers_to(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        volumes = [{"name": "cm", "configMap": {"name": "late"}}]
        await node.create(_task("waits", "cat /v/a", volumes, [{"name": "cm", "mountPath": "/v"}]))
        problem = 'MountVolume.SetUp failed for volume "cm" : configmap "late" not found'
        await node.told("waits", "FailedMount", problem)
        await node.api.create(CONFIG_MAPS, {"metadata": {"name": "late"}, "data": {"a": "here"}}, "default")
        await node.until("waits", is_phase("Succeeded"))
        assert node.log("waits") == ["here"]


@real_containers
@in_loop
async def test_an_empty_folder_in_memory_has_its_limit(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        volumes = [{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
        script = (
            "dd if=/dev/zero of=/m/x bs=1k count=2000 2>/dev/null; ls -s /m/x | { read blocks rest; echo $blocks; }"
        )
        pod = _task("small", script, volumes, [{"name": "m", "mountPath": "/m"}])
        pod["spec"]["securityContext"] = {"fsGroup": 3000, "runAsUser": 1000}
        await node.create(pod)
        await node.until("small", is_phase("Succeeded"))
        assert node.log("small") == ["1024"]


@real_containers
@in_loop
@pytest.mark.parametrize("has_limit", [False, True])
async def test_the_limits_of_all_containers_limit_what_is_in_memory(tmp_path: Path, has_limit: bool) -> None:
    """One without a limit may fill it as far as the node lets it, whatever the others have: as under a kubelet."""
    async with real_node(tmp_path) as node:
        volumes = [{"name": "m", "emptyDir": {"medium": "Memory"}}]
        script = "busybox df -k /m | { read head; read name size rest; echo $size; }"
        pod = _task("task", script, volumes, [{"name": "m", "mountPath": "/m"}])
        pod["spec"]["containers"][0]["resources"] = {"limits": {"memory": "20Mi"}}
        resources = {"limits": {"memory": "44Mi"}} if has_limit else {}
        pod["spec"]["containers"].append({"name": "d", "image": IMAGE, "command": ["true"], "resources": resources})
        await node.create(pod)
        await node.until("task", is_phase("Succeeded"))
        (size,) = node.log("task")
        assert int(size) == 64 << 10 if has_limit else int(size) > 64 << 10


@real_containers
@in_loop
async def test_a_user_without_rights(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        security = {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        script = (
            "id -u; id -g; touch /x 2>/dev/null || echo read-only; mount -t tmpfs x /tmp 2>/dev/null || echo refused"
        )
        await node.create(
            manifest("user", "sh", "-c", script, spec={"restartPolicy": "Never"}, securityContext=security)
        )
        await node.create(manifest("root", "true", securityContext={"runAsNonRoot": True}))
        await node.until("user", is_phase("Succeeded"))
        assert node.log("user") == ["1000", "1001", "read-only", "refused"]
        refused = "CreateContainerConfigError"
        pod = await node.until("root", lambda pod: bool(pod["status"].get("containerStatuses")) and refused in str(pod))
        assert "image will run as root" in str(pod["status"])


@real_containers
def test_a_symlink_does_not_lead_a_subpath_out_of_its_volume(tmp_path: Path) -> None:
    volume, target = tmp_path / "volume", tmp_path / "target"
    volume.mkdir()
    (volume / "out").symlink_to("/etc")
    (volume / "in").symlink_to("real")
    (volume / "real").mkdir()
    (volume / "real/file").write_text("x")
    for path in ("out", "out/passwd", "../volume2"):
        with pytest.raises(OutsideOfVolume):
            mount_subpath(volume, path, target)
    mount_subpath(volume, "in", target)
    try:
        assert (target / "file").read_text() == "x"
    finally:
        linux.unmount(target)
    mount_subpath(volume, "new/folder", target)
    linux.unmount(target)
    assert (volume / "new/folder").is_dir()


def test_what_many_pods_refer_to_is_read_once_a_round() -> None:
    async def main() -> None:
        shared = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "default"}}
        async with restored([shared | {"data": {"a": "A"}}]) as api:
            sources = Sources(api)
            round_ = sources.for_a_round()
            assert await round_.read("ConfigMap", "default", "cm") == {"a": b"A"}
            await api.patch(CONFIG_MAPS, "cm", "default", {"data": {"a": "B"}})
            assert await round_.read("ConfigMap", "default", "cm") == {"a": b"A"}
            assert await sources.for_a_round().read("ConfigMap", "default", "cm") == {"a": b"B"}
            assert await sources.read("ConfigMap", "default", "cm") == {"a": b"B"}

    run_virtual(main())


@real_containers
@in_loop
async def test_a_config_map_that_changes_and_changes_back_reaches_the_volume(tmp_path: Path) -> None:
    script = "for want in A B A; do until [ $(cat /cm/a) = $want ]; do sleep 0.05; done; echo $want; done"
    async with real_node(tmp_path, OFTEN) as node:
        await node.api.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"a": "A"}}, "default")
        mounts = [{"name": "cm", "mountPath": "/cm"}]
        await node.create(_task("follows", script, [{"name": "cm", "configMap": {"name": "cm"}}], mounts))
        await node.until("follows", lambda pod: is_running(pod) and node.log("follows") == ["A"])
        await node.api.patch(CONFIG_MAPS, "cm", "default", {"data": {"a": "B"}})
        await node.until("follows", lambda pod: node.log("follows") == ["A", "B"])
        await node.api.patch(CONFIG_MAPS, "cm", "default", {"data": {"a": "A"}})
        await node.until("follows", is_phase("Succeeded"))


@real_containers
@in_loop
async def test_a_secret_that_is_gone_keeps_no_other_volume_from_what_is_new(tmp_path: Path) -> None:
    """The token of its account is the last of a pod's volumes, and ends within the hour."""
    async with real_node(tmp_path, OFTEN) as node:
        await node.api.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"key": "k"}}, "default")
        await node.api.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"a": "A"}}, "default")
        volumes = [{"name": "s", "secret": {"secretName": "s"}}, {"name": "cm", "configMap": {"name": "cm"}}]
        mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("s", "cm")]
        await node.create(_task("keeps", "until grep -q B /cm/a; do sleep 0.05; done; cat /s/key", volumes, mounts))
        await node.until("keeps", is_running)
        await node.api.delete(SECRETS, "s", "default")
        await node.api.patch(CONFIG_MAPS, "cm", "default", {"data": {"a": "B"}})
        await node.until("keeps", is_phase("Succeeded"))
        assert node.log("keeps") == ["k"]


@real_containers
@in_loop
async def test_what_a_container_lets_others_do_in_an_empty_folder_stays(tmp_path: Path) -> None:
    async with real_node(tmp_path, OFTEN) as node:
        await node.api.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"a": "A"}}, "default")
        volumes = [{"name": "own", "emptyDir": {}}, {"name": "cm", "configMap": {"name": "cm"}}]
        mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("own", "cm")]
        script = "chmod 700 /own; echo closed; until grep -q B /cm/a; do sleep 0.05; done; busybox stat -c %a /own"
        await node.create(_task("closes", script, volumes, mounts))
        await node.until("closes", lambda pod: is_running(pod) and node.log("closes") == ["closed"])
        await node.api.patch(CONFIG_MAPS, "cm", "default", {"data": {"a": "B"}})
        await node.until("closes", is_phase("Succeeded"))
        assert node.log("closes") == ["closed", "700"]


def test_files_of_a_payload_change_together(tmp_path: Path) -> None:
    first = {"a": PayloadFile(b"1", 0o644), "sub/b": PayloadFile(b"2", 0o400)}
    assert write_payload(tmp_path, first, "one", Owner())
    assert not write_payload(tmp_path, first, "same", Owner())
    assert (tmp_path / "a").read_bytes() == b"1" and (tmp_path / "sub/b").stat().st_mode & 0o777 == 0o400
    with (tmp_path / "a").open("rb") as opened:
        assert write_payload(tmp_path, {"a": PayloadFile(b"3", 0o644)}, "two", Owner())
        assert opened.read() == b"1"
    assert (tmp_path / "a").read_bytes() == b"3"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["..data", "..two", "a"]


def test_a_file_for_a_group_can_be_read_by_it(tmp_path: Path) -> None:
    gid = os.getgid()
    write_payload(tmp_path, {"token": PayloadFile(b"t", 0o600)}, "one", Owner(gid=gid))
    status = (tmp_path / "token").stat()
    assert (status.st_gid, status.st_mode & 0o777) == (gid, 0o640)


@in_loop
async def test_the_files_of_an_image_are_a_volume_that_nobody_changes(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        below, above = tmp_path / "below", tmp_path / "above"
        for layer, text in ((below, "old"), (above, "new")):
            (layer / "data").mkdir(parents=True)
            (layer / "data/model").write_text(f"{text}\n")
        (below / "data/other").write_text("other\n")
        node.images.registry["far/data:1"] = FolderImage([below, above], id="sha256:" + "3" * 64)
        node.images.here["near/data:1"] = FolderImage([below], id="sha256:" + "4" * 64)
        volumes = [
            {"name": "far", "image": {"reference": "far/data:1"}},
            {"name": "near", "image": {"reference": "near/data:1", "pullPolicy": "Never"}},
        ]
        mounts = [{"name": "far", "mountPath": "/far"}, {"name": "near", "mountPath": "/near", "subPath": "data"}]
        script = "cat /far/data/model /far/data/other /near/model; touch /far/x 2>/dev/null || echo refused"
        spec = {"volumes": volumes, "restartPolicy": "Never"}
        await node.create(manifest("reads", "sh", "-c", script, spec=spec, volumeMounts=mounts))
        await node.until("reads", is_phase("Succeeded"))
        assert node.log("reads") == ["new", "other", "old", "refused"]
        await node.delete("reads")
        await node.gone("reads")
        assert (below / "data/other").exists()


@on_each
@in_loop
async def test_an_image_that_cannot_be_a_volume_holds_up_who_mounts_it(tmp_path: Path, kind: str) -> None:
    """The container says so as one whose own image cannot be had; the others run."""
    async with real_node(tmp_path, kind=kind) as node:
        volumes = [
            {"name": "never", "image": {"reference": "fairlead.invalid/no/where:1", "pullPolicy": "Never"}},
            {"name": "pulled", "image": {"reference": "fairlead.invalid/no/where:2"}},
            {"name": "wrong", "image": {"reference": "No:thing!"}},
        ]
        mounts = {name: [{"name": name, "mountPath": "/v"}] for name in ("never", "pulled", "wrong")}
        pod = manifest("waits", "sleep", "1000", spec={"volumes": volumes})
        (usual,) = pod["spec"]["containers"]
        pod["spec"]["containers"] += [{**usual, "name": name, "volumeMounts": each} for name, each in mounts.items()]
        await node.create(pod)

        def waits(name: str, reason: str) -> Callable[[Obj], bool]:
            return lambda pod: state(pod, name).get("state", {}).get("waiting", {}).get("reason") == reason

        await node.until("waits", lambda pod: "running" in state(pod).get("state", {}))
        shown = await node.until("waits", waits("never", "ErrImageNeverPull"))
        problem = 'Container image "fairlead.invalid/no/where:1" is not present with pull policy of Never'
        assert state(shown, "never")["state"]["waiting"]["message"] == problem
        await node.until("waits", waits("wrong", "InvalidImageName"))
        shown = await node.until("waits", waits("pulled", "ImagePullBackOff"))
        message = state(shown, "pulled")["state"]["waiting"]["message"]
        assert message.startswith('Back-off pulling image "fairlead.invalid/no/where:2": ErrImagePull: ')
        await node.told("waits", "ErrImageNeverPull", problem)
        await node.told("waits", "Pulling", 'Pulling image "fairlead.invalid/no/where:2"')
        await node.told("waits", "BackOff", 'Back-off pulling image "fairlead.invalid/no/where:2"')
        events = [each.obj() for each in (await node.api.list(EVENTS, "default")).items]
        paths = {each["message"]: each["involvedObject"].get("fieldPath", "") for each in events}
        assert paths["Error: ErrImageNeverPull"] == "spec.containers{never}"
        assert paths["Error: ErrImagePull"] == paths["Error: ImagePullBackOff"] == "spec.containers{pulled}"
        assert paths[problem] == paths['Pulling image "fairlead.invalid/no/where:2"'] == ""


@pytest.mark.slow
@real_containers
@in_loop
async def test_folders_deeper_than_python_recurses_go_with_their_pod(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "for at in /v /tmp; do mkdir -p $at; cd $at; while mkdir d && cd d; do :; done; cd /; done 2>/dev/null"
        volumes, mounts = [{"name": "v", "emptyDir": {}}], [{"name": "v", "mountPath": "/v"}]
        made = {"exec": {"command": ["cat", "/made"]}, "periodSeconds": 1}
        task = _task("deep", f"{script}; touch /made; sleep 1000", volumes, mounts, readinessProbe=made)
        await node.create(task)
        await node.until("deep", lambda pod: bool(state(pod).get("ready")), seconds=60)
        await node.delete("deep", grace=1)
        await node.gone("deep")
        assert node.remains() == []


@real_containers
@in_loop
async def test_annotations_and_labels_that_change_reach_the_volume(tmp_path: Path) -> None:
    items = [{"path": what, "fieldRef": {"fieldPath": f"metadata.{what}"}} for what in ("annotations", "labels")]
    script = "until grep -q new /down/annotations && grep -q new /down/labels; do sleep 0.1; done"
    async with real_node(tmp_path, OFTEN) as node:
        pod = manifest(
            "told",
            "sh",
            "-c",
            script,
            spec={"restartPolicy": "Never", "volumes": [{"name": "down", "downwardAPI": {"items": items}}]},
            volumeMounts=[{"name": "down", "mountPath": "/down"}],
        )
        await node.create(pod)
        await node.until("told", is_running)
        meta = {"annotations": {"a": "new"}, "labels": {"b": "new"}}
        await node.api.patch(PODS, "told", "default", {"metadata": meta})
        await node.until("told", is_phase("Succeeded"))
