"""Volumes of CSI drivers on a real node: drivers register, volumes are attached, staged, published and taken back."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fairlead.agent import linux
from fairlead.agent.csi import messages as csi
from fairlead.api.builtin import (
    CONFIG_MAPS,
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SECRETS,
    VOLUME_ATTACHMENTS,
)
from fairlead.api.objects import Obj
from fairlead.node.stats.measurements import FilesystemMeasurements, NodeMeasurements, VolumeMeasurements
from tests.agent.csi_driver import NAME, CsiDriver, serving
from tests.agent.machine import in_loop, real_containers, until
from tests.agent.oci_node import NODE, RealNode, is_running, manifest, real_node
from tests.agent.runtime_place import OCI, on_each

pytestmark = real_containers


@asynccontextmanager
async def disks(kind: str = OCI) -> AsyncIterator[tuple[RealNode, CsiDriver]]:
    """A node, and a driver that is not there yet. Paths of sockets have a hundred bytes at most."""
    with TemporaryDirectory(prefix="csi") as folder:
        async with real_node(Path(folder), kind=kind) as node:
            try:
                yield node, CsiDriver(node.root)
            finally:
                linux.unmount_below(Path(folder))


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await check():  # noqa: ASYNC110  (sockets tell nobody)
            await asyncio.sleep(0.05)


async def registered(driver: CsiDriver) -> None:
    await until(lambda: bool(driver.told), 30)
    assert driver.told[-1].plugin_registered, driver.told


async def disk(node: RealNode, name: str, mode: str = "Filesystem", **source: str) -> None:
    """A claim and its volume."""
    amount, modes = {"storage": "1Mi"}, ["ReadWriteOnce"]
    ref = {"namespace": "default", "name": name}
    spec = {
        "capacity": amount,
        "accessModes": modes,
        "storageClassName": "by-hand",
        "volumeMode": mode,
        "csi": {"driver": NAME, "volumeHandle": f"vol-{name}", "volumeAttributes": {"a": "b"}, **source},
        "claimRef": ref,
    }
    await node.api.create(PERSISTENT_VOLUMES, {"metadata": {"name": f"pv-{name}"}, "spec": spec})
    claim: Obj = {"accessModes": modes, "storageClassName": "by-hand", "volumeMode": mode}
    claim["resources"] = {"requests": amount}
    claim["volumeName"] = f"pv-{name}"
    await node.api.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": claim}, "default")


def task(name: str, script: str, claim: str) -> Obj:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    mounts = [{"name": "data", "mountPath": "/data"}]
    return manifest(name, "sh", "-c", script, spec={"volumes": [volume], "nodeName": NODE}, volumeMounts=mounts)


async def attached(node: RealNode) -> None:
    """The attacher says that the one volume is attached, once it is asked to attach it."""

    async def is_asked() -> bool:
        return bool((await node.api.list(VOLUME_ATTACHMENTS, "")).items)

    await eventually(is_asked)
    (found,) = (await node.api.list(VOLUME_ATTACHMENTS, "")).items
    status = {"attached": True, "attachmentMetadata": {"device": "/dev/x"}}
    name = found.obj()["metadata"]["name"]
    await node.api.patch(VOLUME_ATTACHMENTS, name, "", {"status": status}, subresource="status")


async def running(node: RealNode, driver: CsiDriver, script: str) -> None:
    """Pod `a` runs it, with the volume `vol-d` of the driver."""
    await registered(driver)
    await disk(node, "d")
    await node.create(task("a", script, "d"))
    await attached(node)
    await node.until("a", is_running)


async def is_detached(node: RealNode) -> bool:
    status = (await node.api.get(NODES, NODE)).obj()["status"]
    is_there = bool((await node.api.list(VOLUME_ATTACHMENTS, "")).items)
    return not is_there and not status.get("volumesInUse") and not status.get("volumesAttached")


@in_loop
async def test_a_driver_registers_and_is_named_by_the_csinode_as_long_as_it_is_there() -> None:
    async with disks() as (node, driver):
        async with serving(driver):
            await registered(driver)
            (entry,) = (await node.api.get(CSI_NODES, NODE)).obj()["spec"]["drivers"]
            assert entry == {
                "name": NAME,
                "nodeID": "machine-7",
                "topologyKeys": ["topology.fairlead.test/rack"],
                "allocatable": {"count": 5},
            }
            meta = (await node.api.get(NODES, NODE)).obj()["metadata"]
            assert meta["labels"]["topology.fairlead.test/rack"] == "r1"
            assert meta["annotations"]["csi.volume.kubernetes.io/nodeid"] == f'{{"{NAME}":"machine-7"}}'

        async def is_gone() -> bool:
            return not (await node.api.get(CSI_NODES, NODE)).obj()["spec"]["drivers"]

        await eventually(is_gone)


@in_loop
async def test_a_volume_is_there_once_it_is_attached_and_is_taken_back_from_the_last_pod() -> None:
    async with disks() as (node, driver), serving(driver):
        await registered(driver)
        about = {"metadata": {"name": NAME}, "spec": {"podInfoOnMount": True}}
        await node.api.create(CSI_DRIVERS, about)
        await disk(node, "d")
        await node.create(task("a", "echo kept > /data/file; sleep 1000", "d"))
        await node.create(task("b", "until test -f /data/file; do sleep 0.1; done; cat /data/file; sleep 1000", "d"))
        await attached(node)
        await node.until("a", is_running)
        await node.until("b", is_running)
        assert driver.asked.count("stage vol-d") == 1
        first = driver.published[0]
        assert first.volume_context["a"] == "b"
        assert first.volume_context["csi.storage.k8s.io/pod.name"] in ("a", "b")
        assert first.publish_context == {"device": "/dev/x"}
        assert (driver.content("vol-d") / "file").read_text() == "kept\n"
        in_use = (await node.api.get(NODES, NODE)).obj()["status"]["volumesInUse"]
        assert in_use == [f"kubernetes.io/csi/{NAME}^vol-d"]
        await node.delete("a", 0)
        await node.gone("a")
        assert "unstage vol-d" not in driver.asked
        await node.delete("b", 0)
        await node.gone("b")
        await eventually(lambda: is_detached(node))
        assert driver.asked[-2:] == ["unpublish vol-d", "unstage vol-d"]
        assert (driver.content("vol-d") / "file").read_text() == "kept\n"


@pytest.mark.slow
@in_loop
async def test_a_pod_waits_for_its_driver_and_is_told_what_that_says() -> None:
    async with disks() as (node, driver):
        await disk(node, "d")
        await node.create(task("a", "exec sleep 1000", "d"))
        await attached(node)
        missing = f"driver name {NAME} not found in the list of registered CSI drivers"
        await node.told("a", "FailedMount", f'MountVolume.SetUp failed for volume "pv-d" : {missing}')
        driver.errors["stage"] = "no such disk"
        async with serving(driver):
            failed = "rpc error: code = Internal desc = no such disk"
            await node.told("a", "FailedMount", f'MountVolume.SetUp failed for volume "pv-d" : {failed}', 30)
            driver.errors.clear()
            await node.until("a", is_running, 30)


@in_loop
async def test_what_has_no_attacher_is_mounted_at_once() -> None:
    async with disks() as (node, driver), serving(driver):
        await registered(driver)
        await node.api.create(CSI_DRIVERS, {"metadata": {"name": NAME}, "spec": {"attachRequired": False}})
        await disk(node, "d")
        await node.create(task("a", "exec sleep 1000", "d"))
        await node.until("a", is_running)
        assert not (await node.api.list(VOLUME_ATTACHMENTS, "")).items


@in_loop
async def test_what_a_pod_had_whose_agent_was_away_is_taken_back_by_the_next() -> None:
    async with disks() as (node, driver), serving(driver):
        await running(node, driver, "echo kept > /data/file; sleep 1000")
        await node.stop()
        await node.delete("a", 0)
        await node.start()
        await eventually(lambda: is_detached(node))
        assert driver.asked[-2:] == ["unpublish vol-d", "unstage vol-d"]
        assert (driver.content("vol-d") / "file").read_text() == "kept\n"


@in_loop
async def test_a_pod_stays_until_its_driver_has_taken_its_volume_back() -> None:
    async with disks() as (node, driver):
        async with serving(driver):
            await running(node, driver, "exec sleep 1000")
            driver.errors["unpublish"] = "busy"
            await node.delete("a", 0)
            await until(lambda: "unpublish vol-d" in driver.asked, 30)
            assert not await is_detached(node)
            driver.errors.clear()
            await eventually(lambda: is_detached(node))
        assert "FailedKillPod" not in [reason for reason, _ in await node.events("a")]


@pytest.mark.slow
@in_loop
async def test_what_the_driver_could_not_take_from_the_node_the_next_agent_has_taken_back() -> None:
    """No pod has it then, nor is there a folder of one."""
    async with disks() as (node, driver), serving(driver):
        await running(node, driver, "exec sleep 1000")
        driver.errors["unstage"] = "busy"
        await node.delete("a", 0)
        await until(lambda: "unstage vol-d" in driver.asked, 30)
        await node.stop()
        driver.errors.clear()
        await node.start()
        await eventually(lambda: is_detached(node))


@in_loop
async def test_a_running_pod_keeps_its_volume_while_its_agent_starts_again() -> None:
    """Its container runs anew after that, with what is mounted."""
    async with disks() as (node, driver), serving(driver):
        await running(node, driver, "until test -f /data/go; do sleep 0.1; done; rm /data/go")
        await node.stop()
        await node.start()
        (driver.content("vol-d") / "go").touch()
        await node.until(
            "a", lambda pod: bool(pod["status"]["containerStatuses"][0]["restartCount"]) and is_running(pod)
        )
        assert driver.asked == ["stage vol-d", "publish vol-d", "stage vol-d"]


def with_inline(name: str, script: str, **source: object) -> Obj:
    volume = {"name": "own", "csi": {"driver": NAME, "volumeAttributes": {"a": "b"}, **source}}
    mounts = [{"name": "own", "mountPath": "/own"}]
    return manifest(name, "sh", "-c", script, spec={"volumes": [volume], "nodeName": NODE}, volumeMounts=mounts)


@in_loop
async def test_a_volume_of_a_pods_own_is_published_with_what_the_driver_wants_to_know_and_goes_with_the_pod() -> None:
    async with disks() as (node, driver), serving(driver):
        await registered(driver)
        about = {
            "podInfoOnMount": True,
            "volumeLifecycleModes": ["Ephemeral"],
            "tokenRequests": [{"audience": "vault", "expirationSeconds": 1200}, {"audience": ""}],
        }
        await node.api.create(CSI_DRIVERS, {"metadata": {"name": NAME}, "spec": about})
        secret = {"metadata": {"name": "key"}, "stringData": {"user": "me"}}
        await node.api.create(SECRETS, secret, "default")
        script = "echo kept > /own/file; sleep 1000"
        await node.create(with_inline("p", script, nodePublishSecretRef={"name": "key"}, fsType="ext4"))
        pod = await node.until("p", is_running)
        uid = pod["metadata"]["uid"]
        (asked,) = driver.published
        assert asked.volume_id == f"csi-{hashlib.sha256(f'{uid}own'.encode()).hexdigest()}"
        assert (asked.staging_target_path, asked.readonly, asked.secrets) == ("", False, {"user": "me"})
        assert asked.volume_capability.mount == csi.MountVolume(fs_type="ext4")
        context = dict(asked.volume_context)
        tokens = json.loads(context.pop("csi.storage.k8s.io/serviceAccount.tokens"))
        assert context == {
            "a": "b",
            "csi.storage.k8s.io/pod.name": "p",
            "csi.storage.k8s.io/pod.namespace": "default",
            "csi.storage.k8s.io/pod.uid": uid,
            "csi.storage.k8s.io/serviceAccount.name": "default",
            "csi.storage.k8s.io/ephemeral": "true",
        }
        assert sorted(tokens) == ["", "vault"]
        assert all(set(each) == {"token", "expirationTimestamp"} for each in tokens.values())
        assert not (await node.api.list(VOLUME_ATTACHMENTS, "")).items
        assert not (await node.api.get(NODES, NODE)).obj()["status"].get("volumesInUse")
        await node.stop()
        await node.delete("p", 0)
        await node.start()  # the next agent knows of it by what was written down
        await node.gone("p")
        await until(lambda: not linux.mount_points(node.root / "pods"))
        assert driver.asked == [f"publish {asked.volume_id}", f"unpublish {asked.volume_id}"]


@in_loop
async def test_a_driver_that_has_no_volumes_of_pods_own_is_named() -> None:
    async with disks() as (node, driver), serving(driver):
        await registered(driver)
        await node.create(with_inline("p", "sleep 1000"))
        problem = f'volume mode "Ephemeral" not supported by driver {NAME} (no CSIDriver object)'
        await node.told("p", "FailedMount", f'MountVolume.SetUp failed for volume "own" : {problem}')
        await node.api.create(CSI_DRIVERS, {"metadata": {"name": NAME}, "spec": {}})
        await node.create(with_inline("q", "sleep 1000"))
        problem = f'volume mode "Ephemeral" not supported by driver {NAME} (only supports ["Persistent"])'
        await node.told("q", "FailedMount", f'MountVolume.SetUp failed for volume "own" : {problem}')


@in_loop
async def test_who_wants_it_is_told_of_a_volume_again_and_again_and_what_fails_is_told() -> None:
    async with disks() as (node, driver), serving(driver):
        await registered(driver)
        about = {
            "requiresRepublish": True,
            "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            "attachRequired": False,
        }
        about |= {"tokenRequests": [{"audience": "vault"}], "serviceAccountTokenInSecrets": True}
        await node.api.create(CSI_DRIVERS, {"metadata": {"name": NAME}, "spec": about})
        await disk(node, "d")
        pod = with_inline("p", "sleep 1000")
        pod["spec"]["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "d"}})
        await node.create(pod)
        await node.until("p", is_running)

        def told(volume: str) -> int:
            return sum(each.endswith(volume) and each.startswith("publish") for each in driver.asked)

        own = driver.published[0].volume_id
        await until(lambda: told(own) > 1 and told("vol-d") > 1)
        assert list(driver.published[0].secrets) == ["csi.storage.k8s.io/serviceAccount.tokens"]
        driver.errors["publish"] = "no key today"
        failed = "rpc error: code = Internal desc = no key today"
        await node.told("p", "FailedMount", f'MountVolume.SetUp failed for volume "own" : {failed}')
        assert is_running(await node.pod("p"))
        driver.errors.clear()
        await node.delete("p", 0)
        await until(lambda: not linux.mount_points(node.root / "pods"))


@in_loop
async def test_a_driver_that_hangs_holds_up_nobody_else_and_its_pod_can_go() -> None:
    async with disks() as (node, driver), serving(driver):
        await registered(driver)
        about = {"requiresRepublish": True, "volumeLifecycleModes": ["Ephemeral"]}
        await node.api.create(CSI_DRIVERS, {"metadata": {"name": NAME}, "spec": about})
        await node.create(with_inline("p", "sleep 1000"))
        await node.until("p", is_running)
        driver.hangs.add("publish")
        asked = len(driver.asked)
        await until(lambda: len(driver.asked) > asked)
        await node.api.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"a": "before"}}, "default")
        script = "until grep -q after /cm/a; do sleep 0.1; done; echo seen; sleep 1000"
        volumes = {"volumes": [{"name": "cm", "configMap": {"name": "cm"}}]}
        mounts = [{"name": "cm", "mountPath": "/cm"}]
        await node.create(manifest("reads", "sh", "-c", script, spec=volumes, volumeMounts=mounts))
        await node.until("reads", is_running)
        await node.api.patch(CONFIG_MAPS, "cm", "default", {"data": {"a": "after"}})
        await until(lambda: node.log("reads") == ["seen"])
        await node.delete("p", 0)
        await until(lambda: driver.asked[-1].startswith("unpublish"))


@in_loop
async def test_the_file_system_of_a_volume_that_has_grown_is_made_to_fill_it_and_the_claim_says_so() -> None:
    async with disks() as (node, driver), serving(driver):
        driver.capabilities = (csi.STAGE, csi.EXPAND)
        await registered(driver)
        await node.api.create(CSI_DRIVERS, {"metadata": {"name": NAME}, "spec": {"attachRequired": False}})
        await disk(node, "d")

        async def grows(size: str, **more: object) -> None:
            """As the driver's external-resizer has it, once it has made the volume larger."""
            spec = {"spec": {"capacity": {"storage": size}}}
            await node.api.patch(PERSISTENT_VOLUMES, "pv-d", "", spec)
            pending = {"type": "FileSystemResizePending", "status": "True"}
            status = {"conditions": [pending], "allocatedResourceStatuses": {"storage": "NodeResizePending"}, **more}
            patch = {"status": status}
            await node.api.patch(PERSISTENT_VOLUME_CLAIMS, "d", "default", patch, subresource="status")

        async def status() -> Obj:
            found: Obj = (await node.api.get(PERSISTENT_VOLUME_CLAIMS, "d", "default")).obj()["status"]
            return found

        async def has(size: str) -> None:
            async def is_so() -> bool:
                return bool(((await status()).get("capacity") or {}).get("storage") == size)

            await eventually(is_so)

        await has("1Mi")
        await grows("2Mi")
        await node.create(task("a", "sleep 1000", "d"))
        await node.until("a", is_running)
        await has("2Mi")  # when it is mounted
        assert driver.asked == ["stage vol-d", "publish vol-d", "expand vol-d to 2097152"]
        shown = await status()
        assert not shown.get("conditions") and not shown.get("allocatedResourceStatuses")
        grew = f'MountVolume.NodeExpandVolume succeeded for volume "pv-d" {NODE}'
        await node.told("a", "FileSystemResizeSuccessful", grew)

        driver.errors["expand"] = "busy"
        await grows("3Mi")
        failed = "rpc error: code = Internal desc = busy"
        problem = f'MountVolume.NodeExpandVolume failed for volume "pv-d" : {failed}'
        await node.told("a", "FileSystemResizeFailed", problem)
        driver.errors.clear()
        await has("3Mi")  # while the pod runs
        assert driver.asked[-1] == "expand vol-d to 3145728"
        done = len(driver.asked)
        await grows("4Mi", allocatedResourceStatuses={"storage": "ControllerResizeInProgress"})
        await node.create(manifest("later", "sleep", "1000"))
        await node.until("later", is_running)
        assert driver.asked[done:] == []


