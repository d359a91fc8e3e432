"""The types of admission policies (KEP-3488): what a policy gets wrong about what it matches is in its status."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.api.builtin import CUSTOM_RESOURCE_DEFINITIONS
from fairlead.api.objects import Obj
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from tests.server.crd_samples import crd

DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}


async def checked(server: Server, name: str, rules: list[Obj], *validations: Obj, **spec: Any) -> Obj:
    """The status of a policy, once it has been looked at."""
    row = next(row for row in server.registry.catalogue.rows() if row.kind == "ValidatingAdmissionPolicy")
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": list(validations), **spec}
    await server.api.create(row, {"metadata": {"name": name}, "spec": spec})
    for _ in range(100):
        status: Obj = (await server.api.get(row, name)).obj().get("status") or {}
        if status.get("observedGeneration") == 1:
            return status
        await asyncio.sleep(0.1)
    raise AssertionError("nobody looked")


def within(steps: Callable[[Server], Awaitable[None]]) -> None:
    async def main() -> None:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        running = asyncio.create_task(server.run())
        try:
            await steps(server)
        finally:
            running.cancel()

    run_virtual(main())


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("object.spec.replicas > '1'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("object.replicas > 1", "undefined field 'replicas'"),
        ("object.spec.template.spec.containers.all(c, c.nam == '')", "undefined field 'nam'"),
        ("object.metadata.creationTimestamp > 5", "applied to '(timestamp, int)'"),
        ("object.spec.strategy.rollingUpdate.maxSurge == '1'", ""),
        ("object.metadata.labels['a'] == 'b' && object.metadata.name == 'x'", ""),
        ("object.spec.template.spec.containers.all(c, c.resources.limits['cpu'] == '1')", ""),
        ("oldObject.spec.replicas < 3 && request.operation == 'UPDATE'", ""),
        ("variables.wanted == 'a'", "applied to '(int, string)'"),
    ],
)
def test_an_expression_is_checked_against_what_it_matches(expression: str, fault: str) -> None:
    async def steps(server: Server) -> None:
        wanted = [{"name": "wanted", "expression": "object.spec.replicas"}]
        status = await checked(server, "p", [DEPLOYMENTS], {"expression": expression}, variables=wanted)
        if not fault:
            assert status["typeChecking"] == {}
            return
        (found,) = status["typeChecking"]["expressionWarnings"]
        assert found["fieldRef"] == "spec.validations[0].expression"
        assert found["warning"].startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:")
        assert fault in found["warning"]
        assert f" | {expression}\n | ." in found["warning"]

    within(steps)


def test_each_kind_is_told_of_by_itself_and_messages_too() -> None:
    async def steps(server: Server) -> None:
        rule = {**DEPLOYMENTS, "resources": ["deployments", "replicasets", "daemonsets"]}
        validation = {"expression": "object.spec.replicas > 1", "messageExpression": "'of ' + object.metadata.nam"}
        status = await checked(server, "p", [rule], validation)
        by_field = {each["fieldRef"]: each["warning"] for each in status["typeChecking"]["expressionWarnings"]}
        assert "DaemonSet: ERROR" in by_field["spec.validations[0].expression"]
        assert "ReplicaSet" not in by_field["spec.validations[0].expression"]
        assert by_field["spec.validations[0].messageExpression"].count("undefined field 'nam'") == 3

    within(steps)


def test_what_is_meant_by_wildcards_is_not_checked() -> None:
    async def steps(server: Server) -> None:
        for number, rule in enumerate(
            ({"apiGroups": ["*"]}, {"apiVersions": ["*"]}, {"resources": ["*", "pods/exec"]})
        ):
            status = await checked(server, f"p{number}", [DEPLOYMENTS | rule], {"expression": "object.nonsense"})
            assert status["typeChecking"] == {}

    within(steps)


def test_custom_kinds_are_checked_by_their_schema() -> None:
    async def steps(server: Server) -> None:
        await server.api.create(CUSTOM_RESOURCE_DEFINITIONS, crd())
        await asyncio.sleep(5)  # in virtual time: it is served by then
        rule = {**DEPLOYMENTS, "apiGroups": ["example.com"], "resources": ["widgets"]}
        sound = {"expression": "object.spec.size > 1 && object.metadata.labels['x'] == 'y'"}
        status = await checked(server, "p", [rule], sound, {"expression": "object.spec.sise > 1"})
        (found,) = status["typeChecking"]["expressionWarnings"]
        assert found["fieldRef"] == "spec.validations[1].expression"
        assert "example.com/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'sise'" in found["warning"]

    within(steps)
