"""Endpoints and EndpointSlices follow the pods of a service (X-10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.controllers.endpoints import MirroredSlices, ServiceEndpoints, ServiceSlices
from fairlead.controllers.garbage import GarbageCollector
from tests.controllers.cluster import Cluster, run
from tests.played import played
from tests.work import calls

UNREADY = [{"type": "Ready", "status": "False"}]
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
LAST_CHANGE = "endpoints.kubernetes.io/last-change-trigger-time"
CONTROLLERS = (ServiceEndpoints, ServiceSlices, MirroredSlices, GarbageCollector)


async def service(cluster: Cluster, **spec: Any) -> None:
    wanted = {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": 8080}]} | spec
    await cluster.create(builtin.SERVICES, {"metadata": {"name": "s"}, "spec": wanted})


async def pod(cluster: Cluster, name: str, ip: str, *, ready: bool = True, port: int = 0, **spec: Any) -> None:
    container: Obj = {"name": "c", "image": "i"}
    if port:
        container["ports"] = [{"name": "http", "containerPort": port}]
    meta = {"name": name, "labels": {"app": "a"}}
    wanted = {"nodeName": "n1", "containers": [container]} | spec
    await cluster.create(builtin.PODS, {"metadata": meta, "spec": wanted})
    condition = {"type": "Ready", "status": str(ready)}
    status = {"phase": "Running", "conditions": [condition], "podIP": ip, "podIPs": [{"ip": ip}]}
    await cluster.patch(builtin.PODS, name, {"status": status}, "status")


async def node(cluster: Cluster) -> None:
    zone = {"topology.kubernetes.io/zone": "z"}
    await cluster.create(builtin.NODES, {"metadata": {"name": "n1", "labels": zone}})


async def slices(cluster: Cluster) -> list[Obj]:
    await asyncio.sleep(1)
    return sorted(await cluster.all(builtin.ENDPOINT_SLICES), key=lambda one: str(one["ports"]))


async def subsets(cluster: Cluster) -> list[Obj]:
    await asyncio.sleep(1)
    found = await cluster.get(builtin.ENDPOINTS, "s")
    assert found is not None
    return list(found.get("subsets", ()))


async def annotation(cluster: Cluster, name: str) -> str | None:
    found = await cluster.get(builtin.ENDPOINTS, "s")
    assert found is not None
    value: str | None = found["metadata"].get("annotations", {}).get(name)
    return value


@played(run, *CONTROLLERS)
async def test_ready_and_unready_pods_are_told_apart(cluster: Cluster) -> None:
    await node(cluster)
    await service(cluster)
    await pod(cluster, "p", "10.0.0.1")
    await pod(cluster, "q", "10.0.0.2", ready=False)
    [one] = await slices(cluster)
    assert one["metadata"]["labels"] == {
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": "s",
    }
    assert [(each["addresses"], each["conditions"], each["zone"]) for each in one["endpoints"]] == [
        (["10.0.0.1"], {"ready": True, "serving": True, "terminating": False}, "z"),
        (["10.0.0.2"], {"ready": False, "serving": False, "terminating": False}, "z"),
    ]
    [subset] = await subsets(cluster)
    assert [each["ip"] for each in subset["addresses"]] == ["10.0.0.1"]
    assert [each["ip"] for each in subset["notReadyAddresses"]] == ["10.0.0.2"]
    assert subset["ports"] == [{"port": 8080, "protocol": "TCP"}]


@played(run, *CONTROLLERS)
async def test_a_terminating_pod_still_serves_in_slices_and_is_gone_from_endpoints(cluster: Cluster) -> None:
    await node(cluster)
    await service(cluster)
    await pod(cluster, "p", "10.0.0.1")
    await cluster.delete(builtin.PODS, "p")
    [one] = await slices(cluster)
    assert one["endpoints"][0]["conditions"] == {"ready": False, "serving": True, "terminating": True}
    assert await subsets(cluster) == []


@played(run, *CONTROLLERS)
async def test_pods_with_different_ports_of_one_name_need_a_slice_each(cluster: Cluster) -> None:
    await node(cluster)
    await service(cluster, ports=[{"port": 80, "targetPort": "http"}])
    await pod(cluster, "p", "10.0.0.1", port=8081)
    await pod(cluster, "q", "10.0.0.2", port=9091)
    found = await slices(cluster)
    assert [(one["ports"][0]["port"], len(one["endpoints"])) for one in found] == [(8081, 1), (9091, 1)]
    assert len(await subsets(cluster)) == 2


@played(run, *CONTROLLERS)
async def test_of_many_endpoints_a_thousand_are_told_the_ready_ones_first(cluster: Cluster) -> None:
    """Of each set of ports its part; upstream says so in an annotation, and takes it off when there are fewer."""
    await node(cluster)
    await service(cluster, ports=[{"port": 80, "targetPort": "http"}])
    for number in range(1002):
        await pod(cluster, f"p{number}", f"10.0.{number // 200}.{number % 200 + 1}", port=80 if number < 600 else 81)
    found = await subsets(cluster)
    assert sorted(len(subset["addresses"]) for subset in found) in ([401, 599], [402, 598])
    assert await annotation(cluster, OVER_CAPACITY) == "truncated"
    for number in range(2):
        await cluster.patch(builtin.PODS, f"p{number}", {"status": {"phase": "Succeeded"}}, "status")
    assert sorted(len(subset["addresses"]) for subset in await subsets(cluster)) == [402, 598]
    assert await annotation(cluster, OVER_CAPACITY) is None
    for number in range(2, 6):
        await cluster.patch(builtin.PODS, f"p{number}", {"status": {"conditions": UNREADY}}, "status")
        await pod(cluster, f"q{number}", f"10.1.0.{number}", port=80, ready=False)
    found = await subsets(cluster)
    assert sum(len(subset["addresses"]) for subset in found) == 996
    assert sum(len(subset.get("notReadyAddresses", ())) for subset in found) == 4


def test_pods_times_ports_of_a_service_are_no_more_work_than_both() -> None:
    """Pods of the same ports share what is worked out of a service's."""

    def work(ports: int, pods: int) -> int:
        async def test(cluster: Cluster) -> None:
            await node(cluster)
            numbers = [{"name": f"p{number}", "port": number + 1} for number in range(ports)]
            await service(cluster, ports=numbers)
            for number in range(pods):
                await pod(cluster, f"p{number}", f"10.0.0.{number + 1}", port=number % 2 + 1)
            await asyncio.sleep(1)
            await cluster.patch(builtin.SERVICES, "s", {"spec": {"publishNotReadyAddresses": True}})
            await asyncio.sleep(1)

        return calls(lambda: run(test, ServiceEndpoints, ServiceSlices))

    work(1, 1)
    with_ports, with_pods, alone = work(400, 1), work(1, 40), work(1, 1)
    assert work(400, 40) < 1.3 * (with_ports + with_pods - alone)


