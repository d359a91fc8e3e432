"""ValidatingAdmissionPolicy (issue 16): what a policy refuses, warns of, and may not say."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from fairlead.api.builtin import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, SECRETS
from fairlead.api.encoded import Encoded
from fairlead.api.errors import ApiError, Forbidden, Invalid
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.users import AUTHENTICATED, User
from fairlead.cel.environment import Environment
from fairlead.kinds.admission_policies import CompiledPolicy
from fairlead.server.admission import evaluation
from fairlead.server.admission.evaluation import POLICY_BUDGET, Budget, RequestTime, Until
from fairlead.server.assembly import Server
from fairlead.server.audit.request_audit import RequestAudit
from fairlead.server.context import INTERNAL, Result
from fairlead.store.memory import MemoryStore
from tests.server.audit_world import a_request, annotations_of
from tests.turns import counting_turns

PREFIX = "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
EXHAUSTED = "validation failed due to running out of cost budget, no further validation rules will be run"
#: A text of that many characters, and what costs 900,000 units over it: a tenth for each, for each four of the pattern.
LONG = "s" * 90_000
COSTLY = f"!object.data.s.matches('{'x' * 400}')"
TOO_COSTLY = f"!object.data.s.matches('{'x' * 500}')"
CANCELLED = f"expression '{TOO_COSTLY}' resulted in error: operation cancelled: actual cost limit exceeded"
ANYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
CONFIGS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}


class World:
    def __init__(self, server: Server) -> None:
        self.server, self.api = server, server.api

    def row(self, kind: str) -> Resource:
        return next(row for row in self.server.registry.catalogue.rows() if row.kind == kind)

    async def policy(self, *validations: Any, rule: Obj = CONFIGS, match: Obj | None = None, **spec: Any) -> None:
        found = [item if isinstance(item, dict) else {"expression": item} for item in validations]
        spec = {"matchConstraints": {"resourceRules": [rule], **(match or {})}, "validations": found, **spec}
        await self.api.create(self.row("ValidatingAdmissionPolicy"), {"metadata": {"name": "p"}, "spec": spec})

    async def bind(self, *actions: str, **spec: Any) -> None:
        spec = {"policyName": "p", "validationActions": list(actions) or ["Deny"], **spec}
        await self.api.create(self.row("ValidatingAdmissionPolicyBinding"), {"metadata": {"name": "b"}, "spec": spec})

    async def create(self, data: Obj | None = None, name: str = "x", namespace: str = "default", **meta: Any) -> None:
        obj = {"metadata": {"name": name, **meta}, "data": data or {}}
        await self.api.create(CONFIG_MAPS, obj, namespace)

    async def told(self, data: Obj, audit: RequestAudit) -> Result[Encoded]:
        """A create whose warnings can be seen, and what the audit log is told of it."""
        obj = {"metadata": {"name": "x"}, "data": data}
        return await self.server.registry.create(replace(INTERNAL, audit=audit), CONFIG_MAPS, obj, "default")

    async def refusal(self, made: Awaitable[Any]) -> str:
        with pytest.raises(ApiError) as caught:
            await made
        return str(caught.value)


def within(steps: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        await steps(World(server))

    asyncio.run(run())


def test_a_policy_does_nothing_until_it_is_bound() -> None:
    async def steps(world: World) -> None:
        await world.policy("false")
        await world.create()
        await world.bind()
        assert await world.refusal(world.create(name="y")) == PREFIX.replace('"x"', '"y"') + "failed expression: false"
        await world.api.delete(world.row("ValidatingAdmissionPolicyBinding"), "b")
        await world.create(name="z")

    within(steps)


@pytest.mark.parametrize(
    ("validation", "type_", "text"),
    [
        ({"expression": "false", "message": "no"}, Invalid, "no"),
        ({"expression": "false", "reason": "Forbidden", "message": "no"}, Forbidden, "no"),
        (
            {"expression": "false", "message": "no", "messageExpression": "'not ' + object.metadata.name"},
            Invalid,
            "not x",
        ),
        ({"expression": "false", "message": "no", "messageExpression": "object.data.nope"}, Invalid, "no"),
        ({"expression": "false", "messageExpression": "' '"}, Invalid, "failed expression: false"),
        ({"expression": "object.nope"}, Invalid, "expression 'object.nope' resulted in error: no such key: nope"),
    ],
)
def test_a_refusal_has_its_reason_and_its_message(validation: Obj, type_: type[ApiError], text: str) -> None:
    async def steps(world: World) -> None:
        await world.policy(validation)
        await world.bind()
        with pytest.raises(type_) as caught:
            await world.create()
        assert str(caught.value) == PREFIX + text
        assert [cause.message for cause in caught.value.causes] == [PREFIX.partition(": ")[2] + text]

    within(steps)


@pytest.mark.parametrize(
    "expression",
    [
        "request.operation == 'CREATE' && oldObject == null && request.userInfo.username == 'system:admin'",
        "request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap'",
        "request.namespace == 'default'",
        "request.name == 'x' && !request.dryRun && request.subResource == ''",
        "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'",
        "variables.twice == 2 && variables.thrice == 3",
        "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
        "authorizer.requestResource.check('create').allowed() && authorizer.path('/healthz').check('get').allowed()",
        "!authorizer.serviceAccount('default', 'default').group('').resource('pods').check('delete').allowed()",
        "has(object.data) && object.data.exists(k, object.data[k] == 'v')",
    ],
)
def test_what_an_expression_knows(expression: str) -> None:
    async def steps(world: World) -> None:
        variables = [{"name": "twice", "expression": "1 + 1"}, {"name": "thrice", "expression": "variables.twice + 1"}]
        await world.policy(expression, variables=variables)
        await world.bind()
        await world.create({"k": "v"})

    within(steps)


@pytest.mark.parametrize(
    ("rule", "match", "is_asked"),
    [
        (ANYTHING, {}, True),
        (CONFIGS | {"resources": ["secrets"]}, {}, False),
        (CONFIGS | {"resources": ["configmaps/status"]}, {}, False),
        (CONFIGS | {"resources": ["configmaps/*"]}, {}, True),
        (CONFIGS | {"resources": ["*/*"]}, {}, True),
        (CONFIGS | {"operations": ["DELETE"]}, {}, False),
        (CONFIGS | {"apiGroups": ["apps"]}, {}, False),
        (CONFIGS | {"apiVersions": ["v2"]}, {}, False),
        (CONFIGS | {"scope": "Cluster"}, {}, False),
        (CONFIGS | {"resourceNames": ["x"]}, {}, True),
        (CONFIGS | {"resourceNames": ["y"]}, {}, False),
        (CONFIGS, {"excludeResourceRules": [CONFIGS | {"resourceNames": ["x"]}]}, False),
        (CONFIGS, {"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        (CONFIGS, {"objectSelector": {"matchLabels": {"app": "db"}}}, False),
        (CONFIGS, {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        (CONFIGS, {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, False),
    ],
)
def test_which_requests_a_policy_is_about(rule: Obj, match: Obj, is_asked: bool) -> None:
    async def steps(world: World) -> None:
        await world.policy("false", rule=rule, match=match)
        await world.bind()
        made = world.create(labels={"app": "web"})
        if is_asked:
            await world.refusal(made)
        else:
            await made

    within(steps)


def test_updates_and_deletions_see_what_was_there() -> None:
    async def steps(world: World) -> None:
        validations = [
            "request.operation != 'UPDATE' || oldObject.data.n == object.data.n",
            "request.operation != 'DELETE' || (object == null && oldObject.data.n == 'free')",
        ]
        await world.policy(*validations, rule=CONFIGS | {"operations": ["UPDATE", "DELETE"]})
        await world.bind()
        await world.create({"n": "kept"})
        await world.refusal(world.api.patch(CONFIG_MAPS, "x", "default", {"data": {"n": "other"}}))
        await world.refusal(world.api.delete(CONFIG_MAPS, "x", "default"))
        await world.create({"n": "free"}, "y")
        await world.api.delete(CONFIG_MAPS, "y", "default")

    within(steps)


def test_match_conditions_decide_who_is_meant() -> None:
    async def steps(world: World) -> None:
        conditions = [{"name": "not-nodes", "expression": "!('system:nodes' in request.userInfo.groups)"}]
        await world.policy("false", matchConditions=conditions)
        await world.bind()
        await world.refusal(world.create())
        node = User("system:node:n", ("system:nodes", "system:masters", AUTHENTICATED))
        await world.server.registry.as_user(node).create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default")

    within(steps)


def test_a_failure_is_a_refusal_unless_it_is_to_be_ignored() -> None:
    async def steps(world: World) -> None:
        await world.policy("object.nope == 1", failurePolicy="Ignore", matchConditions=[])
        await world.bind()
        await world.create()

    within(steps)


def test_a_warning_lets_pass() -> None:
    async def steps(world: World) -> None:
        await world.policy({"expression": "false", "message": "careful"})
        await world.bind("Warn")
        await world.create()

    within(steps)


def test_the_audit_log_is_told_what_does_not_hold_and_what_the_policy_says() -> None:
    async def steps(world: World) -> None:
        told = [
            {"key": "data", "valueExpression": "'has ' + string(size(object.data)) + variables.end"},
            {"key": "empty", "valueExpression": "' '"},
            {"key": "null", "valueExpression": "null"},
        ]
        variables = [{"name": "end", "expression": "' entries'"}]
        await world.policy(
            "true", {"expression": "1 > 2", "message": "<no>"}, auditAnnotations=told, variables=variables
        )
        await world.bind("Audit", "Warn")
        audit = a_request()
        result = await world.told({"a": "b"}, audit)
        assert list(result.warnings) == [
            "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': <no>",
        ]
        failure = (
            '[{"message":"\\u003cno\\u003e","policy":"p","binding":"b","expressionIndex":1,'
            '"validationActions":["Audit","Warn"]}]'
        )
        assert annotations_of(audit) == {
            "validation.policy.admission.k8s.io/validation_failure": failure,
            "p/data": "has 1 entries",
        }

    within(steps)


def test_what_cannot_be_told_refuses_unless_it_is_to_be_ignored() -> None:
    async def steps(world: World) -> None:
        told = [{"key": "k", "valueExpression": "object.nope"}]
        await world.policy("true", auditAnnotations=told)
        await world.bind("Warn")
        text = await world.refusal(world.create())
        assert text == PREFIX + "expression 'object.nope' resulted in error: no such key: nope"
        patch = {"spec": {"failurePolicy": "Ignore"}}
        await world.api.patch(world.row("ValidatingAdmissionPolicy"), "p", "", patch)
        await world.create()

    within(steps)


def test_a_refusal_comes_after_all_have_been_asked() -> None:
    async def steps(world: World) -> None:
        await world.policy("false", {"expression": "false", "message": "second"})
        await world.bind("Deny", "Audit")
        audit = a_request()
        assert await world.refusal(world.told({}, audit)) == PREFIX + "failed expression: false"
        assert len(annotations_of(audit)) == 1  # whatever is told first under a key
        await world.api.delete(world.row("ValidatingAdmissionPolicyBinding"), "b")
        await world.bind("Warn", paramRef={"name": "none", "parameterNotFoundAction": "Deny"})
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        await world.api.patch(world.row("ValidatingAdmissionPolicy"), "p", "", {"spec": {"paramKind": kind}})
        text = await world.refusal(world.create())
        assert "failed to configure binding: no params found" in text  # which no binding can only warn of

    within(steps)


def test_parameters_come_from_the_objects_that_a_binding_names() -> None:
    async def steps(world: World) -> None:
        await world.create({"max": "1"}, "limit", labels={"role": "limit"})
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        conditions = [{"name": "others", "expression": "object.metadata.name != 'limit'"}]
        await world.policy("size(object.data) <= int(params.data.max)", paramKind=kind, matchConditions=conditions)
        selector = {"matchLabels": {"role": "limit"}}
        await world.bind(paramRef={"selector": selector, "parameterNotFoundAction": "Deny"})
        await world.create({"a": "1"})
        await world.refusal(world.create({"a": "1", "b": "2"}, "y"))
        await world.api.patch(CONFIG_MAPS, "limit", "default", {"data": {"max": "2"}})
        await world.create({"a": "1", "b": "2"}, "y")
        await world.api.delete(CONFIG_MAPS, "limit", "default")
        text = await world.refusal(world.create({}, "z"))
        assert text.endswith("no params found for policy binding with `Deny` parameterNotFoundAction")

    within(steps)


def test_parameters_are_looked_for_among_many_and_large_objects_while_others_get_their_turn() -> None:
    async def steps(world: World) -> None:
        for number in range(64):
            await world.create({"k": "a" * 200_000}, f"large-{number}")
        await world.create({}, "limit", labels={"role": "limit"})

        _, without = await counting_turns(world.create({}, "x"))
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        await world.policy("params.metadata.name == 'limit'", paramKind=kind)
        await world.bind(paramRef={"selector": {"matchLabels": {"role": "limit"}}, "parameterNotFoundAction": "Deny"})
        _, turns = await counting_turns(world.create({}, "y"))
        assert turns >= without + 5

    within(steps)


def test_what_was_compiled_of_a_policy_goes_when_that_is_changed() -> None:
    """A thousand versions were kept, each as large as a policy may be, and ten times that compiled."""

    async def steps(world: World) -> None:
        await world.policy("false")
        await world.bind()
        for number in range(20):
            change = {"spec": {"validations": [{"expression": f"object.metadata.name != 'y-{number}'"}]}}
            await world.api.patch(world.row("ValidatingAdmissionPolicy"), "p", "", change)
            await world.create(name=f"x-{number}")
            await world.refusal(world.create(name=f"y-{number}"))
        assert sum(type(found) is CompiledPolicy for found in gc.get_objects()) <= 2

    gc.collect()
    within(steps)


def test_nobody_is_locked_out_of_the_policies_themselves() -> None:
    async def steps(world: World) -> None:
        await world.policy("false", rule=ANYTHING)
        await world.bind()
        await world.refusal(world.api.create(NAMESPACES, {"metadata": {"name": "n"}}))
        await world.api.delete(world.row("ValidatingAdmissionPolicyBinding"), "b")
        await world.api.create(NAMESPACES, {"metadata": {"name": "n"}})

    within(steps)


def test_what_is_refused_of_a_policy() -> None:
    async def steps(world: World) -> None:
        cases = [
            ({"expression": "object."}, "spec.validations[0].expression", "compilation failed: ERROR: <input>:1:8"),
            (
                {"expression": "object.metadata.name.matches('[')"},
                "spec.validations[0].expression",
                "compilation failed: ERROR: <input>:1:30: invalid matches argument",
            ),
            (
                {"expression": "object.metadata.name.find('[') == ''"},
                "spec.validations[0].expression",
                "Internal error: program instantiation failed: error parsing regexp: missing closing ]: `[`",
            ),
            ({"expression": "1"}, "spec.validations[0].expression", "must evaluate to bool"),
            ({"expression": "nope"}, "spec.validations[0].expression", "undeclared reference to 'nope'"),
            ({"expression": "params.x"}, "spec.validations[0].expression", "undeclared reference to 'params'"),
            ({"expression": ""}, "spec.validations[0].expression", "expression is not specified"),
            (
                {"expression": "true", "messageExpression": "1"},
                "spec.validations[0].messageExpression",
                "must evaluate to string",
            ),
            ({"expression": "true", "reason": "Because"}, "spec.validations[0].reason", "Unsupported value"),
            ({"expression": "request.nope == ''"}, "spec.validations[0].expression", "undefined field 'nope'"),
        ]
        for validation, field, text in cases:
            with pytest.raises(Invalid) as caught:
                await world.policy(validation)
            assert [(cause.field, text in cause.message) for cause in caught.value.causes] == [(field, True)], (
                validation
            )
        with pytest.raises(Invalid, match="expressions have more than 50000 characters together"):
            await world.policy(*["true" + " || true" * 1800] * 4)

    within(steps)


def test_deployments_of_controllers_are_asked_as_well() -> None:
    """What a component of this process writes passes admission too."""

    async def steps(world: World) -> None:
        rule = {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["deployments/scale"],
        }
        await world.policy({"expression": "object.spec.replicas <= 5", "message": "at most 5"}, rule=rule)
        await world.bind()
        labels = {"app": "a"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        await world.api.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec}, "default")
        scaled = world.api.patch(DEPLOYMENTS, "d", "default", {"spec": {"replicas": 9}}, subresource="scale")
        assert (await world.refusal(scaled)).endswith("denied request: at most 5")

    within(steps)


def test_an_expression_may_cost_only_so_much_and_the_next_is_asked_all_the_same() -> None:
    async def steps(world: World) -> None:
        await world.policy(TOO_COSTLY, {"expression": "false", "message": "second"})
        await world.bind()
        assert await world.refusal(world.create({"s": LONG})) == PREFIX + CANCELLED
        patch = {"spec": {"failurePolicy": "Ignore"}}
        await world.api.patch(world.row("ValidatingAdmissionPolicy"), "p", "", patch)
        assert await world.refusal(world.create({"s": LONG})) == PREFIX + "second"

    within(steps)


@pytest.mark.parametrize("spec", [{"validations": 12}, {"auditAnnotations": 12}, {"matchConditions": 3}])
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_policy_has_a_budget_and_its_failure_policy_says_what_is_beyond_it(spec: Obj, policy: str) -> None:
    """Whatever was found before is not told: upstream gives up the whole policy."""

    async def steps(world: World) -> None:
        told = [
            {"key": f"k{at}", "valueExpression": f"string({COSTLY})"} for at in range(spec.get("auditAnnotations", 0))
        ]
        conditions = [{"name": f"c{at}", "expression": COSTLY} for at in range(spec.get("matchConditions", 0))]
        validations = [{"expression": "false", "message": "before"}, *[COSTLY] * spec.get("validations", 0)]
        await world.policy(*validations, auditAnnotations=told, matchConditions=conditions, failurePolicy=policy)
        await world.bind()
        audit = a_request()
        made = world.told({"s": LONG}, audit)
        if policy == "Fail":
            assert await world.refusal(made) == PREFIX + EXHAUSTED
        else:
            await made
        assert annotations_of(audit) == {}
        await world.refusal(world.create({"s": "short"}, "y"))

    within(steps)


def test_what_is_asked_beside_what_decides_is_paid_as_well() -> None:
    """All match conditions are asked though one does not hold, and all messages though everything holds."""

    async def steps(world: World) -> None:
        conditions = [{"name": f"c{at}", "expression": COSTLY} for at in range(3)]
        await world.policy("true", matchConditions=[{"name": "no", "expression": "false"}, *conditions])
        await world.bind()
        assert await world.refusal(world.create({"s": LONG})) == PREFIX + EXHAUSTED
        patch: Obj = {"spec": {"matchConditions": conditions[:2]}}
        await world.api.patch(world.row("ValidatingAdmissionPolicy"), "p", "", patch)
        await world.create({"s": LONG})
        patch = {"spec": {"validations": [{"expression": "true", "messageExpression": f"string({COSTLY})"}] * 12}}
        await world.api.patch(world.row("ValidatingAdmissionPolicy"), "p", "", patch)
        text = await world.refusal(world.create({"s": LONG}, "y"))
        assert text == PREFIX.replace('"x"', '"y"') + f"failed messageExpression: {EXHAUSTED}"

    within(steps)


def test_just_within_its_budget_a_policy_decides() -> None:
    async def steps(world: World) -> None:
        conditions = [{"name": f"c{at}", "expression": COSTLY} for at in range(2)]
        told = [{"key": "k", "valueExpression": f"string({COSTLY})"}]
        await world.policy(*[COSTLY] * 10, matchConditions=conditions, auditAnnotations=told)
        await world.bind()
        audit = a_request()
        await world.told({"s": LONG}, audit)
        assert annotations_of(audit) == {"p/k": "true"}

    within(steps)


def test_messages_are_paid_from_what_is_left() -> None:
    async def steps(world: World) -> None:
        last = {"expression": "false", "messageExpression": f"string({COSTLY})"}
        await world.policy(*[COSTLY] * 11, last)
        await world.bind()
        assert await world.refusal(world.create({"s": LONG})) == f"{PREFIX}failed messageExpression: {EXHAUSTED}"

    within(steps)


def test_a_variable_is_paid_once_beside_the_expression_that_asks_for_it() -> None:
    async def steps(world: World) -> None:
        variables = [{"name": "a", "expression": COSTLY}, {"name": "b", "expression": TOO_COSTLY}]
        await world.policy(*[f"variables.a && {COSTLY}"] * 9, "variables.a || variables.b", variables=variables)
        await world.bind()
        await world.create({"s": LONG})
        await world.api.patch(
            world.row("ValidatingAdmissionPolicy"), "p", "", {"spec": {"validations": [{"expression": "variables.b"}]}}
        )
        why = 'composited variable "b" fails to evaluate: operation cancelled: actual cost limit exceeded'
        text = f"{PREFIX}expression 'variables.b' resulted in error: {why}"
        assert await world.refusal(world.create({"s": LONG})) == text

    within(steps)


def test_one_expression_may_ask_the_authorizer_twice() -> None:
    async def steps(world: World) -> None:
        check = "authorizer.group('').resource('secrets').check('get').allowed()"
        await world.policy(f"{check} && {check}", f"{check} && {check} && {check}")
        await world.bind("Warn")
        result = await world.told({}, a_request())
        (warning,) = result.warnings
        assert warning.endswith("resulted in error: operation cancelled: actual cost limit exceeded")

    within(steps)


def test_conditions_that_fail_are_told_together() -> None:
    async def steps(world: World) -> None:
        conditions = [{"name": name, "expression": f"object.{name} == 1"} for name in ("a", "b")]
        await world.policy("true", matchConditions=conditions)
        await world.bind()
        told = [f"expression 'object.{name} == 1' resulted in error: no such key: {name}" for name in ("a", "b")]
        assert await world.refusal(world.create()) == f"{PREFIX}[{told[0]}, {told[1]}]"

    within(steps)


def test_large_objects_do_not_wait_for_policies_about_others() -> None:
    async def steps(world: World) -> None:
        numbers = str(list(range(60)))
        loops = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"  # takes long, and is stopped
        await world.policy(*[loops] * 4)
        await world.bind()
        slow = [asyncio.create_task(world.refusal(world.create(name=name))) for name in ("a", "b", "c")]
        await asyncio.sleep(0.1)  # each has had its time on the loop
        large = {"metadata": {"name": "large"}, "data": {"k": "a" * 200_000}}
        await world.server.registry.create(replace(INTERNAL, body_bytes=200_000), SECRETS, large, "default")
        assert not any(task.done() for task in slow)
        await asyncio.gather(*slow)

    within(steps)


def test_what_takes_long_does_not_hold_the_loop() -> None:
    """A policy of nested loops over an object of a stranger is evaluated beside the loop, and so are its questions."""

    async def steps(world: World) -> None:
        numbers = str(list(range(60)))
        loops = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"
        check = "authorizer.group('').resource('secrets').check('get').allowed()"
        await world.policy(f"{loops} && false", loops.replace(">= 0", f">= 0 || {check}") + f" && {check}")
        await world.bind()
        _, turns = await counting_turns(world.refusal(world.create()))
        assert turns > 40

    within(steps)


class Endless:
    """An evaluation that nobody but its meter ends."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self._program = Environment({}).compile(f"{list(range(60))}.all(a, a >= 0)")

    def __call__(self, until: Until) -> None:
        self.begun.set()
        try:
            while not self.ended.wait(0):
                Budget(POLICY_BUDGET, until).value(self._program, {})
        finally:
            self.ended.set()


