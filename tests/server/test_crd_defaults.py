"""Defaults in schemas of custom resources: what a definition may not fill in."""

from __future__ import annotations

import pytest

from fairlead.api.fields import Errors
from fairlead.api.names import label_value
from fairlead.api.objects import Obj
from fairlead.server.crds.definition import STRATEGY
from tests.server.crd_samples import crd, spec_of, version

RULES = "x-kubernetes-validations"
ROOT = "spec.validation.openAPIV3Schema.properties[spec]."
EMBEDDED: Obj = {"type": "object", "x-kubernetes-embedded-resource": True}


def refusals(field: Obj) -> list[str]:
    """What is said against a definition with this field `f` in its spec, without the path to it."""
    errors = Errors()
    STRATEGY.validate(crd(version(schema=spec_of(f=field))), errors)
    return [f"{error.field}: {error.message}".removeprefix(f"{ROOT}properties[f].") for error in errors]


@pytest.mark.parametrize(
    ("metadata", "refused"),
    [
        ({"type": "object", "default": {"name": "x", "labels": {"a": "b"}, "odd": 1}}, []),
        (
            {"type": "object", "default": {"labels": {"a": "b c"}}},
            [
                'properties[metadata].default: Invalid value: {"labels":{"a":"b c"}}: must result in valid metadata: '
                f'metadata.labels: Invalid value: "b c": {label_value("b c")[0]}'
            ],
        ),
        (
            {"type": "object", "properties": {"name": {"type": "string", "default": "a%b"}}},
            [
                'properties[metadata].properties[name].default: Invalid value: "a%b": must result in valid metadata: '
                "metadata.name: Invalid value: \"a%b\": may not contain '%'"
            ],
        ),
        (
            {"type": "object", "properties": {"name": {"type": "integer", "default": 5}}},
            [
                "properties[metadata].properties[name].default: Invalid value: 5: must result in valid metadata: "
                'metadata: Invalid value: {"name":5}: json: cannot unmarshal number into Go struct field '
                "ObjectMeta.name of type string"
            ],
        ),
        (
            {"type": "object", "properties": {"name": {"type": "string", "default": "x", "enum": ["y"]}}},
            ['properties[metadata].properties[name].default: Unsupported value: "x": supported values: "y"'],
        ),
    ],
)
def test_defaults_within_metadata_make_metadata(metadata: Obj, refused: list[str]) -> None:
    assert refusals(EMBEDDED | {"properties": {"metadata": metadata}}) == refused


def test_defaults_of_types_are_types() -> None:
    fields = {"apiVersion": {"type": "string", "default": "a/b/c"}, "kind": {"type": "string", "default": "Pod"}}
    assert refusals(EMBEDDED | {"properties": fields}) == [
        'properties[apiVersion].default: Invalid value: "a/b/c": must result in valid metadata: '
        'apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'
    ]


def test_objects_in_a_default_are_whole_and_have_metadata_of_objects() -> None:
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}}
    schema = {"type": "object", "properties": {"pod": EMBEDDED | {"x-kubernetes-preserve-unknown-fields": True}}}
    assert refusals(schema | {"default": {"pod": whole}}) == [
        "default.pod.metadata.name: Invalid value: \"a/b\": may not contain '/'"
    ]
    assert refusals(schema | {"default": {"pod": {"kind": "Pod"}}}) == ["default.pod.apiVersion: Required value"]
    assert refusals(schema | {"default": {"pod": whole | {"metadata": 5}}}) == [
        "default.pod.metadata: Invalid value: 5: json: cannot unmarshal number into Go value of type v1.ObjectMeta"
    ]


@pytest.mark.parametrize(
    ("field", "refused"),
    [
        (
            {"type": "integer", "default": 7, RULES: [{"rule": "self < 5"}]},
            ["default: Invalid value: 7: failed rule: self < 5"],
        ),
        (
            {
                "type": "object",
                "default": {"items": ["a", "b"]},
                "properties": {"items": {"type": "array", "maxItems": 5, "items": {"type": "string"}}},
                RULES: [{"rule": "self.items.size() < 2", "message": "one alone"}],
            },
            ["default: Invalid value: one alone"],
        ),
        (
            {
                "type": "object",
                "default": {"a": 1},
                "properties": {
                    "a": {"type": "integer", RULES: [{"rule": "self > 1", "reason": "FieldValueForbidden"}]}
                },
            },
            ["default.a: Forbidden: failed rule: self > 1"],
        ),
        (
            {"type": "integer", "default": 7, RULES: [{"rule": "self > oldSelf", "message": "only up"}]},
            ["default: Invalid value: 7: only up"],
        ),
        (
            {
                "type": "integer",
                "default": 7,
                RULES: [{"rule": "oldSelf.hasValue()", "optionalOldSelf": True, "message": "never new"}],
            },
            ["default: Invalid value: 7: never new"],
        ),
        (
            {
                "type": "object",
                "default": {"a": 1},
                "additionalProperties": {"type": "integer", RULES: [{"rule": "self > 1", "message": "more"}]},
            },
            ["default[a]: Invalid value: 1: more"],
        ),
        ({"type": "integer", "default": 4, RULES: [{"rule": "self < 5 && self == oldSelf"}]}, []),
    ],
)
def test_defaults_obey_rules(field: Obj, refused: list[str]) -> None:
    assert refusals(field) == refused


def test_all_defaults_share_what_asking_about_them_may_cost() -> None:
    slow = {
        "type": "array",
        "maxItems": 35,
        "items": {"type": "integer"},
        "default": list(range(35)),
        RULES: [{"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"}],
    }
    found = refusals({"type": "object", "properties": {f"f{index}": slow for index in range(40)}})
    assert len(found) == 1
    assert found[0].endswith("failed due to running out of cost budget, no further validation rules will be run")
