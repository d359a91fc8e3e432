"""Many owners or selectors in one place: twice as many are about twice the work, not four times."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.controllers.daemonset import DaemonSets
from fairlead.controllers.disruption import DisruptionBudgets
from fairlead.controllers.endpoints import MirroredSlices, ServiceEndpoints, ServiceSlices
from fairlead.controllers.garbage import GarbageCollector
from fairlead.controllers.job import Jobs
from fairlead.controllers.replication import ReplicaSets, ReplicationControllers
from fairlead.controllers.serviceaccount import TokenSecrets
from fairlead.controllers.statefulset import StatefulSets
from fairlead.server.registry.custom_kinds import CustomKinds
from tests.controllers.cluster import Cluster, Made, run
from tests.work import growth

#: What is linear grows by 2.0 to 2.05.
LINEAR = 2.1

CONTAINERS: Obj = {"containers": [{"name": "c", "image": "i"}]}
READY: Obj = {
    "phase": "Running",
    "podIP": "10.1.2.3",
    "podIPs": [{"ip": "10.1.2.3"}],
    "conditions": [{"type": "Ready", "status": "True"}],
}

Scenario = Callable[[Cluster, int], Awaitable[None]]


def growth_of(scenario: Scenario, size: int, *controllers: Made) -> float:
    """The growth of the work of a cluster, from `size` objects of each sort to twice as many."""

    def lived(size: int) -> None:
        async def test(cluster: Cluster) -> None:
            await scenario(cluster, size)
            await asyncio.sleep(60)

        run(test, *controllers)

    return growth(lived, size)


def labelled(number: int) -> Obj:
    return {"app": f"a{number}", "tier": "t"}


async def pods(cluster: Cluster, size: int) -> None:
    for number in range(size):
        await cluster.create(
            builtin.PODS, {"metadata": {"name": f"p{number}", "labels": labelled(number)}, "spec": CONTAINERS}
        )


async def become_ready(cluster: Cluster, size: int) -> None:
    for number in range(size):
        await cluster.patch(builtin.PODS, f"p{number}", {"status": READY}, "status")


async def services(cluster: Cluster, size: int) -> None:
    for number in range(size):
        spec = {"clusterIP": "None", "selector": {"app": f"a{number}"}, "ports": [{"port": 80}]}
        await cluster.create(builtin.SERVICES, {"metadata": {"name": f"s{number}"}, "spec": spec})
    await pods(cluster, size)
    await become_ready(cluster, size)


async def mirrored(cluster: Cluster, size: int) -> None:
    for number in range(size):
        spec = {"clusterIP": "None", "ports": [{"port": 80}]}
        await cluster.create(builtin.SERVICES, {"metadata": {"name": f"s{number}"}, "spec": spec})
        subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]
        await cluster.create(builtin.ENDPOINTS, {"metadata": {"name": f"s{number}"}, "subsets": subsets})


async def budgets(cluster: Cluster, size: int) -> None:
    for number in range(size):
        spec = {"minAvailable": 1, "selector": {"matchLabels": labelled(number)}}
        await cluster.create(builtin.POD_DISRUPTION_BUDGETS, {"metadata": {"name": f"b{number}"}, "spec": spec})
    await pods(cluster, size)
    await become_ready(cluster, size)


async def accounts(cluster: Cluster, size: int) -> None:
    for number in range(size):
        await cluster.create(builtin.SECRETS, {"metadata": {"name": f"s{number}"}})
    for number in range(size):
        await cluster.create(builtin.SERVICE_ACCOUNTS, {"metadata": {"name": f"a{number}"}})


async def custom_owners(cluster: Cluster, size: int) -> None:
    """Dependents of owners that are gone, each of a kind of its own."""
    serving = asyncio.create_task(CustomKinds(cluster.registry).run())
    for number in range(size):
        schema = {"schema": {"openAPIV3Schema": {"type": "object"}}}
        spec = {
            "group": f"g{number}.io",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True} | schema],
        }
        meta = {"name": f"things.g{number}.io"}
        await cluster.create(builtin.CUSTOM_RESOURCE_DEFINITIONS, {"metadata": meta, "spec": spec})
    await asyncio.sleep(60)
    for number in range(size):
        owner = {"apiVersion": f"g{number}.io/v1", "kind": "Thing", "name": "gone", "uid": f"u{number}"}
        await cluster.create(builtin.CONFIG_MAPS, {"metadata": {"name": f"c{number}", "ownerReferences": [owner]}})
    await asyncio.sleep(60)
    assert await cluster.all(builtin.CONFIG_MAPS) == []
    serving.cancel()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "size", "controllers"),
    [
        (services, 60, (ServiceEndpoints, ServiceSlices)),
        (mirrored, 150, (MirroredSlices,)),
        (budgets, 60, (DisruptionBudgets,)),
        (accounts, 100, (TokenSecrets,)),
        (custom_owners, 30, (GarbageCollector,)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_twice_as_many_of_a_kind_are_about_twice_the_work(
    scenario: Scenario, size: int, controllers: tuple[Made, ...]
) -> None:
    assert growth_of(scenario, size, *controllers) < LINEAR


def workload(number: int, **changes: object) -> Obj:
    template = {"metadata": {"labels": labelled(number)}, "spec": CONTAINERS}
    selector = {"matchLabels": labelled(number)}
    return {"metadata": {"name": f"w{number}"}, "spec": {"selector": selector, "template": template} | changes}


def of_job(number: int) -> Obj:
    return {"metadata": {"name": f"w{number}"}, "spec": {"template": {"spec": CONTAINERS | {"restartPolicy": "Never"}}}}


def of_controller(number: int) -> Obj:
    return workload(number, selector=labelled(number))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("resource", "made", "controller"),
    [
        (builtin.REPLICATION_CONTROLLERS, of_controller, ReplicationControllers),
        (builtin.REPLICA_SETS, workload, ReplicaSets),
        (builtin.STATEFUL_SETS, workload, StatefulSets),
        (builtin.DAEMON_SETS, workload, DaemonSets),
        (builtin.JOBS, of_job, Jobs),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_owners_beside_pods_of_nobody_are_about_as_much_work_as_both_apart(
    resource: Resource, made: Callable[[int], Obj], controller: Made
) -> None:
    async def scenario(cluster: Cluster, size: int) -> None:
        for number in range(size):
            meta = {"name": f"p{number}", "labels": {"app": "nobody", "tier": "t"}}
            await cluster.create(builtin.PODS, {"metadata": meta, "spec": CONTAINERS})
        for number in range(size):
            await cluster.create(resource, made(number))
        await become_ready(cluster, size)

    assert growth_of(scenario, 60, controller) < LINEAR
