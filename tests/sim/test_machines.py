"""What simulated machines do with what their pods use, over the real server in virtual time: scenarios D, E and H."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from fairlead.api.builtin import NODES, PODS, PRIORITY_CLASSES, REPLICATION_CONTROLLERS
from fairlead.api.metrics import POD_METRICS
from fairlead.api.quantity import units
from fairlead.runtime.clock import now
from fairlead.sim.usage.declared import declares_usage
from fairlead.sim.usage.objects import USAGE_PROFILES
from tests.sim.machine_world import USAGE, World, played

MI = 2**20


def test_a_container_that_leaks_dies_at_its_limit_again_and_again() -> None:
    """SC-17, S0-64, S0-75, S4-08; its neighbour in the pod is not touched."""

    async def check(world: World) -> None:
        leaking = {
            "metadata": {"name": "simmemleak-hra99"},
            "spec": {
                "containers": [
                    {
                        "name": "simmemleak",
                        "image": "saadali/simmemleak",
                        "resources": {"limits": {"cpu": "100m", "memory": "50Mi"}},
                    },
                    {"name": "beside", "image": "i"},
                ]
            },
        }
        await world.api.create(PODS, leaking, "default")
        await asyncio.sleep(400)
        status = await world.status("simmemleak-hra99")
        by_name = {container["name"]: container for container in status["containerStatuses"]}
        leak = by_name["simmemleak"]
        assert leak["restartCount"] >= 5
        ended = leak["state"].get("terminated") or leak["lastState"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
        assert ended["containerID"].startswith("containerd://")
        assert len(ended["containerID"]) == len("containerd://") + 64
        assert by_name["beside"]["restartCount"] == 0
        story = await world.story("simmemleak-hra99")
        assert story[0] == "default/simmemleak-hra99 lost containers to the kernel"
        assert story[2] == "it wanted more memory than its limit of 50Mi; a greater limit would have spared it"
        assert await world.events("BackOff")

    played(check)


def test_memory_pressure_evicts_the_pod_that_is_furthest_above_its_request() -> None:
    """SC-34: S0-113, S3-35 to S3-44, S3-60, S3-63."""

    async def check(world: World) -> None:
        await world.pod("hog", {"memory": "2Gi"}, requests={"memory": "1Gi"}, terminationGracePeriodSeconds=60)
        await world.pod("ok", {"memory": "900Mi"}, limits={"cpu": "1", "memory": "1Gi"})
        await asyncio.sleep(15)
        await world.system(memory=f"{10 * 1024 - 2048 - 900 - 90}Mi")
        await asyncio.sleep(15)
        assert await world.state("hog") == ("Failed", "Evicted")
        status = await world.status("hog")
        assert status["message"] == (
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. "
            "Container hog was using 2Gi, request is 1Gi, has larger consumption of memory. "
        )
        disruption = next(each for each in status["conditions"] if each["type"] == "DisruptionTarget")
        assert (disruption["status"], disruption["reason"]) == ("True", "TerminationByKubelet")
        assert await world.state("ok") == ("Running", "")
        pressure = await world.condition("MemoryPressure")
        assert (pressure["status"], pressure["reason"]) == ("True", "KubeletHasInsufficientMemory")
        assert (await world.events("EvictionThresholdMet"))[0]["message"] == "Attempting to reclaim memory"
        assert (await world.events("NodeHasInsufficientMemory"))[0]["message"] == (
            "Node node-1 status is now: NodeHasInsufficientMemory"
        )
        evicted = (await world.events("Evicted"))[0]
        assert evicted["type"] == "Warning"
        assert evicted["metadata"]["annotations"]["offending_containers"] == "hog"
        taints = [(taint["key"], taint["effect"]) for taint in (await world.node())["spec"].get("taints") or []]
        assert taints == [("node.kubernetes.io/memory-pressure", "NoSchedule")]
        assert (await world.story("hog"))[2:] == [
            "1. default/hog: priority 0, used 2Gi, requested 1Gi (1Gi above)",
            "2. default/ok: priority 0, used 900Mi, requested 1Gi (within it)",
            "would have spared it: a memory request of 2Gi and a priority of 1 together; "
            "default/ok would have gone first",
        ]
        await asyncio.sleep(320)  # the transition period, S3-64
        assert (await world.condition("MemoryPressure"))["status"] == "False"
        assert not (await world.node())["spec"].get("taints")

    played(check)


def test_pods_go_in_the_order_of_their_rank_one_in_a_pass() -> None:
    """SC-35: S3-71 to S3-75, S3-43."""

    async def check(world: World) -> None:
        await world.api.create(PRIORITY_CLASSES, {"metadata": {"name": "hi"}, "value": 1000})
        await world.api.create(PRIORITY_CLASSES, {"metadata": {"name": "neg"}, "value": -10})
        used: dict[str, tuple[str, dict[str, Any]]] = {
            "be-low": ("200Mi", {}),
            "over-lo": ("1229Mi", {"requests": {"memory": "1Gi"}}),
            "over-hi": ("2Gi", {"requests": {"memory": "1Gi"}, "priorityClassName": "hi"}),
            "be-hi": ("10Mi", {"priorityClassName": "hi"}),
            "under-lo": ("1Gi", {"requests": {"memory": "2Gi"}, "priorityClassName": "neg"}),
            "guar": ("922Mi", {"limits": {"memory": "1Gi", "cpu": "1"}}),
            "crit": ("1Gi", {"requests": {"memory": "100Mi"}, "priorityClassName": "system-node-critical"}),
        }
        for name, (memory, fields) in used.items():
            await world.pod(name, {"memory": memory}, **fields)
        await asyncio.sleep(15)
        gone: list[str] = []
        while len(gone) < 6:
            left = sum(units(used[name][0]) // MI for name in used if name not in gone)
            await world.system(memory=f"{16 * 1024 - left - 90}Mi")
            await asyncio.sleep(10)
            failed = [name for name in used if (await world.state(name))[0] == "Failed"]
            new = [name for name in failed if name not in gone]
            assert len(new) == 1, (gone, new)
            gone += new
        assert gone == ["over-lo", "be-low", "over-hi", "be-hi", "under-lo", "guar"]
        assert await world.state("crit") == ("Running", "")

    played(check, memory="16Gi")


def test_pressure_keeps_pods_without_requests_away() -> None:
    """SC-41: S3-44."""

    async def check(world: World) -> None:
        await world.pod(
            "steady", {"memory": "1Gi"}, limits={"cpu": "1", "memory": "2Gi"}, priorityClassName="system-node-critical"
        )
        await asyncio.sleep(15)
        await world.system(memory=f"{9 * 1024 - 90}Mi")
        await asyncio.sleep(15)
        await world.pod("be", {})
        await world.pod("burstable", {"memory": "1Mi"}, requests={"memory": "1Mi"})
        toleration = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}
        await world.pod("tolerant", {"memory": "1Mi"}, tolerations=[toleration])
        await asyncio.sleep(1)
        status = await world.status("be")
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        assert status["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
        assert await world.state("burstable") == ("Running", "")
        assert await world.state("tolerant") == ("Running", "")

    played(check)


def test_a_machine_without_memory_kills_by_score_and_not_by_rank() -> None:
    """SC-55: S3-84, S4-12, S4-20. A leak that is faster than the eviction loop."""

    async def check(world: World) -> None:
        await world.pod("c1", {"memory": "1536Mi"}, requests={"memory": "1Gi"})
        await world.pod("c2", {"memory": "3994Mi"}, requests={"memory": "4Gi"})
        await world.pod("guar", {"memory": "1Gi"}, limits={"cpu": "1", "memory": "1Gi"})
        await world.pod("idle", {"memory": "1Mi"})
        await asyncio.sleep(11)
        await world.system(memory="leak(1Gi/s)")
        await asyncio.sleep(4.5)
        ended = (await world.status("c1"))["containerStatuses"][0]
        assert ended["restartCount"] == 1
        assert ended["lastState"]["terminated"]["reason"] == "OOMKilled"
        assert (await world.events("SystemOOM"))[0]["message"].startswith(
            "System OOM encountered, victim process: c1, pid: "
        )
        story = await world.story("c1")
        assert (
            story[2] == "node-1: it had no memory left, and the kernel chose by score: usage beside the request counts"
        )
        assert [line.split(" with ")[0] for line in story[3:6]] == [
            "score 1366: default/c1/c1",
            "score 1333: default/idle/idle",
            "score 1326: default/c2/c2",
        ]
        for name in ("c2", "guar", "idle"):
            assert (await world.status(name))["containerStatuses"][0]["restartCount"] == 0

    played(check)


def test_the_disk_is_cleared_of_unused_images_before_a_pod_goes() -> None:
    """SC-38: S3-66 to S3-68, S3-77, S3-80."""

    async def check(world: World) -> None:
        await world.pod("writer", {"rootfs": "30Gi"})
        await world.system(nodefs="30Gi", unused_images="35Gi")
        await asyncio.sleep(25)
        assert await world.state("writer") == ("Running", "")
        assert (await world.condition("DiskPressure"))["status"] == "True"
        await world.use("writer", rootfs="62Gi")
        await asyncio.sleep(25)
        status = await world.status("writer")
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        assert status["message"].startswith("The node was low on resource: ephemeral-storage. ")

    played(check)


def test_a_pod_above_its_local_storage_limit_goes_without_any_pressure() -> None:
    """S3-80, S0-78."""

    async def check(world: World) -> None:
        await world.pod("logs", {"logs": "20Mi"}, limits={"ephemeral-storage": "10Mi"})
        volume = {"name": "scratch", "emptyDir": {"sizeLimit": "5Mi"}}
        await world.pod("scratch", {"volume.scratch": "6Mi"}, volumes=[volume])
        await asyncio.sleep(25)
        assert (await world.status("logs"))["message"] == (
            "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. "
        )
        assert (await world.status("scratch"))["message"] == (
            'Usage of EmptyDir volume "scratch" exceeds the limit "5Mi". '
        )

    played(check)


def test_a_node_whose_pods_stay_below_every_line_is_left_alone() -> None:
    async def check(world: World) -> None:
        await world.pod("wave", {"memory": "wave(low=1Gi, high=2Gi, period=24h)"}, requests={"memory": "1Gi"})
        await world.pod("noise", {"memory": "noise(mean=1Gi, spread=20%)"})
        await asyncio.sleep(7 * 86_400)
        assert await world.state("wave") == ("Running", "")
        assert await world.state("noise") == ("Running", "")
        assert (await world.condition("MemoryPressure"))["status"] == "False"

    played(check)


def test_a_kernel_with_cgroup_v1_tells_of_memory_at_once_if_it_is_asked_to() -> None:
    """S3-92. Version 2 cannot: there the next pass sees it."""

    async def check(world: World) -> None:
        config = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n"
        annotations = {"sim.fairlead.dev/kubelet-config": config + "kernelMemcgNotification: true"}
        for version in ("1", "2"):
            annotations["sim.fairlead.dev/cgroup-version"] = version
            await world.api.patch(NODES, "node-1", "", {"metadata": {"annotations": annotations}})
            await asyncio.sleep(11 - now() % 10)  # one second after a pass
            await world.system(memory="9Gi", active_file=f"ramp(from=0, to={1024 - 50}Mi, over=1s)")
            await asyncio.sleep(2)
            is_pressed_at_once = (await world.condition("MemoryPressure"))["status"] == "True"
            await asyncio.sleep(9)
            assert (await world.condition("MemoryPressure"))["status"] == "True"
            assert is_pressed_at_once is (version == "1")
            await world.system(memory="1Mi", active_file="0")
            await asyncio.sleep(400)

    played(check)


def test_a_pod_that_is_evicted_comes_back_to_the_same_node_and_is_evicted_again() -> None:
    """The loop that the documents warn of: S3-39, S3-71. One node, no request, more than there is."""

    async def check(world: World) -> None:
        template = {
            "metadata": {
                "labels": {"app": "hog"},
                "annotations": {USAGE + "memory": "ramp(from=0, to=10200Mi, over=60s)"},
            },
            "spec": {"containers": [{"name": "hog", "image": "i"}]},
        }
        spec = {"replicas": 1, "selector": {"app": "hog"}, "template": template}
        await world.api.create(REPLICATION_CONTROLLERS, {"metadata": {"name": "hog"}, "spec": spec}, "default")
        await asyncio.sleep(1000)
        pods = [item.obj() for item in (await world.api.list(PODS, "default")).items]
        evicted = [pod for pod in pods if pod["status"].get("reason") == "Evicted"]
        assert len(evicted) >= 2
        assert {pod["spec"]["nodeName"] for pod in evicted} == {"node-1"}
        story = await world.story(evicted[0]["metadata"]["name"])
        assert "more pod" in story[-1] and "request what it uses" in story[-1]

    played(check)


def test_a_profile_gives_usage_to_pods_that_run_already() -> None:
    async def check(world: World) -> None:
        spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"memory": "100Mi"}}}]}
        manifest = {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": spec | {"nodeName": "node-1"}}
        await world.api.create(PODS, manifest, "default")
        await asyncio.sleep(30)
        profile = {
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "usage": {"memory": "200Mi"}},
        }
        await world.api.create(USAGE_PROFILES, profile, "default")
        await asyncio.sleep(30)
        container = (await world.status("web"))["containerStatuses"][0]
        assert container["restartCount"] >= 1
        assert container["lastState"]["terminated"]["reason"] == "OOMKilled"

    played(check)


def test_a_reserved_class_stops_at_its_limit_and_a_lower_limit_kills_nobody() -> None:
    """S1-01, S1-09: half of what is guaranteed is kept from pods that requested nothing."""

    async def check(world: World) -> None:
        await world.kubelet(
            featureGates={"QOSReserved": True},
            qosReserved={"memory": "50%"},
        )
        await world.pod("db", {"memory": "1Gi"}, limits={"cpu": "1", "memory": "4Gi"})
        await world.pod("batch", {"memory": "7Gi"})
        await asyncio.sleep(2)
        await world.pod("second", {"memory": "1Gi"}, limits={"cpu": "1", "memory": "4Gi"})
        await asyncio.sleep(2)
        assert (await world.status("batch"))["containerStatuses"][0]["restartCount"] == 0
        await world.use("batch", memory="7300Mi")
        await asyncio.sleep(2)
        ended = (await world.status("batch"))["containerStatuses"][0]
        assert (ended.get("state", {}).get("terminated") or ended["lastState"]["terminated"])["reason"] == "OOMKilled"
        assert not await world.events("SystemOOM")

    played(check)


def test_short_of_processes_by_default_means_nothing() -> None:
    """SC-40: no threshold of process IDs by default."""

    async def check(world: World) -> None:
        await world.annotate(max_pid="1000")
        await world.pod("forks", {"pids": "990"})
        await asyncio.sleep(60)
        assert await world.state("forks") == ("Running", "")
        assert (await world.condition("PIDPressure"))["status"] == "False"

    played(check)


def test_a_node_that_comes_and_goes_below_its_line_shows_pressure_all_along() -> None:
    """SC-37: S3-55, S3-64, S3-65. Nothing is evicted, for a soft threshold's grace never passes."""

    async def check(world: World) -> None:
        await world.kubelet(
            evictionHard={"memory.available": "500Mi"},
            evictionSoft={"memory.available": "1.5Gi"},
            evictionSoftGracePeriod={"memory.available": "1m30s"},
        )
        await world.pod("steady", {"memory": "1Gi"}, requests={"memory": "1Gi"})
        await asyncio.sleep(5)
        low, high = (f"{10 * 1024 - 1024 - available}Mi" for available in (1434, 2048))
        for memory, seconds in ((low, 60), (high, 20), (low, 60), (high, 270)):
            await world.system(memory=memory)
            for _ in range(seconds // 10):
                await asyncio.sleep(10)
                assert (await world.condition("MemoryPressure"))["status"] == "True"
        await asyncio.sleep(60)
        assert (await world.condition("MemoryPressure"))["status"] == "False"
        assert await world.state("steady") == ("Running", "")
        assert len(await world.events("NodeHasSufficientMemory")) == 1

    played(check)


def test_a_machine_without_memory_can_be_exhausted_in_a_pod() -> None:
    """A limit of the pod as a whole; a pod on the other node shows that nodes still act."""

    async def check(world: World) -> None:
        nothing = {"cpu": "4", "memory": "0", "pods": "110"}
        status = {"capacity": nothing, "allocatable": nothing | {"memory": "1Gi"}}
        metadata = {"name": "empty", "annotations": {"kwok.x-k8s.io/node": "fake"}}
        await world.api.create(NODES, {"metadata": metadata, "status": status})
        await asyncio.sleep(5)
        resources = {"requests": {"memory": "1Mi"}, "limits": {"memory": "10Mi"}}
        containers = [{"name": name, "image": "i"} for name in ("a", "b")]
        spec = {"nodeName": "empty", "containers": containers, "resources": resources}
        annotations = {"sim.fairlead.dev/usage-memory": "7Mi"}
        await world.api.create(PODS, {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}, "default")
        await asyncio.sleep(10)
        reasons = [container["lastState"] for container in (await world.status("p"))["containerStatuses"]]
        assert any(state.get("terminated", {}).get("reason") == "OOMKilled" for state in reasons)
        await world.pod("next", {"memory": "1Mi"})
        await asyncio.sleep(10)
        assert await world.state("next") == ("Running", "")

    played(check)


def test_a_kubelet_whose_reserved_cpus_are_gone_runs_without_its_configuration() -> None:
    async def check(world: World) -> None:
        await world.pod("p", {"memory": "1Mi"})
        config = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nreservedSystemCPUs: 0-3\n"
        annotations = {"sim.fairlead.dev/kubelet-config": config}
        await world.api.patch(NODES, "node-1", "", {"metadata": {"annotations": annotations}})
        await asyncio.sleep(5)
        assert not await world.events("KubeletNotStarted")
        await world.api.patch(NODES, "node-1", "", {"status": {"capacity": {"cpu": "1"}}}, subresource="status")
        await asyncio.sleep(5)
        refused = [event["message"] for event in await world.events("KubeletNotStarted")]
        assert refused == ["reserved-cpus: 0-3 is not a subset of online-cpus: 0"]
        await world.use("p", memory="20Gi")
        await asyncio.sleep(15)
        killed = (await world.status("p"))["containerStatuses"][0]["lastState"]["terminated"]
        assert killed["reason"] == "OOMKilled"

    played(check)


def test_others_get_a_turn_while_many_pods_follow_a_profile() -> None:
    async def check(world: World) -> None:
        spec = {"selector": {}, "usage": {"memory": "1Mi"}}
        await world.api.create(USAGE_PROFILES, {"metadata": {"name": "p"}, "spec": spec}, "default")
        for number in range(100):
            await world.pod(f"p{number}", {})
        await asyncio.sleep(30)

        async def amounts() -> set[str]:
            metrics = [item.obj() for item in (await world.api.list(POD_METRICS, "default")).items]
            return {container["usage"]["memory"] for pod in metrics for container in pod["containers"]}

        assert await amounts() == {"1Mi"}
        await world.api.patch(USAGE_PROFILES, "p", "default", {"spec": {"usage": {"memory": "2Mi"}}})
        seen = []
        while (found := await amounts()) != {"2Mi"}:
            seen.append(found)
            await asyncio.sleep(0)
        assert {"1Mi", "2Mi"} in seen

    played(check)


def test_a_kill_in_the_cgroup_of_all_pods_is_told_with_the_scores() -> None:
    """Daemons use nothing: memory ends for all pods together, below the limit of each."""

    async def check(world: World) -> None:
        await world.pod("first", {"memory": "6000Mi"}, limits={"memory": "9Gi"}, requests={"memory": "1Gi"})
        await world.pod("second", {"memory": "5000Mi"}, limits={"memory": "9Gi"}, requests={"memory": "4Gi"})
        await asyncio.sleep(5)
        event = (await world.events("OOMKilling"))[0]
        assert event["message"] == "Memory cgroup of all pods is out of memory: killed container first"
        story = await world.story("first")
        assert story[2].startswith("node-1: all memory of all pods was used, and the kernel chose by score")
        assert await world.story("second") == []

    played(check)


def test_a_pod_has_no_more_processes_than_its_node_allows() -> None:
    """Without a limit the fork bomb takes all process IDs, and pods are evicted for it."""

    async def check(world: World) -> None:
        await world.annotate(max_pid="2000")
        await world.kubelet(evictionHard={"pid.available": "10%"})
        await world.pod("bomb", {"pids": "ramp(to=5k, over=1m)"})
        await asyncio.sleep(100)
        assert await world.state("bomb") == ("Failed", "Evicted")
        await world.kubelet(evictionHard={"pid.available": "10%"}, podPidsLimit=100)
        await asyncio.sleep(400)
        await world.pod("tamed", {"pids": "ramp(to=5k, over=1m)"})
        await asyncio.sleep(100)
        assert await world.state("tamed") == ("Running", "")
        pods = json.loads(await world.kubelet_says("stats/summary"))["pods"]
        assert [pod["process_stats"]["process_count"] for pod in pods] == [100]
        assert 'container_processes{container="tamed"' in (await world.kubelet_says("metrics/cadvisor")).decode()

    played(check)


def test_what_a_pod_of_many_containers_declares_is_looked_at_once_and_not_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look reads all of its containers: 3,000 held the server for 0.7 s."""
    looks = 0

    def counted(*args: Any) -> bool:
        nonlocal looks
        looks += 1
        return declares_usage(*args)

    async def check(world: World) -> None:
        containers = [{"name": f"c{number}", "image": "i"} for number in range(40)]
        await world.api.create(PODS, {"metadata": {"name": "many"}, "spec": {"containers": containers}}, "default")
        await asyncio.sleep(30)
        assert (await world.status("many"))["phase"] == "Running"

    monkeypatch.setattr("fairlead.sim.machine.machines.declares_usage", counted)
    played(check)
    assert looks < 40
