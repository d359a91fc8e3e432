"""delete and delete_collection: what goes, what is kept from going, and what comes back."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS, DEPLOYMENTS, PODS
from fairlead.api.errors import ApiError, Conflict, Invalid, NotFound
from fairlead.api.verbs import Api, DeleteOptions, ListQuery
from tests.api_conformance.world import config_map, deployment, names, pod, version_of


async def test_a_deletion_that_is_complete_is_told_as_a_status(api: Api, namespace: str) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("c"), namespace)).obj()
    assert (await api.delete(CONFIG_MAPS, "c", namespace)).obj() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "c", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    for refused in (api.get(CONFIG_MAPS, "c", namespace), api.delete(CONFIG_MAPS, "c", namespace)):
        with pytest.raises(NotFound):
            await refused


async def test_a_pod_on_a_node_is_given_its_grace_and_comes_back_as_it_waits(api: Api, namespace: str) -> None:
    await api.create(PODS, pod("p", node="n"), namespace)
    waiting = (await api.delete(PODS, "p", namespace, DeleteOptions(grace_period_seconds=7))).obj()
    assert (waiting["kind"], waiting["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 7)
    assert (await api.get(PODS, "p", namespace)).obj() == waiting
    await api.delete(PODS, "p", namespace, DeleteOptions(grace_period_seconds=0))
    assert names(await api.list(PODS, namespace)) == []


async def test_an_object_with_a_finalizer_stays_until_it_is_taken_off(api: Api, namespace: str) -> None:
    await api.create(CONFIG_MAPS, config_map("c", finalizers=["example.com/wait"]), namespace)
    marked = (await api.delete(CONFIG_MAPS, "c", namespace)).obj()
    assert (marked["kind"], bool(marked["metadata"]["deletionTimestamp"])) == ("ConfigMap", True)
    assert (await api.get(CONFIG_MAPS, "c", namespace)).obj() == marked
    await api.patch(CONFIG_MAPS, "c", namespace, {"metadata": {"finalizers": None}})
    assert names(await api.list(CONFIG_MAPS, namespace)) == []


@pytest.mark.parametrize(
    ("policy", "finalizers"), [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"]), ("Background", None)]
)
async def test_what_becomes_of_dependents_is_left_to_a_finalizer(
    api: Api, namespace: str, policy: str, finalizers: list[str] | None
) -> None:
    await api.create(DEPLOYMENTS, deployment("d"), namespace)
    await api.delete(DEPLOYMENTS, "d", namespace, DeleteOptions(propagation_policy=policy))
    left = [item.obj()["metadata"].get("finalizers") for item in (await api.list(DEPLOYMENTS, namespace)).items]
    assert left == ([finalizers] if finalizers else [])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"precondition_uid": "x"}, Conflict, "the UID in the precondition (x) does not match the UID in record ("),
        (
            {"precondition_resource_version": "1"},
            Conflict,
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (",
        ),
        (
            {"propagation_policy": "x"},
            Invalid,
            'propagationPolicy: Unsupported value: "x": supported values: "Foreground"',
        ),
    ],
)
async def test_a_deletion_that_may_not_be_changes_nothing(
    api: Api, namespace: str, options: dict[str, Any], error: type[ApiError], message: str
) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("c"), namespace)).obj()
    with pytest.raises(error) as refused:
        await api.delete(CONFIG_MAPS, "c", namespace, DeleteOptions(**options))
    assert message in refused.value.message
    assert (await api.get(CONFIG_MAPS, "c", namespace)).obj() == made


async def test_the_very_object_that_is_meant_is_deleted(api: Api, namespace: str) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("c"), namespace)).obj()
    options = DeleteOptions(precondition_uid=made["metadata"]["uid"], precondition_resource_version=version_of(made))
    await api.delete(CONFIG_MAPS, "c", namespace, options)
    assert names(await api.list(CONFIG_MAPS, namespace)) == []


async def test_a_dry_run_deletes_nothing(api: Api, namespace: str) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("c"), namespace)).obj()
    gone = (await api.delete(CONFIG_MAPS, "c", namespace, DeleteOptions(dry_run=True))).obj()
    assert gone["status"] == "Success"
    await api.delete_collection(CONFIG_MAPS, namespace, options=DeleteOptions(dry_run=True))
    assert (await api.get(CONFIG_MAPS, "c", namespace)).obj() == made


async def test_a_collection_goes_as_far_as_it_is_selected_and_comes_back_as_it_was(api: Api, namespace: str) -> None:
    made = [
        (await api.create(CONFIG_MAPS, config_map(name, labels={"k": label}), namespace)).obj()
        for name, label in (("a", "1"), ("b", "2"), ("c", "1"))
    ]
    gone = await api.delete_collection(CONFIG_MAPS, namespace, ListQuery(labels="k=1"))
    assert [item.obj() for item in gone.items] == [made[0], made[2]]
    assert names(await api.list(CONFIG_MAPS, namespace)) == ["b"]
    await api.delete_collection(CONFIG_MAPS, namespace, ListQuery(fields="metadata.name!=b"))
    assert names(await api.list(CONFIG_MAPS, namespace)) == ["b"]
    await api.delete_collection(CONFIG_MAPS, namespace)
    assert names(await api.list(CONFIG_MAPS, namespace)) == []


async def test_a_collection_goes_page_by_page(api: Api, namespace: str) -> None:
    for name in "abc":
        await api.create(CONFIG_MAPS, config_map(name), namespace)
    page = await api.delete_collection(CONFIG_MAPS, namespace, ListQuery(limit=2))
    assert (names(page), page.remaining) == (["a", "b"], 1)
    rest = await api.delete_collection(CONFIG_MAPS, namespace, ListQuery(continue_token=page.continue_token))
    assert (names(rest), rest.continue_token) == (["c"], "")
    assert names(await api.list(CONFIG_MAPS, namespace)) == []
