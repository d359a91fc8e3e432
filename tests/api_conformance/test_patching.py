"""patch, in each of its four formats."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS, DEPLOYMENTS, PODS
from fairlead.api.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api, PatchType, WriteOptions
from tests.api_conformance.world import CONTAINER, config_map, deployment, pod

JSON, MERGE, STRATEGIC, APPLY = PatchType.JSON, PatchType.MERGE, PatchType.STRATEGIC, PatchType.APPLY


def applied(name: str, data: Obj) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.mark.parametrize(
    ("type_", "patch", "data"),
    [
        (JSON, [{"op": "add", "path": "/data/c", "value": "3"}], {"a": "1", "b": "2", "c": "3"}),
        (JSON, [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/a"}], {"b": "2"}),
        (JSON, [{"op": "move", "from": "/data/a", "path": "/data/c"}], {"b": "2", "c": "1"}),
        (MERGE, {"data": {"a": None, "b": 'é\t"'}}, {"b": 'é\t"'}),
        (STRATEGIC, {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
        (STRATEGIC, {"data": {"$patch": "replace", "c": "3"}}, {"c": "3"}),
        (APPLY, applied("m", {"c": "3"}), {"a": "1", "b": "2", "c": "3"}),
    ],
)
async def test_each_format_changes_what_it_says(
    api: Api, namespace: str, type_: PatchType, patch: Any, data: Obj
) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("m", {"a": "1", "b": "2"}), namespace)).obj()
    options = WriteOptions(field_manager="me")
    patched = await api.patch(CONFIG_MAPS, "m", namespace, patch, type_, options=options)
    assert patched.obj()["data"] == data
    assert patched.obj()["metadata"]["uid"] == made["metadata"]["uid"]
    assert (await api.get(CONFIG_MAPS, "m", namespace)).obj() == patched.obj()


async def test_a_merge_replaces_a_list_and_a_strategic_merge_merges_it(api: Api, namespace: str) -> None:
    second = CONTAINER | {"name": "second"}
    template = {"spec": {"template": {"spec": {"containers": [second]}}}}
    for type_, containers in ((STRATEGIC, ["second", "c"]), (MERGE, ["second"])):
        name = type_.name.lower()
        await api.create(DEPLOYMENTS, deployment(name), namespace)
        patched = (await api.patch(DEPLOYMENTS, name, namespace, template, type_)).obj()
        assert [one["name"] for one in patched["spec"]["template"]["spec"]["containers"]] == containers


async def test_an_apply_creates_changes_and_takes_back_what_it_said_before(api: Api, namespace: str) -> None:
    options = WriteOptions(field_manager="me")
    made = await api.patch(CONFIG_MAPS, "m", namespace, applied("m", {"a": "1", "b": "2"}), APPLY, options=options)
    assert made.obj()["data"] == {"a": "1", "b": "2"}
    [entry] = made.obj()["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("me", "Apply")
    await api.patch(CONFIG_MAPS, "m", namespace, {"data": {"theirs": "3"}})
    again = await api.patch(CONFIG_MAPS, "m", namespace, applied("m", {"a": "1"}), APPLY, options=options)
    assert again.obj()["data"] == {"a": "1", "theirs": "3"}


async def test_an_apply_of_what_somebody_else_owns_is_a_conflict_unless_forced(api: Api, namespace: str) -> None:
    mine, yours = (WriteOptions(field_manager=name) for name in ("me", "you"))
    await api.patch(CONFIG_MAPS, "m", namespace, applied("m", {"a": "1"}), APPLY, options=mine)
    with pytest.raises(Conflict) as refused:
        await api.patch(CONFIG_MAPS, "m", namespace, applied("m", {"a": "2"}), APPLY, options=yours)
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "me": .data.a'
    assert [cause.encode() for cause in refused.value.causes] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.a"}
    ]
    forced = WriteOptions(field_manager="you", force=True)
    patched = await api.patch(CONFIG_MAPS, "m", namespace, applied("m", {"a": "2"}), APPLY, options=forced)
    assert patched.obj()["data"] == {"a": "2"}


@pytest.mark.parametrize(
    ("type_", "patch", "error", "message"),
    [
        (JSON, [{"op": "test", "path": "/data/k", "value": "x"}], Invalid, "the server rejected our request due to"),
        (JSON, [{"op": "remove", "path": "/data/x"}], Invalid, "the server rejected our request due to an error in"),
        (MERGE, {"metadata": {"name": "x"}}, BadRequest, "the name of the object (x) does not match the name on the"),
        (MERGE, {"data": {"k": 1}}, Invalid, "cannot unmarshal number into Go struct field ConfigMap.data of type"),
        (STRATEGIC, {"data": {"k": 1}}, Invalid, "cannot convert int64 to string"),
        (STRATEGIC, {"data": {"$patch": "x"}}, ApiError, "unknown patch type: x in map: map[$patch:x]"),
        (MERGE, {"metadata": {"resourceVersion": "1"}}, Conflict, "the object has been modified"),
        (MERGE, {"metadata": {"uid": "x"}}, Invalid, 'metadata.uid: Invalid value: "x": field is immutable'),
        (MERGE, {"data": {"a b": "1"}}, Invalid, "a valid config key must consist of alphanumeric characters"),
    ],
)
async def test_a_patch_that_does_not_apply_changes_nothing(
    api: Api, namespace: str, type_: PatchType, patch: Any, error: type[ApiError], message: str
) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("m"), namespace)).obj()
    with pytest.raises(error) as refused:
        await api.patch(CONFIG_MAPS, "m", namespace, patch, type_)
    assert message in refused.value.message
    assert (await api.get(CONFIG_MAPS, "m", namespace)).obj() == made


@pytest.mark.parametrize(
    ("type_", "options", "message"),
    [
        (APPLY, WriteOptions(), "fieldManager: Required value: is required for apply patch"),
        (MERGE, WriteOptions(force=True), "force: Forbidden: may not be specified for non-apply patch"),
    ],
)
async def test_options_that_do_not_belong_to_the_format_are_refused(
    api: Api, namespace: str, type_: PatchType, options: WriteOptions, message: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await api.patch(CONFIG_MAPS, "m", namespace, applied("m", {}), type_, options=options)
    assert message in refused.value.message


async def test_a_patch_that_cannot_be_applied_is_refused_without_a_reason_why(api: Api, namespace: str) -> None:
    await api.create(CONFIG_MAPS, config_map("m"), namespace)
    with pytest.raises(Invalid) as refused:
        await api.patch(CONFIG_MAPS, "m", namespace, [{"op": "remove", "path": "/data/x"}], JSON)
    status = refused.value.status()
    assert (status["code"], status["reason"], status["details"]) == (422, "Invalid", {})


@pytest.mark.parametrize("type_", [JSON, MERGE, STRATEGIC])
async def test_what_is_not_there_cannot_be_patched(api: Api, namespace: str, type_: PatchType) -> None:
    with pytest.raises(NotFound, match='configmaps "m" not found'):
        await api.patch(CONFIG_MAPS, "m", namespace, [] if type_ is JSON else {}, type_)


async def test_a_patch_that_changes_nothing_writes_nothing(api: Api, namespace: str) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("m"), namespace)).obj()
    for type_, patch in ((JSON, []), (MERGE, {"data": {"k": "v"}}), (STRATEGIC, {})):
        assert (await api.patch(CONFIG_MAPS, "m", namespace, patch, type_)).obj() == made


@pytest.mark.parametrize("type_", PatchType)
async def test_a_dry_run_changes_nothing(api: Api, namespace: str, type_: PatchType) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("m"), namespace)).obj()
    patch: Any = [{"op": "add", "path": "/data/n", "value": "w"}] if type_ is JSON else applied("m", {"n": "w"})
    options = WriteOptions(dry_run=True, field_manager="me")
    shown = await api.patch(CONFIG_MAPS, "m", namespace, patch, type_, options=options)
    assert shown.obj()["data"] == {"k": "v", "n": "w"}
    assert (await api.get(CONFIG_MAPS, "m", namespace)).obj() == made


@pytest.mark.parametrize("type_", [MERGE, STRATEGIC])
async def test_the_status_is_patched_at_its_own_endpoint(api: Api, namespace: str, type_: PatchType) -> None:
    await api.create(PODS, pod("p"), namespace)
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}
    patched = (await api.patch(PODS, "p", namespace, patch, type_, subresource="status")).obj()
    assert (patched["status"]["phase"], patched["metadata"]["generation"]) == ("Running", 1)
    ignored = (await api.patch(PODS, "p", namespace, {"status": {"phase": "Failed"}}, type_)).obj()
    assert ignored["status"]["phase"] == "Running"
