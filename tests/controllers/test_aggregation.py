"""A cluster role that is the sum of others follows them (X-10)."""

from __future__ import annotations

import asyncio

from fairlead.api.builtin import CLUSTER_ROLES
from fairlead.api.objects import Obj
from fairlead.api.verbs import WatchQuery
from fairlead.controllers.aggregation import AggregatedRoles
from tests.controllers.cluster import Cluster, run
from tests.played import played


def rule(*resources: str) -> Obj:
    return {"apiGroups": [""], "resources": list(resources), "verbs": ["get"]}


@played(run, AggregatedRoles)
async def test_rules_of_labelled_roles_are_added_and_taken_back(cluster: Cluster) -> None:
    total = {"clusterRoleSelectors": [{"matchLabels": {"to": "sum"}}]}
    await cluster.create(CLUSTER_ROLES, {"metadata": {"name": "sum"}, "aggregationRule": total})
    for name in ("b", "a"):
        part = {"metadata": {"name": name, "labels": {"to": "sum"}}, "rules": [rule(name), rule("pods")]}
        await cluster.create(CLUSTER_ROLES, part)
    await asyncio.sleep(1)
    found = await cluster.get(CLUSTER_ROLES, "sum")
    assert found is not None
    assert found["rules"] == [rule("a"), rule("pods"), rule("b")]
    await cluster.delete(CLUSTER_ROLES, "a")
    await asyncio.sleep(1)
    found = await cluster.get(CLUSTER_ROLES, "sum")
    assert found is not None
    assert found["rules"] == [rule("b"), rule("pods")]


@played(run, AggregatedRoles)
async def test_parts_that_come_one_after_the_other_are_few_changes_of_the_sum(cluster: Cluster) -> None:
    total = {"clusterRoleSelectors": [{"matchLabels": {"to": "sum"}}]}
    await cluster.create(CLUSTER_ROLES, {"metadata": {"name": "sum"}, "aggregationRule": total})
    sizes: list[int] = []

    async def watch() -> None:
        query = WatchQuery(fields="metadata.name=sum")
        async for event in cluster.api.watch(CLUSTER_ROLES, "", query):
            sizes.append(len(event.object.obj()["rules"] or ()))

    watching = asyncio.create_task(watch())
    for number in range(50):
        labels = {"to": "sum"}
        part = {"metadata": {"name": f"r{number}", "labels": labels}, "rules": [rule(f"r{number}")]}
        await cluster.create(CLUSTER_ROLES, part)
        await asyncio.sleep(0.001)
    await asyncio.sleep(1)
    watching.cancel()
    assert len(sizes) < 10
    assert sizes[-1] == 50
