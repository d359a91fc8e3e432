"""The fleet as the agent of nodes that it did not make itself, over the real server in virtual time."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import pytest

from fairlead.api.builtin import CONFIG_MAPS, JOBS, LEASES, NAMESPACES, NODES, PODS, SECRETS
from fairlead.api.errors import ServiceUnavailable
from fairlead.api.nodes import LEASE_NAMESPACE
from fairlead.api.objects import Obj
from fairlead.api.verbs import EventType, PatchType, WatchQuery
from fairlead.cli.inputs import node_objects
from fairlead.client.informer import Informers
from fairlead.compose import Cluster, Settings, components, simulation
from fairlead.node.pod_lifecycle import PodRun
from fairlead.runtime import rng
from fairlead.runtime.clock import now, parse_timestamp
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.server.registry.registry import UserApi
from fairlead.sim.leases import RENEWING
from fairlead.sim.node_settings import KUBELET_CONFIG
from fairlead.sim.nodes import FAILED, GOES_DOWN, NodeShape, uniform
from fairlead.store.embedded import EmbeddedStore, PendingWrite
from fairlead.store.memory import MemoryStore
from tests.store.unreliable import UnreliableMemory, Weather

READY = {"type": "Ready", "status": "True"}
SHAPE = {"cpu": "2", "memory": "4Gi", "pods": "10"}


def simulated(nodes: int, check: Callable[[UserApi, Informers], Awaitable[None]], imported: Sequence[Obj] = ()) -> None:
    async def run() -> None:
        count = None if imported else nodes
        settings = Settings(nodes=tuple(node_objects(None, imported, count, NodeShape())), imported=tuple(imported))
        async with simulation(settings) as (api, informers):
            await check(api, informers)

    rng.seed(1)
    run_virtual(run())


def pod(name: str, **spec: object) -> Obj:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def phase(api: UserApi, name: str) -> tuple[str, str]:
    found = (await api.get(PODS, name, "default")).obj()
    return found["status"]["phase"], found["status"].get("reason", "")


def test_a_node_says_which_generation_of_a_pod_it_has_seen() -> None:
    async def check(api: UserApi, informers: Informers) -> None:
        async def seen() -> tuple[int, int, set[int]]:
            await asyncio.sleep(1)
            found = (await api.get(PODS, "a", "default")).obj()
            said = {condition["observedGeneration"] for condition in found["status"]["conditions"]}
            return found["metadata"]["generation"], found["status"]["observedGeneration"], said

        await api.create(PODS, pod("a", activeDeadlineSeconds=5000), "default")
        assert await seen() == (1, 1, {1})
        await api.patch(PODS, "a", "default", {"metadata": {"labels": {"k": "v"}}})
        assert await seen() == (1, 1, {1})
        for seconds in range(4999, 4000, -1):
            await api.patch(PODS, "a", "default", {"spec": {"activeDeadlineSeconds": seconds}})
        assert await seen() == (1000, 1000, {1000})
        await api.create(PODS, pod("refused", nodeName="node-1", os={"name": "windows"}), "default")
        await asyncio.sleep(1)
        refused = (await api.get(PODS, "refused", "default")).obj()["status"]
        assert (refused["reason"], refused["observedGeneration"]) == ("PodOSNotSupported", 1)

    simulated(1, check)


def test_a_node_that_somebody_made_ready_by_hand_runs_pods() -> None:
    """scenarios.md: `kubectl create` of a Node and a patch of its status give a Ready simulated node."""

    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(NODES, {"metadata": {"name": "mine"}})
        status = {"capacity": SHAPE, "allocatable": SHAPE, "conditions": [READY]}
        await api.patch(NODES, "mine", "", {"status": status}, subresource="status")
        await api.create(PODS, pod("p"), "default")
        await asyncio.sleep(30)
        assert await phase(api, "p") == ("Running", "")

    simulated(0, check)


def test_a_node_made_by_hand_is_taken_up_with_a_lease() -> None:
    """`kubectl create -f` of a Node that has a name and nothing else."""

    async def main() -> None:
        running = Cluster(server := Server(MemoryStore()))
        await server.open()
        async with components(running, Settings(nodes=()), heartbeats=True):
            api = server.api
            await api.create(NODES, {"metadata": {"name": "mine"}})
            await api.create(PODS, pod("p"), "default")
            await asyncio.sleep(120)
            node = (await api.get(NODES, "mine")).obj()
            assert {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}[
                "Ready"
            ] == "True"
            assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "mine"
            assert node["status"]["allocatable"]["cpu"] == "4"
            assert not node["spec"].get("taints")
            lease = (await api.get(LEASES, "mine", LEASE_NAMESPACE)).obj()
            assert parse_timestamp(lease["spec"]["renewTime"]) >= now() - 11
            assert await phase(api, "p") == ("Running", "")

    run_virtual(main())


def test_extended_resources_that_an_operator_adds_may_be_given_away() -> None:
    """ "Advertise Extended Resources for a Node" of Kubernetes' documents."""
    dongle, gpu = "example.com/dongle", "example.com/gpu"

    async def check(api: UserApi, informers: Informers) -> None:
        async def shown_with(capacity: dict[str, str | None]) -> dict[str, str]:
            await api.patch(NODES, "mine", "", {"status": {"capacity": capacity}}, subresource="status")
            await asyncio.sleep(1)
            allocatable = (await api.get(NODES, "mine")).obj()["status"]["allocatable"]
            return {name: amount for name, amount in allocatable.items() if name not in SHAPE}

        status = {"capacity": SHAPE | {gpu: "8"}, "allocatable": SHAPE | {gpu: "7"}, "conditions": [READY]}
        await api.create(NODES, {"metadata": {"name": "mine"}, "status": status})
        container = {"name": "c", "image": "i", "resources": {"limits": {dongle: "3"}}}
        await api.create(PODS, pod("p", containers=[container]), "default")
        assert await shown_with({dongle: "2"}) == {dongle: "2", gpu: "7"}
        assert await phase(api, "p") == ("Pending", "")
        assert await shown_with({dongle: "4"}) == {dongle: "4", gpu: "7"}
        assert await phase(api, "p") == ("Running", "")
        assert await shown_with({dongle: None}) == {gpu: "7"}
        assert await shown_with({gpu: "9"}) == {gpu: "9"}

    simulated(0, check)


