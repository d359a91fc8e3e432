"""Volumes are attached to simulated nodes before pods start, kept apart where only one node may have them, and move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from fairlead.api.attaching import attachment_name
from fairlead.api.builtin import CSI_DRIVERS, CSI_NODES, EVENTS, NODES, PODS, VOLUME_ATTACHMENTS
from fairlead.api.builtin import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from fairlead.api.builtin import PERSISTENT_VOLUMES as VOLUMES
from fairlead.api.claims import CsiSource
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api, DeleteOptions
from fairlead.compose import Settings, components, opened, simulation
from fairlead.runtime import rng
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.store.memory import MemoryStore

NOW = DeleteOptions(grace_period_seconds=0)
FAILED = {"metadata": {"annotations": {"sim.fairlead.dev/failed": "true"}}}
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


def live(test: Callable[[Api], Awaitable[None]], imported: Sequence[Obj] = (), *, is_up: bool = False) -> None:
    """`is_up`: as `fairlead up` runs it, where programs of drivers may run beside it."""

    async def main() -> None:
        settings = Settings(nodes=tuple(uniform(2, NodeShape())), imported=tuple(imported))
        if is_up:
            running = await opened(MemoryStore(), settings)
            async with components(running, settings):
                await test(running.api)
            return
        async with simulation(settings) as (api, _):
            await test(api)

    rng.seed(1)
    run_virtual(main())


async def claim(api: Api, name: str, mode: str = "ReadWriteOnce") -> None:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    await api.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default")


async def pod(api: Api, name: str, node: str, of: str = "data") -> None:
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": of}}],
        "tolerations": [{"operator": "Exists"}],
    }
    await api.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default")


async def phase(api: Api, name: str) -> str:
    return str((await api.get(PODS, name, "default")).obj()["status"]["phase"])


async def volume_of(api: Api, of: str = "data") -> str:
    return str((await api.get(CLAIMS, of, "default")).obj()["spec"]["volumeName"])


async def attached(api: Api) -> list[tuple[str, bool]]:
    """Where volumes are attached, and whether that is done."""
    found = [item.obj() for item in (await api.list(VOLUME_ATTACHMENTS, "")).items]
    return sorted((each["spec"]["nodeName"], each["status"]["attached"]) for each in found)


async def told(api: Api, of: str) -> list[tuple[str, str]]:
    """What the attaching controller has told of a pod."""
    events = [item.obj() for item in (await api.list(EVENTS, "default")).items]
    return [
        (each["reason"], each["message"])
        for each in events
        if each["involvedObject"]["name"] == of and each["source"].get("component") == "attachdetach-controller"
    ]


async def shown(api: Api, node: str) -> tuple[list[Obj], list[str]]:
    status = (await api.get(NODES, node)).obj()["status"]
    return status.get("volumesAttached", []), status.get("volumesInUse", [])


def test_a_volume_is_attached_while_a_pod_wants_it_and_goes_only_then() -> None:
    async def check(api: Api) -> None:
        await claim(api, "data")
        await pod(api, "a", "node-1")
        await asyncio.sleep(5)
        assert await phase(api, "a") == "Running"
        volume = await volume_of(api)
        source = CsiSource(driver="sim.fairlead.dev", volume_handle=volume)
        attachment = (await api.get(VOLUME_ATTACHMENTS, attachment_name(source, "node-1"))).obj()
        assert attachment["spec"] == {
            "attacher": "sim.fairlead.dev",
            "nodeName": "node-1",
            "source": {"persistentVolumeName": volume},
        }
        name = f"kubernetes.io/csi/sim.fairlead.dev^{volume}"
        assert await shown(api, "node-1") == ([{"name": name, "devicePath": ""}], [name])
        succeeded = f'AttachVolume.Attach succeeded for volume "{volume}" '
        assert await told(api, "a") == [("SuccessfulAttachVolume", succeeded)]

        await api.delete(CLAIMS, "data", "default")
        await api.delete(PODS, "a", "default")
        await asyncio.sleep(60)
        assert await attached(api) == []
        assert await shown(api, "node-1") == ([], [])
        assert not (await api.list(VOLUMES, "")).items

    live(check)


def test_what_only_one_node_may_have_keeps_pods_of_another_waiting() -> None:
    async def check(api: Api) -> None:
        await claim(api, "data")
        await pod(api, "a", "node-1")
        await asyncio.sleep(5)
        await pod(api, "b", "node-2")
        await asyncio.sleep(600)
        assert await phase(api, "b") == "Pending"
        volume = await volume_of(api)
        why = f'Multi-Attach error for volume "{volume}" Volume is already used by pod(s) a'
        assert await told(api, "b") == [("FailedAttachVolume", why)]
        await api.delete(PODS, "a", "default")
        await asyncio.sleep(60)
        assert await phase(api, "b") == "Running"
        assert await attached(api) == [("node-2", True)]

    live(check)


def test_what_many_may_have_is_attached_to_each() -> None:
    async def check(api: Api) -> None:
        await claim(api, "data", "ReadWriteMany")
        await pod(api, "a", "node-1")
        await pod(api, "b", "node-2")
        await asyncio.sleep(5)
        assert await attached(api) == [("node-1", True), ("node-2", True)]
        assert [await phase(api, name) for name in "ab"] == ["Running", "Running"]

    live(check)


def test_what_a_lost_node_has_mounted_stays_there_for_six_minutes() -> None:
    async def check(api: Api) -> None:
        await claim(api, "data")
        await pod(api, "a", "node-1")
        await asyncio.sleep(5)
        await api.patch(NODES, "node-1", "", FAILED)
        await asyncio.sleep(60)
        await api.delete(PODS, "a", "default", NOW)
        await pod(api, "b", "node-2")
        await asyncio.sleep(350)
        assert await attached(api) == [("node-1", True)]
        why = "Volume is already exclusively attached to one node and can't be attached to another"
        volume = await volume_of(api)
        assert await told(api, "b") == [("FailedAttachVolume", f'Multi-Attach error for volume "{volume}" {why}')]
        await asyncio.sleep(20)
        assert await attached(api) == [("node-2", True)]
        assert await phase(api, "b") == "Running"

    live(check)


def test_a_node_that_is_declared_out_of_service_gives_its_volumes_up_at_once() -> None:
    async def check(api: Api) -> None:
        await claim(api, "data")
        await pod(api, "a", "node-1")
        await asyncio.sleep(5)
        await api.patch(NODES, "node-1", "", FAILED)
        await asyncio.sleep(60)
        await api.delete(PODS, "a", "default", NOW)
        await pod(api, "b", "node-2")
        found = (await api.get(NODES, "node-1")).obj()["spec"]["taints"]
        await api.patch(NODES, "node-1", "", {"spec": {"taints": [*found, OUT_OF_SERVICE]}})
        await asyncio.sleep(5)
        assert await phase(api, "b") == "Running"

    live(check)


def test_a_driver_that_attaches_nothing_has_no_attachments() -> None:
    async def check(api: Api) -> None:
        driver = {"metadata": {"name": "sim.fairlead.dev"}, "spec": {"attachRequired": False}}
        await api.create(CSI_DRIVERS, driver)
        await claim(api, "data")
        await pod(api, "a", "node-1")
        await asyncio.sleep(5)
        assert await phase(api, "a") == "Running"
        assert await attached(api) == []
        assert await shown(api, "node-1") == ([], [])

    live(check)


def test_nothing_is_attached_to_a_node_that_is_not_there() -> None:
    async def check(api: Api) -> None:
        spec = {"attacher": EBS, "nodeName": "elsewhere", "source": {"persistentVolumeName": "v"}}
        await api.create(VOLUME_ATTACHMENTS, {"metadata": {"name": "by-hand"}, "spec": spec})
        await asyncio.sleep(60)
        assert await attached(api) == [("elsewhere", False)]

    live(check)


def test_nodes_have_csinodes_of_their_own_and_take_them_along() -> None:
    async def check(api: Api) -> None:
        await api.create(NODES, {"metadata": {"name": "late"}})
        await asyncio.sleep(5)
        found = {item.obj()["metadata"]["name"]: item.obj() for item in (await api.list(CSI_NODES, "")).items}
        assert set(found) == {"late", "node-1", "node-2"}
        uid = (await api.get(NODES, "late")).obj()["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": "late", "uid": uid}
        assert found["late"]["metadata"]["ownerReferences"] == [owner]
        assert found["late"]["spec"] == {"drivers": None}
        await api.delete(NODES, "late", "")
        await asyncio.sleep(60)
        assert len((await api.list(CSI_NODES, "")).items) == 2

    live(check)


def test_a_pod_waits_for_a_claim_that_is_not_there() -> None:
    async def check(api: Api) -> None:
        spec = {
            "nodeName": "node-1",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        }
        await api.create(PODS, {"metadata": {"name": "a"}, "spec": spec}, "default")
        await asyncio.sleep(5)
        assert await phase(api, "a") == "Pending"
        events = [item.obj() for item in (await api.list(EVENTS, "default")).items]
        why = 'failed to fetch PVC from API server: persistentvolumeclaims "data" not found'
        assert [each["message"] for each in events if each["reason"] == "FailedMount"] == [
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], "
            f"failed to process volumes=[v]: error processing PVC default/data: {why}"
        ]
        await claim(api, "data")
        await pod(api, "b", "node-1")  # which has the volume made
        await asyncio.sleep(5)
        assert [await phase(api, name) for name in "ab"] == ["Running", "Running"]

    live(check)


EBS = "ebs.csi.aws.com"
DRIVER_OBJECT: Obj = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": EBS}, "spec": {}}


def dumped() -> list[Obj]:
    """A pod of a dump that has a disk attached, and its driver."""
    amount = {"storage": "1Gi"}
    claimed = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": amount}, "volumeName": "pv-data"}
    source = {"driver": EBS, "volumeHandle": "vol-1"}
    volume = {
        "capacity": amount,
        "accessModes": ["ReadWriteOnce"],
        "csi": source,
        "claimRef": {"namespace": "default", "name": "data", "uid": "c1"},
    }
    name = attachment_name(CsiSource(driver=EBS, volume_handle="vol-1"), "node-1")
    running = {"phase": "Running", "containerStatuses": [_container_status()]}
    return [
        {**DRIVER_OBJECT, "metadata": {"name": EBS, "uid": "d1"}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "uid": "c1", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": claimed,
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv-data", "uid": "v1"},
            "spec": volume,
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": name, "uid": "a1", "finalizers": ["external-attacher/ebs-csi-aws-com"]},
            "spec": {"attacher": EBS, "nodeName": "node-1", "source": {"persistentVolumeName": "pv-data"}},
            "status": {"attached": True},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "uid": "p1"},
            "spec": {
                "nodeName": "node-1",
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
            },
            "status": running,
        },
    ]


def _container_status() -> Obj:
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": state}


@pytest.mark.parametrize("is_up", [False, True])
def test_what_a_dump_shows_as_attached_stays_so_while_its_pod_does(is_up: bool) -> None:
    async def check(api: Api) -> None:
        await asyncio.sleep(60)
        found = [item.obj()["metadata"]["uid"] for item in (await api.list(VOLUME_ATTACHMENTS, "")).items]
        assert found == ["a1"]
        name = f"kubernetes.io/csi/{EBS}^vol-1"
        assert await shown(api, "node-1") == ([{"name": name, "devicePath": ""}], [name])
        await api.delete(PODS, "a", "default")
        await pod(api, "b", "node-2")
        await asyncio.sleep(60)
        assert await attached(api) == [("node-2", True)]
        assert await phase(api, "b") == "Running"

    live(check, dumped(), is_up=is_up)


def test_a_driver_that_somebody_brings_attaches_by_itself_unless_it_is_told_to_be_simulated() -> None:
    async def check(api: Api) -> None:
        await api.create(CSI_DRIVERS, DRIVER_OBJECT)
        await api.delete(PODS, "a", "default")
        await asyncio.sleep(60)
        await pod(api, "b", "node-2")
        await asyncio.sleep(60)
        assert await attached(api) == [("node-2", False)]
        assert await phase(api, "b") == "Pending"
        await api.patch(CSI_DRIVERS, EBS, "", {"metadata": {"annotations": {"sim.fairlead.dev/provision": "true"}}})
        await asyncio.sleep(5)
        assert await phase(api, "b") == "Running"

    live(check, [each for each in dumped() if each["kind"] not in ("CSIDriver", "VolumeAttachment")], is_up=True)