def test_nobody_waits_for_the_end_of_what_takes_another_user_long() -> None:
    """Neither for what is going on, nor for what this user has given before."""

    async def run() -> None:
        greedy, others = [Endless() for _ in range(3)], [Endless() for _ in range(3)]
        asking = [asyncio.create_task(RequestTime("greedy").evaluate(endless, is_long=True)) for endless in greedy]
        assert await asyncio.to_thread(greedy[0].begun.wait, 30)
        asking += [
            asyncio.create_task(RequestTime(f"user-{number}").evaluate(endless, is_long=True))
            for number, endless in enumerate(others)
        ]
        for endless in others:
            assert await asyncio.to_thread(endless.begun.wait, 5)
        assert not greedy[1].begun.is_set()
        for endless in greedy + others:
            endless.ended.set()
        await asyncio.gather(*asking)

    asyncio.run(run())


def test_an_evaluation_ends_with_its_request() -> None:
    """Nobody waits for it any more, neither those whose turn is next nor a server that stops."""

    async def run() -> None:
        endless = Endless()
        asking = asyncio.create_task(RequestTime("u").evaluate(endless, is_long=True))
        assert await asyncio.to_thread(endless.begun.wait, 30)
        asking.cancel()
        try:
            assert await asyncio.to_thread(endless.ended.wait, 5)
        finally:
            endless.ended.set()

    asyncio.run(run())