@in_loop
async def test_a_driver_that_gives_volumes_to_groups_itself_is_told_the_group() -> None:
    async with disks() as (node, driver), serving(driver):
        driver.capabilities = (csi.STAGE, csi.MOUNT_GROUP)
        await registered(driver)
        about = {"attachRequired": False, "fsGroupPolicy": "File"}
        await node.api.create(CSI_DRIVERS, {"metadata": {"name": NAME}, "spec": about})
        await disk(node, "d")
        pod = task("a", "sleep 1000", "d")
        pod["spec"]["securityContext"] = {"fsGroup": 4711}
        await node.create(pod)
        await node.until("a", is_running)
        assert driver.published[0].volume_capability.mount == csi.MountVolume(volume_mount_group="4711")
        assert driver.content("vol-d").stat().st_gid != 4711


@in_loop
async def test_how_full_volumes_are_their_driver_says() -> None:
    async with disks() as (node, driver), serving(driver):
        driver.capabilities = (csi.STAGE, csi.GET_STATS)
        driver.usage = (
            csi.Usage(unit=csi.BYTES, total=1000, available=700, used=300),
            csi.Usage(unit=csi.INODES, total=10, available=8, used=2),
        )
        await registered(driver)
        about = {"attachRequired": False, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}
        await node.api.create(CSI_DRIVERS, {"metadata": {"name": NAME}, "spec": about})
        await disk(node, "d")
        pod = with_inline("p", "sleep 1000")
        pod["spec"]["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "d"}})
        await node.create(pod)
        await node.until("p", is_running)

        def of_driver(found: NodeMeasurements) -> dict[str, VolumeMeasurements]:
            return {each.name: each for pod in found.pods for each in pod.volumes if each.name in ("own", "data")}

        found = of_driver(await node.measured(lambda found: len(of_driver(found)) == 2))
        whole = FilesystemMeasurements(1000, 700, 300, 10, 8, 2)
        assert found == {"data": VolumeMeasurements("data", whole, "d"), "own": VolumeMeasurements("own", whole)}


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Path]:
    """A block device of a megabyte."""
    image = tmp_path / "disk"
    image.write_bytes(b"on the disk" + bytes((1 << 20) - 11))
    made = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"there are no loop devices here: {made.stderr}")
    yield Path(made.stdout.strip())
    subprocess.run(["losetup", "-d", made.stdout.strip()], check=True)


