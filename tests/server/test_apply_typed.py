"""Fields of objects, their differences, and merging, by the schema of their kind (KEP-555)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.server.apply.fieldsets import of_paths
from fairlead.server.apply.forms import form_of_definition
from fairlead.server.apply.merge import merge, remove
from fairlead.server.apply.reconcile import reconciled
from fairlead.server.apply.shapes import Atom, Compiler, SchemaMismatch
from fairlead.server.apply.typed import Changes, compare, field_set
from fairlead.server.apply.validate import joined, problems_of

POD = form_of_definition("v1", "io.k8s.api.core.v1.Pod").atom

WIDGET: Obj = {
    "type": "object",
    "properties": {
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "either": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string"},
                },
            },
        },
    },
}


def atom_of(schema: Obj) -> Atom:
    return Compiler(lambda name: {}).place(schema)


WIDGET_ATOM = atom_of(WIDGET)


def pod(*containers: Obj, **spec: Any) -> Obj:
    return {"spec": {"containers": list(containers), **spec}}


def test_an_author_owns_what_the_configuration_names_and_not_the_structs_around_it() -> None:
    config = pod({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}, tolerations=[{"key": "a"}])
    container: Obj = {".": {}, "f:name": {}, "f:image": {}, "f:resources": {"f:requests": {"f:cpu": {}}}}
    assert field_set(config, POD) == {
        "f:spec": {"f:containers": {'k:{"name":"c"}': container}, "f:tolerations": {}},
    }


def test_empty_and_null_things_are_owned_except_for_empty_lists() -> None:
    config = {"metadata": {"labels": {}, "annotations": None}, "spec": {"containers": []}}
    assert field_set(config, POD) == {"f:metadata": {"f:labels": {}, "f:annotations": {}}}


def test_elements_that_cannot_be_told_apart_are_owned_as_one() -> None:
    assert field_set({"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]}, WIDGET_ATOM) == {
        "f:ports": {'k:{"port":1,"protocol":"TCP"}': {}}
    }


def test_of_a_free_map_every_key_is_a_field() -> None:
    assert field_set({"free": {"a": {"b": [1]}}}, WIDGET_ATOM) == {"f:free": {"f:a": {".": {}, "f:b": {}}}}


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({"atomic": {"a": "1"}}, {"atomic": {"a": "2"}}, Changes(modified={"f:atomic": {}})),
        ({"plain": ["a"]}, {"plain": ["a", "b"]}, Changes(modified={"f:plain": {}})),
        ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}, Changes()),
        (
            {"tags": ["a"]},
            {"tags": ["b"]},
            Changes(removed={"f:tags": {'v:"a"': {}}}, added={"f:tags": {'v:"b"': {}}}),
        ),
        ({}, {"tags": ["b"]}, Changes(added={"f:tags": {".": {}, 'v:"b"': {}}})),
        ({"either": 1}, {"either": "1"}, Changes(modified={"f:either": {}})),
        (
            {"free": {"a": {"b": 1}}},
            {"free": {"a": 1}},
            Changes(removed={"f:free": {"f:a": {"f:b": {}}}}, modified={"f:free": {"f:a": {}}}),
        ),
        (
            {"ports": [{"port": 1}]},
            {"ports": [{"port": 1, "protocol": "TCP"}]},
            Changes(added={"f:ports": {'k:{"port":1,"protocol":"TCP"}': {"f:protocol": {}}}}),
        ),
        (
            {"ports": [{"port": 1}]},
            {"ports": [{"port": 1}, {"port": 1}]},
            Changes(
                removed={"f:ports": {'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:port": {}}}},
                added={"f:ports": {'k:{"port":1,"protocol":"TCP"}': {}}},
            ),
        ),
    ],
)
def test_differences_are_told_piece_by_piece_or_as_a_whole(old: Obj, new: Obj, changes: Changes) -> None:
    assert compare(old, new, WIDGET_ATOM) == changes


WIDGETS = st.fixed_dictionaries(
    {},
    optional={
        "atomic": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
        "free": st.dictionaries(st.sampled_from("ab"), st.integers(0, 1) | st.lists(st.integers(), max_size=1)),
        "either": st.sampled_from([1, "1"]),
        "tags": st.lists(st.sampled_from("abc"), unique=True),
        "plain": st.lists(st.sampled_from("ab"), max_size=2),
        "ports": st.lists(
            st.fixed_dictionaries({"port": st.integers(1, 3)}, optional={"name": st.sampled_from("ab")}),
            unique_by=lambda port: port["port"],
        ),
    },
)


@given(WIDGETS)
def test_an_object_does_not_differ_from_itself(widget: Obj) -> None:
    assert compare(widget, widget, WIDGET_ATOM) == Changes()


@given(WIDGETS, WIDGETS)
def test_the_difference_the_other_way_is_the_mirror_image(a: Obj, b: Obj) -> None:
    there, back = compare(a, b, WIDGET_ATOM), compare(b, a, WIDGET_ATOM)
    assert (there.added, there.removed, there.modified) == (back.removed, back.added, back.modified)


@given(WIDGETS, WIDGETS)
def test_merging_takes_nothing_away_and_twice_is_once(live: Obj, config: Obj) -> None:
    merged = merge(live, config, WIDGET_ATOM)
    assert compare(live, merged, WIDGET_ATOM).removed == {}
    assert merge(merged, config, WIDGET_ATOM) == merged
    assert merge(config, config, WIDGET_ATOM) == config


@given(WIDGETS)
def test_what_is_removed_is_gone(widget: Obj) -> None:
    fields = field_set(widget, WIDGET_ATOM)
    left = remove(widget, fields, WIDGET_ATOM)
    assert all(value in (None, {}, [], [None]) for value in left.values()), left


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        (["a", "b"], ["c"], ["a", "b", "c"]),
        (["a", "b"], ["b", "a"], ["b", "a"]),
        (["a", "b", "c"], ["c", "x", "a"], ["b", "c", "x", "a"]),
        (["x", "a", "y"], ["a", "z"], ["x", "a", "y", "z"]),
    ],
)
def test_a_merged_list_keeps_the_order_of_the_configuration(
    live: list[str], config: list[str], merged: list[str]
) -> None:
    assert merge({"tags": live}, {"tags": config}, WIDGET_ATOM) == {"tags": merged}


def test_what_lost_everything_below_it_is_null() -> None:
    """As it was before structured-merge-diff#306 and is again since its reversal (#334, Kubernetes 1.36.3)."""
    live = {"free": {"a": {"b": 1}}, "either": 1}
    assert remove(live, of_paths(("f:free", "f:a", "f:b")), WIDGET_ATOM) == {"free": {"a": None}, "either": 1}