@played(run, *CONTROLLERS)
async def test_a_service_without_pods_has_one_empty_slice_which_is_used_later(cluster: Cluster) -> None:
    await node(cluster)
    await service(cluster)
    [empty] = await slices(cluster)
    assert not empty["endpoints"]
    await pod(cluster, "p", "10.0.0.1")
    [used] = await slices(cluster)
    assert used["metadata"]["name"] == empty["metadata"]["name"]
    await cluster.delete(builtin.PODS, "p", grace_period_seconds=0)
    [empty_again] = await slices(cluster)
    assert not empty_again["endpoints"]


@played(run, *CONTROLLERS)
async def test_many_endpoints_are_spread_over_slices_of_a_hundred(cluster: Cluster) -> None:
    await node(cluster)
    for number in range(150):
        await pod(cluster, f"p{number:03}", f"10.0.0.{number}")
    await service(cluster)
    assert sorted(len(one["endpoints"]) for one in await slices(cluster)) == [50, 100]
    before = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in await slices(cluster)}
    await pod(cluster, "late", "10.0.1.1")
    after = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in await slices(cluster)}
    assert sum(before[name] != after[name] for name in before) == 1


@pytest.mark.parametrize(
    ("distribution", "hints"),
    [
        (None, None),
        ("PreferClose", {"forZones": [{"name": "z"}]}),
        ("PreferSameZone", {"forZones": [{"name": "z"}]}),
        ("PreferSameNode", {"forZones": [{"name": "z"}], "forNodes": [{"name": "n1"}]}),
    ],
)
@played(run, *CONTROLLERS)
async def test_traffic_that_should_stay_near_is_hinted_at(
    cluster: Cluster, distribution: str | None, hints: Obj | None
) -> None:
    await node(cluster)
    await service(cluster, trafficDistribution=distribution)
    await pod(cluster, "p", "10.0.0.1")
    await pod(cluster, "q", "10.0.0.2", ready=False)
    [one] = await slices(cluster)
    assert [each.get("hints") for each in one["endpoints"]] == [hints, None]
    mode = {"service.kubernetes.io/topology-mode": "Auto"}
    await cluster.patch(builtin.SERVICES, "s", {"metadata": {"annotations": mode}})
    [one] = await slices(cluster)
    assert not any("hints" in each for each in one["endpoints"])


