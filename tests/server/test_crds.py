"""CustomResourceDefinitions and the objects of the kinds that they define (S2-11, X-02)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.encoded import copied
from fairlead.api.errors import BadRequest, InternalError
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.golang.patterns import BadPattern, compile_pattern
from fairlead.server.crds import naming
from fairlead.server.crds.custom import CustomKind, VersionSchema, custom_kind, resources_of
from fairlead.server.crds.definition import STRATEGY
from fairlead.server.crds.paths import PathError, compile_path
from fairlead.server.crds.pruning import fill_defaults, prune
from fairlead.server.crds.scale import ScalePaths
from fairlead.server.crds.schema import compile_schema
from fairlead.server.tables.columns import Columns
from tests.server import crd_samples as samples
from tests.server.crd_samples import STAMP, spec_of, version, widget


def refusals(crd: Obj) -> list[str]:
    errors = Errors()
    STRATEGY.validate(crd, errors)
    return [f"{error.field}: {error.message}" for error in errors]


def refusals_of_update(crd: Obj, old: Obj) -> list[str]:
    errors = Errors()
    STRATEGY.validate_update(crd, old, errors)
    return [f"{error.field}: {error.message}" for error in errors]


def schema_refusals(schema: Obj) -> list[str]:
    prefix = "spec.validation.openAPIV3Schema"
    return [text.removeprefix(prefix).removeprefix(".") for text in refusals(samples.crd(version(schema=schema)))]


def kind_of(*versions: Obj) -> CustomKind:
    return custom_kind(samples.established(*versions))


def compiled(schema: Obj) -> VersionSchema:
    return kind_of(version(schema=schema)).strategy.stored


def problems(schema: Obj, obj: Obj, old: Obj | None = None) -> list[str]:
    return [f"{error.field}: {error.message}" for error in compiled(schema).problems(obj, old)]


# --- the definition -------------------------------------------------------------------------------------------------


def test_a_plain_definition_is_accepted_with_its_names_filled_in() -> None:
    crd = samples.crd()
    assert refusals(crd) == []
    assert crd["spec"]["names"] == {
        "plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList",
    }  # fmt: skip
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert crd["status"] == {
        "conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"],
    }  # fmt: skip


def test_the_name_must_be_the_plural_and_the_group() -> None:
    crd = samples.crd()
    crd["metadata"]["name"] = "x.example.com"
    assert refusals(crd) == ['metadata.name: Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group']


def test_exactly_one_version_is_stored() -> None:
    found = refusals(samples.crd(version("v1"), version("v2")))
    assert found[0].startswith('spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":true,')
    assert found[0].endswith("must have exactly one version marked as storage version")


def test_versions_that_differ_are_shown_with_their_schemas() -> None:
    found = refusals(samples.crd(version("v1"), version("v2", schema={"type": "object"})))
    assert '"Schema":{"OpenAPIV3Schema":{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object"' in found[0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"group": "example"}, 'spec.group: Invalid value: "example": should be a domain with at least one dot'),
        ({"scope": "World"}, 'spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"'),
        ({"scope": ""}, "spec.scope: Required value"),
        (
            {"preserveUnknownFields": True},
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
            "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
        (
            {"conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "http://a.example.com"}, "conversionReviewVersions": ["v1"]}}},
            'spec.conversion.webhookClientConfig.url: Invalid value: "http": \'https\' is the only allowed URL scheme; '
            "desired format: https://host[/path]",
        ),
        (
            {"conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"service": {"name": "a", "port": 443, "path": "/b//c"}},
                "conversionReviewVersions": ["v1"]}}},
            "spec.conversion.webhookClientConfig.service.name: Required value",
        ),
        (
            {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1", "v1"]}}},
            'spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version',
        ),
        ({"versions": []}, 'spec.versions: Invalid value: []: must have exactly one version marked as storage version'),
    ],
)  # fmt: skip
def test_a_wrong_spec_is_refused(change: Obj, expected: str) -> None:
    crd = samples.crd()
    crd["spec"] |= change
    assert expected in refusals(crd)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "object", "properties": {"spec": {"properties": {"a": {"type": "string"}}}}},
            ["properties[spec].type: Required value: must not be empty for specified object fields"],
        ),
        ({"properties": {}}, ["type: Required value: must not be empty at the root"]),
        ({"type": "array"}, [
            "items: Required value: must be specified",
            'type: Invalid value: "array": must be object at the root',
        ]),
        (spec_of(a={"type": "array"}), ["properties[spec].properties[a].items: Required value: must be specified"]),
        (
            spec_of(a={"type": "string", "anyOf": [{"type": "string"}]}),
            ["properties[spec].properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            {"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]},
            ["properties[a]: Required value: because it is defined in "
             "spec.validation.openAPIV3Schema.anyOf[0].properties[a]"],
        ),
        (
            spec_of(a={"type": "string", "pattern": "("}),
            ["properties[spec].properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but "
             "isn't: error parsing regexp: missing closing ): `(`"],
        ),
        (
            spec_of(a={"type": "integer", "default": "x"}),
            ['properties[spec].properties[a].default: Invalid value: "string": '
             ' in body must be of type integer: "string"'],
        ),
        (
            spec_of(a={"type": "object", "properties": {"b": {"type": "string"}}, "default": {"c": 1}}),
            ['properties[spec].properties[a].default: Invalid value: {"c":1}: must not have unknown fields'],
        ),
        (
            spec_of(a={"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": False}),
            ["properties[spec].properties[a].additionalProperties: Forbidden: additionalProperties and properties are "
             "mutual exclusive"],
        ),
        (
            spec_of(l={"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                       "items": {"type": "object", "properties": {"k": {"type": "string"}}}}),
            ["properties[spec].properties[l].items.properties[k].default: Required value: this property is in "
             "x-kubernetes-list-map-keys, so it must have a default or be a required property"],
        ),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {
                "type": "object"}}}}},
            ["properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
             "metadata is implicitly specified"],
        ),
        (
            spec_of(a={"type": "boolean", "allOf": [{"default": False, "additionalProperties": False}]}),
            ["properties[spec].properties[a].allOf[0].default: Forbidden: must be undefined to be structural"],
        ),
        (
            spec_of(a={"type": "object", "x-kubernetes-embedded-resource": True,
                       "x-kubernetes-preserve-unknown-fields": True, "default": {"apiVersion": "v1"}}),
            ["properties[spec].properties[a].default.kind: Required value"],
        ),
        (
            spec_of(a={"type": "object", "properties": {"b": {"type": "string"}},
                       "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".b"},
                                                    {"rule": "true", "fieldPath": "b"}]}),
            ['properties[spec].properties[a].x-kubernetes-validations[1].fieldPath: Invalid value: "b": must be a '
             "valid path"],
        ),
        ({"type": "object", "$schema": "x"}, [': Invalid value: "": OpenAPIV3Schema \'schema\' is not supported']),
        ({"type": "object", "$ref": "#/x"}, ["$ref: Forbidden: $ref is not supported"]),
        ({"type": "object", "nullable": True}, ["nullable: Forbidden: nullable cannot be true at the root"]),
    ],
)  # fmt: skip
def test_a_schema_must_be_structural(schema: Obj, expected: list[str]) -> None:
    assert schema_refusals(schema) == expected


def test_fields_are_selected_where_their_schema_stands() -> None:
    # What all versions say alike is moved to the top before anybody looks, the fields away from their schema.
    fields = [{"jsonPath": ".spec.color"}]
    more = spec_of(color={"type": "string"})
    stored, plain, typed = version(selectableFields=fields), version("v2", storage=False), version("v2", storage=False)
    assert refusals(samples.crd(stored, plain)) == [
        'spec.versions[0].selectableFields: Invalid value: "": may only be set when `version.schema.openAPIV3Schema` '
        "is not included"
    ]
    typed["schema"] = {"openAPIV3Schema": more}
    assert refusals(samples.crd(stored, typed)) == []
    assert refusals(samples.crd(stored, typed | {"selectableFields": fields})) == [
        'spec.selectableFields: Invalid value: "": may only be set when validations.schema is included'
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("spec", "is an invalid path: expected [ or . but got: spec"),
        (".", "is an invalid path: unexpected end of JSON path"),
        (".spec['color']", "is an invalid path: array notation is not allowed"),
        (".spec.nope", "is an invalid path: does not refer to a valid field"),
    ],
)
def test_a_selectable_field_must_be_in_the_schema(path: str, expected: str) -> None:
    found = refusals(samples.crd(version(selectableFields=[{"jsonPath": path}])))
    assert found == [f'spec.selectableFields[0].jsonPath: Invalid value: "{path}": {expected}']


def test_a_change_is_refused_before_the_status_is_looked_at() -> None:
    old, errors = samples.established(), Errors()
    new = samples.established(version("v2"))
    new["spec"]["group"] = "other.com"
    STRATEGY.validate_update(new | {"status": old["status"]}, old, errors)
    assert [error.field for error in errors] == ["spec.group", "status.storedVersions", "status.storedVersions[0]"]


def test_a_status_without_stored_versions_gets_the_one_that_is_stored() -> None:
    crd = samples.established()
    crd["status"]["storedVersions"] = []
    STRATEGY.default(crd)
    assert crd["status"]["storedVersions"] == ["v1"]


def test_a_protected_group_needs_an_approval() -> None:
    crd = samples.crd(group="queues.k8s.io")
    path = "metadata.annotations[api-approved.kubernetes.io]"
    assert refusals(crd)[0].startswith(f"{path}: Required value: protected groups must have approval annotation")
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, experimental-only"}
    assert refusals(crd) == []
    status = naming.settled(crd, naming.NamesInUse([crd]), STAMP)
    assert status is not None
    assert status["conditions"][-1] == {
        "type": "KubernetesAPIApprovalPolicyConformant",
        "status": "False",
        "lastTransitionTime": STAMP,
        "reason": "UnapprovedAnnotation",
        "message": 'not approved: "unapproved, experimental-only"',
    }


def test_an_established_definition_keeps_its_scope_and_kind() -> None:
    old = samples.established()
    new = copied(old)
    new["spec"]["scope"] = "Cluster"
    new["spec"]["versions"].append(version("v2"))
    new["spec"]["versions"][0]["storage"] = False
    STRATEGY.prepare_update(new, old)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    errors = Errors()
    STRATEGY.validate_update(new, old, errors)
    assert [(error.field, error.message) for error in errors] == [
        ("spec.scope", 'Invalid value: "Cluster": field is immutable')
    ]


def test_a_format_that_nobody_checks_draws_a_warning_once() -> None:
    crd = samples.crd(version(schema=spec_of(a={"type": "string", "format": "nope"})))
    assert STRATEGY.warnings(crd, None) == ['unrecognized format "nope"']
    assert STRATEGY.warnings(crd, crd) == []


# --- names ----------------------------------------------------------------------------------------------------------


def settled_again(crd: Obj, status: Obj) -> Obj | None:
    """What follows when it has that status, alone in its group."""
    now = crd | {"status": status}
    return naming.settled(now, naming.NamesInUse([now]), "2026-01-03T00:00:00Z")


def test_the_first_definition_owns_its_names() -> None:
    first = samples.established()
    assert [(condition["type"], condition["status"]) for condition in first["status"]["conditions"]] == [
        ("NamesAccepted", "True"), ("Established", "True"),
    ]  # fmt: skip
    second = samples.crd(plural="others")
    status = naming.settled(second, naming.NamesInUse([first, second]), STAMP)
    assert status is not None
    assert status["acceptedNames"] == {"plural": "others", "kind": ""}
    assert [(condition["status"], condition["reason"], condition["message"]) for condition in status["conditions"]] == [
        ("False", "ListKindConflict", '"WidgetList" is already in use'),
        ("False", "NotAccepted", "not all names are accepted"),
    ]
    assert resources_of(second | {"status": status}) == []


def test_names_become_free_when_their_owner_goes() -> None:
    second = samples.crd(plural="others")
    second["status"] = naming.settled(second, naming.NamesInUse([samples.established()]), STAMP)
    status = naming.settled(second, naming.NamesInUse([second]), "2026-01-02T00:00:00Z")
    assert status is not None
    assert naming.is_true(status, "Established")
    assert settled_again(second, status) is None


def test_a_definition_cannot_take_a_name_twice() -> None:
    crd = samples.established()
    crd["spec"]["names"] |= {"shortNames": ["widget"]}
    status = naming.settled(crd, naming.NamesInUse([crd]), STAMP)
    assert status is not None
    assert status["conditions"][0]["message"] == '"widget" is already in use'
    # Once it asks for nothing but what it has, it is left as it is, conflict and all.
    del crd["spec"]["names"]["shortNames"]
    assert settled_again(crd, status) is None


def test_a_definition_waits_for_its_objects_before_it_goes() -> None:
    crd = samples.established()
    assert STRATEGY.holds_deletion(crd)
    naming.begin_deletion(crd, STAMP)
    crd["metadata"]["deletionTimestamp"] = STAMP
    assert STRATEGY.holds_deletion(crd)
    assert "create" not in resources_of(crd)[0].verbs
    naming.begin_instance_deletion(crd, STAMP)
    naming.finish_deletion(crd, STAMP)
    assert not STRATEGY.holds_deletion(crd)
    assert crd["status"]["conditions"][-1]["reason"] == "InstanceDeletionCompleted"


# --- objects on the way in ------------------------------------------------------------------------------------------


def test_unknown_fields_are_dropped_and_told() -> None:
    obj = widget({"size": 1, "nope": True, "tags": ["a"]}, extra={"a": 1})
    obj["metadata"]["bogus"] = 1
    found = compiled(samples.SPEC_AND_STATUS).normalise(obj)
    assert found == ['unknown field "metadata.bogus"', 'unknown field "extra"', 'unknown field "spec.nope"']
    assert obj == widget({"size": 1, "tags": ["a"]})


def test_paths_lead_through_lists() -> None:
    schema = spec_of(l={"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}})
    obj = widget({"l": [{"a": "x"}, {"b": 1}]})
    assert compiled(schema).normalise(obj) == ['unknown field "spec.l[1].b"']
    assert obj["spec"] == {"l": [{"a": "x"}, {}]}


def test_what_a_schema_preserves_is_kept_but_known_fields_are_still_pruned() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"spec": inner}}
    obj = widget({"a": "x", "b": 1}, other={"c": [1, None]})
    assert compiled(schema).normalise(obj) == ['unknown field "spec.b"']
    assert obj == widget({"a": "x"}, other={"c": [1, None]})


def test_defaults_fill_in_what_is_missing_or_null() -> None:
    schema = compiled(samples.SPEC_AND_STATUS)
    for spec in ({}, {"size": None}):
        obj = widget(spec)
        schema.normalise(obj)
        assert obj["spec"] == {"size": 3}
    without = widget()
    schema.normalise(without)
    assert "spec" not in without


def test_nulls_go_where_the_schema_does_not_allow_them() -> None:
    schema = spec_of(a={"type": "string"}, b={"type": "string", "nullable": True})
    obj = widget({"a": None, "b": None})
    compiled(schema).normalise(obj)
    assert obj["spec"] == {"b": None}


def test_metadata_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(BadRequest, match="cannot unmarshal string"):
        compiled(samples.SPEC_AND_STATUS).normalise(widget() | {"metadata": {"labels": "x"}})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdl"), inner, max_size=4),
    max_leaves=10,
)
_NODE = compile_schema(
    spec_of(
        a={"type": "string", "default": "x"},
        b={"type": "object", "additionalProperties": {"type": "integer"}},
        l={"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}},
    )
)


@given(_JSON)
def test_pruning_and_defaulting_twice_is_as_good_as_once(spec: Any) -> None:
    obj = {"spec": copied(spec)}
    fill_defaults(obj, _NODE)
    prune(obj, _NODE)
    again = copied(obj)
    fill_defaults(again, _NODE)
    assert prune(again, _NODE) == []
    assert again == obj


# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ({"type": "integer"}, "big", 'Invalid value: "string": spec.a in body must be of type integer: "string"'),
        ({"type": "integer"}, 1.5, 'Invalid value: "number": spec.a in body must be of type integer: "number"'),
        ({"type": "integer"}, 2.0, None),
        ({"type": "integer"}, 2.0**53 - 1, None),
        ({"type": "integer"}, 1e22, 'Invalid value: "number": spec.a in body must be of type integer: "number"'),
        ({"type": "integer", "format": "int64"}, 1e22,
         'Invalid value: "float64": spec.a in body must be of type int64: "float64"'),
        ({"type": "number"}, 2, None),
        ({"type": "boolean"}, 1, 'Invalid value: "integer": spec.a in body must be of type boolean: "integer"'),
        ({"type": "string"}, [], 'Invalid value: "array": spec.a in body must be of type string: "array"'),
        ({"type": "integer", "format": "int64"}, True, 'Invalid value: "": spec.a in body must be of type int64: ""'),
        ({"type": "integer", "minimum": 1}, 0,
         "Invalid value: 0: spec.a in body should be greater than or equal to 1"),
        ({"type": "integer", "maximum": 1, "exclusiveMaximum": True}, 1,
         "Invalid value: 1: spec.a in body should be less than 1"),
        ({"type": "number", "multipleOf": 0.5}, 0.75,
         "Invalid value: 0.75: spec.a in body should be a multiple of 0.5"),
        ({"type": "string", "enum": ["red", "blue"]}, "green",
         'Unsupported value: "green": supported values: "red", "blue"'),
        ({"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        ({"type": "string", "minLength": 2}, "a", 'Invalid value: "a": spec.a in body should be at least 2 chars long'),
        ({"type": "string", "pattern": "^a+$"}, "b", "Invalid value: \"b\": spec.a in body should match '^a+$'"),
        ({"type": "string", "format": "date-time"}, "soon",
         'Invalid value: "soon": spec.a in body must be of type date-time: "soon"'),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z", None),
        ({"type": "string", "format": "nobody-knows"}, "soon", None),
        ({"type": "array", "maxItems": 1, "items": {"type": "string"}}, ["a", "b"],
         "Too many: 2: must have at most 1 item"),
        ({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}, {"a": "", "b": ""},
         "Too many: 2: must have at most 1 item"),
        ({"type": "string", "nullable": True}, None, None),
        ({"x-kubernetes-int-or-string": True}, "50%", None),
        ({"x-kubernetes-int-or-string": True}, [],
         'Invalid value: "array": spec.a in body must be of type integer,string: "array"'),
        ({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}, ["a", "b"], None),
    ],
)  # fmt: skip
def test_a_value_is_told_what_is_wrong_with_it(field: Obj, value: Any, expected: str | None) -> None:
    found = problems(spec_of(a=field), widget({"a": value}))
    assert found == ([] if expected is None else [f"spec.a: {expected}"])


def test_errors_name_the_place_in_lists_and_maps() -> None:
    items = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    schema = spec_of(l={"type": "array", "items": items}, m={"type": "object", "additionalProperties": items})
    assert problems(schema, widget({"l": [{}], "m": {"x": {"k": 1}}})) == [
        "spec.l[0].k: Required value",
        'spec.m.x.k: Invalid value: "integer": spec.m.x.k in body must be of type string: "integer"',
    ]


def test_a_fraction_is_no_int32_and_that_is_told_at_once() -> None:
    found = problems(spec_of(a={"type": "integer", "format": "int32"}), widget({"a": 1.5}))
    assert found[-1] == '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.a'


def test_alternatives_report_the_one_that_came_closest() -> None:
    wanted = [{"required": ["x"]}, {"properties": {"b": {"minimum": 2}}, "required": ["b"]}]
    field = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "b": {"type": "integer"}},
        "oneOf": wanted,
    }
    assert problems(spec_of(a=field), widget({"a": {"b": 1}})) == [
        '<nil>: Invalid value: "": "spec.a" must validate one and only one schema (oneOf). Found none valid',
        "spec.a.b: Invalid value: 1: spec.a.b in body should be greater than or equal to 2",
    ]


def test_lists_that_are_sets_or_maps_repeat_nothing() -> None:
    keyed = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}
    schema = spec_of(
        s={"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        l={"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": keyed},
    )
    obj = widget({"s": ["a", "a", "a"], "l": [{"k": "x", "v": "1"}, {"k": "x", "v": "2"}]})
    assert problems(schema, obj) == [
        'spec.s[1]: Duplicate value: "a"',
        'spec.l[1]: Duplicate value: {"k":"x"}',
    ]
    assert problems(schema, obj, old=obj) == []


def test_what_did_not_change_may_stay_wrong() -> None:
    """KEP-4008."""
    schema = spec_of(a={"type": "integer", "minimum": 5}, b={"type": "string"})
    old = widget({"a": 1, "b": "x"})
    assert problems(schema, widget({"a": 1, "b": "y"}), old) == []
    assert problems(schema, widget({"a": 2, "b": "x"}), old) != []


def test_a_list_map_in_another_order_has_not_changed() -> None:
    items = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    schema = spec_of(l={"type": "array", "maxItems": 1, "items": items} | keyed)
    old = widget({"l": [{"k": "a"}, {"k": "b"}]})
    assert problems(schema, widget({"l": [{"k": "b"}, {"k": "a"}]}), old) == []
    assert problems(schema, widget({"l": [{"k": "b"}, {"k": "c"}]}), old) != []


def test_the_version_of_an_object_is_always_checked() -> None:
    """Both objects are in that of the request, so it never differs."""
    schema = spec_of(a={"type": "string"})
    schema["properties"] |= {"apiVersion": {"type": "string", "pattern": "v2$"}}
    obj = widget({"a": "x"})
    assert problems(schema, obj, obj) == problems(schema, obj)
    schema["properties"] |= {"kind": {"type": "string"}, "metadata": {"type": "object"}}
    assert problems(schema, obj, obj) == []  # unless all that there is is declared, and the same


def test_embedded_objects_say_what_they_are() -> None:
    field = {
        "type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True,
    }  # fmt: skip
    assert problems(spec_of(a=field), widget({"a": {"kind": "1x"}})) == [
        "spec.a.apiVersion: Required value",
        'spec.a.kind: Invalid value: "1x": may have mixed case, but should otherwise match: a DNS-1035 label must '
        "consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an "
        "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
        "'[a-z]([-a-z0-9]*[a-z0-9])?')",
    ]


def test_metadata_of_embedded_objects_is_that_of_objects() -> None:
    schema = spec_of(a={"type": "object", "x-kubernetes-embedded-resource": True,
                        "x-kubernetes-preserve-unknown-fields": True})  # fmt: skip
    obj = widget({"a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "nope": 1, "labels": {"-": "b"}}}})
    assert compiled(schema).normalise(obj) == ['unknown field "spec.a.metadata.nope"']
    assert obj["spec"]["a"]["metadata"] == {"name": "a", "labels": {"-": "b"}}
    assert [problem.partition(": name part")[0] for problem in problems(schema, obj)] == [
        'spec.a.metadata.labels: Invalid value: "-"'
    ]
    obj["spec"]["a"]["metadata"] = {"labels": 5}
    with pytest.raises(BadRequest, match=r"spec.a.metadata: Invalid value: .*: json: cannot unmarshal number into Go"):
        compiled(schema).normalise(obj)


def test_replicas_are_read_through_objects_only() -> None:
    paths = {"specReplicasPath": ".spec.a.replicas", "statusReplicasPath": ".status.replicas"}
    kind = kind_of(version(schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                           subresources={"scale": paths}))  # fmt: skip
    found = kind.strategy.stored.problems(widget({"a": True}), None)
    assert [error.message for error in found] == [
        "Invalid value: 0: .spec.a.replicas accessor error: true is of the type bool, expected map[string]interface{}"
    ]


def test_rules_are_not_asked_about_an_unsound_object() -> None:
    schema = spec_of(a={"type": "integer"})
    schema["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": "self.a > 1"}]
    assert problems(schema, widget({"a": "x"}))[-1] == (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct "
        "the existing errors to complete validation"
    )


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a\n", False),
        (r"^a\z", "a", True),
        ("^[[:alpha:]]+$", "ab", True),
        ("^[]a]$", "]", True),
        (r"\d", "\u0663", False),
        (r"^\p{Greek}+$", "\u03b1", True),
        (r"^\Q{2000}\E$", "{2000}", True),
        ("^[{2000}]$", "{", True),
        ("^a{02000}$", "a{02000}", True),
        (r"^\{2000}$", "{2000}", True),
        ("b", "abc", True),
    ],
)
def test_patterns_are_read_as_go_reads_them(pattern: str, text: str, matches: bool) -> None:
    assert compile_pattern(pattern).matches(text) is matches


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a++", "invalid nested repetition operator: `++`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("x{4294967295}", "invalid repeat count: `{4294967295}`"),
        ("x{1,4294967295}", "invalid repeat count: `{1,4294967295}`"),
        ("(x{100}){100}", "invalid repeat count: `{100}`"),
        ("\\", "trailing backslash at end of expression: ``"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        (r"\pX", r"invalid character class range: `\pX`"),
    ],
)
def test_a_pattern_that_go_does_not_take_is_refused_in_its_words(pattern: str, why: str) -> None:
    with pytest.raises(BadPattern) as refused:
        compile_pattern(pattern)
    assert str(refused.value) == f"error parsing regexp: {why}"


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a|a?)+$", "(x+x+)+y", "^(.*)*$b"])
def test_no_pattern_takes_longer_than_its_text_is_long(pattern: str) -> None:
    assert not compile_pattern(pattern).matches("a" * 100_000 + "\n")


@pytest.mark.parametrize("pattern", ["(a|b)*a(a|b){900}c", "(?:a?){1000}(?:b?){1000}$"])
def test_a_long_text_is_not_matched_with_a_large_pattern(pattern: str) -> None:
    """RE2 takes time in proportion to both, multiplied: 20 s for a text of 1.4 MB."""
    schema = spec_of(a={"type": "string", "pattern": pattern})
    assert not problems(schema, widget({"a": "ab" * 500 + "a" + "b" * 900 + "c" * pattern.endswith("c")}))
    (problem,) = problems(schema, widget({"a": "ab" * 700_000}))
    assert "validation takes more than 1000000 steps" in problem


def test_a_long_text_is_matched_with_an_ordinary_pattern() -> None:
    schema = spec_of(
        a={"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}
    )
    assert not problems(schema, widget({"a": "ab" * 700_000}))
    assert len(problems(schema, widget({"a": "ab" * 700_000 + "-"}))) == 1


def test_patterns_that_take_very_long_to_compile_are_refused_together() -> None:
    fields = {f"f{number}": {"type": "string", "pattern": rf"\pL{{300}}{number}"} for number in range(5000)}
    messages = refusals(samples.crd(samples.version(schema=spec_of(**fields))))
    assert 'spec.validation.openAPIV3Schema: Invalid value: "": patterns are too large together' in messages


def test_a_stored_pattern_that_is_none_any_more_matches_nothing() -> None:
    (problem,) = problems(spec_of(a={"type": "string", "pattern": "(?=a)"}), widget({"a": "a"}))
    assert problem.endswith("should match '(?=a), but pattern is invalid: error parsing regexp: invalid or unsupported "
                         "Perl syntax: `(?=`'")  # fmt: skip


# --- versions, status, scale, columns -------------------------------------------------------------------------------


def test_between_versions_only_the_api_version_changes() -> None:
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    kind = kind_of(
        version("v1", schema=loose),
        version("v2", schema=loose, storage=False),
        version("v0", storage=False, served=False),
    )
    assert set(kind.versions) == {"example.com/v1", "example.com/v2"}
    assert kind.versions["example.com/v1"].from_stored is None
    convert = kind.versions["example.com/v2"].from_stored
    assert convert is not None
    assert convert(widget({"any": [1, None]})) == widget({"any": [1, None]}) | {"apiVersion": "example.com/v2"}


def test_a_deprecated_version_points_to_a_better_one() -> None:
    kind = kind_of(version("v1beta1", storage=False, deprecated=True), version("v1"))
    assert kind.strategy.versions["example.com/v1beta1"].deprecation == (
        "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"
    )


def test_the_status_endpoint_writes_no_metadata() -> None:
    strategy = kind_of(version(subresources={"status": {}})).strategy
    assert strategy.has_status
    old = widget({"size": 1})
    new = widget({"size": 1}, status={"replicas": "x"}) | {"metadata": {"name": "w", "labels": {"a": "b"}}}
    strategy.prepare_status(new, old)
    assert new["metadata"] == {"name": "w"}
    errors = Errors()
    strategy.validate_status(new, old, errors)
    assert [(error.field, error.message) for error in errors] == [
        ("status.replicas", 'Invalid value: "string": replicas in body must be of type integer: "string"')
    ]


def test_without_a_status_endpoint_a_status_counts_as_a_change() -> None:
    strategy = kind_of().strategy
    old = widget(status={"replicas": 1}) | {"metadata": {"name": "w", "generation": 4}}
    new = widget(status={"replicas": 2}) | {"metadata": {"name": "w", "generation": 4}}
    strategy.prepare_update(new, old)
    assert new["metadata"]["generation"] == 5


def test_scale_reads_and_writes_by_path() -> None:
    scale = ScalePaths({
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    })  # fmt: skip
    obj = widget({"replicas": 2}, status={"replicas": 1, "selector": "a=b"})
    shown = scale.read(obj)
    assert (shown["spec"], shown["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    scale.write(obj, {"spec": {"replicas": 6}})
    assert obj["spec"] == {"replicas": 6}
    with pytest.raises(InternalError, match="does not exist"):
        scale.read(widget())
    unsaid = widget()
    with pytest.raises(BadRequest, match=r'the spec replicas field ".spec.replicas" cannot be empty'):
        scale.write(unsaid, scale.edited(unsaid))
    scale.write(unsaid, {"spec": {"replicas": 3}})
    assert scale.read(unsaid)["spec"] == {"replicas": 3}


def test_a_table_shows_name_and_age_unless_told_otherwise() -> None:
    obj = widget() | {"metadata": {"name": "w", "creationTimestamp": STAMP}}
    plain = Columns({})
    assert [column["name"] for column in plain.definitions] == ["Name", "Age"]
    assert plain.cells(obj, lambda stamp: f"since {stamp}") == ["w", f"since {STAMP}"]


def test_columns_end_before_the_first_that_nobody_can_read() -> None:
    columns = [{"name": name, "type": "string", "jsonPath": path} for name, path in (("A", ".a"), ("B", ".b["))]
    found = Columns({"additionalPrinterColumns": [*columns, columns[0]]})
    assert [column["name"] for column in found.definitions] == ["Name", "A"]


def test_columns_take_values_of_their_type_only() -> None:
    def cell(type_: str, value: Any) -> Any:
        columns = Columns({"additionalPrinterColumns": [{"name": "A", "type": type_, "jsonPath": ".spec.a"}]})
        return columns.cells(widget({"a": value}), str)[1]

    assert cell("integer", 5.7) == 5
    assert cell("integer", "5") is None
    assert cell("string", 5) == "5"
    assert cell("string", {"b": 1, "a": [True]}) == '{"a":[true],"b":1}'
    assert cell("boolean", True) is True
    assert cell("string", {"b": "<&>"}) == r'{"b":"\u003c\u0026\u003e"}'
    assert cell("date", "yesterday") == "<invalid>"
    assert cell("date", "2026-01-01") == "<invalid>"
    assert cell("date", "") == "<unknown>"
    assert cell("number", 2) == 2.0


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.a.b", [1]),
        (".spec.nope.b", []),
        (".spec.l[0].n", ["x"]),
        (".spec.l[-1].n", ["y"]),
        (".spec.l[*].n", ["x", "y"]),
        ('.spec.l[?(@.n=="y")].v', [2]),
        (".spec.l[?(@.v>1)].n", ["y"]),
        (r".spec.d\.e", [3]),
        (".spec['d.e']", [3]),
    ],
)
def test_paths_find_values(path: str, expected: list[Any]) -> None:
    spec = {"a": {"b": 1}, "l": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "d.e": 3}
    assert compile_path(path)({"spec": spec}) == expected


def test_a_path_that_is_none_is_refused() -> None:
    with pytest.raises(PathError):
        compile_path(".spec[")


def test_fields_can_be_selected_by_their_text() -> None:
    strategy = kind_of(version(selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}])).strategy
    getters = strategy.selectable
    assert getters["spec.color"](widget({"color": "red"})) == "red"
    assert getters["spec.size"](widget({"size": 3})) == "3"
    assert getters["spec.size"](widget()) == ""


def test_finalizers_that_may_clash_draw_a_warning() -> None:
    obj = widget() | {"metadata": {"name": "w", "finalizers": ["mine", "example.com/mine"]}}
    assert kind_of().strategy.warnings(obj, None) == [
        'metadata.finalizers: "mine": prefer a domain-qualified finalizer name to avoid accidental conflicts with '
        "other finalizer writers"
    ]