class Disk(EmbeddedStore):
    """A store that can run out of space, and be slow."""

    is_full = False
    seconds = 0.0

    async def _persist(self, writes: list[PendingWrite]) -> None:
        await asyncio.sleep(self.seconds)
        if self.is_full:
            raise OSError("no space left on device")


def test_a_full_disk_at_the_start_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """By whoever starts the cluster, and not by the event loop as well, with a traceback."""

    async def main() -> None:
        running = Cluster(server := Server(store := Disk()))
        await server.open()
        store.is_full = True
        with pytest.raises(ExceptionGroup) as raised:
            async with components(running, Settings(nodes=tuple(uniform(2, NodeShape())))):
                pass
        assert raised.group_contains(ServiceUnavailable, match="the store cannot write")

    run_virtual(main())
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_what_was_written_for_kwok_works_as_it_is() -> None:
    """The node of its documentation, and a pod that completes after the delay that it declares."""
    taint = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
    metadata = {"name": "kwok-node-0", "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"type": "kwok"}}
    info = {"kubeletVersion": "fake", "kubeProxyVersion": "fake", "architecture": "amd64", "operatingSystem": "linux"}
    sizes = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    node = {
        "metadata": metadata,
        "spec": {"taints": [taint]},
        "status": {"allocatable": sizes, "capacity": sizes, "nodeInfo": info, "phase": "Running"},
    }
    toleration = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}
    task = pod("task", restartPolicy="Never", nodeSelector={"type": "kwok"}, tolerations=[toleration])
    task["metadata"]["annotations"] = {"pod-complete.stage.kwok.x-k8s.io/delay": "20s"}

    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(NODES, node)
        await api.create(PODS, task, "default")
        await asyncio.sleep(15)
        assert await phase(api, "task") == ("Running", "")
        await asyncio.sleep(15)
        assert await phase(api, "task") == ("Succeeded", "")
        status = (await api.get(NODES, "kwok-node-0")).obj()["status"]
        assert (status["nodeInfo"]["kubeletVersion"], status["allocatable"]["cpu"]) == ("fake", "32")

    simulated(0, check)


