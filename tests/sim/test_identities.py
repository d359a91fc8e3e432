"""In whose name the parts of a cluster ask (issue 16): each in its own, with a role of what it needs and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.users import ARBITRATOR_USER, FLEET_USER, INTERNAL_USER, MASTERS, SCHEDULER_USER, User, node_user
from fairlead.api.verbs import DeleteOptions
from fairlead.arbitrator.permissions import CLUSTER
from fairlead.compose import Settings, components, opened
from fairlead.runtime.loops import run_virtual
from fairlead.server.access import AccessRequest, Authorizer, UserRules, Verdict
from fairlead.server.registry.registry import UserApi
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.sim.permissions import RULES
from fairlead.sim.usage.objects import USAGE_PROFILES
from fairlead.store.memory import MemoryStore

ROLE: Final = "node-role.kubernetes.io/worker"


class Witness:
    """The authorizer, and what it was asked."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self.allowed: list[AccessRequest] = []
        self.users: set[User] = set()

    def decide(self, request: AccessRequest) -> Verdict:
        verdict = self._authorizer.decide(request)
        self.users.add(request.user)
        if verdict.is_allowed:
            self.allowed.append(request)
        return verdict

    async def authorize(self, request: AccessRequest) -> Verdict:
        return self.decide(request)

    def rules_for(self, user: User, namespace: str) -> UserRules:
        return self._authorizer.rules_for(user, namespace)

    def of(self, user: User) -> set[tuple[str, str, str]]:
        """Verb, group and resource of what the user did."""
        return {
            (asked.verb, asked.group, f"{asked.resource}/{asked.subresource}".rstrip("/"))
            for asked in self.allowed
            if asked.user == user
        }


def given(rules: Iterable[Obj]) -> set[tuple[str, str, str]]:
    return {
        (verb, group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def played(settings: Settings, work: Callable[[UserApi], Awaitable[None]]) -> Witness:
    """A cluster of these settings, heard from its first moment."""

    async def play() -> Witness:
        running = await opened(MemoryStore(), settings)
        registry = running.registry
        registry.component_authorizer = witness = Witness(registry.component_authorizer)
        async with components(running, settings):
            await work(running.api)
        return witness

    return run_virtual(play())


def workload(name: str, **spec: str) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


async def life(api: UserApi) -> None:
    """Pods that read a ConfigMap run on two nodes, are deleted, and a node that others make is taken over."""
    await api.create(builtin.CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"k": "v"}}, "default")
    source = {"configMapRef": {"name": "settings"}}
    for number in range(6):
        pod = workload(f"p{number}")
        pod["spec"]["containers"][0]["envFrom"] = [source]
        await api.create(builtin.PODS, pod, "default")
    late = {"metadata": {"name": "late", "annotations": {"kwok.x-k8s.io/node": "fake"}}}
    await api.create(builtin.NODES, late)
    await asyncio.sleep(60)
    await api.create(builtin.PODS, workload("on-late", nodeName="late"), "default")
    await asyncio.sleep(60)
    await api.delete(builtin.PODS, "p0", "default")
    await api.delete(builtin.PODS, "p1", "default", DeleteOptions(grace_period_seconds=0))
    await asyncio.sleep(60)


def test_nobody_but_the_server_itself_is_a_master() -> None:
    settings = Settings(nodes=tuple(uniform(2, NodeShape())), arbitrator=True)
    witness = played(settings, life)
    assert {user for user in witness.users if MASTERS in user.groups} == {INTERNAL_USER}
    asked = {user.name for user in witness.users}
    assert {SCHEDULER_USER.name, ARBITRATOR_USER.name, "system:node:node-1", "system:node:late"} <= asked
    assert "system:serviceaccount:kube-system:node-controller" in asked


