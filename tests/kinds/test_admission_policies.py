"""What ValidatingAdmissionPolicies and their bindings may say, beside their expressions."""

from __future__ import annotations

import pytest

from fairlead.api.names import dns1035_label, dns1123_subdomain, qualified_name
from fairlead.api.objects import Obj
from tests.kinds.kind_world import born

RULE: Obj = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
VALIDATION: Obj = {"expression": "true"}


def refusals(**spec: object) -> list[str]:
    """Against a policy that has these fields; its name is `x`."""
    usual = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [VALIDATION]}
    return born("ValidatingAdmissionPolicy", spec=usual | spec)[1]


def test_an_expression_of_several_lines_needs_no_message() -> None:
    assert refusals(validations=[{"expression": "true &&\ntrue"}]) == []


@pytest.mark.parametrize(
    ("validation", "refusal"),
    [
        ({"message": "a\rb"}, 'message: Invalid value: "a\\rb": message must not contain line breaks'),
        ({"messageExpression": " "}, 'messageExpression: Invalid value: " ": must be non-empty if specified'),
        (
            {"reason": "Unauthorized"},
            'reason: Unsupported value: "Unauthorized": '
            'supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"',
        ),
    ],
)
def test_what_a_validation_may_say(validation: Obj, refusal: str) -> None:
    assert refusals(validations=[VALIDATION | validation]) == [f"spec.validations[0].{refusal}"]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (
            {"apiVersion": "a/b/c", "kind": "K"},
            ['apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
        ),
        ({"apiVersion": "a/", "kind": "K"}, ['apiVersion: Invalid value: "a/": version must be specified']),
        (
            {"apiVersion": "A/1", "kind": "_k"},
            [
                f'apiVersion: Invalid value: "A": {dns1123_subdomain("A")[0]}',
                f'apiVersion: Invalid value: "1": {dns1035_label("1")[0]}',
                f'kind: Invalid value: "_k": may have mixed case, but should otherwise match: {dns1035_label("_k")[0]}',
            ],
        ),
    ],
)
def test_parameters_are_of_a_kind_that_there_can_be(kind: Obj, found: list[str]) -> None:
    assert refusals(paramKind=kind) == [f"spec.paramKind.{refusal}" for refusal in found]


def test_names_in_a_rule_are_names_and_different() -> None:
    path = "spec.matchConstraints.resourceRules[0].resourceNames"
    assert refusals(matchConstraints={"resourceRules": [RULE | {"resourceNames": ["a", "..", "a"]}]}) == [
        f"{path}[1]: Invalid value: \"..\": may not be '..'",
        f'{path}[2]: Duplicate value: "a"',
    ]


def test_a_variable_is_not_called_like_a_keyword() -> None:
    assert refusals(variables=[{"name": "while", "expression": "1"}]) == [
        'spec.variables[0].name: Invalid value: "while": name is not a valid CEL identifier'
    ]


def test_the_audit_log_is_told_little_under_keys_of_its_own() -> None:
    path = "spec.auditAnnotations"
    told = [{"key": "k", "valueExpression": "'v'"}] * 2 + [{"key": "-", "valueExpression": " "}]
    assert refusals(auditAnnotations=told) == [
        f'{path}[1].key: Duplicate value: "k"',
        f'{path}[2].key: Invalid value: "x/-": {qualified_name("x/-")[0]}',
        f"{path}[2].valueExpression: Required value: valueExpression is not specified",
    ]
    long = [{"key": f"k{number}", "valueExpression": "'v'"} for number in range(20)]
    long.append({"key": "z", "valueExpression": f"'{'v' * 5120}'"})
    found = refusals(auditAnnotations=long)
    assert found[0].startswith(f'{path}: Invalid value: [{{"Key":"k0","ValueExpression":"\'v\'"}},')
    assert found[1:] == [f"{path}[20].valueExpression: Required value: must not exceed 5120 bytes in length"]


def test_a_binding_names_its_parameters_or_selects_them() -> None:
    reference = {"name": "..", "selector": {"matchLabels": {"a": "-"}}, "parameterNotFoundAction": "Ask"}
    spec = {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference}
    found = born("ValidatingAdmissionPolicyBinding", spec=spec)[1]
    assert [refusal.partition(": ")[0].removeprefix("spec.paramRef.") for refusal in found] == [
        *("name", "name", "selector.matchLabels", "selector", "parameterNotFoundAction")
    ]
    assert found[-1].endswith('supported values: "Deny", "Allow"')
