"""Metadata: the rules that every kind shares."""

from __future__ import annotations

import pytest

from fairlead.api.objects import Obj
from tests.kinds.kind_world import TEMPLATE, born, made, updated


@pytest.mark.parametrize(
    ("kind", "name", "is_fine"),
    [
        ("ConfigMap", "a.b", True),
        ("ConfigMap", "A", False),
        ("Namespace", "a.b", False),
        ("StatefulSet", "a.b", False),
        ("Service", "1a", True),
        ("Service", "a.b", False),
        ("ClusterRole", "system:A_b", True),
        ("ClusterRole", "a/b", False),
        ("PodDisruptionBudget", "A_b", True),
    ],
)
def test_each_kind_has_its_rule_for_names(kind: str, name: str, is_fine: bool) -> None:
    _, refusals = born(kind, meta={"name": name})
    about_name = [text for text in refusals if text.startswith("metadata.name")]
    assert (not about_name) is is_fine


def test_object_needs_a_name() -> None:
    _, refusals = born("ConfigMap", meta={"name": ""})
    assert refusals == ["metadata.name: Required value: name or generateName is required"]


def test_a_generate_name_may_end_in_a_dash() -> None:
    made("ConfigMap", meta={"name": "a-x", "generateName": "a-"})


def test_a_generate_name_that_came_later_is_checked_too() -> None:
    _, refusals = updated(made("ConfigMap"), lambda obj: obj["metadata"].update(generateName="a_b-"))
    assert refusals and {refusal.partition(": ")[0] for refusal in refusals} == {"metadata.generateName"}


def test_owners_must_be_complete_and_only_one_is_the_controller() -> None:
    owner: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "controller": True}
    _, refusals = born("ConfigMap", meta={"ownerReferences": [owner, owner | {"name": "p", "uid": ""}]})
    assert refusals == [
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        "metadata.ownerReferences: Invalid value: "
        '[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u","controller":true},'
        '{"apiVersion":"v1","kind":"ConfigMap","name":"p","uid":"","controller":true}]: '
        'Only one reference can have Controller set to true. Found "true" in references for ConfigMap/o'
        " and ConfigMap/p",
    ]


def test_finalizers_are_qualified() -> None:
    _, refusals = born("ConfigMap", meta={"finalizers": ["mine"]})
    assert refusals == [
        'metadata.finalizers[0]: Invalid value: "mine": '
        "name is neither a standard finalizer name nor is it fully qualified"
    ]


def test_uid_is_immutable_and_upstream_says_so_twice() -> None:
    _, refusals = updated(made("ConfigMap"), lambda obj: obj["metadata"].update(uid="other"))
    assert refusals == ['metadata.uid: Invalid value: "other": field is immutable'] * 2


def test_no_new_finalizers_while_an_object_is_being_deleted() -> None:
    old = made("ConfigMap", meta={"finalizers": ["a.b/c"]})
    old["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    _, refusals = updated(old, lambda obj: obj["metadata"]["finalizers"].append("a.b/d"))
    assert refusals[0] == (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"a.b/d"}'
    )


def test_finalizers_come_before_who_manages_what() -> None:
    managed = [{"operation": "Apply", "manager": "\n"}]
    _, refusals = born("ConfigMap", meta={"managedFields": managed, "finalizers": ["!"]})
    fields = [refusal.partition(":")[0] for refusal in refusals]
    assert fields == ["metadata.finalizers", "metadata.managedFields[0].manager", "metadata.finalizers[0]"]
    assert refusals[1].endswith('Invalid value: "\\n": invalid character U+000A (at position 0)')


def test_a_version_of_an_owner_has_two_parts_at_most() -> None:
    owner = {"apiVersion": "a/b/c", "kind": "K", "name": "n", "uid": "u"}
    _, refusals = born("ConfigMap", meta={"ownerReferences": [owner]})
    assert refusals == ['metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty']


def test_of_a_controller_only_the_name_that_was_made_up_is_told() -> None:
    spec = {"selector": {"app": "a"}, "template": TEMPLATE}
    _, refusals = born("ReplicationController", spec=spec, meta={"generateName": "AB-", "name": "AB-x"})
    assert [refusal.partition(":")[0] for refusal in refusals] == ["metadata.name"]
    _, refusals = born("ConfigMap", meta={"generateName": "AB-", "name": "AB-x"})
    assert [refusal.partition(":")[0] for refusal in refusals] == ["metadata.generateName", "metadata.name"]
