"""Silent and tainted nodes lose their pods, in the right order and at the right time (X-10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.taints import Taint, TimedToleration
from fairlead.controllers.actions import Actions
from fairlead.controllers.base import World
from fairlead.controllers.nodes import NodeLifecycle, TaintEviction
from fairlead.controllers.nodes.eviction import tolerated_seconds
from fairlead.controllers.podgc import PodGarbage
from fairlead.runtime.clock import micro_timestamp, timestamp
from fairlead.runtime.loops import VirtualLoop
from tests.controllers.cluster import Cluster, run
from tests.played import played

PREFIX = "node.kubernetes.io/"


async def node(cluster: Cluster, name: str, ready: str = "True", zone: str = "z", **spec: Any) -> None:
    labels = {"topology.kubernetes.io/zone": zone}
    await cluster.create(builtin.NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    await says(cluster, name, Ready=ready)


async def says(cluster: Cluster, name: str, **conditions: str) -> None:
    """What its kubelet posts."""
    told = [{"type": type_, "status": status, "lastHeartbeatTime": timestamp()} for type_, status in conditions.items()]
    await cluster.patch(builtin.NODES, name, {"status": {"conditions": told}}, "status")


async def taints(cluster: Cluster, name: str) -> list[str]:
    found = await cluster.get(builtin.NODES, name)
    assert found is not None
    return [f"{one['key'].removeprefix(PREFIX)}:{one['effect']}" for one in found["spec"].get("taints", ())]


async def pod(cluster: Cluster, name: str, node: str, *tolerations: Obj, **meta: Any) -> None:
    spec = {"nodeName": node, "tolerations": list(tolerations), "containers": [{"name": "c", "image": "i"}]}
    await cluster.create(builtin.PODS, {"metadata": {"name": name} | meta, "spec": spec})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.patch(builtin.PODS, name, {"status": ready}, "status")


async def is_going(cluster: Cluster, name: str) -> bool:
    found = await cluster.get(builtin.PODS, name)
    return found is None or "deletionTimestamp" in found["metadata"]


def disrupted(pod: Obj) -> str:
    """Why it goes."""
    [message] = [one["message"] for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    return str(message)


def believed() -> NodeLifecycle:
    return NodeLifecycle(heartbeats=False)


@pytest.mark.parametrize(
    ("conditions", "spec", "expected"),
    [
        ({"Ready": "True"}, {}, []),
        ({"Ready": "False"}, {}, ["not-ready:NoSchedule", "not-ready:NoExecute"]),
        ({"Ready": "Unknown"}, {}, ["unreachable:NoSchedule", "unreachable:NoExecute"]),
        ({"Ready": "True", "MemoryPressure": "True"}, {}, ["memory-pressure:NoSchedule"]),
        ({"Ready": "True", "DiskPressure": "Unknown"}, {"unschedulable": True}, ["unschedulable:NoSchedule"]),
    ],
)
@played(run, believed)
async def test_conditions_become_taints(
    cluster: Cluster, conditions: dict[str, str], spec: Obj, expected: list[str]
) -> None:
    await node(cluster, "good")
    await node(cluster, "n1", **spec)
    await says(cluster, "n1", **conditions)
    await asyncio.sleep(1)
    assert await taints(cluster, "n1") == expected
    await says(cluster, "n1", Ready="True", MemoryPressure="False")
    await cluster.patch(builtin.NODES, "n1", {"spec": {"unschedulable": False}})
    await asyncio.sleep(1)
    assert await taints(cluster, "n1") == []


@played(run, believed)
async def test_agents_may_use_what_they_have_read_for_longer_in_a_large_cluster(cluster: Cluster) -> None:
    ttl = "node.alpha.kubernetes.io/ttl"

    async def told(cluster: Cluster, name: str) -> str:
        await cluster.patch(builtin.NODES, name, {"metadata": {"annotations": {"changed": timestamp()}}})
        await asyncio.sleep(1)
        found = await cluster.get(builtin.NODES, name)
        assert found is not None
        return str(found["metadata"]["annotations"][ttl])

    for number in range(100):
        await node(cluster, f"n{number}")
    assert await told(cluster, "n0") == "0"
    await node(cluster, "n100")
    assert [await told(cluster, name) for name in ("n0", "n100")] == ["15", "15"]
    await cluster.delete(builtin.NODES, "n99")
    assert await told(cluster, "n1") == "15"  # until there are fewer than 90
    for number in range(89, 99):
        await cluster.delete(builtin.NODES, f"n{number}")
    assert await told(cluster, "n100") == "15"
    await cluster.delete(builtin.NODES, "n88")
    assert await told(cluster, "n100") == "0"


@played(run, NodeLifecycle, namespaces=("n", "default", "kube-node-lease"))
async def test_a_node_that_is_silent_is_declared_unknown_and_its_pods_not_ready(cluster: Cluster) -> None:
    await node(cluster, "n1")
    await node(cluster, "leased")
    lease = {"metadata": {"name": "leased"}, "spec": {"holderIdentity": "leased"}}
    await cluster.create(builtin.LEASES, lease, "kube-node-lease")
    await pod(cluster, "p", "n1")
    for _ in range(6):
        await asyncio.sleep(10)
        renewed = {"spec": {"renewTime": micro_timestamp()}}
        await cluster.patch(builtin.LEASES, "leased", renewed, namespace="kube-node-lease")
    silent, heard = await cluster.get(builtin.NODES, "n1"), await cluster.get(builtin.NODES, "leased")
    assert silent is not None
    assert heard is not None
    assert [one["status"] for one in heard["status"]["conditions"]] == ["True"]
    told = {one["type"]: (one["status"], one["reason"]) for one in silent["status"]["conditions"]}
    assert told == {
        "Ready": ("Unknown", "NodeStatusUnknown"),
        "MemoryPressure": ("Unknown", "NodeStatusNeverUpdated"),
        "DiskPressure": ("Unknown", "NodeStatusNeverUpdated"),
        "PIDPressure": ("Unknown", "NodeStatusNeverUpdated"),
    }
    assert await taints(cluster, "n1") == ["unreachable:NoSchedule", "unreachable:NoExecute"]
    found = await cluster.get(builtin.PODS, "p")
    assert found is not None
    assert found["status"]["conditions"][0]["status"] == "False"
    assert await cluster.events() == [("Warning", "NodeNotReady", "Node is not ready")]
    assert ("Normal", "NodeNotReady", "Node n1 status is now: NodeNotReady") in await cluster.events("default")


@played(run, believed)
async def test_nodes_of_a_zone_are_given_up_one_every_ten_seconds(cluster: Cluster) -> None:
    for number in range(4):
        await node(cluster, f"good{number}")
    for name in ("a", "b"):
        await node(cluster, name)
    for name in ("a", "b"):
        await says(cluster, name, Ready="False")
    for wait, expected in ((5, 1), (10, 2)):
        await asyncio.sleep(wait)
        given_up = [name for name in ("a", "b") if "not-ready:NoExecute" in await taints(cluster, name)]
        assert len(given_up) == expected


@played(run, believed)
async def test_nobody_is_given_up_while_the_whole_cluster_is_silent(cluster: Cluster) -> None:
    for name in ("a", "b"):
        await node(cluster, name)
    await says(cluster, "a", Ready="Unknown")
    await asyncio.sleep(1)
    assert "unreachable:NoExecute" in await taints(cluster, "a")
    await says(cluster, "b", Ready="Unknown")
    await asyncio.sleep(60)
    for name in ("a", "b"):
        assert await taints(cluster, name) == ["unreachable:NoSchedule"]
    await says(cluster, "a", Ready="True")
    await asyncio.sleep(60)
    assert await taints(cluster, "a") == []
    assert "unreachable:NoExecute" in await taints(cluster, "b")


@played(run, TaintEviction)
async def test_intolerant_pods_leave_at_once_and_others_after_as_long_as_they_tolerate(cluster: Cluster) -> None:
    tolerated = {"key": "bye", "operator": "Exists", "effect": "NoExecute"}
    await node(cluster, "n1")
    await pod(cluster, "intolerant", "n1")
    await pod(cluster, "patient", "n1", tolerated | {"tolerationSeconds": 100})
    await pod(cluster, "tolerant", "n1", tolerated)
    await cluster.patch(builtin.NODES, "n1", {"spec": {"taints": [{"key": "bye", "effect": "NoExecute"}]}})
    for wait, expected in ((1, [True, False, False]), (110, [True, True, False])):
        await asyncio.sleep(wait)
        assert [await is_going(cluster, name) for name in ("intolerant", "patient", "tolerant")] == expected
    found = await cluster.get(builtin.PODS, "intolerant")
    assert found is not None
    assert disrupted(found) == "Taint manager: deleting due to NoExecute taint"
    assert ("Normal", "TaintManagerEviction", "Marking for deletion Pod n/intolerant") in await cluster.events()


@played(run, TaintEviction)
async def test_a_taint_that_goes_in_time_spares_the_pod(cluster: Cluster) -> None:
    await node(cluster, "n1")
    await pod(cluster, "p", "n1", {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100})
    await cluster.patch(builtin.NODES, "n1", {"spec": {"taints": [{"key": "bye", "effect": "NoExecute"}]}})
    await asyncio.sleep(50)
    await cluster.patch(builtin.NODES, "n1", {"spec": {"taints": None}})
    await asyncio.sleep(200)
    assert not await is_going(cluster, "p")
    assert await cluster.events() == [("Normal", "TaintManagerEviction", "Cancelling deletion of Pod n/p")]


@played(run, TaintEviction)
async def test_a_deletion_that_waits_is_cancelled_when_it_comes_otherwise(cluster: Cluster) -> None:
    tolerated = {"key": "bye", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100}
    await node(cluster, "n1")
    await pod(cluster, "deleted", "n1", tolerated)
    await pod(cluster, "marked", "n1", tolerated)
    taints = [{"key": "bye", "effect": "NoExecute"}]
    await cluster.patch(builtin.NODES, "n1", {"spec": {"taints": taints}})
    await asyncio.sleep(10)
    await cluster.delete(builtin.PODS, "deleted", grace_period_seconds=0)
    await asyncio.sleep(1)
    cancelled, marked = "Cancelling deletion of Pod n/", "Marking for deletion Pod n/"
    assert await eviction_messages(cluster) == [f"{cancelled}deleted"]
    await cluster.patch(builtin.NODES, "n1", {"spec": {"taints": [*taints, {"key": "b", "effect": "NoExecute"}]}})
    await asyncio.sleep(1)
    assert await is_going(cluster, "marked")
    assert await eviction_messages(cluster) == [f"{cancelled}deleted", f"{cancelled}marked", f"{marked}marked"]


async def eviction_messages(cluster: Cluster) -> list[str]:
    """What was told of evictions, each of the pod by its name alone."""
    found = await cluster.all(builtin.EVENTS)
    for one in found:
        name = one["message"].rpartition("/")[2]
        assert one["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": name}
    return sorted(one["message"] for one in found)


@played(run, TaintEviction)
async def test_a_deletion_that_waits_keeps_its_time_when_another_tolerated_taint_comes(cluster: Cluster) -> None:
    tolerations = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key, seconds in (("slow", 100), ("quick", 5))
    ]
    await node(cluster, "n1")
    await pod(cluster, "p", "n1", *tolerations)
    taints = [{"key": "slow", "effect": "NoExecute"}]
    await cluster.patch(builtin.NODES, "n1", {"spec": {"taints": taints}})
    await asyncio.sleep(10)
    quick = {"key": "quick", "effect": "NoExecute"}
    await cluster.patch(builtin.NODES, "n1", {"spec": {"taints": [*taints, quick]}})
    await asyncio.sleep(80)
    assert not await is_going(cluster, "p")
    await asyncio.sleep(15)
    assert await is_going(cluster, "p")
    assert await eviction_messages(cluster) == ["Marking for deletion Pod n/p"]


@pytest.mark.parametrize(
    ("seconds", "expected"), [((), 0.0), ((None,), None), ((30,), 30.0), ((-5,), 0.0), ((None, 30), None)]
)
def test_the_first_matching_toleration_counts(seconds: tuple[int | None, ...], expected: float | None) -> None:
    tolerations = [TimedToleration(operator="Exists", toleration_seconds=one) for one in seconds]
    assert tolerated_seconds([Taint(key="a", effect="NoExecute")], tolerations) == expected


@played(run, PodGarbage)
async def test_pods_of_a_node_that_is_gone_are_removed_after_a_quarantine(cluster: Cluster) -> None:
    await node(cluster, "n1")
    await pod(cluster, "p", "n1", finalizers=["example.com/hold"])
    await cluster.delete(builtin.NODES, "n1")
    await asyncio.sleep(39)
    assert not await is_going(cluster, "p")
    await asyncio.sleep(2)
    found = await cluster.get(builtin.PODS, "p")
    assert found is not None
    assert found["metadata"]["deletionGracePeriodSeconds"] == 0
    assert found["status"]["phase"] == "Failed"
    assert disrupted(found) == "PodGC: node no longer exists"


@played(run, lambda: PodGarbage(most_finished=3))
async def test_what_finished_first_is_removed_when_there_is_too_much_of_it(cluster: Cluster) -> None:
    await node(cluster, "n1")
    for number in range(5):
        await pod(cluster, f"p{number}", "n1")
        await cluster.patch(builtin.PODS, f"p{number}", {"status": {"phase": "Succeeded"}}, "status")
        await asyncio.sleep(2)
    await asyncio.sleep(30)
    assert [one["metadata"]["name"] for one in await cluster.all(builtin.PODS)] == ["p2", "p3", "p4"]


@pytest.mark.parametrize("is_made_again", [False, True])
@played(run, lambda: PodGarbage(most_finished=3))
async def test_too_much_goes_also_if_what_finished_last_is_deleted_meanwhile(
    cluster: Cluster, is_made_again: bool
) -> None:
    await node(cluster, "n1")
    for number in range(6):  # the fourth makes it look at once, the fifth has it look again later
        await pod(cluster, f"p{number}", "n1")
        await cluster.patch(builtin.PODS, f"p{number}", {"status": {"phase": "Succeeded"}}, "status")
        await asyncio.sleep(1)
    await cluster.delete(builtin.PODS, "p4")
    if is_made_again:
        await pod(cluster, "p4", "n1")
    await asyncio.sleep(60)
    left = [one["metadata"]["name"] for one in await cluster.all(builtin.PODS)]
    assert left == ["p2", "p3", *["p4"] * is_made_again, "p5"]


class CountingPodGarbage(PodGarbage):
    """Counts its turns."""

    def __init__(self) -> None:
        super().__init__(most_finished=100)
        self.turns = 0

    def reconcile(self, obj: Pod, world: World) -> Actions:
        self.turns += 1
        return super().reconcile(obj, world)


def test_finished_pods_do_not_all_wait_for_the_next_look() -> None:
    """Each had a timer of its own, and at every look set it again: at the limit, a thousand turns for each pod."""
    garbage = CountingPodGarbage()

    async def act(cluster: Cluster) -> None:
        await node(cluster, "n1")
        for number in range(300):
            await pod(cluster, f"p{number:03}", "n1")
            await cluster.patch(builtin.PODS, f"p{number:03}", {"status": {"phase": "Succeeded"}}, "status")
            await asyncio.sleep(7)
        before = garbage.turns
        await asyncio.sleep(3600)
        assert len(await cluster.all(builtin.PODS)) == 100
        assert garbage.turns - before < 10

    run(act, lambda: garbage)
    assert garbage.turns < 3 * 300


@pytest.mark.parametrize("hours", [8, -8])
@played(run, NodeLifecycle)
async def test_silence_is_measured_in_time_that_passes_not_by_the_time_of_day(cluster: Cluster, hours: int) -> None:
    for name in ("silent", "good"):
        await node(cluster, name)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    await asyncio.sleep(20)
    loop.epoch += hours * 3600
    await asyncio.sleep(20)
    assert await taints(cluster, "silent") == []
    await says(cluster, "good", Ready="True")
    await asyncio.sleep(25)
    assert await taints(cluster, "silent") == ["unreachable:NoSchedule", "unreachable:NoExecute"]
    assert await taints(cluster, "good") == []
