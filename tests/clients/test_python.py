"""The Kubernetes Python client (`kubernetes`): typed and dynamic."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from tests.clients.conftest import Ways, deployment


def api(kubeconfig: Path) -> Any:
    return config.new_client_from_config(str(kubeconfig))


@pytest.fixture
def core(ways: Ways, namespace: str) -> Any:
    found = client.CoreV1Api(api(ways.admin))
    found.create_namespace({"metadata": {"name": namespace}})
    return found


def test_create_read_list_patch_delete(core: Any, namespace: str) -> None:
    meta = client.V1ObjectMeta(name="a", labels={"x": "y"})
    made = core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=meta, data={"k": "v"}))
    assert made.metadata.uid
    listed = core.list_namespaced_config_map(namespace, label_selector="x=y")
    assert [item.metadata.name for item in listed.items] == ["a"]
    json_patch = [{"op": "replace", "path": "/data/k", "value": "w"}]
    assert core.patch_namespaced_config_map("a", namespace, json_patch).data == {"k": "w"}
    assert core.patch_namespaced_config_map("a", namespace, {"data": {"l": "z"}}).data == {"k": "w", "l": "z"}
    made.data = {"k": "old"}
    with pytest.raises(ApiException) as refused:
        core.replace_namespaced_config_map("a", namespace, made)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert core.delete_namespaced_config_map("a", namespace)["status"] == "Success"


def test_a_typed_patch_merges(core: Any, namespace: str) -> None:
    """The client's own types as a patch: what they do not set stays, and what they set merges by its key."""
    apps = client.AppsV1Api(core.api_client)
    apps.create_namespaced_deployment(namespace, deployment("web"))
    container = client.V1Container(name="c", image="nginx:1.27")
    template = client.V1PodTemplateSpec(spec=client.V1PodSpec(containers=[container]))
    selector = client.V1LabelSelector(match_labels={"app": "web"})
    spec = client.V1DeploymentSpec(replicas=1, selector=selector, template=template)
    meta = client.V1ObjectMeta(labels={"tier": "front"})
    patched = apps.patch_namespaced_deployment("web", namespace, client.V1Deployment(metadata=meta, spec=spec))
    assert patched.metadata.labels == {"app": "web", "tier": "front"}
    assert (patched.spec.replicas, patched.spec.selector.match_labels) == (1, {"app": "web"})
    [found] = patched.spec.template.spec.containers
    assert (found.name, found.image) == ("c", "nginx:1.27")
    assert patched.spec.template.metadata.labels == {"app": "web"}


def test_a_deployment_becomes_ready_before_a_watcher(core: Any, namespace: str) -> None:
    apps = client.AppsV1Api(core.api_client)
    apps.create_namespaced_deployment(namespace, deployment("web"))
    watching = watch.Watch()
    for event in watching.stream(apps.list_namespaced_deployment, namespace, timeout_seconds=60):
        if event["object"].status.ready_replicas == 2:
            watching.stop()
    assert apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 1}}).spec.replicas == 1


def test_a_watch_that_ends_goes_on_where_it_was(core: Any, namespace: str) -> None:
    """The client asks again when its time is over; nothing is missed or told twice."""
    names = [f"c{number:02}" for number in range(30)]

    def write() -> None:
        for name in names:
            core.create_namespaced_config_map(namespace, {"metadata": {"name": name}})

    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    writer = threading.Thread(target=write)
    writer.start()
    seen: list[str] = []
    while len(seen) < len(names):
        watching = watch.Watch()
        arguments = {"resource_version": version, "timeout_seconds": 1}
        for event in watching.stream(core.list_namespaced_config_map, namespace, **arguments):
            if event["type"] == "ADDED" and event["object"].metadata.name in names:
                seen.append(event["object"].metadata.name)
            version = event["object"].metadata.resource_version
            if len(seen) == len(names):
                watching.stop()
    writer.join()
    assert seen == names


def test_the_dynamic_client_applies_and_finds_custom_kinds(core: Any, namespace: str) -> None:
    found = dynamic.DynamicClient(core.api_client)
    maps = found.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"a": "b"}}
    applied = maps.server_side_apply(body=body, namespace=namespace, field_manager="one")
    assert applied.metadata.managedFields[0].operation == "Apply"
    with pytest.raises(dynamic.exceptions.ConflictError):
        maps.server_side_apply(body=body | {"data": {"a": "c"}}, namespace=namespace, field_manager="two")
    definitions = found.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "toys", "kind": "Toy"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definitions.create({"metadata": {"name": "toys.example.com"}, "spec": spec})
    for event in definitions.watch(name="toys.example.com", timeout=60):
        conditions = event["object"].status.conditions or ()
        if any(each.type == "Established" and each.status == "True" for each in conditions):
            break
    found.resources.invalidate_cache()
    toys = found.resources.get(api_version="example.com/v1", kind="Toy")
    toy = {"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "ball"}, "spec": {"round": True}}
    assert toys.create(toy, namespace=namespace).spec.round is True


@pytest.mark.parametrize("way", ["certificate", "token"])
def test_a_user_with_a_role(ways: Ways, way: str) -> None:
    core = client.CoreV1Api(api(getattr(ways, way)))
    core.create_namespaced_config_map("team", {"metadata": {"name": f"by-{way}"}})
    with pytest.raises(ApiException) as refused:
        core.list_namespaced_config_map("default")
    assert refused.value.status == 403
    review = client.AuthenticationV1Api(core.api_client).create_self_subject_review({})
    assert review.status.user_info.username == {"certificate": "dev", "token": "system:serviceaccount:team:robot"}[way]


def test_leader_election(ways: Ways, core: Any, namespace: str) -> None:
    """Of two candidates the second leads when the first has given up."""
    config.load_kube_config(str(ways.admin))  # the lock takes the client of the process
    leaders: list[str] = []
    leading, over = threading.Event(), threading.Event()

    def lead(name: str) -> None:
        def started() -> None:
            leaders.append(name)
            leading.set()
            over.wait(60)
            raise RuntimeError(f"{name} has done its part")

        lock = LeaseLock("lock", namespace, name)
        options = {"lease_duration": 3, "renew_deadline": 2, "retry_period": 1}
        settings = Config(lock, onstarted_leading=started, onstopped_leading=lambda: None, **options)
        LeaderElection(settings).run()

    candidates = [threading.Thread(target=lead, args=(name,), daemon=True) for name in ("one", "two")]
    candidates[0].start()
    assert leading.wait(60)
    lease = client.CoordinationV1Api(core.api_client).read_namespaced_lease("lock", namespace)
    assert lease.spec.holder_identity == "one"
    leading.clear()
    candidates[1].start()
    over.set()
    assert leading.wait(60)
    for candidate in candidates:
        candidate.join(60)
    assert leaders == ["one", "two"]
