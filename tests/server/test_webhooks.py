"""Admission webhooks (issue 16): who is asked, what they are told, and what their answers, or none, mean."""

from __future__ import annotations

import asyncio
import gzip
import json
from base64 import b64encode
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from fairlead.api import builtin
from fairlead.api.builtin import CONFIG_MAPS, DEPLOYMENTS, ENDPOINT_SLICES, PODS, SECRETS, SERVICES
from fairlead.api.errors import ApiError, BadRequest, InternalError
from fairlead.api.objects import Obj
from fairlead.api.verbs import DeleteOptions, PatchType, WriteOptions
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.server.audit.event import Level
from fairlead.store.memory import MemoryStore
from tests.measured_nodes import MeasuredNodes, node
from tests.server.audit_world import a_request, annotations_of
from tests.server.http_world import Server as HttpServer
from tests.server.http_world import serving_in_a_thread
from tests.server.webhook_world import CONFIGS, VALIDATING, Webhooks, World, allowed, denied, patched, within

CALL = "failed to call webhook: "
INVALID = "received invalid webhook response: "
FAILED = 'Internal error occurred: failed calling webhook "v0.example.com": '
ADD = {"op": "add", "path": "/data", "value": {"k": "v"}}


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        ({}, 400, "", "without explanation"),
        ({"message": "no"}, 400, "", ": no"),
        ({"reason": "Sunday"}, 400, "Sunday", ": Sunday"),
        ({"code": 403, "message": "no", "reason": "Forbidden"}, 403, "Forbidden", ": no"),
        ({"code": 200, "status": "Success", "message": "no"}, 400, "", ": no"),
        ({"code": 418, "message": "tea", "details": {"name": "x"}}, 418, "", ": tea"),
    ],
)
def test_a_denial_is_told_in_the_words_of_the_webhook(status: Obj, code: int, reason: str, message: str) -> None:
    async def steps(world: World) -> None:
        await world.validating(lambda review: denied(review, **status))
        error = await world.refusal(world.create())
        told = error.status()
        separator = "" if message.startswith(":") else " "
        assert told["message"] == f'admission webhook "v0.example.com" denied the request{separator}{message}'
        assert (error.code, told["code"], told.get("reason", "")) == (code, code, reason)
        assert (told["status"], told.get("details")) == ("Failure", status.get("details"))
        assert await world.refusal(world.api.get(CONFIG_MAPS, "x", "default"))

    within(steps)


def test_what_a_webhook_is_sent() -> None:
    async def steps(world: World) -> None:
        await world.validating(allowed)
        options = WriteOptions(field_manager="me", field_validation="Strict")
        obj = {"metadata": {"name": "x"}, "data": {"k": "v"}}
        stored = (await world.api.create(CONFIG_MAPS, obj, "default", options=options)).obj()
        path, review = world.webhooks.reviews[0]
        assert (review["kind"], review["apiVersion"], path) == ("AdmissionReview", "admission.k8s.io/v1", "v0")
        request = review["request"]
        stored["metadata"].pop("resourceVersion")
        kind, resource = {"group": "", "version": "v1", "kind": "ConfigMap"}, {"group": "", "version": "v1"}
        assert request.pop("uid") and request.pop("object") == stored
        assert request == {
            "kind": kind,
            "resource": resource | {"resource": "configmaps"},
            "requestKind": kind,
            "requestResource": resource | {"resource": "configmaps"},
            "name": "x",
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {"username": "system:admin", "groups": ["system:masters"]},
            "oldObject": None,
            "dryRun": False,
            "options": {
                "kind": "CreateOptions",
                "apiVersion": "meta.k8s.io/v1",
                "fieldManager": "me",
                "fieldValidation": "Strict",
            },
        }
        asked = world.webhooks.requests[0]
        assert (asked.query_string, asked.content_type) == ("timeout=10s", "application/json")

    within(steps)


def test_updates_and_deletions_show_what_was_there() -> None:
    async def steps(world: World) -> None:
        await world.create(data={"k": "1"})
        await world.validating(allowed)
        await world.api.patch(CONFIG_MAPS, "x", "default", {"data": {"k": "2"}}, PatchType.MERGE)
        request = world.webhooks.request()
        assert (request["operation"], request["options"]["kind"]) == ("UPDATE", "UpdateOptions")
        assert (request["oldObject"]["data"], request["object"]["data"]) == ({"k": "1"}, {"k": "2"})
        await world.api.delete(CONFIG_MAPS, "x", "default", DeleteOptions(grace_period_seconds=0))
        request = world.webhooks.request()
        assert (request["operation"], request["object"]) == ("DELETE", None)
        assert request["oldObject"]["data"] == {"k": "2"}
        assert request["options"] == {
            "kind": "DeleteOptions",
            "apiVersion": "meta.k8s.io/v1",
            "gracePeriodSeconds": 0,
        }

    within(steps)


