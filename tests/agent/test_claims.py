"""Claims on a real node: folders that are made for them, and volumes that somebody has made."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.reset import reset
from fairlead.agent.volumes.ownership import give_to_group
from fairlead.api.builtin import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.node.stats.kubelet_metrics import families
from tests.agent.machine import in_loop, real_containers, until
from tests.agent.oci_node import NODE, RealNode, is_phase, is_running, manifest, real_node


def _claim(name: str, **spec: Any) -> Obj:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, **spec},
    }


def _task(name: str, script: str, claim: str, *, spec: Obj | None = None, **mount: Any) -> Obj:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    whole = {"volumes": [volume], "restartPolicy": "Never", **(spec or {})}
    mounts = [{"name": "data", "mountPath": "/data", **mount}]
    return manifest(name, "sh", "-c", script, spec=whole, volumeMounts=mounts)


async def _volumes(node: RealNode) -> list[Obj]:
    return [found.obj() for found in (await node.api.list(PERSISTENT_VOLUMES, "")).items]


async def _delete_claim(node: RealNode, name: str) -> None:
    await node.api.delete(PERSISTENT_VOLUME_CLAIMS, name, "default")


def _folders(node: RealNode) -> list[Path]:
    return sorted((node.root / "volumes").glob("*"))


async def _eventually(check: Callable[[], Awaitable[None]]) -> None:
    """It holds within some seconds."""
    async with asyncio.timeout(20):
        while True:
            with suppress(AssertionError, KeyError, NotFound):
                await check()
                return
            await asyncio.sleep(0.05)


async def _bind_by_hand(node: RealNode, volume: str) -> None:
    claim = _claim("data", storageClassName="", volumeName=volume)
    await node.api.create(PERSISTENT_VOLUME_CLAIMS, claim, "default")


@real_containers
@in_loop
async def test_a_claim_is_a_folder_that_outlives_pods_and_agents_and_goes_with_the_claim(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.api.create(PERSISTENT_VOLUME_CLAIMS, _claim("data"), "default")
        await node.create(_task("writes", "echo kept > /data/f; ln -s /etc /data/etc; mkdir /data/d", "data"))
        await node.until("writes", is_phase("Succeeded"))
        (volume,) = await _volumes(node)
        assert volume["spec"]["local"]["path"] == str(_folders(node)[0])
        assert volume["spec"]["storageClassName"] == "standard"
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
        terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms == [{"matchExpressions": [here]}]
        await node.delete("writes")
        await node.gone("writes")
        await node.stop()
        await node.start()
        await node.create(_task("reads", "cat /data/f", "data"))
        await node.until("reads", is_phase("Succeeded"))
        assert node.log("reads") == ["kept"]
        await node.delete("reads")
        await node.gone("reads")
        await _delete_claim(node, "data")
        await _eventually(lambda: _no_volumes(node))
        assert _folders(node) == []
        assert os.path.exists("/etc/passwd")  # noqa: PTH110, ASYNC240


async def _no_volumes(node: RealNode) -> None:
    assert await _volumes(node) == []


@real_containers
@in_loop
async def test_a_volume_that_is_retained_stays_with_its_folder_until_reset(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        kept = {"metadata": {"name": "kept"}, "provisioner": "local-path.fairlead.dev", "reclaimPolicy": "Retain"}
        await node.api.create(STORAGE_CLASSES, kept | {"volumeBindingMode": "WaitForFirstConsumer"})
        await node.api.create(PERSISTENT_VOLUME_CLAIMS, _claim("data", storageClassName="kept"), "default")
        await node.create(_task("writes", "echo kept > /data/f", "data"))
        await node.until("writes", is_phase("Succeeded"))
        await node.delete("writes")
        await _delete_claim(node, "data")
        (name,) = [volume["metadata"]["name"] for volume in await _volumes(node)]

        async def released() -> None:
            assert (await node.api.get(PERSISTENT_VOLUMES, name)).obj()["status"]["phase"] == "Released"

        await _eventually(released)
        await node.api.delete(PERSISTENT_VOLUMES, name)
        await _eventually(lambda: _no_volumes(node))
        assert (node.root / "volumes" / name / "f").read_text() == "kept\n"
        await node.stop()
        await asyncio.to_thread(reset, node.root)
        assert not (node.root / "volumes").exists()


@real_containers
@in_loop
async def test_a_volume_that_only_claims_to_be_ours_loses_no_folder(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    async with real_node(tmp_path) as node:
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
        spec = {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "standard",
            "claimRef": {"namespace": "default", "name": "gone", "uid": "1"},
            "local": {"path": str(precious)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        annotations = {"pv.kubernetes.io/provisioned-by": "local-path.fairlead.dev"}
        forged = {"metadata": {"name": "forged", "annotations": annotations}, "spec": spec}
        await node.api.create(PERSISTENT_VOLUMES, forged)

        async def released() -> None:
            assert [volume["status"]["phase"] for volume in await _volumes(node)] == ["Released"]

        await _eventually(released)
        await node.api.create(PERSISTENT_VOLUME_CLAIMS, _claim("real"), "default")
        await node.create(_task("writes", "true", "real"))
        await node.until("writes", is_phase("Succeeded"))  # the provisioner has seen the others before
        assert precious.exists()


@pytest.mark.slow
@real_containers
@in_loop
async def test_a_pod_waits_for_its_claim_and_its_events_say_so(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.create(_task("waits", "echo here", "data", spec={"nodeName": NODE}))
        prefix = (
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], "
            "failed to process volumes=[data]: error processing PVC default/data: "
        )
        missing = 'failed to fetch PVC from API server: persistentvolumeclaims "data" not found'
        await node.told("waits", "FailedMount", prefix + missing)
        folder = tmp_path / "disk"
        await _made_by_hand(node, "disk", {"local": {"path": str(folder)}})
        await node.api.create(
            PERSISTENT_VOLUME_CLAIMS, _claim("data", storageClassName="", volumeName="disk"), "default"
        )
        unavailable = f'MountVolume.SetUp failed for volume "disk" : path "{folder}" does not exist'
        await node.told("waits", "FailedMount", unavailable)
        folder.mkdir()
        await node.until("waits", is_phase("Succeeded"))
        assert node.log("waits") == ["here"]


async def _made_by_hand(node: RealNode, name: str, source: Obj, where: str = NODE) -> None:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [where]}
    spec = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        **source,
    }
    await node.api.create(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})


@real_containers
@in_loop
async def test_volumes_of_a_path_of_the_machine_read_only_and_in_part(tmp_path: Path) -> None:
    (tmp_path / "disk/part").mkdir(parents=True)
    (tmp_path / "disk/out").symlink_to("/etc")
    async with real_node(tmp_path) as node:
        await _made_by_hand(node, "disk", {"hostPath": {"path": str(tmp_path / "disk")}})
        await node.api.create(
            PERSISTENT_VOLUME_CLAIMS, _claim("data", storageClassName="", volumeName="disk"), "default"
        )
        await node.create(_task("part", "echo in > /data/f", "data", subPath="part"))
        await node.until("part", is_phase("Succeeded"))
        assert (tmp_path / "disk/part/f").read_text() == "in\n"
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}
        await node.create(_task("looks", "cat /data/part/f; echo x > /data/part/f", "data", spec={"volumes": [claim]}))
        await node.until("looks", is_phase("Failed"))
        assert node.log("looks")[0] == "in"
        await node.create(_task("out", "true", "data", subPath="out"))

        async def refused() -> None:
            pod = await node.pod("out")
            waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
            assert waiting["reason"] == "CreateContainerConfigError"
            assert waiting["message"] == 'failed to prepare subPath for volumeMount "data" of container "c"'

        await _eventually(refused)


@real_containers
@in_loop
async def test_a_volume_of_another_node_is_not_mounted(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    async with real_node(tmp_path) as node:
        await _made_by_hand(node, "far", {"local": {"path": str(tmp_path / "disk")}}, "elsewhere")
        await node.api.create(
            PERSISTENT_VOLUME_CLAIMS, _claim("data", storageClassName="", volumeName="far"), "default"
        )
        await node.create(_task("waits", "true", "data", spec={"nodeName": NODE}))
        why = 'NodeAffinity check failed for volume "far" : no matching NodeSelectorTerms'
        await node.told("waits", "FailedMount", f'MountVolume.SetUp failed for volume "far" : {why}')


@real_containers
@in_loop
async def test_a_claim_of_a_pod_alone_goes_with_it_and_its_group_may_write(tmp_path: Path) -> None:
    template = {"spec": _claim("x")["spec"]}
    volumes = [{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]
    security = {"runAsUser": 1000, "runAsGroup": 1001, "fsGroup": 4242}
    async with real_node(tmp_path) as node:
        script = "echo x > /data/f; ls -ln /data/f | grep -c ' 4242 '; exec sleep 1000"
        await node.create(_task("own", script, "", spec={"volumes": volumes, "securityContext": security}))
        await node.until("own", is_running)
        await until(lambda: node.log("own") == ["1"])
        assert len(_folders(node)) == 1
        await node.delete("own", 0)
        await node.gone("own")
        await until(lambda: not _folders(node))


@real_containers
@in_loop
async def test_what_a_folder_cannot_be_is_said(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        for name, spec, why in (
            ("many", {"accessModes": ["ReadWriteMany"]}, "ReadWriteMany is not supported: a folder is of one node"),
            ("picky", {"selector": {"matchLabels": {"a": "b"}}}, "claim.Spec.Selector is not supported"),
        ):
            await node.api.create(PERSISTENT_VOLUME_CLAIMS, _claim(name, **spec), "default")
            await node.create(_task(f"of-{name}", "true", name))
            text = f'failed to provision volume with StorageClass "standard": {why}'
            await node.told(name, "ProvisioningFailed", text)
        assert _folders(node) == []


def test_a_volume_given_to_a_group_follows_no_symlink(tmp_path: Path) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    outside.write_text("x")
    outside.chmod(0o600)
    (volume / "deep").mkdir(parents=True)
    (volume / "deep/file").write_text("x")
    (volume / "deep/file").chmod(0o600)
    (volume / "deep/link").symlink_to(outside)
    (volume / "linked").symlink_to(tmp_path)
    gid = os.getgid()
    give_to_group(volume, gid)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o600
    assert stat.S_IMODE((volume / "deep/file").stat().st_mode) == 0o660
    assert stat.S_IMODE((volume / "deep").stat().st_mode) & 0o2070 == 0o2070
    (volume / "deep/file").chmod(0o600)
    give_to_group(volume, gid, only_on_mismatch=True)
    assert stat.S_IMODE((volume / "deep/file").stat().st_mode) == 0o600


@real_containers
@in_loop
async def test_how_full_the_file_system_of_a_claim_is(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.api.create(PERSISTENT_VOLUME_CLAIMS, _claim("data"), "default")
        await node.create(_task("stays", "sleep 1000", "data"))
        await node.until("stays", is_running)
        found = await node.measured(lambda found: any(pod.volumes for pod in found.pods))
        (volume,) = (each for pod in found.pods for each in pod.volumes if each.claim)
        assert (volume.name, volume.claim) == ("data", "data")
        assert volume.filesystem.capacity == os.statvfs(node.root).f_blocks * os.statvfs(node.root).f_frsize
        shown = {family.name: list(samples) for family, samples in families(found, {})}
        (capacity,) = shown["kubelet_volume_stats_capacity_bytes"]
        assert dict(capacity.labels) == {"namespace": "default", "persistentvolumeclaim": "data"}


@pytest.mark.slow
@real_containers
@in_loop
async def test_a_volume_of_one_pod_is_no_others_who_came_past_the_scheduler(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        claim = _claim("data", accessModes=["ReadWriteOncePod"])
        await node.api.create(PERSISTENT_VOLUME_CLAIMS, claim, "default")
        await node.create(_task("first", "sleep 1000", "data"))
        await node.until("first", is_running)
        await node.create(_task("second", "sleep 1000", "data", spec={"nodeName": NODE}))
        problem = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
        (volume,) = await _volumes(node)
        failed = f'MountVolume.SetUp failed for volume "{volume["metadata"]["name"]}" : {problem}'
        await node.told("second", "FailedMount", failed)
        assert not is_running(await node.pod("second"))
        await node.stop()
        await node.start()  # which of the two it finds first does not matter
        await node.create(_task("third", "sleep 1000", "data", spec={"nodeName": NODE}))
        await node.told("third", "FailedMount", failed)
        assert is_running(await node.pod("first"))
        assert not is_running(await node.pod("second"))
        await node.delete("third")
        await node.delete("first")
        await node.gone("first")
        await node.until("second", is_running)
