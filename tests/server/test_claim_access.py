"""Who may write which part of the status of a ResourceClaim, and who has administrators' access to devices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.api.builtin import NAMESPACES, RESOURCES
from fairlead.api.errors import Invalid
from fairlead.api.objects import Obj
from fairlead.api.users import NODE_OF_ACCOUNT, User
from fairlead.api.verbs import PatchType
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore

CLAIMS = next(row for row in RESOURCES if row.qualified == "resourceclaims.resource.k8s.io" and row.version == "v1")
TEMPLATES = next(row for row in RESOURCES if row.plural == "resourceclaimtemplates" and row.version == "v1")
ROLES, BINDINGS = (
    next(row for row in RESOURCES if row.plural == plural) for plural in ("clusterroles", "clusterrolebindings")
)
GROUP = "resource.k8s.io"
RESULT = {"request": "r", "driver": "a.b", "pool": "p", "device": "d"}
ON_NODE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
ALLOCATION = {"devices": {"results": [RESULT]}, "nodeSelector": ON_NODE}
DEVICE = {"driver": "a.b", "pool": "p", "device": "d"}
STATUS = {"verbs": ["get", "update", "patch"], "apiGroups": [GROUP], "resources": ["resourceclaims/status"]}


def may(verbs: str, part: str, *names: str) -> Obj:
    found: Obj = {"verbs": verbs.split(), "apiGroups": [GROUP], "resources": [f"resourceclaims/{part}"]}
    return found | ({"resourceNames": list(names)} if names else {})


def driver(node: str = "") -> User:
    return User("system:serviceaccount:ns:d", extra=((NODE_OF_ACCOUNT, (node,)),) if node else ())


async def granted(server: Server, *rules: Obj) -> None:
    reference = {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": "x"}
    subject = {"kind": "ServiceAccount", "namespace": "ns", "name": "d"}
    await server.api.create(ROLES, {"metadata": {"name": "x"}, "rules": [STATUS, *rules]})
    await server.api.create(BINDINGS, {"metadata": {"name": "x"}, "roleRef": reference, "subjects": [subject]})


def within(steps: Callable[[Server], Awaitable[None]]) -> None:
    async def run() -> None:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        await server.api.create(NAMESPACES, {"metadata": {"name": "ns"}})
        request = {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}}
        claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
        await server.api.create(CLAIMS, claim, "ns")
        await steps(server)

    asyncio.run(run())


async def write(server: Server, user: User | None, **status: Any) -> Obj:
    api = server.registry.as_user(user) if user else server.api
    body = {"status": status}
    found: Obj = (await api.patch(CLAIMS, "c", "ns", body, PatchType.MERGE, subresource="status")).obj()["status"]
    return found


async def refusal(server: Server, user: User | None, **status: Any) -> str:
    with pytest.raises(Invalid) as refused:
        await write(server, user, **status)
    return refused.value.message


def test_an_allocation_takes_more_than_the_right_to_write_the_status() -> None:
    async def steps(server: Server) -> None:
        await granted(server, may("update", "binding"))
        told = await refusal(server, driver(), allocation=ALLOCATION)
        assert told == (
            'ResourceClaim.resource.k8s.io "c" is invalid: status: Forbidden: changing status.allocation or '
            'status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: '
            'resourceclaims.resource.k8s.io is forbidden: User "system:serviceaccount:ns:d" cannot patch resource '
            '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
        )
        await server.api.patch(ROLES, "x", "", {"rules": [STATUS, may("patch", "binding")]}, PatchType.MERGE)
        assert (await write(server, driver(), allocation=ALLOCATION))["allocation"]["nodeSelector"] == ON_NODE

    within(steps)


@pytest.mark.parametrize(
    ("rule", "user", "refused"),
    [
        (may("associated-node:patch", "driver", "a.b"), driver("n1"), ""),
        (may("arbitrary-node:patch", "driver", "a.b"), driver("n1"), ""),
        (may("arbitrary-node:patch", "driver"), driver(), ""),
        (may("associated-node:patch", "driver"), driver("n2"), 'verb="[arbitrary-node:patch]"'),
        (
            may("associated-node:patch", "driver", "c.d"),
            driver("n1"),
            'verb="[associated-node:patch arbitrary-node:patch]"',
        ),
        (may("associated-node:update", "driver"), driver("n1"), "cannot associated-node:patch resource"),
    ],
)
def test_a_driver_tells_of_its_own_devices_on_its_own_node(rule: Obj, user: User, refused: str) -> None:
    async def steps(server: Server) -> None:
        await granted(server, rule)
        await write(server, None, allocation=ALLOCATION)
        if refused:
            told = await refusal(server, user, devices=[DEVICE])
            assert (
                'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver"' in told
            )
            assert refused in told
        else:
            assert (await write(server, user, devices=[DEVICE]))["devices"][0]["device"] == "d"
            assert (await write(server, user, devices=[DEVICE | {"data": {"a": 1}}]))["devices"][0]["data"] == {"a": 1}

    within(steps)


def test_what_is_told_of_a_device_goes_with_its_allocation() -> None:
    """Which takes no more than the right to take that back: controllers that do know nothing of drivers."""

    async def steps(server: Server) -> None:
        await granted(server, may("patch", "binding"))
        await write(server, None, allocation=ALLOCATION, devices=[DEVICE])
        assert "cannot arbitrary-node:patch" in await refusal(server, driver(), devices=None)
        assert "devices" not in await write(server, driver(), allocation=None)

    within(steps)


def test_access_of_administrators_takes_a_label_of_the_namespace() -> None:
    async def steps(server: Server) -> None:
        exactly = {"deviceClassName": "c", "adminAccess": True}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        needed = (
            "adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` "
            "label on the containing namespace"
        )
        objects = {
            CLAIMS: {"metadata": {"name": "a"}, "spec": spec},
            TEMPLATES: {"metadata": {"name": "a"}, "spec": {"spec": spec}},
        }
        for row, obj in objects.items():
            with pytest.raises(Invalid) as refused:
                await server.api.create(row, obj, "ns")
            assert refused.value.message.endswith(f"spec.devices.requests[0].{needed}")
        allocation = {"devices": {"results": [RESULT | {"adminAccess": True}]}}
        assert f"status.allocation.devices.results[0].{needed}" in await refusal(server, None, allocation=allocation)
        labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await server.api.patch(NAMESPACES, "ns", "", labels, PatchType.MERGE)
        for row, obj in objects.items():
            await server.api.create(row, obj, "ns")
        await write(server, None, allocation=allocation)

    within(steps)