@on_each
@in_loop
async def test_a_volume_without_a_file_system_is_a_device_of_the_container(loop: Path, kind: str) -> None:
    async with disks(kind) as (node, driver), serving(driver):
        driver.device = loop
        await registered(driver)
        await node.api.create(CSI_DRIVERS, {"metadata": {"name": NAME}, "spec": {"attachRequired": False}})
        await disk(node, "d", "Block")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "d"}}
        script = "head -c 11 /dev/disk; echo; echo written | dd of=/dev/disk conv=notrunc 2>/dev/null; sleep 1000"
        devices = [{"name": "data", "devicePath": "/dev/disk"}]
        spec = {"volumes": [volume], "nodeName": NODE}
        await node.create(manifest("p", "sh", "-c", script, spec=spec, volumeDevices=devices))
        await node.until("p", is_running)
        await until(lambda: node.log("p") == ["on the disk"])
        await until(lambda: loop.read_bytes()[:7] == b"written")
        assert driver.published[0].volume_capability.block is not None
        await node.create(task("wrong", "sleep 1000", "d"))
        problem = "volume data has volumeMode Block, but is specified in volumeMounts"
        await node.told("wrong", "FailedMount", f'MountVolume.SetUp failed for volume "pv-d" : {problem}')
        for name in ("wrong", "p"):
            await node.delete(name, 0)
        await until(lambda: not linux.mount_points(node.root / "pods"))
        await until(lambda: driver.asked == ["stage vol-d", "publish vol-d", "unpublish vol-d", "unstage vol-d"])


@in_loop
async def test_a_device_of_the_machine_is_a_volume(loop: Path) -> None:
    async with disks() as (node, _):
        affinity = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
        spec = {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeMode": "Block",
            "local": {"path": str(loop)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}},
        }
        await node.api.create(PERSISTENT_VOLUMES, {"metadata": {"name": "pv"}, "spec": spec})
        claim: Obj = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeMode": "Block",
            "volumeName": "pv",
        }
        claim["resources"] = {"requests": {"storage": "1Mi"}}
        await node.api.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "d"}, "spec": claim}, "default")
        pod_spec = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "d", "readOnly": True}}]}
        script = (
            "head -c 11 /dev/disk; echo; dd if=/dev/zero of=/dev/disk count=1 2>/dev/null || echo refused; sleep 1000"
        )
        devices = [{"name": "data", "devicePath": "/dev/disk"}]
        await node.create(manifest("p", "sh", "-c", script, spec=pod_spec, volumeDevices=devices))
        await node.until("p", is_running)
        await until(lambda: node.log("p") == ["on the disk", "refused"])
