"""Around an apply: its options, its body, the scale subresource, what endpoints reset (X-05; golden ssa)."""

from __future__ import annotations

import pytest

from fairlead.api.builtin import PODS
from fairlead.api.errors import BadRequest, Conflict
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.server.apply.bodies import check_merged, check_options, decode_config, judge_repeated, manager_of
from fairlead.server.apply.entries import fields_of
from fairlead.server.apply.fieldsets import of_paths
from fairlead.server.apply.resets import reset_of
from fairlead.server.apply.scale import to_object, to_scale

PATHS = {"apps/v1": ("f:spec", "f:replicas")}


@pytest.mark.parametrize(
    ("given", "user_agent", "manager"),
    [
        ("ed", "tool/1.0", "ed"),
        ("", "tool/1.0 (x)", "tool"),
        ("", "a\tb", "ab"),
        ("", "", ""),
        ("", "é" * 99, "é" * 64),
    ],
)
def test_a_write_is_recorded_under_its_manager_or_the_first_word_of_its_client(
    given: str, user_agent: str, manager: str
) -> None:
    assert manager_of(given, user_agent) == manager


@pytest.mark.parametrize(
    ("manager", "is_apply", "has_force", "text"),
    [
        ("", True, False, "Required value: is required for apply patch"),
        ("ed", False, True, "Forbidden: may not be specified for non-apply patch"),
        ("x" * 129, True, True, "Too long: may not be more than 128 bytes"),
        ("a\x07", False, False, 'Invalid value: "a\\a": invalid character U+0007 (at position 1)'),
    ],
)
def test_options_are_checked_in_upstreams_words(manager: str, is_apply: bool, has_force: bool, text: str) -> None:
    errors = Errors()
    check_options(errors, manager, is_apply=is_apply, has_force=has_force)
    assert [error.message for error in errors] == [text]


def test_a_key_that_comes_twice_is_told_or_refused() -> None:
    config, repeated = decode_config(b"data: {a: '1'}\ndata: {a: '2'}\n")
    assert config == {"data": {"a": "2"}}
    warnings: list[str] = []
    judge_repeated(repeated, "Warn", warnings)
    assert warnings == ['line 2: key "data" already set in map']
    with pytest.raises(BadRequest) as refused:
        judge_repeated(repeated, "Strict", warnings)
    assert refused.value.message == (
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 2: key "data" already set in map'
    )


@pytest.mark.parametrize("body", [b"a: b: c", b"[1]", b"text"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match=r"^error decoding YAML: error (converting YAML to JSON|unmarshaling JSON): "):
        decode_config(body)


@pytest.mark.parametrize(
    ("meta", "refusal", "text"),
    [
        ({"name": "z"}, BadRequest, "the name of the object (z) does not match the name on the URL (p)"),
        ({}, BadRequest, "the name of the object (p based on URL) was undeterminable: name must be provided"),
        (
            {"name": "p", "namespace": "other"},
            BadRequest,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            {"name": "p", "uid": "u"},
            Conflict,
            'Operation cannot be fulfilled on pods "p": uid mismatch: the provided object specified uid u, and no '
            "existing object was found",
        ),
    ],
)
def test_a_configuration_that_means_another_object_is_refused(meta: Obj, refusal: type[Exception], text: str) -> None:
    with pytest.raises(refusal) as refused:
        check_merged({"metadata": meta}, PODS, "p", "n", is_new=True)
    assert str(refused.value) == text


def entry(manager: str, operation: str, version: str, *paths: tuple[str, ...], subresource: str = "") -> Obj:
    found: Obj = {"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1"}
    return found | {"fieldsV1": of_paths(*paths)} | ({"subresource": subresource} if subresource else {})


def test_whoever_owns_the_replicas_owns_those_of_the_scale() -> None:
    owner = entry("alice", "Apply", "apps/v1", ("f:spec", "f:replicas"), ("f:spec", "f:selector"))
    bystander = entry("bob", "Apply", "apps/v1", ("f:spec", "f:selector"))
    assert to_scale([owner, bystander], PATHS) == [entry("alice", "Apply", "autoscaling/v1", ("f:spec", "f:replicas"))]


def test_replicas_set_through_the_scale_are_taken_from_their_owner() -> None:
    owner = entry("alice", "Apply", "apps/v1", ("f:spec", "f:replicas"), ("f:spec", "f:selector"))
    scaled = entry("hpa", "Update", "autoscaling/v1", ("f:spec", "f:replicas"), subresource="scale")
    assert to_object([owner], [scaled], PATHS, "apps/v1") == [
        entry("alice", "Apply", "apps/v1", ("f:spec", "f:selector")),
        entry("hpa", "Update", "apps/v1", ("f:spec", "f:replicas"), subresource="scale"),
    ]


def test_an_owner_that_the_scale_left_alone_keeps_its_entry() -> None:
    owner = entry("alice", "Apply", "apps/v1", ("f:spec", "f:replicas"), ("f:spec", "f:selector"))
    assert to_object([owner], to_scale([owner], PATHS), PATHS, "apps/v1") == [owner]
    assert fields_of(owner) == of_paths(("f:spec", "f:replicas"), ("f:spec", "f:selector"))


@pytest.mark.parametrize(
    ("kind", "subresource", "kept"),
    [
        ("pods", "", [("f:spec", "f:a"), ("f:metadata", "f:labels")]),
        ("pods", "status", [("f:status", "f:a"), ("f:metadata", "f:labels")]),
        ("deployments.apps", "status", [("f:status", "f:a")]),
        ("pods", "resize", []),
    ],
)
def test_an_endpoint_does_not_count_what_it_resets(kind: str, subresource: str, kept: list[tuple[str, ...]]) -> None:
    written = of_paths(("f:spec", "f:a"), ("f:status", "f:a"), ("f:metadata", "f:labels"))
    reset = reset_of(kind, subresource, has_status=True, is_custom=False)
    assert reset is not None
    assert reset(written) == of_paths(*kept)


def test_a_resize_counts_resources_alone() -> None:
    reset = reset_of("pods", "resize", has_status=True, is_custom=False)
    assert reset is not None
    container = ("f:spec", "f:containers", 'k:{"name":"c"}')
    written = of_paths((*container, "f:resources", "f:requests", "f:cpu"), (*container, "f:image"))
    assert reset(written) == of_paths((*container, "f:resources", "f:requests", "f:cpu"))
