"""lightkube: the client of many charms."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from lightkube import Client, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import PatchType

from tests.clients.conftest import Ways, deployment


def client(kubeconfig: Path, **options: Any) -> Any:
    return Client(config=KubeConfig.from_file(kubeconfig), **options)


@pytest.fixture
def own(ways: Ways, namespace: str) -> Any:
    found = client(ways.admin, namespace=namespace, field_manager="lightkube")
    found.create(Namespace(metadata=ObjectMeta(name=namespace)))
    return found


def test_create_patch_apply_delete(own: Any, namespace: str) -> None:
    made = own.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace), data={"k": "v"}))
    made.data["k"] = "w"
    own.replace(made)
    own.patch(ConfigMap, "a", {"data": {"m": "1"}}, patch_type=PatchType.MERGE)
    own.patch(ConfigMap, "a", {"data": {"s": "2"}}, patch_type=PatchType.STRATEGIC)
    own.patch(ConfigMap, "a", [{"op": "add", "path": "/data/j", "value": "3"}], patch_type=PatchType.JSON)
    assert own.get(ConfigMap, "a").data == {"k": "w", "m": "1", "s": "2", "j": "3"}
    with pytest.raises(ApiError) as refused:
        own.replace(made)
    assert refused.value.status.reason == "Conflict"
    applied = own.apply(ConfigMap(metadata=ObjectMeta(name="s", namespace=namespace), data={"a": "b"}))
    assert applied.metadata.managedFields[0].operation == "Apply"
    assert {item.metadata.name for item in own.list(ConfigMap)} >= {"a", "s"}
    own.delete(ConfigMap, "a")
    with pytest.raises(ApiError) as gone:
        own.get(ConfigMap, "a")
    assert gone.value.status.code == 404


def test_a_list_in_pages_is_whole(own: Any, namespace: str) -> None:
    for number in range(12):
        own.create(ConfigMap(metadata=ObjectMeta(name=f"p{number:02}", namespace=namespace)))
    names = [item.metadata.name for item in own.list(ConfigMap, chunk_size=5)]
    assert [name for name in names if name.startswith("p")] == [f"p{number:02}" for number in range(12)]


def test_waiting_and_scaling(own: Any) -> None:
    own.create(Deployment.from_dict(deployment("web")))
    own.wait(Deployment, "web", for_conditions=["Available"])
    scaled = own.patch(Deployment.Scale, "web", {"spec": {"replicas": 3}})
    assert scaled.spec.replicas == 3
    for _, found in own.watch(Deployment, fields={"metadata.name": "web"}):
        if found.status.readyReplicas == 3:
            break


def test_a_watch_that_ends_goes_on_where_it_was(own: Any, namespace: str) -> None:
    names = [f"c{number:02}" for number in range(30)]

    def write() -> None:
        for name in names:
            own.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace)))

    writer, seen = threading.Thread(target=write), []
    writer.start()
    for type_, found in own.watch(ConfigMap, server_timeout=1):
        if type_ == "ADDED" and found.metadata.name in names:
            seen.append(found.metadata.name)
        if len(seen) == len(names):
            break
    writer.join()
    assert sorted(seen) == names


def test_generic_resources(own: Any) -> None:
    leases = create_namespaced_resource("coordination.k8s.io", "v1", "Lease", "leases")
    made = own.create(leases(metadata={"name": "l"}, spec={"holderIdentity": "me"}))
    assert made.spec["holderIdentity"] == "me"


@pytest.mark.parametrize("way", ["certificate", "token"])
def test_a_user_with_a_role(ways: Ways, way: str) -> None:
    own = client(getattr(ways, way))
    own.create(ConfigMap(metadata=ObjectMeta(name=f"light-{way}", namespace="team")), namespace="team")
    with pytest.raises(ApiError) as refused:
        list(own.list(ConfigMap, namespace="default"))
    assert refused.value.status.code == 403
