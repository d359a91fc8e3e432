"""Claims and volumes find each other, and part, as under kube-controller-manager."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.api.builtin import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from fairlead.api.builtin import PERSISTENT_VOLUMES as VOLUMES
from fairlead.api.builtin import PODS, STORAGE_CLASSES
from fairlead.api.builtin import VOLUME_ATTRIBUTES_CLASSES as ATTRIBUTES_CLASSES
from fairlead.api.objects import Obj
from fairlead.controllers.garbage import GarbageCollector
from fairlead.controllers.persistentvolume import ClaimBinder, ClaimExpander, VolumeKeeper
from fairlead.controllers.volumes import AttributesClassProtection, ClaimProtection, EphemeralVolumes, VolumeProtection
from tests.controllers.cluster import Cluster, run

LATE = {"volumeBindingMode": "WaitForFirstConsumer"}


def live(test: Callable[[Cluster], Awaitable[None]]) -> None:
    run(test, ClaimBinder, VolumeKeeper, ClaimProtection, VolumeProtection, AttributesClassProtection)


def claim(name: str, size: str = "1Gi", **spec: Any) -> Obj:
    resources = {"requests": {"storage": size}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, "storageClassName": ""} | spec,
    }


def volume(name: str, size: str = "1Gi", labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    source = {} if "nfs" in spec or "csi" in spec else {"hostPath": {"path": f"/tmp/{name}"}}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}} | source | spec,
    }


def storage_class(name: str, provisioner: str = "example.com/disks", **more: Any) -> Obj:
    return {"metadata": {"name": name}, "provisioner": provisioner} | more


async def phases(cluster: Cluster) -> dict[str, str]:
    """Of all claims and volumes; a bound one is followed by what it is bound to."""
    await asyncio.sleep(1)
    told = {}
    for one in await cluster.all(CLAIMS):
        told[one["metadata"]["name"]] = f"{one['status']['phase']} {one['spec'].get('volumeName', '')}".strip()
    for one in await cluster.all(VOLUMES):
        told[one["metadata"]["name"]] = one["status"]["phase"]
    return told


async def made(cluster: Cluster, *objects: tuple[Any, Obj]) -> None:
    for resource, obj in objects:
        await cluster.create(resource, obj)


@pytest.mark.parametrize("volumes_first", [True, False])
def test_a_claim_gets_the_smallest_volume_that_does(volumes_first: bool) -> None:
    volumes = [
        volume("small", "1Gi"),
        volume("large", "9Gi"),
        volume("fit", "5Gi"),
        volume("shared", "3Gi", accessModes=["ReadWriteOnce", "ReadOnlyMany"]),
        volume("raw", "3Gi", volumeMode="Block"),
        volume("classy", "3Gi", storageClassName="gold"),
        volume("theirs", "3Gi", claimRef={"namespace": "n", "name": "somebody"}),
    ]

    async def check(cluster: Cluster) -> None:
        both = [(VOLUMES, one) for one in volumes], [(CLAIMS, claim("c", "2Gi"))]
        for objects in both if volumes_first else reversed(both):
            await made(cluster, *objects)
            await asyncio.sleep(1)
        told = await phases(cluster)
        taken = told.pop("c").removeprefix("Bound ")
        assert taken == "fit" or (taken == "large" and not volumes_first)  # whatever was Available first
        assert told.pop(taken) == "Bound"
        assert set(told.values()) == {"Available"}

    live(check)


def test_both_sides_say_who_bound_them() -> None:
    async def check(cluster: Cluster) -> None:
        await made(cluster, (VOLUMES, volume("v", "5Gi")), (CLAIMS, claim("c", "2Gi")))
        await asyncio.sleep(1)
        mine, its = await cluster.get(CLAIMS, "c"), await cluster.get(VOLUMES, "v")
        assert mine and its
        assert mine["metadata"]["annotations"] == {
            "pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes",
        }
        assert mine["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}}
        assert its["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        ref = its["spec"]["claimRef"]
        assert (ref["kind"], ref["namespace"], ref["name"]) == ("PersistentVolumeClaim", "n", "c")
        assert ref["uid"] == mine["metadata"]["uid"]

    live(check)


def test_selectors_and_names_choose() -> None:
    async def check(cluster: Cluster) -> None:
        chosen = {"matchLabels": {"speed": "fast"}}
        await made(
            cluster,
            (VOLUMES, volume("slow")),
            (VOLUMES, volume("fast", labels={"speed": "fast"})),
            (VOLUMES, volume("mine", claimRef={"namespace": "n", "name": "kept"})),
            (VOLUMES, volume("tiny", "1Mi")),
        )
        await phases(cluster)
        await made(
            cluster,
            (CLAIMS, claim("picky", selector=chosen)),
            (CLAIMS, claim("by-name", volumeName="slow")),
            (CLAIMS, claim("too-big", volumeName="tiny")),
            (CLAIMS, claim("not-theirs", volumeName="mine")),
            (CLAIMS, claim("nowhere", volumeName="unknown")),
        )
        told = await phases(cluster)
        assert told["picky"] == "Bound fast"
        assert told["by-name"] == "Bound slow"
        assert told["too-big"] == "Pending tiny"
        assert told["not-theirs"] == "Pending mine"
        assert told["nowhere"] == "Pending unknown"
        assert await cluster.events() == [
            ("Warning", "FailedBinding", 'volume "mine" already bound to a different claim.'),
            ("Warning", "VolumeMismatch", 'Cannot bind to requested volume "tiny": requested PV is too small'),
        ]
        await made(cluster, (CLAIMS, claim("kept")), (VOLUMES, volume("unknown")))
        told = await phases(cluster)
        assert (told["kept"], told["nowhere"]) == ("Bound mine", "Bound unknown")

    live(check)


def test_what_cannot_be_had_says_what_it_waits_for() -> None:
    async def check(cluster: Cluster) -> None:
        await made(
            cluster,
            (STORAGE_CLASSES, storage_class("late", **LATE)),
            (STORAGE_CLASSES, storage_class("now")),
            (STORAGE_CLASSES, storage_class("mine", "kubernetes.io/no-provisioner")),
            (CLAIMS, claim("mine", storageClassName="mine")),
            (PODS, {"metadata": {"name": "p"}, "spec": pod_with("wanted")}),
            (CLAIMS, claim("none")),
            (CLAIMS, claim("odd", storageClassName="gibt-es-nicht")),
            (CLAIMS, claim("late", storageClassName="late")),
            (CLAIMS, claim("wanted", storageClassName="late")),
            (CLAIMS, claim("now", storageClassName="now")),
        )
        await asyncio.sleep(1)
        external = (
            "Waiting for a volume to be created either by the external provisioner 'example.com/disks' or manually by "
            "the system administrator. If volume creation is delayed, please verify that the provisioner is running "
            "and correctly registered."
        )
        no_class = "no persistent volumes available for this claim and no storage class is set"
        assert await cluster.events() == [
            ("Normal", "ExternalProvisioning", external),
            ("Normal", "FailedBinding", no_class),
            ("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
            ("Normal", "WaitForPodScheduled", "waiting for pod p to be scheduled"),
            ("Warning", "ProvisioningFailed", "no volume plugin matched name: kubernetes.io/no-provisioner"),
            ("Warning", "ProvisioningFailed", 'storageclass.storage.k8s.io "gibt-es-nicht" not found'),
        ]
        now = await cluster.get(CLAIMS, "now")
        assert now and now["metadata"]["annotations"] == {
            "volume.beta.kubernetes.io/storage-provisioner": "example.com/disks",
            "volume.kubernetes.io/storage-provisioner": "example.com/disks",
        }
        assert set((await phases(cluster)).values()) == {"Pending"}

    live(check)


def test_a_claim_that_asks_for_more_says_that_it_waits_for_the_resizer() -> None:
    async def check(cluster: Cluster) -> None:
        async def told() -> list[tuple[str, str, str]]:
            await asyncio.sleep(1)
            return [event for event in await cluster.events() if event[1] == "ExternalExpanding"]

        csi = {"driver": "example.com", "volumeHandle": "v"}
        await made(
            cluster,
            (STORAGE_CLASSES, storage_class("grows", allowVolumeExpansion=True)),
            (VOLUMES, volume("v", csi=csi, storageClassName="grows")),
            (CLAIMS, claim("c", storageClassName="grows")),
        )
        assert not await told()
        await cluster.patch(CLAIMS, "c", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
        waits = [("Normal", "ExternalExpanding", "waiting for an external controller to expand this PVC")]
        assert await told() == waits
        await cluster.patch(CLAIMS, "c", {"status": {"capacity": {"storage": "2Gi"}}}, subresource="status")
        await cluster.patch(CLAIMS, "c", {"metadata": {"labels": {"a": "b"}}})
        assert await told() == waits

    run(check, ClaimBinder, VolumeKeeper, ClaimExpander)


def pod_with(*claims: str) -> Obj:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}


def test_the_scheduler_chooses_for_claims_that_wait_for_a_consumer() -> None:
    """Volumes that nobody has are left to it; one that it has chosen is bound."""

    async def check(cluster: Cluster) -> None:
        await made(
            cluster,
            (STORAGE_CLASSES, storage_class("late", "kubernetes.io/no-provisioner", **LATE)),
            (CLAIMS, claim("c", storageClassName="late")),
            (VOLUMES, volume("v", storageClassName="late")),
        )
        assert await phases(cluster) == {"c": "Pending", "v": "Available"}
        mine = await cluster.get(CLAIMS, "c")
        assert mine
        ref = {"kind": "PersistentVolumeClaim", "namespace": "n", "name": "c", "uid": mine["metadata"]["uid"]}
        await cluster.patch(VOLUMES, "v", {"spec": {"claimRef": ref}})
        assert await phases(cluster) == {"c": "Bound v", "v": "Bound"}

    live(check)


def test_a_claim_without_class_gets_the_default_that_comes_later() -> None:
    async def check(cluster: Cluster) -> None:
        bare = claim("c")
        del bare["spec"]["storageClassName"]
        await made(cluster, (CLAIMS, bare))
        default = storage_class("standard")
        default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        await asyncio.sleep(1)
        await made(cluster, (STORAGE_CLASSES, default))
        await asyncio.sleep(1)
        found = await cluster.get(CLAIMS, "c")
        assert found and found["spec"]["storageClassName"] == "standard"

    live(check)


@pytest.mark.parametrize(
    ("policy", "source", "phase", "events"),
    [
        ("Retain", {}, "Released", []),
        ("Recycle", {}, "Available", ["VolumeRecycled"]),
        ("Recycle", {"csi": {"driver": "d", "volumeHandle": "h"}}, "Failed", ["VolumeFailedRecycle"]),
        ("Delete", {}, None, []),
        ("Delete", {"hostPath": {"path": "/var/x"}}, "Failed", ["VolumeFailedDelete"]),
        ("Delete", {"nfs": {"server": "s", "path": "/p"}}, "Failed", ["VolumeFailedDelete"]),
        ("Delete", {"csi": {"driver": "d", "volumeHandle": "h"}}, "Released", []),
    ],
)
def test_a_volume_whose_claim_goes_is_reclaimed(policy: str, source: Obj, phase: str | None, events: list[str]) -> None:
    async def check(cluster: Cluster) -> None:
        kept = volume("v", persistentVolumeReclaimPolicy=policy, **source)
        await made(cluster, (VOLUMES, kept), (CLAIMS, claim("c")))
        assert (await phases(cluster))["c"] == "Bound v"
        await cluster.delete(CLAIMS, "c")
        assert (await phases(cluster)).get("v") == phase
        about = [one["reason"] for one in await cluster.all_events() if one["involvedObject"]["name"] == "v"]
        assert about == events
        await made(cluster, (CLAIMS, claim("c")))  # another of the same name has no right to what was left behind
        assert (await phases(cluster))["c"] == ("Bound v" if phase == "Available" else "Pending")

    live(check)


def test_a_claim_without_its_volume_is_lost() -> None:
    async def check(cluster: Cluster) -> None:
        await made(cluster, (VOLUMES, volume("v")), (CLAIMS, claim("c")))
        assert (await phases(cluster))["c"] == "Bound v"
        await cluster.delete(VOLUMES, "v")
        told = await cluster.get(VOLUMES, "v")
        assert told and told["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]  # it is in use
        await cluster.patch(VOLUMES, "v", {"metadata": {"finalizers": None}})
        assert await phases(cluster) == {"c": "Lost v"}
        lost = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        assert ("Warning", "ClaimLost", lost) in await cluster.events()

    live(check)


def test_a_volume_that_nobody_has_can_be_deleted() -> None:
    async def check(cluster: Cluster) -> None:
        await made(cluster, (VOLUMES, volume("v")))
        await asyncio.sleep(1)
        await cluster.delete(VOLUMES, "v")
        assert await phases(cluster) == {}

    live(check)


def attributes_class(name: str) -> Obj:
    return {"metadata": {"name": name}, "driverName": "example.com", "parameters": {"iops": "100"}}


def test_a_class_of_attributes_stays_until_the_last_claim_and_volume_that_name_it_have_gone() -> None:
    async def check(cluster: Cluster) -> None:
        named = {"volumeAttributesClassName": "gold"}
        csi: dict[str, Any] = {
            "csi": {"driver": "example.com", "volumeHandle": "v"},
            "storageClassName": "disks",
        } | named
        wanting = claim("c") | {"spec": claim("c")["spec"] | named | {"storageClassName": "other"}}
        await made(cluster, (ATTRIBUTES_CLASSES, attributes_class("gold")), (VOLUMES, volume("v", **csi)))
        await made(cluster, (CLAIMS, wanting))
        await cluster.delete(ATTRIBUTES_CLASSES, "gold")
        await asyncio.sleep(1)
        told = await cluster.get(ATTRIBUTES_CLASSES, "gold")
        assert told and told["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
        await cluster.delete(CLAIMS, "c")
        await asyncio.sleep(1)
        assert await cluster.get(ATTRIBUTES_CLASSES, "gold")  # the volume has it still
        await cluster.delete(VOLUMES, "v")
        await asyncio.sleep(1)
        assert await cluster.all(ATTRIBUTES_CLASSES) == []

    live(check)


def test_a_class_of_attributes_that_nobody_names_can_be_deleted() -> None:
    async def check(cluster: Cluster) -> None:
        await made(cluster, (ATTRIBUTES_CLASSES, attributes_class("gold")), (CLAIMS, claim("c")))
        await asyncio.sleep(1)
        await cluster.delete(ATTRIBUTES_CLASSES, "gold")
        await asyncio.sleep(1)
        assert await cluster.all(ATTRIBUTES_CLASSES) == []

    live(check)


def test_many_at_once_are_paired_off() -> None:
    """Whoever comes first; nobody is left over, and no volume is given twice."""

    async def check(cluster: Cluster) -> None:
        await made(cluster, *((CLAIMS, claim(f"c-{number}")) for number in range(40)))
        await asyncio.sleep(1)
        await asyncio.gather(*(made(cluster, (VOLUMES, volume(f"v-{number}"))) for number in range(40)))
        told = await phases(cluster)
        bound = [value for name, value in told.items() if name.startswith("c-")]
        assert all(value.startswith("Bound v-") for value in bound)
        assert len(set(bound)) == 40

    live(check)


def test_a_pod_and_the_claim_of_its_ephemeral_volume_do_not_wait_for_each_other() -> None:
    """Deleted in the foreground, the pod stays until its claim has gone, which goes when the node is done with it."""

    async def check(cluster: Cluster) -> None:
        template = {"spec": claim("scratch")["spec"]}
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
        container = {"name": "c", "image": "i"}
        spec = {"nodeName": "somewhere", "containers": [container], "volumes": volumes}
        await cluster.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
        await asyncio.sleep(1)
        await cluster.delete(PODS, "p", propagation_policy="Foreground")
        await asyncio.sleep(60)
        assert await cluster.get(CLAIMS, "p-scratch") is not None
        await cluster.delete(PODS, "p", grace_period_seconds=0)
        await asyncio.sleep(1)
        assert await cluster.get(CLAIMS, "p-scratch") is None
        assert await cluster.get(PODS, "p") is None

    run(check, ClaimProtection, EphemeralVolumes, GarbageCollector)


def test_a_claim_is_not_used_by_a_pod_whose_ephemeral_volume_has_its_name_by_chance() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(CLAIMS, claim("p-scratch"))
        template = {"spec": claim("scratch")["spec"]}
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
        spec = {"nodeName": "somewhere", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        await cluster.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
        await asyncio.sleep(1)
        await cluster.delete(CLAIMS, "p-scratch")
        await asyncio.sleep(1)
        assert await cluster.get(CLAIMS, "p-scratch") is None

    run(check, ClaimProtection)


def test_what_others_say_of_a_bound_claim_stays() -> None:
    """Who grows claims, or changes their attributes, says so in their status."""

    async def check(cluster: Cluster) -> None:
        await made(cluster, (VOLUMES, volume("v")), (CLAIMS, claim("c")))
        assert await phases(cluster) == {"v": "Bound", "c": "Bound v"}
        said = {
            "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "modifyVolumeStatus": {"targetVolumeAttributesClassName": "fast", "status": "InProgress"},
        }
        await cluster.patch(CLAIMS, "c", {"status": said}, "status")
        await cluster.patch(CLAIMS, "c", {"metadata": {"labels": {"seen": "again"}}})
        await cluster.patch(VOLUMES, "v", {"metadata": {"labels": {"seen": "again"}}})
        await asyncio.sleep(1)
        found = await cluster.get(CLAIMS, "c")
        assert found is not None
        assert {name: found["status"].get(name) for name in said} == said

    live(check)