@played(run, *CONTROLLERS)
async def test_endpoints_say_which_change_they_follow(cluster: Cluster) -> None:
    async def said() -> list[str | None]:
        [one] = await slices(cluster)
        other = await cluster.get(builtin.ENDPOINTS, "s")
        assert other is not None
        return [each["metadata"].get("annotations", {}).get(LAST_CHANGE) for each in (one, other)]

    async def turned(name: str, ready: str, at: str) -> None:
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": at}
        await cluster.patch(builtin.PODS, name, {"status": {"conditions": [condition]}}, "status")

    await node(cluster)
    await service(cluster)
    made = await cluster.get(builtin.SERVICES, "s")
    assert made is not None
    assert await said() == [made["metadata"]["creationTimestamp"]] * 2
    await pod(cluster, "p", "10.0.0.1", ready=False)
    await turned("p", "True", "2031-01-01T00:00:05Z")
    assert await said() == ["2031-01-01T00:00:05Z"] * 2
    before = await slices(cluster)
    await cluster.patch(builtin.PODS, "p", {"metadata": {"labels": {"more": "labels"}}})
    assert await slices(cluster) == before  # nothing to follow
    await cluster.patch(builtin.SERVICES, "s", {"metadata": {"labels": {"a": "b"}}})
    assert await said() == [None, None]


@played(run, *CONTROLLERS)
async def test_endpoints_go_with_their_service(cluster: Cluster) -> None:
    await service(cluster)
    await asyncio.sleep(1)
    await cluster.delete(builtin.SERVICES, "s")
    assert await slices(cluster) == []
    assert await cluster.get(builtin.ENDPOINTS, "s") is None


@played(run, *CONTROLLERS)
async def test_endpoints_written_by_hand_are_mirrored(cluster: Cluster) -> None:
    await service(cluster, selector=None)
    assert await slices(cluster) == []
    by_hand = [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 8080}]}]
    await cluster.create(builtin.ENDPOINTS, {"metadata": {"name": "s"}, "subsets": by_hand})
    [one] = await slices(cluster)
    assert one["endpoints"] == [{"addresses": ["192.0.2.7"], "conditions": {"ready": True}}]
    assert one["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
    await cluster.delete(builtin.ENDPOINTS, "s")
    assert await slices(cluster) == []


@played(run, *CONTROLLERS)
async def test_endpoints_by_hand_stay_without_a_service_and_go_with_one(cluster: Cluster) -> None:
    by_hand = {"metadata": {"name": "s"}, "subsets": [{"addresses": [{"ip": "192.0.2.7"}]}]}
    await cluster.create(builtin.ENDPOINTS, by_hand)
    await cluster.patch(builtin.ENDPOINTS, "s", {"metadata": {"labels": {"a": "b"}}})
    assert len(await subsets(cluster)) == 1
    await service(cluster, selector=None)
    await asyncio.sleep(1)
    await cluster.delete(builtin.SERVICES, "s")
    await asyncio.sleep(1)
    assert await cluster.get(builtin.ENDPOINTS, "s") is None
