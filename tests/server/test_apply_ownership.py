"""Who owns what after creates, updates and applies (X-05, KEP-555; golden ssa)."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.errors import ApiError, BadRequest, Conflict
from fairlead.api.objects import Obj
from fairlead.server.apply.ownership import keep_unchanged_timestamps, mark_reset
from tests.server.apply_world import CONFIG_MAP, POD, World

LATER = "2026-01-01T00:01:00Z"


@pytest.fixture
def config_map() -> World:
    return World(CONFIG_MAP)


def test_the_creator_owns_everything_but_what_identifies_the_object(config_map: World) -> None:
    config_map.update("ed", data={"a": "1"}, metadata={"name": "x", "namespace": "n", "labels": {"l": "1"}})
    assert config_map.owners() == {
        "ed": {"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}}
    }


def test_what_a_struct_always_has_belongs_to_nobody() -> None:
    pod = World(POD)
    pod.update("ed", spec={"containers": [{"name": "c"}]}, status={"phase": "Running"})
    container: Obj = {".": {}, "f:name": {}, "f:resources": {}}
    assert pod.owners() == {"ed": {"f:spec": {"f:containers": {'k:{"name":"c"}': container}}}}


def test_each_endpoint_owns_its_own_part() -> None:
    pod = World(POD)
    pod.apply("ed", spec={"containers": [{"name": "c", "image": "i"}]})
    pod.update("kubelet", subresource="status", status={"phase": "Running"}, spec={"nodeName": "n"})
    assert pod.owners()["kubelet"] == {"f:status": {"f:phase": {}}}


def test_an_update_that_changes_nothing_changes_no_owner(config_map: World) -> None:
    before = config_map.update("ed", data={"a": "1"})["metadata"]["managedFields"]
    assert config_map.update("other", now=LATER)["metadata"]["managedFields"] == before


def test_an_update_takes_the_field_from_its_applier(config_map: World) -> None:
    config_map.apply("alice", data={"a": "1", "b": "1"})
    config_map.update("ed", data={"a": "2", "b": "1"})
    assert config_map.owners() == {"alice": {"f:data": {"f:b": {}}}, "ed": {"f:data": {"f:a": {}}}}


def test_a_field_that_its_only_applier_drops_is_removed(config_map: World) -> None:
    config_map.apply("alice", data={"a": "1", "b": "1"})
    assert config_map.apply("alice", data={"a": "1"})["data"] == {"a": "1"}


def test_a_shared_field_stays_until_the_last_applier_drops_it(config_map: World) -> None:
    config_map.apply("alice", data={"a": "1"})
    config_map.apply("bob", data={"a": "1"})
    assert config_map.apply("alice", data={})["data"] == {"a": "1"}
    assert "data" not in config_map.apply("bob", data={})


def test_changing_what_others_own_is_a_conflict(config_map: World) -> None:
    config_map.apply("alice", data={"a": "1", "b": "1"})
    config_map.update("ed", data={"a": "1", "b": "1", "c": "1"})
    with pytest.raises(Conflict) as refused:
        config_map.apply("bob", data={"a": "2", "c": "2"})
    assert refused.value.message == (
        'Apply failed with 2 conflicts: conflicts with "alice":\n- .data.a\nconflicts with "ed" using v1:\n- .data.c'
    )
    assert [(cause.reason, cause.field) for cause in refused.value.causes] == [
        ("FieldManagerConflict", ".data.a"),
        ("FieldManagerConflict", ".data.c"),
    ]


def test_force_takes_what_others_own(config_map: World) -> None:
    config_map.apply("alice", data={"a": "1", "b": "1"})
    assert config_map.apply("bob", force=True, data={"a": "2"})["data"] == {"a": "2", "b": "1"}
    assert config_map.owners() == {"alice": {"f:data": {"f:b": {}}}, "bob": {"f:data": {"f:a": {}}}}


def test_an_apply_that_changes_nothing_keeps_its_time(config_map: World) -> None:
    before = config_map.apply("alice", data={"a": "1"})
    assert config_map.apply("alice", now=LATER, data={"a": "1"}) == before


def test_what_was_there_before_the_first_apply_belongs_to_somebody(config_map: World) -> None:
    config_map.obj = {"metadata": {"name": "x", "uid": "u"}, "data": {"a": "1"}}
    with pytest.raises(Conflict, match=r'conflict with "before-first-apply" using v1: .data.a'):
        config_map.apply("alice", data={"a": "2"})


def test_an_object_without_owners_stays_so_until_it_is_applied(config_map: World) -> None:
    config_map.obj = {"metadata": {"name": "x", "uid": "u"}, "data": {"a": "1"}}
    config_map.update("ed", data={"a": "2"})
    assert config_map.owners() == {}


def test_an_empty_list_of_owners_clears_them(config_map: World) -> None:
    config_map.update("ed", data={"a": "1"})
    sent: Obj = {"metadata": {"name": "x", "managedFields": []}, "data": {"a": "1"}}
    mark_reset(sent)
    config_map.update("ed", **sent)
    assert config_map.owners() == {}


def test_a_client_may_rewrite_the_owners(config_map: World) -> None:
    config_map.update("ed", data={"a": "1"})
    entry = {"manager": "new", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    entries: list[Obj] = [entry | {"fieldsV1": {"f:data": {"f:a": {}}}}]
    config_map.update("ed", metadata={"name": "x", "managedFields": entries})
    assert config_map.owners() == {"new": {"f:data": {"f:a": {}}}}


def test_owners_that_make_no_sense_are_ignored(config_map: World) -> None:
    config_map.update("ed", data={"a": "1"})
    before = config_map.owners()
    config_map.update("ed", metadata={"name": "x", "managedFields": [{"manager": "new", "operation": "Steal"}]})
    assert config_map.owners() == before


def test_the_oldest_updates_beyond_ten_are_merged(config_map: World) -> None:
    for number in range(12):
        data = {f"k{n:02}": "1" for n in range(number + 1)}
        config_map.update(f"m{number:02}", now=f"2026-01-01T00:00:{number:02}Z", data=data)
    owners = config_map.owners()
    assert len(owners) == 10
    assert owners["ancient-changes"] == {"f:data": {".": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}}}


def test_times_that_are_all_that_changed_are_taken_back(config_map: World) -> None:
    old = config_map.update("ed", data={"a": "1"})
    entries = [entry | {"time": LATER} for entry in old["metadata"]["managedFields"]]
    new = old | {"metadata": old["metadata"] | {"managedFields": entries}}
    keep_unchanged_timestamps(new, old)
    assert new == old
    changed = new | {"data": {"a": "2"}, "metadata": new["metadata"] | {"managedFields": entries}}
    keep_unchanged_timestamps(changed, old)
    assert changed["metadata"]["managedFields"] == entries


def test_kubectl_takes_over_what_it_applied_client_side(config_map: World) -> None:
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1","b":"1"}}'
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": last}
    config_map.update("kubectl-client-side-apply", data={"a": "1", "b": "9"}, metadata={"annotations": annotations})
    with pytest.raises(Conflict) as refused:
        config_map.apply("kubectl", data={"a": "2", "b": "2"})
    assert [cause.field for cause in refused.value.causes] == [".data.b"]
    merged = config_map.apply("kubectl", data={"a": "2"})
    (annotation,) = merged["metadata"]["annotations"].values()
    assert annotation == '{"apiVersion":"v1","data":{"a":"2"},"kind":"ConfigMap","metadata":{"name":"x"}}\n'


@pytest.mark.parametrize("last", ["{", '{"a":1e999}', '{"a":' * 20_000 + "1" + "}" * 20_000, '"\U0001f6a2'])
def test_what_cannot_have_been_applied_client_side_leaves_the_conflict(config_map: World, last: str) -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": last}
    config_map.update("kubectl-client-side-apply", data={"a": "1"}, metadata={"annotations": annotations})
    with pytest.raises(Conflict):
        config_map.apply("kubectl", data={"a": "2"})


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        ({"kind": "Secret"}, BadRequest, "invalid object type: /v1, Kind=Secret"),
        ({"apiVersion": "a/b/c"}, BadRequest, "invalid object type: /, Kind="),
        ({"metadata": {"name": "x", "managedFields": []}}, BadRequest, "metadata.managedFields must be nil"),
        (
            {"data": {"a": 1}},
            ApiError,
            "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .data.a: expected string, got "
            "&value.valueUnstructured{Value:1}",
        ),
    ],
)
def test_a_body_that_makes_no_sense_is_refused(
    config_map: World, fields: dict[str, Any], kind: type[ApiError], text: str
) -> None:
    with pytest.raises(kind) as refused:
        config_map.apply("alice", **fields)
    assert refused.value.message == text


def test_whoever_creates_another_object_like_one_before_owns_what_is_in_that_one() -> None:
    def owned(**meta: Any) -> Any:
        world = World(CONFIG_MAP)
        world.update("a", metadata={"name": "x", **meta}, data={"k": "v"})
        return world.owners()["a"]

    first = owned(labels={"app": "a"}, annotations={"note": "1"})
    assert owned(labels={"app": "b"}, annotations={"note": "2"}) == first
    assert "f:app" in first["f:metadata"]["f:labels"]
    assert "f:tier" in owned(labels={"tier": "b"})["f:metadata"]["f:labels"]
    assert "f:labels" not in owned(finalizers=["a.b/c"]).get("f:metadata", {})
    assert owned(finalizers=["a.b/c"]) != owned(finalizers=["a.b/d"])
