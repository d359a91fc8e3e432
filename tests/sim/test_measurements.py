"""What simulated kubelets measure, over the real server in virtual time (S0-66, S0-81, S1-27, SC-31)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from fairlead.api.builtin import NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from fairlead.api.errors import NotFound
from fairlead.api.metrics import NODE_METRICS, POD_METRICS, NodeMetrics, PodMetrics
from fairlead.api.objects import Obj
from fairlead.api.quantity import milli, units
from fairlead.compose import Settings, simulation
from fairlead.golang.json import parse
from fairlead.runtime.loops import run_virtual
from fairlead.server.registry.registry import UserApi
from fairlead.sim.nodes import NodeShape, uniform
from tests.work import calls

_USAGE = "sim.fairlead.dev/usage-"


async def _pod(api: UserApi, name: str, usage: Mapping[str, str], resources: Obj | None = None) -> None:
    container = {"name": "web", "image": "web:1", "resources": resources or {}}
    annotations = {_USAGE + measure: text for measure, text in usage.items()}
    spec = {"nodeName": "node-1", "containers": [container]}
    await api.create(PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}, "default")


async def _usage(api: UserApi, name: str) -> dict[str, str]:
    return (await api.get(POD_METRICS, name, "default")).view(PodMetrics).containers[0].usage


async def _kubelet(api: UserApi, path: str) -> Any:
    agents = api.registry.agents
    assert agents is not None
    found = await agents.get("node-1", path, {})
    assert found is not None and found.code == 200
    return found.body.decode() if path.startswith("metrics") else parse(found.body)


async def _measured(api: UserApi, name: str) -> Obj:
    pods = (await _kubelet(api, "stats/summary"))["pods"]
    found: Obj = next(pod for pod in pods if pod["podRef"]["name"] == name)
    return found


def played(check: Callable[[UserApi], Awaitable[None]]) -> None:
    async def run() -> None:
        async with simulation(Settings(nodes=tuple(uniform(1, NodeShape(cpu="2", memory="8Gi"))))) as (api, _):
            await check(api)

    run_virtual(run())


def test_a_pod_shows_what_it_uses_once_it_has_run_for_a_while() -> None:
    async def check(api: UserApi) -> None:
        await _pod(api, "web", {"cpu": "250m", "memory": "300Mi"})
        await asyncio.sleep(5)
        with pytest.raises(NotFound, match=r'podmetrics\.metrics\.k8s\.io "default/web" not found'):
            await api.get(POD_METRICS, "web", "default")
        await asyncio.sleep(60)
        assert await _usage(api, "web") == {"cpu": "250m", "memory": "300Mi"}
        listed = await api.list(POD_METRICS, "default")
        assert [item.view(PodMetrics).metadata.name for item in listed.items] == ["web"]
        node = (await api.list(NODE_METRICS)).items[0].view(NodeMetrics)
        assert (node.metadata.name, node.usage) == ("node-1", {"cpu": "250m", "memory": "300Mi"})

    played(check)


def test_counters_grow_by_what_was_used_however_often_somebody_looks() -> None:
    async def check(api: UserApi) -> None:
        await _pod(api, "web", {"cpu": "burst(base=100m, peak=1, every=10m, lasts=1m)", "memory": "1Mi"})
        await asyncio.sleep(5)
        before = (await _measured(api, "web"))["cpu"]["usageCoreNanoSeconds"]
        await asyncio.sleep(600)
        once = (await _measured(api, "web"))["cpu"]["usageCoreNanoSeconds"]
        for _ in range(60):
            await asyncio.sleep(10)
            await _measured(api, "web")
        often = (await _measured(api, "web"))["cpu"]["usageCoreNanoSeconds"]
        expected = 540 * 0.1 + 60 * 1.0  # of ten minutes, one is a burst
        assert (often - once) / 1e9 == pytest.approx(expected, rel=0.02)
        assert 0 < once - before < 1.1 * expected * 1e9

    played(check)


def test_a_quota_caps_and_throttles() -> None:
    """SC-16: what is wanted beyond the limit is counted as throttled."""

    async def check(api: UserApi) -> None:
        await _pod(api, "greedy", {"cpu": "1", "memory": "1Mi"}, {"limits": {"cpu": "250m"}})
        await _pod(api, "modest", {"cpu": "100m", "memory": "1Mi"}, {"limits": {"cpu": "250m"}})
        await asyncio.sleep(100)
        assert (await _usage(api, "greedy"))["cpu"] == "250m"
        lines = (await _kubelet(api, "metrics/cadvisor")).splitlines()
        throttled = {
            pod: next(
                float(line.split()[1])
                for line in lines
                if line.startswith("container_cpu_cfs_throttled_periods_total{") and f'pod="{pod}"' in line
            )
            for pod in ("greedy", "modest")
        }
        assert throttled["greedy"] > 900
        assert throttled["modest"] == 0

    played(check)


def test_a_quota_that_others_leave_nobody_to_use_up_throttles_nobody() -> None:
    async def check(api: UserApi) -> None:
        await _pod(api, "limited", {"cpu": "1"}, {"requests": {"cpu": "100m"}, "limits": {"cpu": "800m"}})
        await _pod(api, "hungry", {"cpu": "4"}, {"requests": {"cpu": "900m"}})
        await asyncio.sleep(100)
        assert (await _usage(api, "limited"))["cpu"] == "200m"
        lines = (await _kubelet(api, "metrics/cadvisor")).splitlines()
        found = [line.split()[1] for line in lines if line.startswith("container_cpu_cfs_throttled_periods_total{")]
        assert found == ["0"]

    played(check)


def test_cache_is_no_more_than_a_containers_limit_leaves_room_for() -> None:
    """Cache in use beyond that is gone before it is used again, as measured in cgroups of version 1."""
    mi, limits = 1 << 20, {"limits": {"memory": "120Mi"}}

    async def check(api: UserApi) -> None:
        cached = {"memory": "8Mi", "inactive-file": "50Mi"}
        await _pod(api, "fits", cached | {"active-file": "90Mi"}, limits)
        await _pod(api, "thrashes", cached | {"active-file": "ramp(to=150Mi, over=10s)"}, limits)
        await asyncio.sleep(60)
        found = {}
        for name in ("fits", "thrashes"):
            memory = (await _measured(api, name))["containers"][0]["memory"]
            found[name] = memory["usageBytes"] // mi, memory["workingSetBytes"] // mi
        assert found == {"fits": (120, 98), "thrashes": (120, 8)}

    played(check)


def test_pods_that_want_more_than_there_is_share_by_their_requests() -> None:
    async def check(api: UserApi) -> None:
        for name, request in (("large", "1200m"), ("small", "400m")):
            await _pod(api, name, {"cpu": "4", "memory": "1Mi"}, {"requests": {"cpu": request}})
        await asyncio.sleep(60)
        large, small = [(await _measured(api, name))["cpu"]["usageNanoCores"] for name in ("large", "small")]
        assert large + small == pytest.approx(2e9)
        assert large / small == pytest.approx(3, rel=0.05)

    played(check)


def test_the_summary_adds_up_and_lists_the_cgroups_of_the_system() -> None:
    async def check(api: UserApi) -> None:
        await _pod(api, "web", {"cpu": "500m", "memory": "1Gi", "active-file": "100Mi", "inactive-file": "50Mi"})
        await asyncio.sleep(60)
        node = (await _kubelet(api, "stats/summary"))["node"]
        system = {entry["name"]: entry for entry in node["systemContainers"]}
        assert list(system)[:3] == ["kubelet", "runtime", "pods"]
        assert sum(entry["memory"]["workingSetBytes"] for entry in system.values()) == node["memory"]["workingSetBytes"]
        web = (await _measured(api, "web"))["containers"][0]["memory"]
        mi = 1 << 20
        assert (web["usageBytes"], web["workingSetBytes"], web["rssBytes"]) == (1174 * mi, 1124 * mi, 1024 * mi)
        assert node["memory"]["availableBytes"] == 8192 * mi - 1124 * mi

    played(check)


def test_configz_shows_what_the_kubelet_runs_with() -> None:
    async def check(api: UserApi) -> None:
        config = (await _kubelet(api, "configz"))["kubeletconfig"]
        assert config["maxPods"] == 110
        assert config["evictionHard"]["memory.available"] == "100Mi"
        assert config["evictionPressureTransitionPeriod"] == "5m0s"

    played(check)


def test_a_node_on_which_nobody_declares_usage_shows_who_runs_there_now() -> None:
    """What is shown without a declaration is a share of the request."""

    async def check(api: UserApi) -> None:
        for name in ("stays", "goes"):
            await _pod(api, name, {}, {"requests": {"cpu": "1", "memory": "1Gi"}})
        await asyncio.sleep(60)
        shown = [item.view(PodMetrics).metadata.name for item in (await api.list(POD_METRICS)).items]
        assert shown == ["goes", "stays"]
        used = (await api.get(NODE_METRICS, "node-1")).view(NodeMetrics).usage
        await api.delete(PODS, "goes", "default")
        await asyncio.sleep(60)
        assert [item.view(PodMetrics).metadata.name for item in (await api.list(POD_METRICS)).items] == ["stays"]
        left = (await api.get(NODE_METRICS, "node-1")).view(NodeMetrics).usage
        assert milli(left["cpu"]) * 2 == milli(used["cpu"]) > 0

    played(check)


def test_noise_of_a_node_ends_at_what_it_has() -> None:
    async def check(api: UserApi) -> None:
        noise = {f"{_USAGE}cpu": "noise(mean=1900m, spread=100%)"}
        await api.patch(NODES, "node-1", "", {"metadata": {"annotations": noise}})
        for _ in range(30):
            await asyncio.sleep(10)
            assert (await _kubelet(api, "stats/summary"))["node"]["cpu"]["usageNanoCores"] <= 2e9

    played(check)


def test_a_kubelet_lists_its_pods_and_what_runs_of_them() -> None:
    async def check(api: UserApi) -> None:
        await _pod(api, "web", {"cpu": "250m"})
        await api.create(PODS, {"metadata": {"name": "waits"}, "spec": _BROKEN}, "default")
        await asyncio.sleep(30)
        pods = await _kubelet(api, "pods")
        assert (pods["kind"], pods["apiVersion"]) == ("PodList", "v1")
        assert sorted(pod["metadata"]["name"] for pod in pods["items"]) == ["waits", "web"]
        assert all("kind" not in pod and pod["spec"]["nodeName"] == "node-1" for pod in pods["items"])
        assert pods == await _kubelet(api, "pods/")
        (running,) = (await _kubelet(api, "runningpods/"))["items"]
        assert running["metadata"]["name"] == "web"
        assert running["spec"]["containers"] == [{"name": "web", "image": "web:1", "resources": {}}]

    played(check)


_BROKEN = {"nodeName": "node-1", "containers": [{"name": "c", "image": "registry.invalid/none"}]}


def test_a_kubelet_counts_what_runs_what_was_evicted_and_what_claims_hold() -> None:
    async def check(api: UserApi) -> None:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
        await api.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": claim}, "default")
        spec = {
            "containers": [{"name": "db", "image": "db", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}],
        }
        annotations = {f"{_USAGE}volume.d": "5Gi"}
        await api.create(PODS, {"metadata": {"name": "db", "annotations": annotations}, "spec": spec}, "default")
        await asyncio.sleep(30)
        await _pod(api, "hog", {"memory": "8150Mi"})
        await asyncio.sleep(60)
        lines = (await _kubelet(api, "metrics")).splitlines()
        volume = '{namespace="default",persistentvolumeclaim="data"}'
        assert {
            'kubelet_node_name{node="node-1"} 1',
            "kubelet_running_pods 1",
            'kubelet_running_containers{container_state="running"} 1',
            'kubelet_evictions{eviction_signal="memory.available"} 1',
            f"kubelet_volume_stats_capacity_bytes{volume} 2.147483648e+10",
            f"kubelet_volume_stats_used_bytes{volume} 5.36870912e+09",
            f"kubelet_volume_stats_available_bytes{volume} 1.610612736e+10",
        } <= set(lines)

    played(check)


def test_cadvisor_names_containers_as_their_runtime_does_and_tells_their_limits() -> None:
    async def check(api: UserApi) -> None:
        resources = {"requests": {"cpu": "250m"}, "limits": {"cpu": "500m", "memory": "64Mi"}}
        await _pod(api, "web", {"cpu": "100m", "rootfs": "1Gi", "pids": "7"}, resources)
        await _pod(api, "free", {"cpu": "100m"})
        await asyncio.sleep(30)
        found = (await api.get(PODS, "web", "default")).obj()
        id_ = found["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        assert len(id_) == 64
        path = f"/kubepods/burstable/pod{found['metadata']['uid']}/{id_}"
        lines = (await _kubelet(api, "metrics/cadvisor")).splitlines()

        def value(metric: str, pod: str, **labels: str) -> float | None:
            wanted = [f'{label}="{text}"' for label, text in {"pod": pod, "container": "web", **labels}.items()]
            fitting = [line for line in lines if line.startswith(metric + "{") and all(it in line for it in wanted)]
            return float(fitting[0].split("} ")[1].split()[0]) if fitting else None

        own = {"id": path, "name": id_}
        assert value("container_spec_cpu_quota", "web", **own) == 50_000
        assert value("container_spec_cpu_period", "web", **own) == 100_000
        assert value("container_spec_cpu_shares", "web", **own) == 256
        assert value("container_spec_cpu_quota", "free") is None
        assert value("container_spec_cpu_shares", "free") == 2
        assert value("container_threads", "web") == 7
        assert value("container_fs_usage_bytes", "web", device="/dev/nodefs") == 1 << 30
        assert value("container_fs_limit_bytes", "web", device="/dev/nodefs") == 100 << 30

    played(check)


def test_metrics_of_pods_are_what_the_kubelet_measures_of_them() -> None:
    """Also where usage changes, cpu is short, a volume lies in memory, and pods come, restart and go."""

    async def check(api: UserApi) -> None:
        await _pod(api, "steady", {"cpu": "1500m", "memory": "300Mi"}, {"requests": {"cpu": "100m"}})
        await _pod(api, "capped", {"cpu": "1", "memory": "1Gi"}, {"limits": {"cpu": "300m"}})
        await asyncio.sleep(30)
        await _agree(api, "steady", "capped")
        await _pod(api, "wave", {"cpu": "wave(200m, 2, 10m)", "memory": "ramp(100Mi, 1Gi, 10m)"})
        await _pod(api, "leaking", {"memory": "leak(10Mi/s)"}, {"limits": {"memory": "200Mi"}})
        await asyncio.sleep(15)
        await _agree(api, "steady", "capped", "wave", "leaking")
        await asyncio.sleep(45)
        await api.delete(PODS, "steady", "default")
        await asyncio.sleep(15)
        await _agree(api, "capped", "wave")

    played(check)


async def _agree(api: UserApi, *names: str) -> None:
    for name in names:
        measured = (await _measured(api, name))["containers"][0]
        shown = await _usage(api, name)
        assert round(milli(shown["cpu"])) == round(measured["cpu"]["usageNanoCores"] / 1e6)
        assert units(shown["memory"]) == measured["memory"]["workingSetBytes"]


def test_what_one_pod_uses_is_as_cheap_to_tell_on_a_full_node() -> None:
    """Each autoscaler asks about its own pods, four times a minute."""

    def asking(pods: int, times: int) -> int:
        async def check(api: UserApi) -> None:
            for number in range(pods):
                await api.create(PODS, _plain(f"p{number}"), "default")
            for _ in range(times):
                await asyncio.sleep(15)
                await api.get(POD_METRICS, "p0", "default")

        return calls(lambda: played(check))

    asking(1, 1)
    few, many = (asking(pods, 40) - asking(pods, 1) for pods in (10, 80))
    assert many < 1.5 * few


def _plain(name: str) -> Obj:
    container = {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "10m"}}}
    return {"metadata": {"name": name}, "spec": {"nodeName": "node-1", "containers": [container]}}
