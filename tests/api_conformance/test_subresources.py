"""Subresources: status, scale, binding, eviction, and what a kind does not have."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, POD_DISRUPTION_BUDGETS, PODS
from fairlead.api.errors import ApiError, Conflict, Invalid, NotFound, TooManyRequests
from fairlead.api.verbs import Api, PatchType, WriteOptions
from tests.api_conformance.world import CONTAINER, deployment, pod


def binding(name: str, node: str) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def eviction(name: str) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


async def test_the_status_of_an_object_is_read_with_the_whole(api: Api, namespace: str) -> None:
    made = await api.create(DEPLOYMENTS, deployment("d"), namespace)
    assert (await api.get(DEPLOYMENTS, "d", namespace, "status")).obj() == made.obj()


async def test_the_scale_is_read_replaced_and_patched(api: Api, namespace: str) -> None:
    await api.create(DEPLOYMENTS, deployment("d", 2), namespace)
    scale = (await api.get(DEPLOYMENTS, "d", namespace, "scale")).obj()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]["selector"]) == ({"replicas": 2}, "app=d")
    updated = (await api.update(DEPLOYMENTS, scale | {"spec": {"replicas": 3}}, subresource="scale")).obj()
    assert (updated["kind"], updated["spec"]) == ("Scale", {"replicas": 3})
    with pytest.raises(Conflict):
        await api.update(DEPLOYMENTS, scale | {"spec": {"replicas": 4}}, subresource="scale")
    patch = {"spec": {"replicas": 5}}
    patched = await api.patch(DEPLOYMENTS, "d", namespace, patch, PatchType.MERGE, subresource="scale")
    assert patched.obj()["spec"] == {"replicas": 5}
    assert (await api.get(DEPLOYMENTS, "d", namespace)).obj()["spec"]["replicas"] == 5
    with pytest.raises(Invalid):
        patch = {"spec": {"replicas": -1}}
        await api.patch(DEPLOYMENTS, "d", namespace, patch, PatchType.MERGE, subresource="scale")


async def test_a_pod_is_bound_to_one_node_once(api: Api, namespace: str) -> None:
    await api.create(PODS, pod("p"), namespace)
    done = await api.create(PODS, binding("p", "n"), namespace, name="p", subresource="binding")
    assert (done.obj()["kind"], done.obj()["status"]) == ("Status", "Success")
    bound = (await api.get(PODS, "p", namespace)).obj()
    assert bound["spec"]["nodeName"] == "n"
    assert [(one["type"], one["status"]) for one in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    with pytest.raises(Conflict) as refused:
        await api.create(PODS, binding("p", "m"), namespace, name="p", subresource="binding")
    assert 'pod p is already assigned to node "n"' in refused.value.message
    with pytest.raises(NotFound):
        await api.create(PODS, binding("q", "n"), namespace, name="q", subresource="binding")


async def test_a_pod_is_evicted_unless_its_budget_forbids_it(api: Api, namespace: str) -> None:
    await api.create(PODS, pod("p", labels={"app": "a"}), namespace)
    await api.create(PODS, pod("q", node="n", labels={"app": "b"}), namespace)
    await api.patch(
        PODS,
        "q",
        namespace,
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        subresource="status",
    )
    spec = {"selector": {"matchLabels": {"app": "b"}}, "minAvailable": 1}
    budget = (await api.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "b"}, "spec": spec}, namespace)).obj()
    status = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    status |= {"expectedPods": 1}
    await api.update(POD_DISRUPTION_BUDGETS, budget | {"status": status}, subresource="status")
    shown = await api.create(
        PODS, eviction("p"), namespace, name="p", subresource="eviction", options=WriteOptions(dry_run=True)
    )
    assert shown.obj()["status"] == "Success"
    assert (await api.get(PODS, "p", namespace)).obj()
    await api.create(PODS, eviction("p"), namespace, name="p", subresource="eviction")
    with pytest.raises(NotFound):
        await api.get(PODS, "p", namespace)
    with pytest.raises(TooManyRequests) as refused:
        await api.create(PODS, eviction("q"), namespace, name="q", subresource="eviction")
    assert refused.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
    [cause] = refused.value.causes
    assert (cause.reason, "The disruption budget b needs 1 healthy pods" in cause.message) == ("DisruptionBudget", True)


async def test_a_running_pod_gets_an_ephemeral_container(api: Api, namespace: str) -> None:
    await api.create(PODS, pod("p", node="n"), namespace)
    patch = {"spec": {"ephemeralContainers": [CONTAINER | {"name": "debug"}]}}
    with pytest.raises(Invalid):  # not by the pod itself
        await api.patch(PODS, "p", namespace, patch, PatchType.STRATEGIC)
    shown = await api.get(PODS, "p", namespace, "ephemeralcontainers")
    assert "ephemeralContainers" not in shown.obj()["spec"]
    patched = await api.patch(PODS, "p", namespace, patch, PatchType.STRATEGIC, subresource="ephemeralcontainers")
    assert [one["name"] for one in patched.obj()["spec"]["ephemeralContainers"]] == ["debug"]


async def test_a_namespace_is_finalized_at_its_own_endpoint(api: Api, namespace: str) -> None:
    found = (await api.get(NAMESPACES, namespace)).obj()
    assert found["spec"]["finalizers"] == ["kubernetes"]
    finalized = await api.update(NAMESPACES, found | {"spec": {"finalizers": []}}, subresource="finalize")
    assert not finalized.obj()["spec"].get("finalizers")


@pytest.mark.parametrize("verb", ["get", "update", "patch", "create"])
async def test_a_subresource_that_the_kind_does_not_have_is_refused(api: Api, namespace: str, verb: str) -> None:
    made = (await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, namespace)).obj()
    with pytest.raises(ApiError) as refused:
        match verb:
            case "get":
                await api.get(CONFIG_MAPS, "c", namespace, "status")
            case "update":
                await api.update(CONFIG_MAPS, made, subresource="status")
            case "patch":
                await api.patch(CONFIG_MAPS, "c", namespace, {}, subresource="status")
            case "create":
                await api.create(CONFIG_MAPS, made, namespace, name="c", subresource="binding")
    assert (refused.value.code, refused.value.message) == (404, "the server could not find the requested resource")
