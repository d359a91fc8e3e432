"""Webhook configurations: what is filled in, and what is refused (pkg/apis/admissionregistration/validation, 1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.table import STRATEGIES

MUTATING = STRATEGIES["mutatingwebhookconfigurations.admissionregistration.k8s.io"]
VALIDATING = STRATEGIES["validatingwebhookconfigurations.admissionregistration.k8s.io"]
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def webhook(**changes: Any) -> Obj:
    given = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://example.com"},
        "rules": [dict(RULE)],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {key: value for key, value in (given | changes).items() if value is not None}


def problems(obj: Obj, old: Obj | None = None) -> list[str]:
    errors = Errors()
    MUTATING.default(obj)
    if old is None:
        MUTATING.validate(obj, errors)
    else:
        MUTATING.validate_update(obj, old, errors)
    return [f"{cause.field}: {cause.message}" for cause in errors]


def test_what_is_left_open_is_filled_in() -> None:
    service = {"namespace": "default", "name": "guard"}
    obj = {"webhooks": [webhook(clientConfig={"service": service})]}
    VALIDATING.default(obj)
    assert obj["webhooks"][0] == webhook(
        failurePolicy="Fail",
        matchPolicy="Equivalent",
        namespaceSelector={},
        objectSelector={},
        rules=[RULE | {"scope": "*"}],
        timeoutSeconds=10,
        clientConfig={"service": service | {"port": 443}},
    )
    MUTATING.default(obj)
    assert obj["webhooks"][0]["reinvocationPolicy"] == "Never"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"name": ""}, ["name: Required value"]),
        (
            {"name": "a.example"},
            ['name: Invalid value: "a.example": should be a domain with at least three segments separated by dots'],
        ),
        ({"sideEffects": None}, ["sideEffects: Required value: must specify one of None, NoneOnDryRun"]),
        ({"sideEffects": "Some"}, ['sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"']),
        (
            {"timeoutSeconds": 31},
            ["timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"],
        ),
        (
            {"admissionReviewVersions": None},
            ["admissionReviewVersions: Required value: must specify one of v1, v1beta1"],
        ),
        (
            {"admissionReviewVersions": ["v2", "v2"]},
            [
                'admissionReviewVersions[1]: Invalid value: "v2": duplicate version',
                'admissionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1',
            ],
        ),
        ({"clientConfig": {}}, ["clientConfig: Required value: exactly one of url or service is required"]),
        (
            {"clientConfig": {"url": "https://h:http"}},
            [
                'clientConfig.url: Required value: url must be a valid URL: parse "https://h:http": '
                'invalid port ":http" after host; desired format: https://host[/path]'
            ],
        ),
        (
            {"clientConfig": {"url": "http://x"}},
            [
                "clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: "
                "https://host[/path]"
            ],
        ),
        ({"failurePolicy": "x"}, ['failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"']),
        ({"matchPolicy": "x"}, ['matchPolicy: Unsupported value: "x": supported values: "Equivalent", "Exact"']),
        (
            {"reinvocationPolicy": "x"},
            ['reinvocationPolicy: Unsupported value: "x": supported values: "IfNeeded", "Never"'],
        ),
        (
            {"rules": [RULE | {"operations": ["*", "CREATE"], "resources": ["pods/*", "pods/log"]}]},
            [
                "rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other "
                "operations",
                "rules[0].resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log",
            ],
        ),
        (
            {"rules": [RULE | {"resources": ["*", "pods"]}, RULE | {"resources": ["*/*", "x"]}]},
            [
                "rules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other "
                "resources without subresources",
                "rules[1].resources: Invalid value: [\"*/*\",\"x\"]: if '*/*' is present, must not specify other "
                "resources",
            ],
        ),
        ({"rules": [RULE | {"resources": ["*", "*/status"]}]}, []),
        ({"matchConditions": [{"name": "a", "expression": "object.x == request.name"}]}, []),
        (
            {"matchConditions": [{"name": "a", "expression": ""}, {"name": "a", "expression": "'x'"}]},
            [
                "matchConditions[0].expression: Required value",
                "matchConditions[1].expression: Invalid value: \"'x'\": must evaluate to bool",
                'matchConditions[1].name: Duplicate value: "a"',
            ],
        ),
    ],
)  # fmt: skip
def test_what_a_webhook_may_say(changes: Obj, expected: list[str]) -> None:
    assert problems({"webhooks": [webhook(**changes)]}) == [f"webhooks[0].{text}" for text in expected]


def test_names_are_unique() -> None:
    assert problems({"webhooks": [webhook(), webhook()]}) == ['webhooks[1].name: Duplicate value: "a.example.com"']


def test_what_was_let_pass_before_is_let_pass_again() -> None:
    condition = {"name": "a", "expression": "nonsense("}
    old = {"webhooks": [webhook(sideEffects="Some", matchConditions=[condition])]}
    assert problems({"webhooks": [webhook(sideEffects="Unknown", matchConditions=[condition])]}, old) == []
    assert problems({"webhooks": [webhook(sideEffects="Some", matchConditions=[condition])]}, {"webhooks": []}) != []


def test_expressions_are_bounded() -> None:
    condition = {"name": "a", "expression": "object.x == " + "1" * 50_000}
    expected = 'webhooks: Invalid value: "": expressions have more than 50000 characters together'
    assert problems({"webhooks": [webhook(matchConditions=[condition])]}) == [expected]