def test_a_node_that_has_an_agent_of_its_own_is_left_alone() -> None:
    async def check(api: UserApi, informers: Informers) -> None:
        info = {"kubeletVersion": "v1.36.0", "containerRuntimeVersion": "containerd://2.1"}
        status = {"capacity": SHAPE, "allocatable": SHAPE, "conditions": [READY], "nodeInfo": info}
        await api.create(NODES, {"metadata": {"name": "real"}, "status": status})
        await api.create(PODS, pod("p", nodeName="real"), "default")
        await asyncio.sleep(30)
        assert await phase(api, "p") == ("Pending", "")

    simulated(0, check)


def test_a_pod_bound_past_the_scheduler_is_refused_if_it_does_not_fit() -> None:
    """S0-54: `spec.nodeName` set by hand."""

    async def check(api: UserApi, informers: Informers) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}
        await api.create(PODS, pod("big", nodeName="node-1", containers=[container]), "default")
        await asyncio.sleep(1)
        assert await phase(api, "big") == ("Failed", "OutOfcpu")
        refused = (await api.get(PODS, "big", "default")).obj()
        assert refused["status"]["observedGeneration"] == 1

    simulated(1, check)


def test_what_a_finished_pod_had_is_free_for_the_next_on_its_node() -> None:
    async def check(api: UserApi, informers: Informers) -> None:
        for name in ("first", "second"):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
            task = pod(name, nodeName="node-1", restartPolicy="Never", containers=[container])
            task["metadata"]["annotations"] = {"sim.fairlead.dev/lifetime-seconds": "10"}
            await api.create(PODS, task, "default")
            await asyncio.sleep(10.5)
            assert await phase(api, name) == ("Succeeded", "")

    simulated(1, check)


def test_what_a_stopped_pod_had_is_free_as_soon_as_its_end_is_told() -> None:
    """A scheduler gives its room away at once, and the pod is not deleted yet."""

    def big(name: str, **spec: object) -> Obj:
        return pod(name, containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}], **spec)

    async def main() -> None:
        running = Cluster(server := Server(UnreliableMemory(Weather(1, calm=True))))
        await server.open()
        async with components(running, Settings(nodes=tuple(uniform(1, NodeShape())))):
            api = server.api
            await api.create(PODS, big("first", nodeName="node-1"), "default")
            await asyncio.sleep(5)
            deleting = asyncio.create_task(api.delete(PODS, "first", "default"))
            async for event in api.watch(PODS, "default", WatchQuery()):
                if event.object.obj()["status"]["phase"] == "Failed":
                    break
            await api.create(PODS, big("second", nodeName="node-1"), "default")
            await deleting
            await asyncio.sleep(5)
            assert await phase(api, "second") == ("Running", "")

    run_virtual(main())


def test_a_deleted_pod_is_gone_when_its_node_has_stopped_it() -> None:
    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(PODS, pod("p"), "default")
        await asyncio.sleep(5)
        await api.delete(PODS, "p", "default")
        await asyncio.sleep(1)
        assert api.registry.find("pods", "p", "default") is None

    simulated(1, check)


def test_nothing_is_left_of_a_pod_whose_node_went_first() -> None:
    """An autoscaler takes nodes away, and the collector their pods a while later."""

    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(PODS, pod("p"), "default")
        await asyncio.sleep(5)
        assert await phase(api, "p") == ("Running", "")
        await api.delete(NODES, "node-1")
        await asyncio.sleep(120)
        assert api.registry.find("pods", "p", "default") is None
        gc.collect()
        assert not [run for run in gc.get_objects() if isinstance(run, PodRun) and run.key == "default/p"]

    simulated(1, check)


