"""Volumes are attached and detached as in Kubernetes; the test is the kubelets and the attacher of the driver."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.controllers.attachments import AttachDetach
from fairlead.runtime.loops import run_virtual
from tests.controllers.cluster import Cluster, cluster, run
from tests.work import growth

DRIVER = "ebs.csi.aws.com"
MANAGED = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
LOST = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
#: The SHA-256 of handle, driver and node.
VOL_1_ON_A = "csi-09e8b382660c34d689a719d0e4204568adeb267a3a85204becc21b88685b1f5b"


async def node(running: Cluster, name: str, **annotations: str) -> None:
    await running.create(builtin.NODES, {"metadata": {"name": name, "annotations": annotations or MANAGED}})
    await running.patch(builtin.NODES, name, {"status": READY}, "status")


async def disk(
    running: Cluster, name: str, mode: str = "ReadWriteOnce", namespace: str = "n", handle: str = ""
) -> None:
    """A claim `name`, with its volume `pv-name`, which its driver calls as the claim, unless said otherwise."""
    amount = {"storage": "1Gi"}
    spec = {"accessModes": [mode], "resources": {"requests": amount}, "volumeName": f"pv-{name}"}
    made = await running.create(builtin.PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec}, namespace)
    ref = {"namespace": namespace, "name": name, "uid": made["metadata"]["uid"]}
    source = {"driver": DRIVER, "volumeHandle": handle or name}
    volume = {"capacity": amount, "accessModes": [mode], "csi": source, "claimRef": ref}
    await running.create(builtin.PERSISTENT_VOLUMES, {"metadata": {"name": f"pv-{name}"}, "spec": volume})
    bound = {"status": {"phase": "Bound"}}
    await running.patch(builtin.PERSISTENT_VOLUME_CLAIMS, name, bound, "status", namespace)


async def pod(running: Cluster, name: str, on: str, *claims: str, namespace: str = "n") -> None:
    spec = {
        "nodeName": on,
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims],
    }
    await running.create(builtin.PODS, {"metadata": {"name": name}, "spec": spec}, namespace)
    await asyncio.sleep(1)


async def attachments(running: Cluster) -> dict[str, Obj]:
    """By volume and node."""
    found = await running.all(builtin.VOLUME_ATTACHMENTS)
    return {f"{one['spec']['source']['persistentVolumeName']} {one['spec']['nodeName']}": one for one in found}


async def attacher_says(running: Cluster, which: str, **status: Any) -> None:
    name = (await attachments(running))[which]["metadata"]["name"]
    await running.patch(builtin.VOLUME_ATTACHMENTS, name, {"status": status}, "status")
    await asyncio.sleep(1)


async def in_use(running: Cluster, name: str, *volumes: str) -> None:
    names = [f"kubernetes.io/csi/{DRIVER}^{volume}" for volume in volumes]
    await running.patch(builtin.NODES, name, {"status": {"volumesInUse": names}}, "status")
    await asyncio.sleep(1)


async def shown(running: Cluster, name: str) -> list[str]:
    """What a node is shown to have attached."""
    found = await running.get(builtin.NODES, name)
    assert found is not None
    return [one["name"].rpartition("^")[2] for one in found["status"].get("volumesAttached", [])]


async def told(running: Cluster, namespace: str = "n") -> list[tuple[str, str]]:
    return [(reason, message) for _, reason, message in await running.events(namespace)]


def test_a_volume_is_shown_as_attached_once_its_attacher_says_so() -> None:
    async def check(running: Cluster) -> None:
        await node(running, "a")
        await disk(running, "vol-1")
        await pod(running, "p", "a", "vol-1")
        attachment = (await attachments(running))["pv-vol-1 a"]
        assert attachment["metadata"]["name"] == VOL_1_ON_A
        assert await shown(running, "a") == []
        await attacher_says(running, "pv-vol-1 a", attached=True)
        assert await shown(running, "a") == ["vol-1"]
        succeeded = ("SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "pv-vol-1" ')
        assert await told(running) == [succeeded]
        await pod(running, "q", "a", "vol-1")  # which finds it there
        assert len(await attachments(running)) == 1
        assert await told(running) == [succeeded]

    run(check, AttachDetach)


def test_what_a_kubelet_has_mounted_is_left_alone_while_its_node_is_well() -> None:
    async def check(running: Cluster) -> None:
        await node(running, "a")
        await disk(running, "vol-1")
        await pod(running, "p", "a", "vol-1")
        await attacher_says(running, "pv-vol-1 a", attached=True)
        await in_use(running, "a", "vol-1")
        await running.delete(builtin.PODS, "p", grace_period_seconds=0)
        await asyncio.sleep(3600)
        assert list(await attachments(running)) == ["pv-vol-1 a"]
        assert await shown(running, "a") == ["vol-1"]
        await in_use(running, "a")
        assert await attachments(running) == {}
        assert await shown(running, "a") == []

    run(check, AttachDetach)


def test_a_volume_is_not_shown_any_more_before_it_is_detached_and_is_attached_anew_after_that() -> None:
    async def check(running: Cluster) -> None:
        await node(running, "a")
        await disk(running, "vol-1")
        await pod(running, "p", "a", "vol-1")
        name = (await attachments(running))["pv-vol-1 a"]["metadata"]["name"]
        await running.patch(
            builtin.VOLUME_ATTACHMENTS, name, {"metadata": {"finalizers": [f"external-attacher/{DRIVER}"]}}
        )
        await attacher_says(running, "pv-vol-1 a", attached=True)
        await running.delete(builtin.PODS, "p", grace_period_seconds=0)
        await asyncio.sleep(1)
        going = (await attachments(running))["pv-vol-1 a"]
        assert "deletionTimestamp" in going["metadata"]
        assert await shown(running, "a") == []
        await pod(running, "q", "a", "vol-1")
        await running.patch(builtin.VOLUME_ATTACHMENTS, name, {"metadata": {"finalizers": None}})
        await asyncio.sleep(1)
        again = (await attachments(running))["pv-vol-1 a"]
        assert again["metadata"]["uid"] != going["metadata"]["uid"]
        assert [reason for reason, _ in await told(running)] == ["SuccessfulAttachVolume"]

    run(check, AttachDetach)


def test_pods_are_told_what_the_attacher_says() -> None:
    async def check(running: Cluster) -> None:
        await node(running, "a")
        await disk(running, "vol-1")
        await pod(running, "p", "a", "vol-1")
        for second, message in enumerate(("rpc error: no such disk", "rpc error: no such disk", "rpc error: busy")):
            error = {"message": message, "time": f"2026-01-01T00:00:0{second}Z"}
            await attacher_says(running, "pv-vol-1 a", attached=False, attachError=error)
        failed = 'AttachVolume.Attach failed for volume "pv-vol-1" : rpc error:'
        assert await told(running) == [
            ("FailedAttachVolume", f"{failed} busy"),
            ("FailedAttachVolume", f"{failed} no such disk"),
        ]

    run(check, AttachDetach)


def test_the_silence_of_an_attacher_is_told_after_two_minutes() -> None:
    async def check(running: Cluster) -> None:
        await node(running, "a")
        await disk(running, "vol-1")
        await pod(running, "p", "a", "vol-1")
        await asyncio.sleep(115)
        assert await told(running) == []
        await asyncio.sleep(3600)
        silence = f"timed out waiting for external-attacher of {DRIVER} CSI driver to attach volume vol-1"
        message = f'AttachVolume.Attach failed for volume "pv-vol-1" : {silence}'
        assert await told(running) == [("FailedAttachVolume", message)]

    run(check, AttachDetach)


def test_pods_of_other_namespaces_are_counted_and_not_named() -> None:
    async def check(running: Cluster) -> None:
        for name in "ab":
            await node(running, name)
        await disk(running, "vol-1")
        await pod(running, "p", "a", "vol-1")
        await attacher_says(running, "pv-vol-1 a", attached=True)
        await pod(running, "q", "a", "vol-1")
        await pod(running, "r", "b", "vol-1")
        await asyncio.sleep(60)
        why = 'Multi-Attach error for volume "pv-vol-1" Volume is already used by pod(s) p, q'
        assert ("FailedAttachVolume", why) in await told(running)
        assert list(await attachments(running)) == ["pv-vol-1 a"]

    run(check, AttachDetach)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_lost_node_loses_its_volumes_after_six_minutes(is_deleted: bool) -> None:
    async def check(running: Cluster) -> None:
        await node(running, "a")
        await disk(running, "vol-1")
        await pod(running, "p", "a", "vol-1")
        await attacher_says(running, "pv-vol-1 a", attached=True)
        await in_use(running, "a", "vol-1")
        if is_deleted:
            await running.delete(builtin.NODES, "a")
        else:
            await running.patch(builtin.NODES, "a", {"status": LOST}, "status")
        await asyncio.sleep(3600)
        assert list(await attachments(running)) == ["pv-vol-1 a"]  # there is a pod that wants it
        await running.delete(builtin.PODS, "p", grace_period_seconds=0)
        await asyncio.sleep(355)
        assert list(await attachments(running)) == ["pv-vol-1 a"]
        await asyncio.sleep(10)
        assert await attachments(running) == {}

    controller = AttachDetach()
    run(check, lambda: controller)
    (forced,) = controller.families
    assert list(forced.read()) == [(("timeout",), 1)]


def test_two_volumes_that_are_one_to_their_driver_are_not_on_two_nodes() -> None:
    async def check(running: Cluster) -> None:
        for name in ("a", "b"):
            await node(running, name)
            await disk(running, f"vol-{name}", handle="same")
        await pod(running, "p1", "a", "vol-a")
        await attacher_says(running, "pv-vol-a a", attached=True)
        await pod(running, "p2", "b", "vol-b")
        assert list(await attachments(running)) == ["pv-vol-a a"]
        assert [reason for reason, _ in await told(running)][-1] == "FailedAttachVolume"
        await running.delete(builtin.PODS, "p1", "n")
        await asyncio.sleep(60)
        assert list(await attachments(running)) == ["pv-vol-b b"]

    run(check, AttachDetach)


def test_whoever_starts_again_goes_on_where_it_was() -> None:
    """What is attached is not attached again, and what nobody wants any more is detached."""

    async def check(running: Cluster) -> None:
        await node(running, "a")
        for name in ("vol-1", "vol-2"):
            await disk(running, name)
            await pod(running, name, "a", name)
            await attacher_says(running, f"pv-{name} a", attached=True)

    async def goes_on(running: Cluster) -> None:
        await asyncio.sleep(1)
        assert list(await attachments(running)) == ["pv-vol-1 a"]
        assert await shown(running, "a") == ["vol-1"]
        assert len(await told(running)) == 2

    async def main() -> None:
        async with cluster((AttachDetach,)) as first:
            await check(first)
            server = first.server
        await server.api.delete(builtin.PODS, "vol-2", "n")
        async with cluster((AttachDetach,), server=server) as second:
            await goes_on(second)

    run_virtual(main())


def test_attachments_of_others_and_nodes_that_attach_themselves_are_left_alone() -> None:
    async def check(running: Cluster) -> None:
        await node(running, "a")
        await node(running, "b", other="annotation")
        await disk(running, "vol-1")
        await disk(running, "vol-2")
        mine = {"attacher": DRIVER, "nodeName": "a", "source": {"persistentVolumeName": "pv-vol-1"}}
        await running.create(builtin.VOLUME_ATTACHMENTS, {"metadata": {"name": "mine"}, "spec": mine})
        await pod(running, "p", "b", "vol-2")
        await asyncio.sleep(3600)
        assert list(await attachments(running)) == ["pv-vol-1 a"]

    run(check, AttachDetach)


def test_many_volumes_of_many_nodes_are_attached_in_linear_time() -> None:
    def lived(size: int) -> None:
        async def check(running: Cluster) -> None:
            for number in range(size):
                await node(running, f"n{number}")
                for of_node in range(3):
                    await disk(running, f"vol-{number}-{of_node}")
                claims = [f"vol-{number}-{of_node}" for of_node in range(3)]
                await pod(running, f"p{number}", f"n{number}", *claims)
            found = await attachments(running)
            assert len(found) == 3 * size
            for one in found.values():
                status = {"status": {"attached": True}}
                await running.patch(builtin.VOLUME_ATTACHMENTS, one["metadata"]["name"], status, "status")
            await asyncio.sleep(5)
            assert [len(await shown(running, f"n{number}")) for number in range(size)] == [3] * size

        run(check, AttachDetach)

    assert growth(lived, 20) <= 2.1
