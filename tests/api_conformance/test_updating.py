"""update: replacing an object, and being told that somebody else was faster (X-05)."""

from __future__ import annotations

import pytest

from fairlead.api.builtin import CONFIG_MAPS, DEPLOYMENTS, LEASES, PODS
from fairlead.api.errors import MODIFIED, Conflict, Invalid, NotFound
from fairlead.api.verbs import Api, WriteOptions
from tests.api_conformance.world import config_map, deployment, pod, version_of


async def test_an_update_replaces_the_object_and_keeps_its_identity(api: Api, namespace: str) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("c", {"a": "1", "b": "2"}), namespace)).obj()
    updated = (await api.update(CONFIG_MAPS, made | {"data": {"a": "3"}})).obj()
    assert updated["data"] == {"a": "3"}
    assert updated["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(version_of(updated)) > int(version_of(made))
    assert (await api.get(CONFIG_MAPS, "c", namespace)).obj() == updated


async def test_an_update_that_changes_nothing_writes_nothing(api: Api, namespace: str) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("c"), namespace)).obj()
    assert (await api.update(CONFIG_MAPS, made)).obj() == made


async def test_an_update_of_what_has_changed_since_is_a_conflict(api: Api, namespace: str) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("c"), namespace)).obj()
    await api.patch(CONFIG_MAPS, "c", namespace, {"data": {"k": "theirs"}})
    with pytest.raises(Conflict) as refused:
        await api.update(CONFIG_MAPS, made | {"data": {"k": "mine"}})
    assert refused.value.message == f'Operation cannot be fulfilled on configmaps "c": {MODIFIED}'
    assert refused.value.status()["details"] == {"name": "c", "kind": "configmaps"}
    del made["metadata"]["resourceVersion"]
    assert (await api.update(CONFIG_MAPS, made | {"data": {"k": "mine"}})).obj()["data"] == {"k": "mine"}


async def test_an_update_of_another_object_of_the_same_name_is_a_conflict(api: Api, namespace: str) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("c"), namespace)).obj()
    made["metadata"] |= {"uid": "another", "resourceVersion": ""}
    with pytest.raises(Conflict, match="Precondition failed: UID in precondition: another, UID in object meta: "):
        await api.update(CONFIG_MAPS, made)


async def test_an_update_creates_nothing_but_where_the_kind_allows_it(api: Api, namespace: str) -> None:
    meta = {"name": "x", "namespace": namespace}
    with pytest.raises(NotFound, match='configmaps "x" not found'):
        await api.update(CONFIG_MAPS, {"metadata": dict(meta)})
    made = await api.update(LEASES, {"metadata": dict(meta), "spec": {"holderIdentity": "me"}})
    assert made.obj() == (await api.get(LEASES, "x", namespace)).obj()


async def test_what_cannot_change_is_refused(api: Api, namespace: str) -> None:
    made = (await api.create(PODS, pod("p"), namespace)).obj()
    made["spec"]["restartPolicy"] = "Never"
    with pytest.raises(Invalid) as refused:
        await api.update(PODS, made)
    assert [(cause.reason, cause.field) for cause in refused.value.causes] == [("FieldValueForbidden", "spec")]


async def test_spec_and_status_are_written_each_at_its_own_endpoint(api: Api, namespace: str) -> None:
    made = (await api.create(DEPLOYMENTS, deployment("d"), namespace)).obj()
    both = made | {"spec": made["spec"] | {"replicas": 5}, "status": {"replicas": 3}}
    status = (await api.update(DEPLOYMENTS, both, subresource="status")).obj()
    assert (status["spec"]["replicas"], status["status"]) == (2, {"replicas": 3})
    assert status["metadata"]["generation"] == 1
    spec = (await api.update(DEPLOYMENTS, status | {"spec": both["spec"], "status": {}})).obj()
    assert (spec["spec"]["replicas"], spec["status"], spec["metadata"]["generation"]) == (5, {"replicas": 3}, 2)


async def test_a_dry_run_changes_nothing(api: Api, namespace: str) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("c"), namespace)).obj()
    shown = await api.update(CONFIG_MAPS, made | {"data": {"k": "new"}}, options=WriteOptions(dry_run=True))
    assert shown.obj()["data"] == {"k": "new"}
    assert (await api.get(CONFIG_MAPS, "c", namespace)).obj() == made
