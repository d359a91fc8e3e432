"""Simulated storage: made on demand, grown, given back; and the class that a new cluster begins with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead.api.builtin import EVENTS, PODS, STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES
from fairlead.api.builtin import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from fairlead.api.builtin import PERSISTENT_VOLUMES as VOLUMES
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.compose import COMPONENTS, Settings, cluster, simulation
from fairlead.runtime import rng
from fairlead.runtime.loops import run, run_virtual
from fairlead.sim.nodes import NodeShape, uniform

FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"


def live(test: Callable[[Api], Awaitable[None]], imported: Sequence[Obj] = ()) -> None:
    async def main() -> None:
        settings = Settings(nodes=tuple(uniform(1, NodeShape())), imported=tuple(imported))
        async with simulation(settings) as (api, _):
            await test(api)

    rng.seed(1)
    run_virtual(main())


def storage_class(name: str, provisioner: str = "sim.fairlead.dev/volumes", **more: Any) -> Obj:
    meta = {"name": name, "annotations": more.pop("annotations", {})}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    return kind | {"metadata": meta, "provisioner": provisioner} | more


def claim(name: str, of: str) -> Obj:
    resources = {"requests": {"storage": "1Gi"}}
    return {
        "metadata": {"name": name},
        "spec": {"storageClassName": of, "accessModes": ["ReadWriteOnce"], "resources": resources},
    }


async def bound(api: Api, of: Obj) -> tuple[Obj, Obj]:
    """A claim of that new class, and its volume."""
    await api.create(STORAGE_CLASSES, of)
    await api.create(CLAIMS, claim("c", of["metadata"]["name"]), "default")
    await asyncio.sleep(1)
    found = (await api.get(CLAIMS, "c", "default")).obj()
    assert found["status"]["phase"] == "Bound"
    return found, (await api.get(VOLUMES, found["spec"]["volumeName"])).obj()


async def names(api: Api, resource: Any) -> list[str]:
    return [item.obj()["metadata"]["name"] for item in (await api.list(resource, "")).items]


def test_a_volume_is_made_at_once_where_its_class_says_so() -> None:
    async def check(api: Api) -> None:
        mine, volume = await bound(api, storage_class("now"))
        assert volume["metadata"]["name"] == f"pvc-{mine['metadata']['uid']}"
        assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/provisioned-by": "sim.fairlead.dev/volumes"}
        assert sorted(volume["metadata"]["finalizers"]) == [FINALIZER, "kubernetes.io/pv-protection"]
        assert volume["status"]["phase"] == "Bound"
        events = [item.obj() for item in (await api.list(EVENTS, "default")).items]
        messages = {event["reason"]: event["message"] for event in events if event["involvedObject"]["name"] == "c"}
        assert set(messages) == {"ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"}
        assert messages["ProvisioningSucceeded"] == f"Successfully provisioned volume {volume['metadata']['name']}"

    live(check)


@pytest.mark.parametrize(("policy", "left"), [("Delete", 0), ("Retain", 1)])
def test_a_volume_goes_with_its_claim_if_its_class_says_so(policy: str, left: int) -> None:
    async def check(api: Api) -> None:
        await bound(api, storage_class("now", reclaimPolicy=policy))
        await api.delete(CLAIMS, "c", "default")
        await asyncio.sleep(5)
        assert len(await names(api, VOLUMES)) == left

    live(check)


def test_a_volume_that_is_deleted_before_its_claim_goes_with_it() -> None:
    async def check(api: Api) -> None:
        _, volume = await bound(api, storage_class("now"))
        await api.delete(VOLUMES, volume["metadata"]["name"], "")
        await asyncio.sleep(5)
        assert await names(api, VOLUMES) == [volume["metadata"]["name"]]
        await api.delete(CLAIMS, "c", "default")
        await asyncio.sleep(5)
        assert not await names(api, VOLUMES)

    live(check)


def test_a_volume_grows_with_its_claim() -> None:
    async def check(api: Api) -> None:
        _, volume = await bound(api, storage_class("now", allowVolumeExpansion=True))
        larger = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
        await api.patch(CLAIMS, "c", "default", larger)
        await asyncio.sleep(1)
        assert (await api.get(CLAIMS, "c", "default")).obj()["status"]["capacity"] == {"storage": "3Gi"}
        grown = (await api.get(VOLUMES, volume["metadata"]["name"])).obj()
        assert grown["spec"]["capacity"] == {"storage": "3Gi"}

    live(check)


@pytest.mark.parametrize("provisioner", ["ebs.csi.aws.com", "kubernetes.io/aws-ebs"])
def test_a_class_of_another_provisioner_is_simulated_if_it_is_told_to_be(provisioner: str) -> None:
    async def check(api: Api) -> None:
        await api.create(STORAGE_CLASSES, storage_class("gp3", provisioner))
        await api.create(CLAIMS, claim("c", "gp3"), "default")
        await asyncio.sleep(5)
        assert (await api.get(CLAIMS, "c", "default")).obj()["status"]["phase"] == "Pending"
        patch = {"metadata": {"annotations": {"sim.fairlead.dev/provision": "true"}}}
        await api.patch(STORAGE_CLASSES, "gp3", "", patch)
        await asyncio.sleep(5)
        assert (await api.get(CLAIMS, "c", "default")).obj()["status"]["phase"] == "Bound"

    live(check)


def test_a_node_that_has_gone_is_given_up() -> None:
    """The scheduler had chosen it; the pod goes elsewhere."""

    async def check(api: Api) -> None:
        late = storage_class("late", volumeBindingMode="WaitForFirstConsumer")
        await api.create(STORAGE_CLASSES, late)
        asked = claim("c", "late")
        asked["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "gone"}
        await api.create(CLAIMS, asked, "default")
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
        await api.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
        await asyncio.sleep(60)
        assert (await api.get(PODS, "p", "default")).obj()["status"]["phase"] == "Running"

    live(check)


def test_a_cluster_that_brings_classes_gets_no_other() -> None:
    async def check(api: Api) -> None:
        assert await names(api, STORAGE_CLASSES) == ["theirs"]

    live(check, imported=[storage_class("theirs", "example.com/x")])


@pytest.mark.parametrize("has_volume", [True, False])
def test_claims_of_a_dump_keep_their_volumes(has_volume: bool) -> None:
    """`kubectl get pods,pvc -A` has no volumes: they stand for what they were, and new pods can use them."""
    bound_to: Obj = claim("c", "gp3")
    bound_to["metadata"] |= {"namespace": "default", "uid": "u-c"}
    bound_to["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    bound_to["spec"]["volumeName"] = "v"
    bound_to["status"] = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    ref: Obj = {"namespace": "default", "name": "c", "uid": "u-c"}
    spec: Obj = {
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "gp3",
        "claimRef": ref,
    }
    spec["csi"] = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}
    volume: Obj = {"metadata": {"name": "v", "uid": "u-v"}, "spec": spec, "status": {"phase": "Bound"}}
    dump: list[Obj] = [{"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | bound_to]
    if has_volume:
        dump.append({"apiVersion": "v1", "kind": "PersistentVolume"} | volume)

    async def check(api: Api) -> None:
        user: Obj = {"containers": [{"name": "c", "image": "i"}]}
        user["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        await api.create(PODS, {"metadata": {"name": "p"}, "spec": user}, "default")
        await asyncio.sleep(5)
        kept = (await api.get(CLAIMS, "c", "default")).obj()
        assert kept["status"] == bound_to["status"]
        assert (await api.get(VOLUMES, "v")).obj()["status"]["phase"] == "Bound"
        assert (await api.get(PODS, "p", "default")).obj()["status"]["phase"] == "Running"

    live(check, imported=dump)


def test_a_new_cluster_begins_with_a_default_class_and_only_a_new_one(tmp_path: Path) -> None:
    async def classes(components: frozenset[str], *, delete: str = "") -> list[str]:
        settings = Settings(data_dir=tmp_path / "-".join(sorted(components)), port=0, components=components)
        async with cluster(settings) as running:
            found = await names(running.api, STORAGE_CLASSES)
            if delete:
                await running.api.delete(STORAGE_CLASSES, delete, "")
            return found

    everything, bare = frozenset(COMPONENTS), frozenset({"api", "controllers"})
    assert run(classes(everything, delete="standard")) == ["standard"]
    assert run(classes(everything)) == []
    assert run(classes(bare)) == []


def clone(name: str, of: str, storage: str = "1Gi", kind: str = "PersistentVolumeClaim", **source: str) -> Obj:
    made = claim(name, "now")
    made["spec"]["resources"]["requests"]["storage"] = storage
    made["spec"]["dataSourceRef"] = {"kind": kind, "name": of, **source}
    return made


async def told(api: Api, of: str) -> list[str]:
    events = [item.obj() for item in (await api.list(EVENTS, "default")).items]
    reasons = ("ProvisioningFailed", "Provisioning", "ProvisioningSucceeded")
    return [each["message"] for each in events if each["involvedObject"]["name"] == of and each["reason"] in reasons]


def test_a_clone_waits_for_what_it_is_a_clone_of() -> None:
    async def check(api: Api) -> None:
        await api.create(STORAGE_CLASSES, storage_class("now"))
        await api.create(STORAGE_CLASSES, storage_class("later", volumeBindingMode="WaitForFirstConsumer"))
        await api.create(CLAIMS, clone("copy", "source"), "default")
        await asyncio.sleep(5)
        failed = 'failed to provision volume with StorageClass "now": error getting handle for DataSource Type '
        failed += "PersistentVolumeClaim by Name source: "
        missing = 'error getting PVC source (namespace "default") from api server: '
        assert await told(api, "copy") == [f'{failed}{missing}persistentvolumeclaim "source" not found']
        await api.create(CLAIMS, claim("source", "now"), "default")
        await asyncio.sleep(5)
        assert (await api.get(CLAIMS, "copy", "default")).obj()["status"]["phase"] == "Bound"
        await api.create(CLAIMS, clone("small", "source", "1Mi"), "default")
        await asyncio.sleep(5)
        too_small = "error, new PVC request must be greater than or equal in size to the specified PVC data source, "
        assert await told(api, "small") == [f"{failed}{too_small}requested 1048576 but source is 1073741824"]

    live(check)


def test_what_a_populator_makes_is_left_to_it() -> None:
    async def check(api: Api) -> None:
        await api.create(STORAGE_CLASSES, storage_class("now"))
        await api.create(CLAIMS, clone("filled", "x", kind="Hello", apiGroup="hello.example.com"), "default")
        await asyncio.sleep(5)
        assert (await api.get(CLAIMS, "filled", "default")).obj()["status"]["phase"] == "Pending"
        assert await told(api, "filled") == ["Assuming an external populator will provision the volume"]

    live(check)


def attributes(name: str, driver: str = "sim.fairlead.dev") -> Obj:
    return {"metadata": {"name": name}, "driverName": driver, "parameters": {"iops": "1000"}}


def test_a_volume_takes_on_the_attributes_that_its_claim_wants() -> None:
    async def check(api: Api) -> None:
        await api.create(STORAGE_CLASSES, storage_class("now"))
        wanted = claim("c", "now")
        wanted["spec"]["volumeAttributesClassName"] = "silver"
        await api.create(CLAIMS, wanted, "default")
        await asyncio.sleep(5)
        failed = 'failed to provision volume with StorageClass "now": '
        assert await told(api, "c") == [f'{failed}volumeattributesclasses.storage.k8s.io "silver" not found']
        await api.create(VOLUME_ATTRIBUTES_CLASSES, attributes("silver"))
        await asyncio.sleep(5)
        found = (await api.get(CLAIMS, "c", "default")).obj()
        assert found["status"]["currentVolumeAttributesClassName"] == "silver"
        await api.patch(CLAIMS, "c", "default", {"spec": {"volumeAttributesClassName": "gold"}})
        await asyncio.sleep(5)
        found = (await api.get(CLAIMS, "c", "default")).obj()
        assert found["status"]["modifyVolumeStatus"] == {"status": "Pending"}
        await api.create(VOLUME_ATTRIBUTES_CLASSES, attributes("gold"))
        await asyncio.sleep(5)
        found = (await api.get(CLAIMS, "c", "default")).obj()
        assert found["status"]["currentVolumeAttributesClassName"] == "gold"
        assert "modifyVolumeStatus" not in found["status"]
        volume = (await api.get(VOLUMES, found["spec"]["volumeName"])).obj()
        assert volume["spec"]["volumeAttributesClassName"] == "gold"

    live(check)


def test_attributes_of_another_driver_are_refused() -> None:
    async def check(api: Api) -> None:
        await api.create(STORAGE_CLASSES, storage_class("now"))
        await api.create(VOLUME_ATTRIBUTES_CLASSES, attributes("fast", "ebs.csi.aws.com"))
        wanted = claim("c", "now")
        wanted["spec"]["volumeAttributesClassName"] = "fast"
        await api.create(CLAIMS, wanted, "default")
        await asyncio.sleep(5)
        other = (
            "VAC fast referenced in PVC is for driver ebs.csi.aws.com which does not match driver name sim.fairlead.dev"
        )
        assert await told(api, "c") == [f'failed to provision volume with StorageClass "now": {other}']

    live(check)
