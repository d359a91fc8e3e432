"""A simulated node refuses what a kubelet would, whoever bound it (S0-54)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.api.builtin import EVENTS, NODES, PODS
from fairlead.api.objects import Obj
from fairlead.api.verbs import ListQuery
from fairlead.client.informer import Informers
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.loops import run_virtual
from fairlead.server.registry.registry import UserApi
from fairlead.sim.behaviour import STOP_SECONDS
from fairlead.sim.nodes import NodeShape, uniform


def on_one_node(check: Callable[[UserApi], Awaitable[None]]) -> None:
    async def run() -> None:
        async with simulation(Settings(nodes=tuple(uniform(1, NodeShape())))) as (api, informers):
            assert isinstance(informers, Informers)
            await check(api)

    rng.seed(1)
    run_virtual(run())


async def bound(api: UserApi, name: str, **spec: Any) -> None:
    """A pod that never saw a scheduler."""
    containers = spec.pop("containers", [{"name": "c", "image": "i"}])
    manifest = {"metadata": {"name": name}, "spec": {"containers": containers, "nodeName": "node-1", **spec}}
    await api.create(PODS, manifest, "default")
    await asyncio.sleep(30)


async def status(api: UserApi, name: str) -> Obj:
    found: Obj = (await api.get(PODS, name, "default")).obj()["status"]
    return found


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"nodeSelector": {"disk": "ssd"}},
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        ({"os": {"name": "windows"}}, "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
    ],
)
def test_a_pod_that_belongs_elsewhere_is_refused(spec: Obj, reason: str, message: str) -> None:
    async def check(api: UserApi) -> None:
        await bound(api, "p", **spec)
        found = await status(api, "p")
        assert (found["phase"], found["reason"]) == ("Failed", reason)
        assert found["message"] == f"Pod was rejected: {message}"
        events = [event.obj() for event in (await api.list(EVENTS, "default", ListQuery())).items]
        assert [(event["type"], event["message"]) for event in events if event["reason"] == reason] == [
            ("Warning", message)
        ]

    on_one_node(check)


def test_two_pods_cannot_hold_the_same_port_of_a_node() -> None:
    async def check(api: UserApi) -> None:
        def containers() -> list[Obj]:
            return [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]}]

        await bound(api, "first", containers=containers())
        await bound(api, "second", containers=containers())
        assert (await status(api, "first"))["phase"] == "Running"
        assert (await status(api, "second"))["reason"] == "NodePorts"
        await api.delete(PODS, "first", "default")
        await asyncio.sleep(60)
        await bound(api, "third", containers=containers())
        assert (await status(api, "third"))["phase"] == "Running"

    on_one_node(check)


def test_a_node_that_drives_pods_away_takes_only_those_that_tolerate_it() -> None:
    async def check(api: UserApi) -> None:
        taint = {"key": "k", "value": "v", "effect": "NoExecute"}
        await api.patch(NODES, "node-1", "", {"spec": {"taints": [taint]}})
        await asyncio.sleep(1)
        await bound(api, "p")
        await bound(api, "tolerant", tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute"}])
        pods = [entry.obj() for entry in (await api.list(PODS, "default", ListQuery())).items]
        # The eviction of tainted pods may come before the node sees it; either way it does not run.
        assert [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"] == ["tolerant"]
        refused = [pod["status"]["reason"] for pod in pods if pod["metadata"]["name"] == "p"]
        assert refused in ([], ["TaintToleration"])

    on_one_node(check)


def test_a_critical_pod_makes_others_go_and_waits_until_they_have() -> None:
    """S3-43: as few as will do, with their own grace period; the scheduler has no part in it."""

    async def check(api: UserApi) -> None:
        def asking(cpu: str) -> list[Obj]:
            return [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]

        slow = {"annotations": {STOP_SECONDS: "10"}}
        for name, cpu in (("small", "1"), ("large", "2")):
            await bound(api, name, containers=asking(cpu))
        await api.patch(PODS, "large", "default", {"metadata": slow})
        critical = {
            "metadata": {"name": "critical"},
            "spec": {"containers": asking("3"), "nodeName": "node-1", "priorityClassName": "system-cluster-critical"},
        }
        await api.create(PODS, critical, "kube-system")
        await asyncio.sleep(9)
        assert (await api.get(PODS, "critical", "kube-system")).obj()["status"]["phase"] == "Pending"
        await asyncio.sleep(30)
        assert (await api.get(PODS, "critical", "kube-system")).obj()["status"]["phase"] == "Running"
        assert (await status(api, "small"))["phase"] == "Running"
        gone = await status(api, "large")
        expected = ("Failed", "Preempting", "Preempted in order to admit critical pod")
        assert (gone["phase"], gone["reason"], gone["message"]) == expected
        conditions = {condition["type"]: condition for condition in gone["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "TerminationByKubelet"
        assert conditions["Ready"]["status"] == "False"
        assert "terminated" in gone["containerStatuses"][0]["state"]

    on_one_node(check)