def test_watchers_see_how_a_deleted_pod_ended() -> None:
    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(PODS, pod("p"), "default")
        await asyncio.sleep(5)
        seen = []
        async with asyncio.TaskGroup() as group:

            async def watch() -> None:
                async for event in api.watch(PODS, "default", WatchQuery()):
                    status = event.object.obj()["status"]
                    seen.append(
                        (str(event.type), status["phase"], "terminated" in status["containerStatuses"][0]["state"])
                    )
                    if event.type is EventType.DELETED:
                        return

            group.create_task(watch())
            await asyncio.sleep(1)
            await api.delete(PODS, "p", "default")
        assert seen[-2:] == [("MODIFIED", "Failed", True), ("DELETED", "Failed", True)]
        await asyncio.sleep(1)
        events = [entry.obj() for entry in api.registry.each("events", "default")]
        killing = [event for event in events if event["reason"] == "Killing"]
        assert [event["message"] for event in killing] == ["Stopping container c"]
        assert killing[0]["involvedObject"]["fieldPath"] == "spec.containers{c}"

    simulated(1, check)


@pytest.mark.parametrize("delete_first", [True, False])
def test_a_job_goes_on_after_its_pod_was_deleted(delete_first: bool) -> None:
    """With `podReplacementPolicy: Failed` and a policy for failures it waits until the pod shows how it ended."""
    template = pod("x", restartPolicy="Never")
    template["metadata"] = {"annotations": {"sim.fairlead.dev/lifetime-seconds": "60"}}
    disruption = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    spec = {
        "template": template,
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [disruption]},
    }

    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(JOBS, {"metadata": {"name": "j"}, "spec": spec}, "default")
        await asyncio.sleep(10)
        (first,) = [entry.obj()["metadata"]["name"] for entry in api.registry.each("pods", "default")]
        if delete_first:
            eviction = {"metadata": {"name": first}}
            await api.create(PODS, eviction, "default", subresource="eviction", name=first)
            await asyncio.sleep(30)
            (second,) = [entry.obj()["metadata"]["name"] for entry in api.registry.each("pods", "default")]
            assert second != first
        await asyncio.sleep(120)
        job = (await api.get(JOBS, "j", "default")).obj()
        assert job["status"]["succeeded"] == 1

    simulated(1, check)


def test_a_pod_of_a_job_completes_by_itself_and_others_do_not() -> None:
    spec = {"template": pod("x", restartPolicy="Never")}
    del spec["template"]["metadata"]

    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(JOBS, {"metadata": {"name": "j"}, "spec": spec}, "default")
        await api.create(PODS, pod("p", restartPolicy="Never"), "default")
        await asyncio.sleep(60)
        assert (await api.get(JOBS, "j", "default")).obj()["status"]["succeeded"] == 1
        assert await phase(api, "p") == ("Running", "")

    simulated(1, check)