def test_a_node_asks_for_nothing_of_another() -> None:
    async def check(api: UserApi) -> None:
        await life(api)
        pods = [entry.obj() for entry in (await api.list(builtin.PODS, "default")).items]
        assert all(pod["status"]["phase"] == "Running" for pod in pods)
        homes.update({pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods})
        events.extend(entry.obj() for entry in (await api.list(builtin.EVENTS)).items)

    homes: dict[str, str] = {}
    events: list[Obj] = []
    witness = played(Settings(nodes=tuple(uniform(2, NodeShape()))), check)
    assert set(homes.values()) == {"node-1", "node-2", "late"}
    for asked in witness.allowed:
        if not asked.user.name.startswith("system:node:"):
            continue
        node = asked.user.name.removeprefix("system:node:")
        if asked.resource == "pods" and asked.name in homes:
            assert homes[asked.name] == node
        elif asked.resource == "nodes":
            assert asked.verb == "create" or asked.name == node
        else:
            assert asked.resource in ("pods", "configmaps", "events", "leases", "csinodes")
    reading = {asked.user.name for asked in witness.allowed if asked.resource == "configmaps" and asked.verb == "get"}
    assert reading == {node_user(name).name for name in ("node-1", "node-2")}
    told = [event for event in events if event["source"].get("component") == "kubelet"]
    assert {event["source"]["host"] for event in told} == set(homes.values())
    assert all(event["reportingInstance"] == event["source"]["host"] for event in told)


def test_the_fleet_needs_its_rules_and_no_others() -> None:
    """Labels that a node may not give itself, new and of a node that was there; a profile that makes no sense; a volume
    that an attacher elsewhere was about to attach, for nobody; one that somebody attaches by hand.
    """

    nodes = uniform(2, NodeShape())
    for node in nodes:
        node["metadata"]["labels"][ROLE] = ""
    there = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2"}}
    attachment = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": f"csi-{'0' * 64}", "finalizers": ["external-attacher/ebs-csi-aws-com"]},
        "spec": {
            "attacher": "ebs.csi.aws.com",
            "nodeName": "node-2",
            "source": {"persistentVolumeName": "gone"},
        },
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "usage": {"cpu": "lots"}}
    meta = {"name": "wrong", "namespace": "default"}

    async def work(api: UserApi) -> None:
        for name in ("node-1", "node-2"):
            assert ROLE in (await api.get(builtin.NODES, name)).obj()["metadata"]["labels"]
        await api.create(USAGE_PROFILES, {"metadata": meta, "spec": spec}, "default")
        await asyncio.sleep(10)
        for number in (2, 3):  # the same is told again
            patch = {"spec": {"selector": {"matchLabels": {"a": str(number)}}}}
            await api.patch(USAGE_PROFILES, "wrong", "default", patch)
            await asyncio.sleep(10)
        assert not (await api.list(builtin.VOLUME_ATTACHMENTS)).items
        await api.create(builtin.VOLUME_ATTACHMENTS, {"metadata": {"name": "mine"}, "spec": attachment["spec"]})
        await asyncio.sleep(10)
        assert (await api.get(builtin.VOLUME_ATTACHMENTS, "mine")).obj()["status"] == {"attached": True}

    settings = Settings(nodes=tuple(nodes), imported=(there, attachment))
    assert played(settings, work).of(FLEET_USER) == given(RULES)


def test_the_arbitrator_has_the_role_that_it_has_elsewhere() -> None:
    """tests/arbitrator/test_rbac.py shows that it needs every rule of it, and no other."""

    async def check(api: UserApi) -> None:
        role = api.registry.find("clusterroles.rbac.authorization.k8s.io", ARBITRATOR_USER.name)
        assert role is not None
        assert given(role.obj()["rules"]) == given(permission.rule() for permission in CLUSTER)
        await life(api)

    witness = played(Settings(nodes=tuple(uniform(2, NodeShape())), arbitrator=True), check)
    assert witness.of(ARBITRATOR_USER)
    assert witness.of(ARBITRATOR_USER) <= given(permission.rule() for permission in CLUSTER)
