"""create: what the server adds, the names that it makes up, and what it refuses."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS, NAMESPACES, NODES, PODS
from fairlead.api.errors import AlreadyExists, ApiError, BadRequest, Invalid, NotFound, Unknown
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api, WriteOptions
from tests.api_conformance.world import CONTAINER, config_map, names, pod


async def test_a_new_object_gets_its_identity_and_its_defaults(api: Api, namespace: str) -> None:
    made = (await api.create(PODS, pod("p"), namespace)).obj()
    meta = made["metadata"]
    assert (made["kind"], made["apiVersion"], meta["namespace"], meta["generation"]) == ("Pod", "v1", namespace, 1)
    assert meta["uid"] and meta["creationTimestamp"] and int(meta["resourceVersion"]) > 0
    assert (made["spec"]["restartPolicy"], made["status"]["phase"]) == ("Always", "Pending")


async def test_what_is_handed_over_stays_as_it_is(api: Api, namespace: str) -> None:
    sent = pod("p") | {"nope": 1}
    before = deepcopy(sent)
    await api.create(PODS, sent, namespace)
    assert sent == before
    found = (await api.get(PODS, "p", namespace)).obj()
    found["metadata"]["labels"], found["nope"] = {"a": "b"}, 1
    before = deepcopy(found)
    await api.update(PODS, found)
    assert found == before


async def test_what_is_in_no_namespace_is_created_without_one(api: Api, namespace: str) -> None:
    name = f"{namespace}-node"
    made = (await api.create(NODES, {"metadata": {"name": name}})).obj()
    assert "namespace" not in made["metadata"]
    assert (await api.get(NODES, name)).obj() == made


async def test_the_namespace_may_be_said_by_the_object_alone(api: Api, namespace: str) -> None:
    made = await api.create(CONFIG_MAPS, config_map("c", namespace=namespace), namespace)
    assert made.obj() == (await api.get(CONFIG_MAPS, "c", namespace)).obj()
    with pytest.raises(BadRequest, match="the namespace of the provided object does not match the namespace sent on"):
        await api.create(CONFIG_MAPS, config_map("d", namespace="another"), namespace)


async def test_a_name_is_made_up_where_only_its_beginning_is_given(api: Api, namespace: str) -> None:
    made = [
        (await api.create(CONFIG_MAPS, {"metadata": {"generateName": "c-"}}, namespace)).obj()["metadata"]
        for _ in range(2)
    ]
    assert all(meta["name"].startswith("c-") and len(meta["name"]) == 7 for meta in made)
    assert names(await api.list(CONFIG_MAPS, namespace)) == sorted({meta["name"] for meta in made})


async def test_a_name_that_is_taken_is_refused(api: Api, namespace: str) -> None:
    await api.create(CONFIG_MAPS, config_map("c"), namespace)
    with pytest.raises(AlreadyExists) as refused:
        await api.create(CONFIG_MAPS, config_map("c"), namespace)
    assert refused.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "c" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "c", "kind": "configmaps"},
        "code": 409,
    }


async def test_an_object_that_breaks_rules_is_refused_with_each_of_them(api: Api, namespace: str) -> None:
    with pytest.raises(Invalid) as refused:
        await api.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "C"}]}}, namespace)
    status = refused.value.status()
    assert (status["code"], status["reason"], status["details"]["name"]) == (422, "Invalid", "p")
    assert status["details"]["kind"] == "Pod"
    causes = [(cause["reason"], cause["field"]) for cause in status["details"]["causes"]]
    assert causes == [
        ("FieldValueInvalid", "spec.containers[0].name"),
        ("FieldValueRequired", "spec.containers[0].image"),
    ]
    assert status["message"].startswith('Pod "p" is invalid: [spec.containers[0].name: Invalid value: "C": ')


@pytest.mark.parametrize(
    ("obj", "error", "message"),
    [
        ({"metadata": {}}, Invalid, "metadata.name: Required value: name or generateName is required"),
        ({"metadata": {"name": "c", "resourceVersion": "7"}}, Unknown, "resourceVersion should not be set on objects"),
        ({"metadata": {"name": "c"}, "data": {"k": 1}}, BadRequest, "ConfigMap in version"),
        ({"metadata": {"name": "c"}, "data": {"k": "x" * 1_100_000}}, Invalid, "may not be more than 1048576 bytes"),
    ],
)
async def test_an_object_that_cannot_be_is_refused(
    api: Api, namespace: str, obj: Obj, error: type[ApiError], message: str
) -> None:
    with pytest.raises(error) as refused:
        await api.create(CONFIG_MAPS, obj, namespace)
    assert message in refused.value.message


async def test_an_error_without_a_reason_keeps_its_code_and_its_text(api: Api, namespace: str) -> None:
    with pytest.raises(Unknown) as refused:
        await api.create(CONFIG_MAPS, config_map("c", resourceVersion="7"), namespace)
    status = refused.value.status()
    assert (status["code"], status.get("reason")) == (500, None)
    assert status["message"] == "resourceVersion should not be set on objects to be created"


async def test_nothing_is_created_in_a_namespace_that_is_not_there(api: Api) -> None:
    with pytest.raises(NotFound) as refused:
        await api.create(CONFIG_MAPS, config_map("c"), "nowhere")
    assert refused.value.message == 'namespaces "nowhere" not found'
    assert refused.value.details["kind"] == NAMESPACES.plural


async def test_a_dry_run_shows_what_would_be_and_stores_nothing(api: Api, namespace: str) -> None:
    shown = (await api.create(PODS, pod("p"), namespace, options=WriteOptions(dry_run=True))).obj()
    assert "resourceVersion" not in shown["metadata"]
    assert (shown["metadata"]["name"], shown["spec"]["restartPolicy"]) == ("p", "Always")
    assert names(await api.list(PODS, namespace)) == []
    with pytest.raises(Invalid):
        await api.create(PODS, {"metadata": {"name": "p"}}, namespace, options=WriteOptions(dry_run=True))


@pytest.mark.parametrize("validation", ["Ignore", "Warn", "Strict"])
async def test_an_unknown_field_is_dropped_or_refused_as_the_writer_asks(
    api: Api, namespace: str, validation: str
) -> None:
    """X-02."""
    obj: Any = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER | {"imag": "x"}]}}
    options = WriteOptions(field_validation=validation)
    if validation == "Strict":
        with pytest.raises(BadRequest, match=r'strict decoding error: unknown field "spec.containers\[0\].imag"'):
            await api.create(PODS, obj, namespace, options=options)
        assert names(await api.list(PODS, namespace)) == []
    else:
        made = await api.create(PODS, obj, namespace, options=options)
        assert "imag" not in made.obj()["spec"]["containers"][0]


async def test_who_creates_an_object_owns_its_fields_by_the_name_given(api: Api, namespace: str) -> None:
    made = await api.create(CONFIG_MAPS, config_map("c"), namespace, options=WriteOptions(field_manager="me"))
    [entry] = made.obj()["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("me", "Update")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:k": {}}}