def test_a_pod_runs_as_soon_as_what_it_waits_for_is_there() -> None:
    origin = {"name": "V", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}
    mounted = pod("mounted", volumes=[{"name": "v", "secret": {"secretName": "x"}}])
    set_up = pod("set-up", containers=[{"name": "c", "image": "i", "env": [origin]}])

    async def check(api: UserApi, informers: Informers) -> None:
        for manifest in (mounted, set_up):
            await api.create(PODS, manifest, "default")
        await asyncio.sleep(5)
        assert {await phase(api, name) for name in ("mounted", "set-up")} == {("Pending", "")}
        await api.create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default")
        await asyncio.sleep(1)
        waiting = (await api.get(PODS, "set-up", "default")).obj()["status"]["containerStatuses"][0]["state"]
        assert waiting["waiting"]["message"] == "couldn't find key k in ConfigMap default/x"
        await api.patch(CONFIG_MAPS, "x", "default", {"data": {"k": "v"}})
        await api.create(SECRETS, {"metadata": {"name": "x"}}, "default")
        await asyncio.sleep(1)
        assert {await phase(api, name) for name in ("mounted", "set-up")} == {("Running", "")}
        shown = {(entry.obj()["reason"], entry.obj()["message"]) for entry in api.registry.each("events", "default")}
        assert ("FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "x" not found') in shown
        assert ("Failed", 'Error: configmap "x" not found') in shown

    simulated(1, check)


def test_what_a_dump_shows_goes_on_where_it_was() -> None:
    """Nodes and pods of a real cluster; the ReplicaSet that owns the pod is not in the dump."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-1", "controller": True}
    node: Obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}}
    node["status"] = {
        "capacity": SHAPE,
        "allocatable": SHAPE,
        "conditions": [READY],
        "nodeInfo": {"kubeletVersion": "v1.33.1", "containerRuntimeVersion": "containerd://2.0"},
    }
    running = pod("web-1", nodeName="n") | {"apiVersion": "v1", "kind": "Pod"}
    running["metadata"] |= {"namespace": "default", "uid": "p-1", "ownerReferences": [owner]}
    running["status"] = {"phase": "Running", "startTime": "2025-12-31T00:00:00Z"}

    async def check(api: UserApi, informers: Informers) -> None:
        await asyncio.sleep(120)
        assert await phase(api, "web-1") == ("Running", "")
        await api.delete(PODS, "web-1", "default")
        await asyncio.sleep(1)
        assert api.registry.find("pods", "web-1", "default") is None, "its node is simulated now, and lets it go"

    simulated(0, check, [node, running])


def test_a_pod_that_declares_nonsense_runs_like_any_other() -> None:
    """An annotation is the user's text: whatever it says, the other pods go on."""

    async def check(api: UserApi, informers: Informers) -> None:
        for number, text in enumerate(["nan", "inf", "-inf", "-5", "1e300", "9" * 400, "x"]):
            silly = pod(f"p-{number}")
            keys = ("start-seconds", "lifetime-seconds", "exit-code", "stop-seconds")
            silly["metadata"]["annotations"] = {f"sim.fairlead.dev/{key}": text for key in keys}
            await api.create(PODS, silly, "default")
        await asyncio.sleep(10)
        assert {await phase(api, f"p-{number}") for number in range(7)} == {("Running", "")}

    simulated(1, check)


def test_the_namespace_of_the_leases_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    """`kubectl delete namespace kube-node-lease` is a strange idea, but no reason to end."""

    async def main() -> None:
        running = Cluster(server := Server(MemoryStore()))
        await server.open()
        settings = Settings(nodes=tuple(uniform(2, NodeShape())))
        async with components(running, settings, heartbeats=True):
            await asyncio.sleep(60)
            await server.api.delete(NAMESPACES, LEASE_NAMESPACE)
            await asyncio.sleep(60)
            assert server.registry.find("leases.coordination.k8s.io", "node-2", LEASE_NAMESPACE) is not None
            assert not running.failure.done()

    run_virtual(main())
    assert sum("leases of nodes cannot be renewed" in message for message in caplog.messages) <= 1


def test_leases_are_renewed_some_at_a_time_and_each_in_time() -> None:
    """All at once would hold up everybody else, one after the other would wait for the disk at each."""

    async def main() -> None:
        running = Cluster(server := Server(MemoryStore()))
        await server.open()
        settings = Settings(nodes=tuple(uniform(100, NodeShape())))
        async with components(running, settings, heartbeats=True):
            for _ in range(4):
                await asyncio.sleep(20)
                leases = server.registry.each("leases.coordination.k8s.io", LEASE_NAMESPACE)
                renewed = [parse_timestamp(lease.obj()["spec"]["renewTime"]) for lease in leases]
                assert len(renewed) == 100
                assert min(renewed) >= now() - 10.1
                assert max(Counter(renewed).values()) < 2 * RENEWING

    run_virtual(main())


def test_a_node_that_was_taken_for_lost_says_that_it_is_there_and_its_pods_are_ready_again() -> None:
    """A process that was stopped, or had too much to do: its node's leases came too late, and the node controller
    spoke for the node.
    """

    async def main() -> None:
        running = Cluster(server := Server(MemoryStore()))
        await server.open()
        async with components(running, Settings(nodes=tuple(uniform(1, NodeShape()))), heartbeats=True):
            api = server.api
            await api.create(PODS, pod("p"), "default")
            await asyncio.sleep(10)

            async def shown() -> tuple[str, str]:
                node, found = await api.get(NODES, "node-1"), await api.get(PODS, "p", "default")
                ready = [
                    each["status"]
                    for it in (node, found)
                    for each in it.obj()["status"]["conditions"]
                    if each["type"] == "Ready"
                ]
                return ready[0], ready[1]

            assert await shown() == ("True", "True")
            lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
            await api.patch(
                NODES, "node-1", "", {"status": {"conditions": [lost]}}, PatchType.STRATEGIC, subresource="status"
            )
            unready = {"type": "Ready", "status": "False"}
            await api.patch(
                PODS, "p", "default", {"status": {"conditions": [unready]}}, PatchType.STRATEGIC, subresource="status"
            )
            assert await shown() == ("Unknown", "False")
            await asyncio.sleep(10)
            assert await shown() == ("True", "True")
            assert not (await api.get(NODES, "node-1")).obj()["spec"].get("taints")

    run_virtual(main())


def test_somebody_may_say_that_a_simulated_pod_is_unready() -> None:
    """S3-100, S3-104: until then it is ready."""

    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(PODS, pod("p"), "default")
        await asyncio.sleep(10)
        said = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await api.patch(PODS, "p", "default", said, PatchType.STRATEGIC, subresource="status")
        await asyncio.sleep(60)
        conditions = (await api.get(PODS, "p", "default")).obj()["status"]["conditions"]
        assert [each["status"] for each in conditions if each["type"] == "Ready"] == ["False"]

    simulated(1, check)


def test_pods_are_ready_again_when_their_node_is_back_in_time() -> None:
    """As a what-if's `recoverNode`: 50 s of silence made them unready, and nobody has driven them away yet."""

    async def check(api: UserApi, informers: Informers) -> None:
        async def ready() -> str:
            conditions = (await api.get(PODS, "p", "default")).obj()["status"]["conditions"]
            return str(next(each["status"] for each in conditions if each["type"] == "Ready"))

        await api.create(PODS, pod("p"), "default")
        await asyncio.sleep(10)
        for failed, then in (("true", "False"), (None, "True")):
            await api.patch(NODES, "node-1", "", {"metadata": {"annotations": {FAILED: failed}}})
            await asyncio.sleep(120)
            assert await ready() == then

    simulated(1, check)


def test_leases_are_renewed_in_time_where_each_write_takes_long() -> None:
    """5,000 nodes on a machine with much to do: 312 writes one after the other had taken longer than a lease lasts."""

    async def main() -> None:
        running = Cluster(server := Server(store := Disk()))
        await server.open()
        settings = Settings(nodes=tuple(uniform(400, NodeShape())))
        async with components(running, settings, heartbeats=True):
            store.seconds = 1.5
            await asyncio.sleep(120)
            leases = server.registry.each("leases.coordination.k8s.io", LEASE_NAMESPACE)
            assert min(parse_timestamp(lease.obj()["spec"]["renewTime"]) for lease in leases) >= now() - 20

    run_virtual(main())


def test_a_pod_with_readiness_gates_is_ready_once_their_conditions_are_true() -> None:
    gates = ["example.com/lb", "example.com/dns"]

    async def run() -> None:
        async with simulation(Settings(nodes=tuple(uniform(1, NodeShape())))) as (api, _):
            spec = {
                "nodeName": "node-1",
                "containers": [{"name": "c", "image": "i"}],
                "readinessGates": [{"conditionType": gate} for gate in gates],
            }
            await api.create(PODS, {"metadata": {"name": "gated"}, "spec": spec}, "default")

            async def conditions() -> dict[str, dict[str, str]]:
                status = (await api.get(PODS, "gated", "default")).obj()["status"]
                return {condition["type"]: condition for condition in status["conditions"]}

            async def set_gate(gate: str, status: str) -> None:
                known = [it for it in (await conditions()).values() if it["type"] != gate]
                changed = {"status": {"conditions": [*known, {"type": gate, "status": status}]}}
                await api.patch(PODS, "gated", "default", changed, subresource="status")
                await asyncio.sleep(5)

            await asyncio.sleep(5)
            found = await conditions()
            assert found["ContainersReady"]["status"] == "True"
            assert (found["Ready"]["status"], found["Ready"]["reason"]) == ("False", "ReadinessGatesNotReady")
            assert found["Ready"]["message"] == (
                'corresponding condition of pod readiness gate "example.com/lb" does not exist., '
                'corresponding condition of pod readiness gate "example.com/dns" does not exist.'
            )
            await set_gate("example.com/lb", "True")
            await set_gate("example.com/dns", "Unknown")
            message = 'the status of pod readiness gate "example.com/dns" is not "True", but Unknown'
            assert (await conditions())["Ready"]["message"] == message
            await set_gate("example.com/dns", "True")
            found = await conditions()
            assert found["Ready"]["status"] == "True"
            assert "reason" not in found["Ready"]
            await set_gate("example.com/lb", "False")
            assert (await conditions())["Ready"]["status"] == "False"

    run_virtual(run())


def test_a_machine_that_goes_down_ends_its_pods_in_order_and_is_off_then() -> None:
    """As far as its kubelet is told to; without that it is off at once, and its pods look as if they ran."""

    async def check(api: UserApi, informers: Informers) -> None:
        configuration = "{shutdownGracePeriod: 30s, shutdownGracePeriodCriticalPods: 10s}"
        told = {KUBELET_CONFIG: configuration}
        await api.patch(NODES, "node-1", "", {"metadata": {"annotations": told}})
        await api.create(PODS, pod("usual", nodeName="node-1", terminationGracePeriodSeconds=60), "default")
        critical = {"nodeName": "node-1", "priorityClassName": "system-node-critical"}
        await api.create(PODS, pod("critical", **critical), "default")
        await api.create(PODS, pod("elsewhere", nodeName="node-2"), "default")
        await asyncio.sleep(10)
        for name in ("node-1", "node-2"):
            await api.patch(NODES, name, "", {"metadata": {"annotations": {GOES_DOWN: "true"}}})
        await asyncio.sleep(1)
        node = (await api.get(NODES, "node-1")).obj()
        (ready,) = (each for each in node["status"]["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["message"]) == ("False", "node is shutting down")
        await api.create(PODS, pod("late", nodeName="node-1"), "default")
        await asyncio.sleep(1)
        assert await phase(api, "late") == ("Failed", "NodeShutdown")
        await asyncio.sleep(60)
        assert await phase(api, "usual") == ("Failed", "Terminated")
        assert await phase(api, "critical") == ("Failed", "Terminated")
        usual, important = [(await api.get(PODS, name, "default")).obj() for name in ("usual", "critical")]
        assert _ended(usual) < _ended(important)
        assert (await phase(api, "elsewhere"))[0] == "Running"
        for name in ("node-1", "node-2"):
            assert (await api.get(NODES, name)).obj()["metadata"]["annotations"][FAILED] == "true"
            back = {FAILED: None, GOES_DOWN: None}
            await api.patch(NODES, name, "", {"metadata": {"annotations": back}})
        await asyncio.sleep(5)
        await api.create(PODS, pod("again", nodeName="node-1"), "default")
        await asyncio.sleep(5)
        assert (await phase(api, "again"))[0] == "Running"
        node = (await api.get(NODES, "node-1")).obj()
        (ready,) = (each for each in node["status"]["conditions"] if each["type"] == "Ready")
        assert ready["status"] == "True"

    simulated(2, check)


def _ended(pod: Obj) -> float:
    return parse_timestamp(pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"])