def test_mutating_webhooks_see_what_those_before_them_changed() -> None:
    async def steps(world: World) -> None:
        await world.mutating(
            lambda review: patched(review, ADD),
            lambda review: patched(review, {"op": "replace", "path": "/data/k", "value": "w"}),
        )
        await world.validating(allowed)
        assert (await world.create())["data"] == {"k": "w"}
        assert world.webhooks.asked() == ["m0", "m1", "v0"]
        assert world.webhooks.request(1)["object"]["data"] == {"k": "v"}
        assert world.webhooks.request(2)["object"]["data"] == {"k": "w"}

    within(steps)


def test_what_a_webhook_adds_is_defaulted_counted_and_checked() -> None:
    async def steps(world: World) -> None:
        rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments"]}]
        created = (await world.api.create(DEPLOYMENTS, deployment(), "default")).obj()
        sidecar = {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "side", "image": "s"}}
        status = {"op": "add", "path": "/status/replicas", "value": 7}
        await world.mutating(lambda review: patched(review, sidecar, status), rules=rules)
        patch = {"metadata": {"labels": {"a": "b"}}}
        updated = (await world.api.patch(DEPLOYMENTS, "x", "default", patch, PatchType.MERGE)).obj()
        assert updated["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] == "Always"
        assert updated["metadata"]["generation"] == created["metadata"]["generation"] + 1
        assert updated["status"] == created["status"]
        sidecar["value"] = {"name": "No", "image": "s"}
        error = await world.refusal(world.api.patch(DEPLOYMENTS, "x", "default", patch, PatchType.MERGE))
        assert "spec.template.spec.containers[2].name: Invalid value" in error.message

    within(steps)


def test_who_wants_to_is_asked_again_once_others_changed_the_object() -> None:
    async def steps(world: World) -> None:
        def count(review: Obj) -> Obj:
            data = review["request"]["object"].get("data") or {}
            return patched(review, {"op": "add", "path": "/data", "value": data | {f"seen{len(data)}": ""}})

        await world.mutating(count, count, allowed, reinvocationPolicy="IfNeeded")
        assert sorted((await world.create())["data"]) == ["seen0", "seen1", "seen2", "seen3"]
        assert world.webhooks.asked() == ["m0", "m1", "m2", "m0", "m1", "m2"]
        world.webhooks.reviews.clear()
        await world.api.delete(builtin.MUTATING_WEBHOOK_CONFIGURATIONS, "m")
        await world.mutating(count, count)
        assert sorted((await world.create("y"))["data"]) == ["seen0", "seen1"]
        assert world.webhooks.asked() == ["m0", "m1"]

    within(steps)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            {"op": "remove", "path": "/data/x/y"},
            'remove operation does not apply: doc is missing path: "/data/x/y": missing value',
        ),
        ({"op": "test", "path": "/kind", "value": "Pod"}, "testing value /kind failed: test failed"),
        ({"op": "nonsense", "path": "/kind"}, "Unexpected kind: nonsense"),
    ],
)
def test_a_patch_that_does_not_apply_is_an_error(operation: Obj, message: str) -> None:
    async def steps(world: World) -> None:
        await world.mutating(lambda review: patched(review, operation), failurePolicy="Ignore")
        error = await world.refusal(world.create())
        assert (error.code, error.message) == (500, f"Internal error occurred: {message}")

    within(steps)


def test_a_deletion_cannot_be_patched() -> None:
    async def steps(world: World) -> None:
        await world.create()
        await world.mutating(lambda review: patched(review, ADD))
        error = await world.refusal(world.api.delete(CONFIG_MAPS, "x", "default"))
        assert error.message == (
            'Internal error occurred: admission webhook "m0.example.com" attempted to modify the object, which is not '
            "supported for this operation"
        )

    within(steps)


#: A few bytes that would become many.
BOMB = gzip.compress(b" " * (64 << 20))


