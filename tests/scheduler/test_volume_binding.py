"""Pods whose claims get volumes when the pods get nodes: what is chosen, written, waited for and taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.builtin import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    EVENTS,
    NODES,
    PODS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from fairlead.api.builtin import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from fairlead.api.builtin import PERSISTENT_VOLUMES as VOLUMES
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.loops import run_virtual
from fairlead.scheduler.configuration import load
from fairlead.sim.nodes import NodeShape, uniform

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SELECTED = "volume.kubernetes.io/selected-node"
NOTHING = "node(s) didn't find available persistent volumes to bind"


def live(test: Callable[[Api], Awaitable[None]], nodes: int = 3, **settings: Any) -> None:
    """Run a test in a whole cluster, in virtual time; node-1 is in zone-1, and so on."""

    async def run() -> None:
        made = uniform(nodes, NodeShape())
        for number, node in enumerate(made, 1):
            node["metadata"].setdefault("labels", {})[ZONE] = f"zone-{number}"
        async with simulation(Settings(nodes=tuple(made), **settings)) as (api, _):
            await test(api)

    rng.seed(1)
    run_virtual(run())


def storage_class(name: str, provisioner: str, **more: Any) -> Obj:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"} | more


LOCAL = storage_class("local", "kubernetes.io/no-provisioner")
FOREIGN = storage_class("foreign", "example.com/disks")


def claim(name: str, of: str = "standard", size: str = "1Gi") -> Obj:
    resources = {"requests": {"storage": size}}
    spec = {"storageClassName": of, "accessModes": ["ReadWriteOnce"], "resources": resources}
    return {"metadata": {"name": name}, "spec": spec}


def local_volume(name: str, node: str, size: str = "1Gi", of: str = "local") -> Obj:
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of,
        "local": {"path": f"/mnt/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, *claims: str, **spec: Any) -> Obj:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes} | spec,
    }


async def made(api: Api, *objects: tuple[Any, Obj]) -> None:
    for resource, obj in objects:
        await api.create(resource, obj, "default" if resource.namespaced else "")


async def seen(api: Api, resource: Any, name: str) -> Obj:
    return (await api.get(resource, name, "default" if resource.namespaced else "")).obj()


async def why(api: Api, name: str) -> str:
    conditions = (await seen(api, PODS, name))["status"].get("conditions", ())
    return next((condition.get("message", "") for condition in conditions if condition["type"] == "PodScheduled"), "")


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """In virtual time this costs nothing, and where it never comes true the test ends soon."""
    for _ in range(2_000):
        if await check():
            return
        await asyncio.sleep(1)
    raise AssertionError("it has not come about")


async def is_running(api: Api, name: str) -> bool:
    return bool((await seen(api, PODS, name))["status"]["phase"] == "Running")


def test_a_database_gets_its_disks() -> None:
    """A StatefulSet with claim templates and nothing else: each replica its own volume, kept when it is replaced."""

    async def check(api: Api) -> None:
        template = claim("data")
        del template["spec"]["storageClassName"]
        labels = {"app": "db"}
        container = {"name": "db", "image": "db", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        database = {
            "metadata": {"name": "db"},
            "spec": {
                "serviceName": "db",
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
                "volumeClaimTemplates": [template],
            },
        }
        await made(api, (STATEFUL_SETS, database))
        await asyncio.sleep(30)
        assert all([await is_running(api, f"db-{number}") for number in range(3)])
        before = await seen(api, CLAIMS, "data-db-0")
        assert before["status"]["phase"] == "Bound"
        await api.delete(PODS, "db-0", "default")
        await asyncio.sleep(60)
        assert await is_running(api, "db-0")
        assert (await seen(api, CLAIMS, "data-db-0"))["spec"] == before["spec"]
        events = [event.obj() for event in (await api.list(EVENTS, "default")).items]
        assert not [event["message"] for event in events if event["reason"] == "FailedScheduling"]
        assert len((await api.list(VOLUMES, "")).items) == 3

    live(check)


def test_volumes_that_are_there_draw_the_pod_to_their_node() -> None:
    """The smallest that does; two claims of one pod never get the same."""

    async def check(api: Api) -> None:
        await made(
            api,
            (STORAGE_CLASSES, LOCAL),
            (VOLUMES, local_volume("lone", "node-1", "5Gi")),
            (VOLUMES, local_volume("large", "node-2", "9Gi")),
            (VOLUMES, local_volume("small", "node-2", "2Gi")),
            (VOLUMES, local_volume("fits", "node-2", "3Gi")),
            (CLAIMS, claim("a", "local", "2Gi")),
            (CLAIMS, claim("b", "local", "1Gi")),
        )
        await asyncio.sleep(5)
        await made(api, (PODS, pod("p", "a", "b")))
        await asyncio.sleep(5)
        assert (await seen(api, PODS, "p"))["spec"]["nodeName"] == "node-2"
        assert [(await seen(api, CLAIMS, name))["spec"]["volumeName"] for name in "ab"] == ["fits", "small"]
        kept = await seen(api, VOLUMES, "fits")
        assert kept["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert kept["spec"]["claimRef"]["uid"] == (await seen(api, CLAIMS, "a"))["metadata"]["uid"]

    live(check)


def test_pods_that_want_the_same_volumes_do_not_get_them_twice() -> None:
    async def check(api: Api) -> None:
        await made(api, (STORAGE_CLASSES, LOCAL))
        for number in (1, 2):
            await made(api, (VOLUMES, local_volume(f"v-{number}", f"node-{number}")))
        await asyncio.sleep(5)
        for number in range(3):
            await made(api, (CLAIMS, claim(f"c-{number}", "local")), (PODS, pod(f"p-{number}", f"c-{number}")))
        await asyncio.sleep(5)
        nodes = [(await seen(api, PODS, f"p-{number}"))["spec"].get("nodeName") for number in range(3)]
        assert sorted(nodes, key=str) == [None, "node-1", "node-2"]
        left = nodes.index(None)
        assert (await why(api, f"p-{left}")).startswith(f"0/3 nodes are available: 3 {NOTHING}.")
        await made(api, (VOLUMES, local_volume("v-3", "node-3")))
        await until(lambda: is_running(api, f"p-{left}"))

    live(check)


def test_a_pod_may_use_a_claim_twice() -> None:
    async def check(api: Api) -> None:
        twice = pod("p", "a")
        twice["spec"]["volumes"].append({"name": "again", "persistentVolumeClaim": {"claimName": "a"}})
        await made(api, (CLAIMS, claim("a")), (PODS, twice))
        await asyncio.sleep(5)
        assert await is_running(api, "p")
        events = [event.obj() for event in (await api.list(EVENTS, "default")).items]
        assert not [event["message"] for event in events if event["reason"] == "FailedScheduling"]

    live(check)


def test_pods_that_share_a_claim_go_where_its_volume_is() -> None:
    """Even if they come together, before the server knows which volume it will be."""

    async def check(api: Api) -> None:
        await made(api, (STORAGE_CLASSES, LOCAL), (CLAIMS, claim("a", "local")))
        for number in (1, 2, 3):
            await made(api, (VOLUMES, local_volume(f"v-{number}", f"node-{number}")))
        await asyncio.sleep(5)
        await asyncio.gather(*(made(api, (PODS, pod(f"p-{number}", "a"))) for number in range(6)))
        await asyncio.sleep(60)
        nodes = {(await seen(api, PODS, f"p-{number}"))["spec"].get("nodeName") for number in range(6)}
        assert len(nodes) == 1 and None not in nodes
        assert [(await seen(api, VOLUMES, f"v-{n}"))["status"]["phase"] for n in (1, 2, 3)].count("Bound") == 1

    live(check)


def test_a_class_makes_volumes_only_where_it_may() -> None:
    async def check(api: Api) -> None:
        there = [{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-3", "zone-4"]}]}]
        zonal = storage_class("zonal", "sim.fairlead.dev/volumes", allowedTopologies=there)
        elsewhere = storage_class("elsewhere", "sim.fairlead.dev/volumes", allowedTopologies=[
            {"matchLabelExpressions": [{"key": ZONE, "values": ["zone-9"]}]}
        ])  # fmt: skip
        await made(api, (STORAGE_CLASSES, zonal), (STORAGE_CLASSES, elsewhere))
        await made(api, (CLAIMS, claim("a", "zonal")), (CLAIMS, claim("b", "elsewhere")))
        await made(api, (PODS, pod("p", "a")), (PODS, pod("q", "b")))
        await asyncio.sleep(5)
        assert (await seen(api, PODS, "p"))["spec"]["nodeName"] == "node-3"
        volume = await seen(api, VOLUMES, (await seen(api, CLAIMS, "a"))["spec"]["volumeName"])
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term == {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-3"]}]}
        assert (await why(api, "q")).startswith(f"0/3 nodes are available: 3 {NOTHING}.")
        await api.patch(NODES, "node-1", "", {"metadata": {"labels": {ZONE: "zone-9"}}})
        await until(lambda: is_running(api, "q"))

    live(check)


def test_a_driver_that_tells_where_it_has_room_makes_volumes_there() -> None:
    """And a pod that finds none is tried again when there is more."""

    async def check(api: Api) -> None:
        driver = {"metadata": {"name": "disks.example.com"}, "spec": {"storageCapacity": True}}
        await made(api, (STORAGE_CLASSES, storage_class("disks", "disks.example.com")), (CSI_DRIVERS, driver))
        for number, size in ((1, "2Gi"), (2, "4Gi")):
            of_node = {"nodeTopology": {"matchLabels": {ZONE: f"zone-{number}"}}, "storageClassName": "disks"}
            capacity = of_node | {"metadata": {"name": f"free-{number}"}, "capacity": size}
            await made(api, (CSI_STORAGE_CAPACITIES, capacity))
        await made(api, (CLAIMS, claim("some", "disks", "3Gi")), (CLAIMS, claim("more", "disks", "6Gi")))
        await made(api, (PODS, pod("p", "some")), (PODS, pod("q", "more")))
        await until(lambda: is_told(api, "some", "node-2"))
        await asyncio.sleep(60)
        full = "0/3 nodes are available: 3 node(s) did not have enough free storage."
        assert (await why(api, "q")).startswith(full)
        await api.patch(CSI_STORAGE_CAPACITIES, "free-1", "default", {"capacity": "9Gi", "maximumVolumeSize": "5Gi"})
        await asyncio.sleep(60)
        assert (await why(api, "q")).startswith(full)
        await api.patch(CSI_STORAGE_CAPACITIES, "free-1", "default", {"maximumVolumeSize": "6Gi"})
        await asyncio.sleep(1)
        assert await is_told(api, "more", "node-1")

    async def is_told(api: Api, name: str, node: str) -> bool:
        return bool((await seen(api, CLAIMS, name))["metadata"].get("annotations", {}).get(SELECTED) == node)

    live(check)


def test_a_pod_is_tried_again_when_its_driver_does_not_tell_any_more_where_it_has_room() -> None:
    async def check(api: Api) -> None:
        driver = {"metadata": {"name": "disks.example.com"}, "spec": {"storageCapacity": True}}
        await made(api, (STORAGE_CLASSES, storage_class("disks", "disks.example.com")), (CSI_DRIVERS, driver))
        await made(api, (CLAIMS, claim("a", "disks")), (PODS, pod("p", "a")))
        await asyncio.sleep(20)
        assert "did not have enough free storage" in await why(api, "p")
        await api.patch(CSI_DRIVERS, "disks.example.com", "", {"spec": {"storageCapacity": False}})
        await asyncio.sleep(1)
        assert SELECTED in (await seen(api, CLAIMS, "a"))["metadata"]["annotations"]

    live(check)


def test_a_claim_that_is_bound_at_once_is_waited_for() -> None:
    async def check(api: Api) -> None:
        now = storage_class("now", "example.com/disks", volumeBindingMode="Immediate")
        await made(api, (STORAGE_CLASSES, now), (CLAIMS, claim("a", "now")), (PODS, pod("p", "a")))
        await asyncio.sleep(5)
        message = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
        assert (await why(api, "p")).startswith(message)
        provisioned = local_volume("v", "node-2", of="now")
        provisioned["spec"]["claimRef"] = {"namespace": "default", "name": "a"}
        await made(api, (VOLUMES, provisioned))
        await until(lambda: is_running(api, "p"))
        assert (await seen(api, PODS, "p"))["spec"]["nodeName"] == "node-2"

    live(check)


def test_others_who_make_volumes_are_told_the_node_and_awaited() -> None:
    """As an external provisioner expects it; the pod says where it is about to be bound."""

    async def check(api: Api) -> None:
        await made(api, (STORAGE_CLASSES, FOREIGN), (CLAIMS, claim("a", "foreign")), (PODS, pod("p", "a")))
        await asyncio.sleep(100)
        waiting = await seen(api, CLAIMS, "a")
        node = waiting["metadata"]["annotations"][SELECTED]
        assert waiting["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"] == "example.com/disks"
        expected = await seen(api, PODS, "p")
        assert "nodeName" not in expected["spec"]
        assert expected["status"]["nominatedNodeName"] == node
        volume = local_volume("v", node, of="foreign")
        volume["spec"]["claimRef"] = {"namespace": "default", "name": "a", "uid": waiting["metadata"]["uid"]}
        await made(api, (VOLUMES, volume))
        await asyncio.sleep(1)
        bound = await seen(api, PODS, "p")
        assert bound["spec"]["nodeName"] == node
        assert "nominatedNodeName" not in bound["status"]
        assert await why(api, "p") == ""

    live(check)


def test_a_provisioner_that_gives_up_gets_another_node() -> None:
    """It says so by taking the annotation off."""

    async def check(api: Api) -> None:
        await made(api, (STORAGE_CLASSES, FOREIGN), (CLAIMS, claim("a", "foreign")), (PODS, pod("p", "a")))
        await asyncio.sleep(5)
        node = (await seen(api, CLAIMS, "a"))["metadata"]["annotations"][SELECTED]
        await api.patch(NODES, node, "", {"spec": {"unschedulable": True}})
        await api.patch(CLAIMS, "a", "default", {"metadata": {"annotations": {SELECTED: None}}})
        await asyncio.sleep(0.5)
        prefix = 'running PreBind plugin "VolumeBinding": binding volumes: '
        assert await why(api, "p") == f'{prefix}provisioning failed for PVC "a"'
        assert "nominatedNodeName" not in (await seen(api, PODS, "p"))["status"]

        async def has_another() -> bool:
            chosen = (await seen(api, CLAIMS, "a"))["metadata"]["annotations"].get(SELECTED)
            return chosen not in (None, node)

        await until(has_another)

    live(check)


def test_waiting_for_a_volume_ends() -> None:
    """After bindTimeoutSeconds the pod is tried again; its claim keeps the node that it was told."""
    patient = {"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 50}}]}

    async def check(api: Api) -> None:
        await made(api, (STORAGE_CLASSES, FOREIGN), (CLAIMS, claim("a", "foreign")), (PODS, pod("p", "a")))
        await asyncio.sleep(49)
        assert await why(api, "p") == ""
        await asyncio.sleep(2)
        message = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
        assert await why(api, "p") == message
        node = (await seen(api, CLAIMS, "a"))["metadata"]["annotations"][SELECTED]
        await asyncio.sleep(200)
        assert (await seen(api, CLAIMS, "a"))["metadata"]["annotations"][SELECTED] == node

    live(check, scheduling=load({"profiles": [patient]}))


def test_a_pod_that_is_deleted_while_it_waits_leaves_its_room_and_its_claim() -> None:
    async def check(api: Api) -> None:
        def big(name: str) -> Obj:
            return pod(name, "a", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}])

        await made(api, (STORAGE_CLASSES, FOREIGN), (CLAIMS, claim("a", "foreign")), (PODS, big("p")))
        await asyncio.sleep(5)
        await api.delete(PODS, "p", "default")
        await asyncio.sleep(1)
        await made(api, (PODS, big("q")))  # the only node has room for one of them
        volume = local_volume("v", "node-1", of="foreign")
        volume["spec"]["claimRef"] = {"namespace": "default", "name": "a"}
        await made(api, (VOLUMES, volume))
        await until(lambda: is_running(api, "q"))

    live(check, nodes=1)


def test_the_same_seed_gives_the_same_volumes() -> None:
    recorded: list[list[tuple[str, str]]] = []

    async def check(api: Api) -> None:
        for number in range(5):
            await made(api, (CLAIMS, claim(f"c-{number}")), (PODS, pod(f"p-{number}", f"c-{number}")))
        await asyncio.sleep(30)
        found = [volume.obj() for volume in (await api.list(VOLUMES, "")).items]
        recorded.append([(volume["metadata"]["name"], volume["spec"]["claimRef"]["name"]) for volume in found])

    live(check)
    live(check)
    assert recorded[0] == recorded[1]
    assert len(recorded[0]) == 5


def test_a_node_that_can_take_no_more_volumes_takes_the_pod_once_one_has_gone() -> None:
    """NodeVolumeLimits and VolumeRestrictions over an API, each woken by who leaves."""

    async def check(api: Api) -> None:
        limits = {"name": "disks.example.com", "nodeID": "1", "topologyKeys": None, "allocatable": {"count": 1}}
        await api.patch(CSI_NODES, "node-1", "", {"spec": {"drivers": [limits]}})
        await made(api, (STORAGE_CLASSES, LOCAL))
        for name, mode in (("a", "ReadWriteOncePod"), ("b", "ReadWriteOnce")):
            volume, own = local_volume(name, "node-1"), claim(name, "local")
            del volume["spec"]["local"]
            volume["spec"]["csi"] = {"driver": "disks.example.com", "volumeHandle": name}
            volume["spec"]["accessModes"] = own["spec"]["accessModes"] = [mode]
            own["spec"]["volumeName"] = name  # else its driver is that of its class
            await made(api, (VOLUMES, volume), (CLAIMS, own))
        await made(api, (PODS, pod("first", "a")))
        await until(lambda: is_running(api, "first"))
        await made(api, (PODS, pod("same", "a")), (PODS, pod("other", "b")))
        await asyncio.sleep(60)
        assert "ReadWriteOncePod access mode already in-use by another pod" in await why(api, "same")
        assert "1 node(s) exceed max volume count" in await why(api, "other")
        await api.delete(PODS, "first", "default")
        await until(lambda: is_running(api, "same"))
        await api.delete(PODS, "same", "default")
        await until(lambda: is_running(api, "other"))

    live(check, nodes=1)