def test_policies_may_take_as_long_as_a_request_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_REQUEST_SECONDS", 0.05)
    text = "Timeout: request did not complete within requested timeout - context deadline exceeded"

    async def steps(world: World) -> None:
        numbers = str(list(range(60)))
        loops = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"
        await world.policy(*[loops] * 9, failurePolicy="Ignore")
        await world.bind()
        assert await world.refusal(world.create()) == text
        assert "not found" in await world.refusal(world.api.get(CONFIG_MAPS, "x", "default"))

    within(steps)


def test_a_write_that_is_tried_again_and_again_has_the_time_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody changes the object faster than a policy about it is evaluated."""
    monkeypatch.setattr(evaluation, "_REQUEST_SECONDS", 1.0)

    async def steps(world: World) -> None:
        numbers = str(list(range(30)))
        loops = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"
        await world.create({"n": "0"})
        await world.policy(*[loops] * 12, matchConditions=[{"name": "slow", "expression": "'slow' in object.data"}])
        await world.bind()

        async def change() -> None:
            for number in range(10**6):
                await world.api.patch(CONFIG_MAPS, "x", "default", {"data": {"n": str(number)}})
                await asyncio.sleep(0.01)

        changing = asyncio.create_task(change())
        async with asyncio.timeout(20):
            text = await world.refusal(world.api.patch(CONFIG_MAPS, "x", "default", {"data": {"slow": "yes"}}))
        assert "did not complete within requested timeout" in text
        changing.cancel()

    within(steps)