async def never(review: Obj) -> Obj:
    await asyncio.sleep(60)
    return allowed(review)


def text(body: str, status: int = 200) -> Any:
    return lambda review: web.Response(text=body, status=status)


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (never, f'{CALL}Post "URL": context deadline exceeded'),
        (
            text("nonsense"),
            f"{CALL}couldn't get version/kind; json parse error: invalid character 'o' in literal null (expecting 'u')",
        ),
        (text("no", 500), f'{CALL}an error on the server ("no") has prevented the request from succeeding'),
        (text("gone", 404), f"{CALL}the server could not find the requested resource"),
        (
            text("there", 302),
            f"{CALL}the server responded with the status code 302 but did not return more information",
        ),
        (text(""), f"{CALL}0-length response with status code: 200 and content type: text/plain; charset=utf-8"),
        (lambda review: {"kind": "Status", "status": "Failure"}, f"{INVALID}webhook response was absent"),
        (lambda review: review, f"{INVALID}webhook response was absent"),
        (lambda review: allowed(review, uid="x"), f'{INVALID}expected response.uid="UID", got "x"'),
        (
            lambda review: {"response": allowed(review)["response"]},
            f"{INVALID}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
        ),
        (
            lambda review: allowed(review) | {"apiVersion": "admission.k8s.io/v1beta1"},
            f"{CALL}converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
        ),
        (lambda review: patched(review, ADD), f"{INVALID}validating webhook may not return response.patch"),
        (text("x" * (9 << 20)), f"{CALL}the answer has more than 8388608 bytes"),
        (
            lambda review: web.Response(body=BOMB, headers={"Content-Encoding": "gzip"}),
            f"{CALL}couldn't get version/kind; json parse error: invalid character '\\x1f' looking for beginning "
            "of value",
        ),
    ],
)
def test_a_webhook_that_is_slow_wrong_or_enormous_falls_to_its_failure_policy(handler: Any, message: str) -> None:
    seconds = 1 if handler is never else 30  # what answers at all may take its time

    async def steps(world: World) -> None:
        await world.validating(handler, timeoutSeconds=seconds)
        error = await world.refusal(world.create())
        url = f"https://127.0.0.1:{world.webhooks.port}/v0?timeout={seconds}s"
        expected = message.replace("URL", url).replace("UID", world.webhooks.request()["uid"])
        assert isinstance(error, InternalError)
        assert error.message.startswith(FAILED)
        assert error.message.endswith(expected)
        assert error.causes[0].message == error.message.partition(": ")[2]

    async def ignored(world: World) -> None:
        await world.validating(handler, timeoutSeconds=seconds, failurePolicy="Ignore")
        await world.create()
        assert world.webhooks.asked() == ["v0"]

    within(steps)
    within(ignored)


def test_a_dead_webhook_falls_to_its_failure_policy() -> None:
    async def steps(world: World) -> None:
        dead = {"url": "https://127.0.0.1:1/x"}
        await world.validating(allowed, clientConfig=dead)
        error = await world.refusal(world.create())
        post = 'failed to call webhook: Post "https://127.0.0.1:1/x?timeout=10s": '
        assert error.message == f"{FAILED}{post}dial tcp 127.0.0.1:1: connect: connection refused"
        await world.mutating(allowed, clientConfig=dead, failurePolicy="Ignore")
        await world.api.delete(VALIDATING, "v")
        await world.create()

    within(steps)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"caBundle": ""}, "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        (
            {"caBundle": b64encode(b"nonsense").decode()},
            "unable to load root certificates: unable to parse bytes as PEM block",
        ),
    ],
)
def test_whom_nobody_vouches_for_is_not_asked(changes: Obj, message: str) -> None:
    async def steps(world: World) -> None:
        await world.validating(allowed, clientConfig=world.webhooks.at("v0", allowed) | changes)
        error = await world.refusal(world.create())
        assert error.message.endswith(message)
        assert world.webhooks.asked() == []

    within(steps)


def test_slashes_too_many_in_the_url_of_a_webhook_are_left_out() -> None:
    """Webhooks of controller-runtime's envtest have two; Go's servers send who asks for such a path elsewhere."""

    async def steps(world: World) -> None:
        client = world.webhooks.at("v0", allowed)
        await world.validating(allowed, clientConfig=client | {"url": client["url"].replace("/v0", "//./v0/")})
        await world.create()
        assert [request.path for request in world.webhooks.requests] == ["/v0"]

    within(steps)


