"""The arbitrator's rules in the admission chain of our own server, beside the schemas of the kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.encoded import Encoded
from fairlead.api.errors import ApiError, Forbidden, Invalid
from fairlead.api.resources import Resource
from fairlead.api.users import ADMIN, MASTERS, User
from fairlead.api.verbs import Api
from fairlead.arbitrator.objects import ALLOCATIONS, CONSUMER_GROUPS, CONSUMERS, THE_NAME
from fairlead.server.auth.tokens import ANYBODY
from fairlead.server.context import RequestContext, Result
from fairlead.server.registry.registry import UserApi
from tests.arbitrator.world import World, scene
from tests.played import played

Obj = dict[str, Any]


async def refused(error: type[ApiError], doing: Awaitable[Any]) -> str:
    with pytest.raises(error) as caught:
        await doing
    return caught.value.message


def play(act: Callable[[World], Awaitable[None]]) -> None:
    """Ten CPUs, and a namespace `a` with its Consumer."""

    async def begin(world: World) -> None:
        await world.namespace("a")
        await act(world)

    scene(begin)


@played(play)
async def test_a_consumer_that_makes_no_sense_is_refused_in_kubernetes_form(world: World) -> None:
    """S2-14."""
    found = await refused(Invalid, world.consumer("a", hard={"cpu": 1}, reserved={"cpu": 2, "pods": 1}))
    assert found == (
        'Consumer.kube-arbitrator.incubator.k8s.io "defaults" is invalid: '
        '[spec.reserved[pods]: Invalid value: "pods": must be a compute or storage resource of quotas, such as '
        'requests.cpu, spec.reserved[cpu]: Invalid value: "2": must be less than or equal to hard (1)]'
    )


@played(play)
async def test_what_the_schema_refuses_is_said_once(world: World) -> None:
    found = await refused(Invalid, world.consumer("a", weight=-1, hard={"pods": 1}))
    assert found.endswith("spec.weight: Invalid value: -1: spec.weight in body should be greater than or equal to 0")


@played(play)
async def test_quotas_bound_consumers_when_these_are_written(world: World) -> None:
    """S2-13, S2-48."""

    def quota(cpu: str) -> Obj:
        return {"metadata": {"name": "team", "namespace": "a"}, "spec": {"hard": {"requests.cpu": cpu}}}

    await world.api.create(builtin.RESOURCE_QUOTAS, quota("4"), "a")
    assert "of ResourceQuota team" in await refused(Invalid, world.consumer("a", hard={"cpu": 5}))
    await world.consumer("a", hard={"cpu": 4})
    await world.api.patch(builtin.RESOURCE_QUOTAS, "team", "a", {"spec": {"hard": {"requests.cpu": "3"}}})
    await world.consumer("a", weight=2)


@played(play)
async def test_guarantees_together_must_exist(world: World) -> None:
    """S2-15."""
    await world.namespace("b", reserved={"cpu": "60%"})
    found = await refused(Invalid, world.consumer("a", reserved={"cpu": 5}))
    assert "all Consumers together would have 11 reserved, the cluster has 10" in found


@played(play)
async def test_groups_in_a_circle_are_refused_and_missing_parents_warned_of(world: World) -> None:
    await world.group("outer")
    await world.group("inner", parent="outer")
    patch = world.api.patch(CONSUMER_GROUPS, "outer", "", {"spec": {"parent": "inner"}})
    assert "makes a circle: outer in inner in outer" in await refused(Invalid, patch)
    result = await patched(world.api, CONSUMERS, {"spec": {"parent": "nowhere"}})
    assert result.warnings == ['spec.parent: there is no ConsumerGroup "nowhere" yet']


async def patched(api: Api, resource: Resource, patch: Obj, **more: Any) -> Result[Encoded]:
    """What an administrator gets, with what is said beside the answer."""
    assert isinstance(api, UserApi)
    return await api.registry.patch(RequestContext(ADMIN), resource, THE_NAME, "a", patch, **more)


@played(play)
async def test_only_the_arbitrator_writes_allocations(world: World) -> None:
    """S2-18, S2-20, S2-22: not even an administrator."""
    await world.settle()
    assert isinstance(world.api, UserApi)
    why = (
        'allocations.kube-arbitrator.incubator.k8s.io "defaults" is forbidden: '
        "only the arbitrator writes Allocations: say what you want in the namespace's Consumer"
    )
    spec, status = {"spec": {"deserved": {"requests.cpu": 1}}}, {"status": {"deserved": {"cpu": 1}}}
    as_user = world.api.registry.as_user
    for user in (User("jane", (MASTERS,)), ADMIN, ANYBODY):
        for subresource, patch in (("", spec), ("status", status)):
            doing = as_user(user).patch(ALLOCATIONS, THE_NAME, "a", patch, subresource=subresource)
            assert await refused(Forbidden, doing) == why
        assert await refused(Forbidden, as_user(user).delete(ALLOCATIONS, THE_NAME, "a")) == why
    deserved = {"cpu": "1.5", "requests.cpu": None}
    sample = {"spec": {"hard": {"requests.cpu": 1, "limits.cpu": 2}, "deserved": deserved}}
    doing = world.api.patch(ALLOCATIONS, THE_NAME, "a", sample)
    assert "must be less than or equal to hard (1)" in await refused(Invalid, doing)