def test_a_part_of_what_has_become_atomic_is_owned_as_a_whole() -> None:
    fields = of_paths(("f:atomic", "f:a"), ("f:tags", 'v:"x"'), ("f:plain", "i:0"))
    assert reconciled(fields, WIDGET_ATOM) == of_paths(("f:atomic",), ("f:tags", 'v:"x"'), ("f:plain",))


def test_a_set_that_fits_its_schema_is_left_alone() -> None:
    fields = of_paths(("f:atomic",), ("f:tags", 'v:"x"'))
    assert reconciled(fields, WIDGET_ATOM) is fields


def test_an_element_without_any_of_its_keys_cannot_be_owned() -> None:
    schema = WIDGET["properties"]["ports"] | {"x-kubernetes-list-map-keys": ["port"]}
    with pytest.raises(SchemaMismatch, match="omits all key fields"):
        field_set({"ports": [{"name": "a"}]}, atom_of({"type": "object", "properties": {"ports": schema}}))


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"nope": 1}, ".nope: field not declared in schema"),
        ({"spec": {"replicas": {}}}, ".spec.replicas: field not declared in schema"),
        ({"spec": []}, ".spec: expected map, got &{[]}"),
        ({"spec": {"containers": {"a": 1}}}, ".spec.containers: expected list, got &{map[a:1]}"),
        ({"spec": {"priority": "x"}}, ".spec.priority: expected numeric (int or float), got string"),
        ({"spec": {"hostNetwork": "yes"}}, ".spec.hostNetwork: expected boolean, got &{yes}"),
        (
            pod({"name": "c", "image": 1}),
            '.spec.containers[name="c"].image: expected string, got &value.valueUnstructured{Value:1}',
        ),
        (pod({"name": "c"}, {"name": "c"}), '.spec.containers: duplicate entries for key [name="c"]'),
        (pod({"name": "c", "args": [1]}), None),
        (
            {"metadata": {"labels": {"a": 1, "b": []}}},
            "errors:\n  .metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}\n"
            "  .metadata.labels.b: expected string, got &value.valueUnstructured{Value:[]interface {}{}}",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_in_upstreams_words(config: Obj, text: str | None) -> None:
    problems = problems_of(config, POD)
    if text is None:
        text = '.spec.containers[name="c"].args[0]: expected string, got &value.valueUnstructured{Value:1}'
    assert joined(problems) == text


def test_a_missing_key_with_a_default_is_no_mistake() -> None:
    assert problems_of(pod({"image": "i", "ports": [{"containerPort": 80}]}), POD) == []