def test_nobody_else_waits_for_a_slow_webhook() -> None:
    async def steps(world: World) -> None:
        asked, answer = asyncio.Event(), asyncio.Event()

        async def slow(review: Obj) -> Obj:
            asked.set()
            await answer.wait()
            return allowed(review)

        await world.validating(slow)
        waiting = asyncio.create_task(world.create())
        await asked.wait()
        await world.create("s", SECRETS)
        assert not waiting.done()
        answer.set()
        await waiting

    within(steps)


@pytest.mark.parametrize(
    ("changes", "is_asked"),
    [
        ({}, True),
        ({"rules": []}, False),
        ({"rules": [CONFIGS | {"operations": ["UPDATE"]}]}, False),
        ({"rules": [CONFIGS | {"resources": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}]}, True),
        ({"rules": [CONFIGS | {"apiVersions": ["v2"]}]}, False),
        ({"rules": [CONFIGS | {"scope": "Cluster"}]}, False),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, False),
        ({"matchConditions": [{"name": "a", "expression": "request.name == 'x'"}]}, True),
        ({"matchConditions": [{"name": "a", "expression": "object.metadata.labels.app == 'db'"}]}, False),
        (
            {"matchConditions": [{"name": "a", "expression": "object.no"}, {"name": "b", "expression": "false"}]},
            False,
        ),
        ({"matchConditions": [{"name": "a", "expression": "object.no"}], "failurePolicy": "Ignore"}, False),
    ],
)
def test_which_requests_a_webhook_is_asked_about(changes: Obj, is_asked: bool) -> None:
    async def steps(world: World) -> None:
        await world.validating(allowed, **changes)
        await world.mutating(allowed, **changes)
        await world.create(metadata={"labels": {"app": "web"}})
        assert world.webhooks.asked() == (["m0", "v0"] if is_asked else [])

    within(steps)


def test_a_condition_that_fails_refuses_the_request() -> None:
    async def steps(world: World) -> None:
        await world.validating(allowed, matchConditions=[{"name": "a", "expression": "object.no"}])
        error = await world.refusal(world.create())
        text = "configmaps \"x\" is forbidden: expression 'object.no' resulted in error: no such key: no"
        assert (error.code, error.message) == (403, text)

    within(steps)


def test_conditions_have_a_budget() -> None:
    async def steps(world: World) -> None:
        check = "authorizer.group('').resource('secrets').check('get').allowed()"  # 350,000 units
        conditions = [{"name": f"c{at}", "expression": f"{check} && {check}"} for at in range(4)]
        await world.validating(allowed, matchConditions=conditions[:3])
        await world.create("w")
        assert world.webhooks.asked() == ["v0"]
        await world.mutating(allowed, matchConditions=conditions)
        error = await world.refusal(world.create())
        why = "validation failed due to running out of cost budget, no further validation rules will be run"
        assert (error.code, error.message) == (403, f'configmaps "x" is forbidden: {why}')

    within(steps)


