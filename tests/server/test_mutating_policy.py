"""MutatingAdmissionPolicy (issue 16): how policies change objects, what they may say, and what becomes of failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.api.builtin import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
)
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from tests.server import webhook_world
from tests.server.webhook_world import allowed, patched

PREFIX = "policy 'p' with binding 'p' denied request: "
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
WORKLOADS = RULE | {"apiGroups": ["apps"], "resources": ["deployments", "deployments/scale"]}


class World:
    def __init__(self, server: Server) -> None:
        self.server, self.api = server, server.api

    async def policy(
        self, *mutations: str, name: str = "p", rule: Obj = RULE, bind: Obj | None = None, **spec: Any
    ) -> None:
        """A policy that is bound; a mutation is a JSON patch if it is a list."""
        listed = [
            {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
            if text.startswith("[")
            else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
            for text in mutations
        ]
        match = {"resourceRules": [rule]}
        spec = {"matchConstraints": match, "mutations": listed, "reinvocationPolicy": "Never", **spec}
        meta = {"name": name}
        await self.api.create(MUTATING_ADMISSION_POLICIES, {"metadata": meta, "spec": spec})
        bound = {"policyName": name, **(bind or {})}
        await self.api.create(MUTATING_ADMISSION_POLICY_BINDINGS, {"metadata": meta, "spec": bound})

    async def create(self, name: str = "x", data: Obj | None = None, **meta: Any) -> Obj:
        obj = {"metadata": {"name": name, **meta}, "data": data or {}}
        return (await self.api.create(CONFIG_MAPS, obj, "default")).obj()


async def refusal(made: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await made
    return caught.value


def within(steps: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        await steps(World(server))

    run_virtual(run())


def deployment(**spec: Any) -> Obj:
    labels, containers = {"app": "x"}, [{"name": "c", "image": "i"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": labels}, "template": template} | spec}


@pytest.mark.parametrize(
    ("mutation", "data"),
    [
        ('Object{data: {"k": "v"}}', {"a": "b", "k": "v"}),
        ('Object{data: {"a": object.metadata.name}}', {"a": "x"}),
        ('[JSONPatch{op: "add", path: "/data/k", value: "v"}]', {"a": "b", "k": "v"}),
        ('[JSONPatch{op: "test", path: "/data/a", value: "b"}, JSONPatch{op: "remove", path: "/data/a"}]', None),
        ('[JSONPatch{op: "test", path: "/data/a", value: "c"}, JSONPatch{op: "remove", path: "/data/a"}]', {"a": "b"}),
        ('[JSONPatch{op: "move", from: "/data/a", path: "/data/c"}]', {"c": "b"}),
        (
            '[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("x/y~z"), value: "v"}, '
            'JSONPatch{op: "move", from: "/metadata/labels/x~1y~0z", path: "/data/l"}]',
            {"a": "b", "l": "v"},
        ),
        ('has(object.data) ? Object{data: {"n": string(size(object.data))}} : Object{}', {"a": "b", "n": "1"}),
        ("[]", {"a": "b"}),
    ],
)
def test_an_object_is_changed_by_an_expression(mutation: str, data: Obj | None) -> None:
    async def steps(world: World) -> None:
        await world.policy(mutation)
        assert (await world.create(data={"a": "b"}, labels={"l": "m"})).get("data") == data

    within(steps)


def test_an_apply_configuration_is_merged_as_an_apply_is() -> None:
    async def steps(world: World) -> None:
        sidecar = 'Object.spec.template.spec.containers{name: "side", image: variables.image}'
        pod = f"Object.spec.template.spec{{containers: [{sidecar}]}}"
        template = f"Object.spec.template{{spec: {pod}}}"
        await world.policy(
            f"Object{{spec: Object.spec{{replicas: object.spec.replicas + 1, template: {template}}}}}",
            rule=WORKLOADS,
            variables=[{"name": "image", "expression": "'img:' + string(object.spec.replicas)"}],
        )
        made = (await world.api.create(DEPLOYMENTS, deployment(replicas=2), "default")).obj()
        containers = made["spec"]["template"]["spec"]["containers"]
        assert [(one["name"], one["image"]) for one in containers] == [("c", "i"), ("side", "img:2")]
        assert (made["spec"]["replicas"], containers[1]["imagePullPolicy"]) == (3, "IfNotPresent")

    within(steps)


def test_policies_see_what_those_before_them_changed_and_again_if_they_want() -> None:
    async def steps(world: World) -> None:
        note = '[JSONPatch{{op: "add", path: "/data/{0}", value: string(size(object.data))}}]'
        await world.policy(note.format("first"), name="a", reinvocationPolicy="IfNeeded")
        await world.policy(note.format("second"), note.format("third"), name="b")
        assert (await world.create(data={"k": "v"}))["data"] == {"k": "v", "first": "4", "second": "2", "third": "3"}

    within(steps)


def test_parameters_and_conditions_say_where_a_policy_works() -> None:
    async def steps(world: World) -> None:
        for name in ("one", "two"):
            await world.create(name, {"name": name}, labels={"is": "param"})
        await world.policy(
            '[JSONPatch{op: "add", path: "/data/" + params.data.name, value: "v"}]',
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            matchConditions=[{"name": "asks", "expression": "'ask' in object.data"}],
            bind={
                "paramRef": {"selector": {"matchLabels": {"is": "param"}}, "parameterNotFoundAction": "Deny"},
                "matchResources": {"objectSelector": {"matchLabels": {"app": "web"}}},
            },
        )
        labels = {"app": "web"}
        assert (await world.create("a", {"ask": ""}, labels=labels))["data"] == {"ask": "", "one": "v", "two": "v"}
        assert (await world.create("b", {"k": ""}, labels=labels))["data"] == {"k": ""}
        assert (await world.create("c", {"ask": ""}))["data"] == {"ask": ""}
        for name in ("one", "two"):
            await world.api.delete(CONFIG_MAPS, name, "default")
        error = await refusal(world.create("d", {"ask": ""}, labels=labels))
        why = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        assert (error.code, error.message, error.reason) == (403, PREFIX + why, "Forbidden")

    within(steps)


@pytest.mark.parametrize(
    ("mutation", "why"),
    [
        (
            "Object{data: object.nope}",
            "expression 'Object{data: object.nope}' resulted in error: no such key: nope",
        ),
        (
            "Object{nope: 1}",
            "error applying patch: failed to convert patch object to typed object: field not declared in schema",
        ),
        (
            "Object{metadata: Object.metadata{ownerReferences: [Object.metadata.owner{name: 'x'}]}}",
            'type mismatch: unexpected type name "Object.metadata.owner", expected "Object.metadata.ownerReferences", '
            "which matches field name path from root Object type",
        ),
        (
            '[JSONPatch{op: "remove", path: "/data/no/where"}]',
            'JSON Patch: remove operation does not apply: doc is missing path: "/data/no/where": missing value',
        ),
    ],
)
def test_what_fails_refuses_the_request_unless_it_is_ignored(mutation: str, why: str) -> None:
    async def steps(world: World) -> None:
        await world.policy(mutation)
        error = await refusal(world.create(data={"a": "b"}))
        assert (error.code, error.message, error.reason) == (403, PREFIX + why, "Invalid")
        assert error.status()["details"] == {"name": "x", "kind": "configmaps", "causes": [{"message": PREFIX + why}]}

    async def ignored(world: World) -> None:
        await world.policy(mutation, failurePolicy="Ignore")
        assert (await world.create(data={"a": "b"}))["data"] == {"a": "b"}

    within(steps)
    within(ignored)


def test_each_mutation_has_a_budget_of_its_own() -> None:
    async def steps(world: World) -> None:
        costly = f"!object.data.s.matches('{'x' * 400}')"  # 900,000 units over a text of 90,000 characters
        variables = [{"name": f"v{at}", "expression": costly} for at in range(12)]
        most, all_ = (" && ".join(f"variables.v{at}" for at in range(count)) for count in (11, 12))
        note = '[JSONPatch{{op: "add", path: "/data/{0}", value: string({1})}}]'
        await world.policy(note.format("a", most), note.format("b", most), variables=variables)
        made = await world.create("x", {"s": "s" * 90_000})
        assert (made["data"]["a"], made["data"]["b"]) == ("true", "true")
        await world.policy(note.format("c", all_), name="q", variables=variables)
        error = await refusal(world.create("y", {"s": "s" * 90_000}))
        why = "validation failed due to running out of cost budget, no further validation rules will be run"
        assert (error.code, error.message) == (403, PREFIX.replace("'p'", "'q'") + why)

    within(steps)


def test_what_can_be_set_as_a_whole_alone_is_not_set_in_part() -> None:
    async def steps(world: World) -> None:
        selector = "Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}"
        await world.policy(f"Object{{spec: {selector}}}", rule=WORKLOADS)
        error = await refusal(world.api.create(DEPLOYMENTS, deployment(), "default"))
        text = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
        assert error.message == f"{PREFIX}{text}.spec.selector"

    within(steps)


def test_scales_and_other_versions_are_changed_as_they_are_shown() -> None:
    async def steps(world: World) -> None:
        await world.api.create(DEPLOYMENTS, deployment(replicas=2), "default")
        three = "Object{spec: Object.spec{replicas: 3}}"
        await world.policy(three, rule=WORKLOADS | {"resources": ["deployments/scale"]})
        patch = {"spec": {"replicas": 9}}
        scale = await world.api.patch(DEPLOYMENTS, "x", "default", patch, PatchType.MERGE, subresource="scale")
        assert scale.obj()["spec"]["replicas"] == 3
        rule = RULE | {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"]}
        await world.policy("Object{spec: Object.spec{targetCPUUtilizationPercentage: 30}}", name="h", rule=rule)
        spec = {"scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}, "maxReplicas": 3}
        made = await world.api.create(HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": "h"}, "spec": spec}, "default")
        assert made.obj()["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 30

    within(steps)


def test_webhooks_see_what_policies_changed_and_policies_what_webhooks_did() -> None:
    async def steps(world: webhook_world.World) -> None:
        count = '[JSONPatch{op: "add", path: "/data/size", value: string(size(object.data))}]'
        await World(world.server).policy(count, reinvocationPolicy="IfNeeded")
        add = {"op": "add", "path": "/data/hook", "value": "h"}
        await world.mutating(lambda review: patched(review, add))
        await world.validating(allowed)
        assert (await world.create(data={"k": "v"}))["data"] == {"k": "v", "hook": "h", "size": "3"}
        assert world.webhooks.request(0)["object"]["data"] == {"k": "v", "size": "1"}

    webhook_world.within(steps)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mutations": []}, ["spec.mutations: Required value: mutations must contain at least one item"]),
        ({"reinvocationPolicy": ""}, ["spec.reinvocationPolicy: Required value"]),
        (
            {"reinvocationPolicy": "x"},
            ['spec.reinvocationPolicy: Unsupported value: "x": supported values: "IfNeeded", "Never"'],
        ),
        ({"failurePolicy": "x"}, ['spec.failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"']),
        ({"matchConstraints": None}, ["spec.matchConstraints: Required value"]),
        (
            {"matchConstraints": {"resourceRules": [RULE | {"operations": ["DELETE"]}]}},
            [
                'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: '
                '"*", "CONNECT", "CREATE", "UPDATE"'
            ],
        ),
        (
            {"mutations": [{"patchType": "x"}]},
            [
                'spec.mutations[0].patchType: Unsupported value: "x": supported values: "ApplyConfiguration", '
                '"JSONPatch"'
            ],
        ),
        (
            {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "Object{}"}}]},
            ['spec.mutations[0].jsonPatch.expression: Invalid value: "Object{}": must evaluate to list(JSONPatch)'],
        ),
        (
            {"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": " "}}]},
            ["spec.mutations[0].applyConfiguration.expression: Required value: expression is not specified"],
        ),
        (
            {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": '[JSONPatch{nope: "x"}]'}}]},
            ["undefined field 'nope'"],
        ),
    ],
)
def test_what_a_policy_may_say(changes: Obj, expected: list[str]) -> None:
    async def steps(world: World) -> None:
        spec: Obj = {
            "matchConstraints": {"resourceRules": [RULE]},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}],
            "reinvocationPolicy": "Never",
        }
        spec = {key: value for key, value in (spec | changes).items() if value is not None}
        error = await refusal(world.api.create(MUTATING_ADMISSION_POLICIES, {"metadata": {"name": "p"}, "spec": spec}))
        found = [f"{cause.field}: {cause.message}" for cause in error.causes]
        assert len(found) == len(expected)
        assert all(text in one for text, one in zip(expected, found, strict=True)), found

    within(steps)
