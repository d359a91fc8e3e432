"""A whole cluster at work, each part in its own name: none asks for what its roles do not allow (issue 16)."""

from __future__ import annotations

import asyncio

from fairlead.api.builtin import (
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
)
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.api.verbs import Api
from fairlead.compose import Settings, components, opened
from fairlead.runtime.loops import run_virtual
from fairlead.server.access import AccessRequest, Authorizer, UserRules, Verdict
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.store.memory import MemoryStore

NAMESPACE = "shop"
LABELS = {"app": "web"}


class Refusals:
    """Whoever decides what components may do, and what was refused them.

    Who may update may also patch: an update that is refused counts only if the patch is, too.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self.found: list[tuple[str, str, str, str]] = []
        self.asked: set[str] = set()

    def decide(self, request: AccessRequest) -> Verdict:
        verdict = self._authorizer.decide(request)
        what = f"{request.resource}/{request.subresource}".rstrip("/")
        self.asked.add(request.user.name)
        if not verdict.is_allowed:
            self.found.append((request.user.name, request.verb, what, request.name))
        elif request.verb == "patch" and (request.user.name, "update", what, request.name) in self.found:
            self.found.remove((request.user.name, "update", what, request.name))
        return verdict

    async def authorize(self, request: AccessRequest) -> Verdict:
        return self.decide(request)

    def rules_for(self, user: User, namespace: str) -> UserRules:
        return self._authorizer.rules_for(user, namespace)


def pods_of(labels: Obj, **spec: object) -> Obj:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    containers = [{"name": "c", "image": "nginx", "resources": resources}]
    annotations = {"sim.fairlead.dev/usage-cpu": "90m"}
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"containers": containers, **spec}}


def named(name: str, **spec: object) -> Obj:
    return {"metadata": {"name": name}, "spec": spec}


async def work(api: Api) -> None:
    """What people do with a cluster."""
    await api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await asyncio.sleep(5)
    selector = {"matchLabels": LABELS}
    await api.create(DEPLOYMENTS, named("web", replicas=3, selector=selector, template=pods_of(LABELS)), NAMESPACE)
    await api.create(SERVICES, named("web", selector=LABELS, ports=[{"port": 80}]), NAMESPACE)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    metrics = [{"type": "Resource", "resource": cpu}]
    autoscaler = named("web", scaleTargetRef=target, minReplicas=2, maxReplicas=6, metrics=metrics)
    await api.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler, NAMESPACE)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await api.create(PERSISTENT_VOLUME_CLAIMS, named("alone", **claim), NAMESPACE)
    database = {"app": "db"}
    await api.create(
        STATEFUL_SETS,
        named(
            "db",
            replicas=2,
            serviceName="db",
            selector={"matchLabels": database},
            template=pods_of(database),
            volumeClaimTemplates=[named("data", **claim)],
        ),
        NAMESPACE,
    )
    once = pods_of({}, restartPolicy="Never")
    await api.create(JOBS, named("once", completions=2, ttlSecondsAfterFinished=30, template=once), NAMESPACE)
    await asyncio.sleep(120)
    await api.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}})
    await asyncio.sleep(60)
    assert (await api.get(DEPLOYMENTS, "web", NAMESPACE)).obj()["spec"]["replicas"] == 6
    await drain(api, "node-1")
    await asyncio.sleep(120)
    await api.delete(NODES, "node-1")
    await asyncio.sleep(60)
    for pod in [item.obj() for item in (await api.list(PODS, NAMESPACE)).items]:
        assert pod["status"]["phase"] == "Running", pod["metadata"]["name"]
        assert pod["spec"]["nodeName"] != "node-1"
    await api.delete(NAMESPACES, NAMESPACE)
    await asyncio.sleep(120)
    assert not (await api.list(PODS, NAMESPACE)).items


async def drain(api: Api, node: str) -> None:
    await api.patch(NODES, node, "", {"spec": {"unschedulable": True}})
    for item in (await api.list(PODS, NAMESPACE)).items:
        pod = item.obj()
        if pod["spec"].get("nodeName") == node:
            name = pod["metadata"]["name"]
            await api.create(PODS, {"metadata": {"name": name}}, NAMESPACE, subresource="eviction", name=name)


def test_no_component_asks_for_what_its_roles_do_not_allow() -> None:
    async def main() -> Refusals:
        settings = Settings(nodes=tuple(uniform(3, NodeShape())))
        running = await opened(MemoryStore(), settings)
        registry = running.registry
        refusals = Refusals(registry.component_authorizer)
        registry.component_authorizer = refusals
        async with components(running, settings):
            try:
                await work(running.api)
            except ApiError as error:
                raise AssertionError(error.message) from error
        return refusals

    refusals = run_virtual(main())
    assert refusals.found == []
    parts = {
        "system:kube-scheduler",
        "system:node:node-2",
        *(
            f"system:serviceaccount:kube-system:{name}"
            for name in (
                "deployment-controller",
                "statefulset-controller",
                "job-controller",
                "horizontal-pod-autoscaler",
                "persistent-volume-binder",
                "namespace-controller",
                "generic-garbage-collector",
            )
        ),
    }
    assert parts - refusals.asked == set()