def test_an_equal_version_stands_for_the_one_that_a_rule_names() -> None:
    async def steps(world: World) -> None:
        rule = {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["*"]}
        rules = [rule | {"resources": ["horizontalpodautoscalers"]}]
        percent = {"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 30}
        await world.mutating(lambda review: patched(review, percent), rules=rules)
        target = {"type": "Utilization", "averageUtilization": 50}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        reference = {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}
        spec = {"scaleTargetRef": reference, "maxReplicas": 3, "metrics": [metric]}
        stored = await world.create("h", builtin.HORIZONTAL_POD_AUTOSCALERS, spec=spec)
        request = world.webhooks.request()
        assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
        assert request["object"]["apiVersion"] == "autoscaling/v1"
        assert request["object"]["spec"]["targetCPUUtilizationPercentage"] == 50
        assert stored["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 30
        await world.validating(denied, rules=rules, matchPolicy="Exact")
        await world.create("i", builtin.HORIZONTAL_POD_AUTOSCALERS, spec=spec)

    within(steps)


def test_subresources_show_what_they_have_instead_of_the_object() -> None:
    async def steps(world: World) -> None:
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        await world.api.create(DEPLOYMENTS, deployment(), "default")
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await world.api.create(PODS, pod, "default")
        five = {"op": "replace", "path": "/spec/replicas", "value": 5}
        await world.mutating(
            lambda review: patched(review, five) if review["request"]["kind"]["kind"] == "Scale" else allowed(review),
            rules=[rule],
        )
        patch = {"spec": {"replicas": 3}}
        scale = await world.api.patch(DEPLOYMENTS, "x", "default", patch, PatchType.MERGE, subresource="scale")
        request = world.webhooks.request()
        assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        assert (request["resource"]["resource"], request["subResource"]) == ("deployments", "scale")
        assert (request["object"]["spec"]["replicas"], request["oldObject"]["kind"]) == (3, "Scale")
        assert scale.obj()["spec"]["replicas"] == 5
        binding = {"metadata": {"name": "p"}, "target": {"name": "n", "kind": "Node"}}
        await world.api.create(PODS, binding, "default", name="p", subresource="binding")
        request = world.webhooks.request()
        assert (request["kind"]["kind"], request["object"]["target"]["name"]) == ("Binding", "n")
        assert (request["resource"]["resource"], request["subResource"]) == ("pods", "binding")
        status = {"status": {"message": "m"}}
        await world.api.patch(PODS, "p", "default", status, PatchType.MERGE, subresource="status")
        request = world.webhooks.request()
        assert (request["kind"]["kind"], request["subResource"]) == ("Pod", "status")

    within(steps)


def test_dry_runs_are_for_webhooks_without_side_effects() -> None:
    async def steps(world: World) -> None:
        await world.validating(allowed, sideEffects="NoneOnDryRun")
        options = WriteOptions(dry_run=True)
        await world.api.create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default", options=options)
        request = world.webhooks.request()
        assert (request["dryRun"], request["options"]["dryRun"]) == (True, ["All"])
        registry = world.server.registry
        await registry.guaranteed_update(VALIDATING.qualified, "v", "", _with_side_effects)
        made = world.api.create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default", options=options)
        error = await world.refusal(made)
        assert isinstance(error, BadRequest)
        assert error.message == 'admission webhook "v0.example.com" does not support dry run'

    within(steps)


def _on_this_machine(obj: Obj) -> Obj:
    obj["endpoints"][1]["addresses"] = ["127.0.0.1"]
    return obj


#: What nobody in their right mind would do to an object.
EVIL: list[Obj] = [
    {"op": "remove", "path": "/metadata"},
    {"op": "replace", "path": "/metadata", "value": []},
    {"op": "replace", "path": "/metadata", "value": None},
    {"op": "replace", "path": "/metadata", "value": {}},
    {"op": "replace", "path": "/kind", "value": "Pod"},
    {"op": "remove", "path": "/apiVersion"},
    {"op": "replace", "path": "/metadata/name", "value": "other"},
    {"op": "add", "path": "/metadata/namespace", "value": "other"},
    {"op": "add", "path": "/metadata/uid", "value": 7},
    {"op": "add", "path": "/metadata/resourceVersion", "value": "99999"},
    {"op": "add", "path": "/metadata/managedFields", "value": [{"manager": 5}]},
    {"op": "add", "path": "/metadata/ownerReferences", "value": [{"uid": 1}]},
    {"op": "add", "path": "/metadata/labels", "value": 5},
    {"op": "replace", "path": "", "value": {}},
    {"op": "replace", "path": "", "value": []},
    {"op": "add", "path": "/spec", "value": []},
    {"op": "add", "path": "/status", "value": 5},
]


def test_whatever_a_webhook_does_to_an_object_it_is_stored_as_it_was_named_or_refused() -> None:
    async def steps(world: World) -> None:
        await world.define(ships())
        ship = world.server.registry.resource_of("example.com", "v2", "Ship")
        assert ship is not None
        everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        kinds = [(CONFIG_MAPS, {"data": {"a": "b"}}), (DEPLOYMENTS, deployment()), (ship, {"spec": {"a": 1}})]
        kinds = [(row, {key: value for key, value in obj.items() if key != "metadata"}) for row, obj in kinds]
        for row, fields in kinds:
            await world.create("old", row, **fields)
        operation: Obj = {}
        await world.mutating(lambda review: patched(review, operation), rules=[everything])
        for evil in EVIL:
            operation.clear()
            operation.update(evil)
            for row, fields in kinds:
                change = {"metadata": {"annotations": {"of": str(EVIL.index(evil))}}}
                with suppress(ApiError):
                    await world.create("new", row, **fields)
                with suppress(ApiError):
                    await world.api.patch(row, "old", "default", change, PatchType.MERGE)
                if "status" in row.subresources:
                    with suppress(ApiError):
                        await world.api.patch(row, "old", "default", change, PatchType.MERGE, subresource="status")
        for row, _ in kinds:
            found = [item.obj()["metadata"] for item in (await world.api.list(row)).items]
            assert {meta["namespace"] for meta in found} <= {"default", "kube-system", "kube-public", "kube-node-lease"}
            assert {meta["name"] for meta in found} <= {"old", "new", "other", "kube-root-ca.crt"}

    within(steps)


def ships() -> Obj:
    """A kind in two versions, whose objects may say anything."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    common = {"served": True, "schema": schema, "subresources": {"status": {}}}
    versions = [{"name": name, "storage": name == "v1", **common} for name in ("v1", "v2")]
    names = {"plural": "ships", "singular": "ship", "kind": "Ship"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": "ships.example.com"}, "spec": spec}


def deployment() -> Obj:
    labels, containers = {"app": "x"}, [{"name": "c", "image": "i"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def _with_side_effects(obj: Obj) -> Obj:
    obj["webhooks"][0]["sideEffects"] = "Some"  # as it was possible in an older Kubernetes
    return obj


def test_warnings_reach_the_client_also_with_a_refusal() -> None:
    async def steps(world: World) -> None:
        await world.validating(lambda review: allowed(review, warnings=["careful"]))
        assert (await world.told(CONFIG_MAPS, {"metadata": {"name": "x"}})).warnings == ["careful"]
        await world.mutating(
            lambda review: denied(review) | {"response": denied(review)["response"] | {"warnings": ["w"]}}
        )
        assert (await world.refusal(world.create("y"))).warnings == ["w"]

    within(steps)


def test_the_audit_log_and_metrics_are_told_what_webhooks_did_and_said() -> None:
    async def steps(world: World) -> None:
        await world.mutating(allowed, lambda review: patched(review, ADD))
        dead = {"url": "https://127.0.0.1:1/x"}
        await world.validating(allowed, clientConfig=dead, failurePolicy="Ignore")
        await world.api.create(VALIDATING, {"metadata": {"name": "w"}, "webhooks": [_noting(world)]})
        audit = a_request()
        await world.told(CONFIG_MAPS, {"metadata": {"name": "x"}}, audit)
        mutation, failed = "mutation.webhook.admission.k8s.io/", "failed-open.validating.webhook.admission.k8s.io/"
        assert annotations_of(audit) == {
            f"{mutation}round_0_index_0": '{"configuration":"m","webhook":"m0.example.com","mutated":false}',
            f"{mutation}round_0_index_1": '{"configuration":"m","webhook":"m1.example.com","mutated":true}',
            f"{failed}round_0_index_0": "v0.example.com",
            "note.example.com/why": "because",
        }

    within(steps)


def test_from_level_request_on_the_audit_log_has_the_patches_of_webhooks() -> None:
    async def steps(world: World) -> None:
        await world.mutating(lambda review: patched(review, ADD))
        audit = a_request(Level.REQUEST)
        await world.told(CONFIG_MAPS, {"metadata": {"name": "x"}}, audit)
        told = json.loads(annotations_of(audit)["patch.webhook.admission.k8s.io/round_0_index_0"])
        assert told == {"configuration": "m", "webhook": "m0.example.com", "patch": [ADD], "patchType": "JSONPatch"}

    within(steps)


def _noting(world: World) -> Obj:
    return {
        "name": "note.example.com",
        "clientConfig": world.webhooks.at("note", lambda review: allowed(review, auditAnnotations={"why": "because"})),
        "rules": [CONFIGS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def test_a_service_leads_to_its_ready_endpoints() -> None:
    async def steps(world: World) -> None:
        world.webhooks.at("guard/me", allowed)
        service = {"namespace": "default", "name": "guard", "path": "/guard/me"}
        client = {"service": service, "caBundle": world.webhooks.bundle}
        await world.validating(allowed, clientConfig=client)
        post = 'failed to call webhook: Post "https://guard.default.svc:443/guard/me?timeout=10s": '
        assert (await world.refusal(world.create())).message == f'{FAILED}{post}service "guard" not found'
        port = {"name": "https", "port": 443, "protocol": "TCP"}
        await world.create("guard", SERVICES, spec={"ports": [port]})
        assert (await world.refusal(world.create())).message == (
            f'{FAILED}{post}no endpoints available for service "guard"'
        )
        slice_ = {
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.0.0.9"], "conditions": {"ready": False}},
                {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
            ],
            "ports": [port | {"port": world.webhooks.port}],
        }
        labels = {"kubernetes.io/service-name": "guard"}
        await world.create("s", ENDPOINT_SLICES, metadata={"labels": labels}, **slice_)
        change = world.server.registry.guaranteed_update  # nobody may write addresses of this machine
        await change(ENDPOINT_SLICES.qualified, "s", "default", _on_this_machine)
        await world.create()
        assert world.webhooks.requests[-1].headers["Host"] == "guard.default.svc:443"
        patch = {"spec": {"ports": [port | {"port": 444}]}}
        await world.api.patch(SERVICES, "guard", "default", patch, PatchType.MERGE)
        assert (await world.refusal(world.create("y"))).message == (
            f'{FAILED}{post}no service port 443 found for service "guard"'
        )

    within(steps)


def test_a_pod_of_a_simulated_node_is_not_looked_for_on_the_network_of_this_machine() -> None:
    async def steps(world: World) -> None:
        world.server.serve_nodes(MeasuredNodes(node("simulated")))
        service = {"namespace": "default", "name": "guard"}
        world.webhooks.at("", allowed)
        await world.validating(allowed, clientConfig={"service": service, "caBundle": world.webhooks.bundle})
        port = {"name": "https", "port": 443, "protocol": "TCP"}
        await world.create("guard", SERVICES, spec={"ports": [port]})
        endpoints = [
            {"addresses": ["10.0.0.9"], "conditions": {"ready": False}},
            {"addresses": ["10.0.0.1"], "nodeName": "simulated"},
        ]
        slice_ = {"addressType": "IPv4", "endpoints": endpoints, "ports": [port | {"port": world.webhooks.port}]}
        await world.create("s", ENDPOINT_SLICES, metadata={"labels": {"kubernetes.io/service-name": "guard"}}, **slice_)
        await world.server.registry.guaranteed_update(ENDPOINT_SLICES.qualified, "s", "default", _on_this_machine)
        post = 'failed to call webhook: Post "https://guard.default.svc:443/?timeout=10s": '
        refused = f"dial tcp 127.0.0.1:{world.webhooks.port}: connect: connection refused"
        assert (await world.refusal(world.create())).message == f"{FAILED}{post}{refused}"
        assert not world.webhooks.reviews

    within(steps)


def test_an_external_name_is_asked_at_the_port_given() -> None:
    async def steps(world: World) -> None:
        world.webhooks.at("", allowed)
        service = {"namespace": "default", "name": "guard", "port": world.webhooks.port}
        await world.validating(allowed, clientConfig={"service": service, "caBundle": world.webhooks.bundle})
        await world.create("guard", SERVICES, spec={"type": "ExternalName", "externalName": "localhost"})
        await world.create()
        assert world.webhooks.asked() == [""]

    within(steps)


def test_older_reviews_are_understood() -> None:
    async def steps(world: World) -> None:
        def old(review: Obj) -> Obj:
            patch = patched(review, ADD)["response"]["patch"]
            return {"response": {"allowed": True, "patch": patch}}

        await world.mutating(old, admissionReviewVersions=["v2", "v1beta1", "v1"])
        assert (await world.create())["data"] == {"k": "v"}
        assert world.webhooks.reviews[0][1]["apiVersion"] == "admission.k8s.io/v1beta1"

    within(steps)


def test_the_other_plugins_look_again_at_what_a_webhook_changed() -> None:
    async def steps(world: World) -> None:
        rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
        side = {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "s"}}
        await world.create("default", builtin.SERVICE_ACCOUNTS)
        default = {"type": "Container", "defaultRequest": {"cpu": "100m"}}
        await world.create("l", builtin.LIMIT_RANGES, spec={"limits": [default]})
        await world.mutating(lambda review: patched(review, side), rules=rules)
        made = await world.create("p", PODS, spec={"containers": [{"name": "c", "image": "i"}]})
        containers = made["spec"]["containers"]
        assert [one["resources"]["requests"] for one in containers] == [{"cpu": "100m"}] * 2
        assert [len(one["volumeMounts"]) for one in containers] == [1, 1]
        assert len(made["spec"]["volumes"]) == 1
        assert world.webhooks.asked() == ["m0"]

    within(steps, disabled=())


def test_connections_may_be_refused() -> None:
    async def steps() -> None:
        async with Webhooks() as webhooks:
            client = webhooks.at("guard", lambda review: denied(review, message="no shells"))
            with serving_in_a_thread() as server:
                await asyncio.to_thread(_connect, server, client)
            request = webhooks.request()
            assert len(webhooks.reviews) == 1
        assert (request["operation"], request["subResource"], request["name"]) == ("CONNECT", "exec", "p")
        assert (request["kind"]["kind"], request["resource"]["resource"]) == ("PodExecOptions", "pods")
        assert request["object"] == {
            "kind": "PodExecOptions",
            "apiVersion": "v1",
            "stdin": True,
            "stdout": True,
            "stderr": True,
            "container": "c",
            "command": ["sh", "-c"],
        }

    asyncio.run(steps())


def _connect(server: HttpServer, client: Obj) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]}
    webhook = {"name": "v0.example.com", "clientConfig": client, "rules": [rule], "sideEffects": "None"}
    configuration = {"metadata": {"name": "v"}, "webhooks": [webhook | {"admissionReviewVersions": ["v1"]}]}
    assert server.ask("POST", VALIDATING.path(), configuration).code == 201
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    pods = "/api/v1/namespaces/default/pods"
    assert server.ask("POST", pods, pod).code == 201
    reply = server.ask("POST", f"{pods}/p/exec?stdin=1&tty=false&container=c&command=sh&command=-c")
    text = 'admission webhook "v0.example.com" denied the request: no shells'
    assert (reply.code, reply.obj["message"]) == (400, text)
    assert "does not have a host" in server.ask("POST", f"{pods}/p/attach?container=c").obj["message"]


def test_nobody_is_asked_about_webhooks_and_policies() -> None:
    async def steps(world: World) -> None:
        everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        await world.validating(denied, rules=[everything])
        await world.api.patch(VALIDATING, "v", "", {"webhooks": []}, PatchType.MERGE)
        assert world.webhooks.asked() == []

    within(steps)


def test_a_connection_that_was_kept_and_closed_is_no_failure() -> None:
    async def steps(world: World) -> None:
        answers = iter([True])

        def closing(review: Obj) -> web.Response:
            response = web.json_response(allowed(review))
            if next(answers, False):
                transport = world.webhooks.requests[-1].transport
                assert transport is not None
                asyncio.get_running_loop().call_later(0.01, transport.abort)
            return response

        await world.validating(closing)
        await world.create()
        await world.create("y")

    within(steps)


def test_custom_objects_are_shown_in_the_version_that_a_rule_names() -> None:
    async def steps(world: World) -> None:
        await world.define(ships())
        rule = {"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["ships"]}
        await world.mutating(lambda review: patched(review, {"op": "add", "path": "/sails", "value": 3}), rules=[rule])
        row = world.server.registry.resource_of("example.com", "v1", "Ship")
        assert row is not None
        stored = await world.create("s", row, mast=1)
        assert (stored["apiVersion"], stored["sails"], stored["mast"]) == ("example.com/v1", 3, 1)
        request = world.webhooks.request()
        assert (request["object"]["apiVersion"], request["requestKind"]["version"]) == ("example.com/v2", "v1")

    within(steps)


def test_a_server_starts_although_all_its_webhooks_are_dead() -> None:
    async def steps() -> None:
        store = MemoryStore()
        server = Server(store)
        await server.open(["ServiceAccount"])
        everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        webhook = {
            "name": "v0.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "rules": [everything],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        await server.api.delete(builtin.CLUSTER_ROLES, "view")
        await server.api.create(VALIDATING, {"metadata": {"name": "v"}, "webhooks": [webhook]})
        again = Server(store)
        await again.open(["ServiceAccount"])
        assert await again.api.get(builtin.CLUSTER_ROLES, "view")
        with pytest.raises(InternalError):
            await again.api.create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default")

    asyncio.run(steps())


def test_in_virtual_time_webhooks_are_not_called() -> None:
    async def steps() -> None:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        webhook = {
            "name": "v0.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "rules": [CONFIGS],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        await server.api.create(VALIDATING, {"metadata": {"name": "v"}, "webhooks": [webhook]})
        await server.api.create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default")

    run_virtual(steps())
