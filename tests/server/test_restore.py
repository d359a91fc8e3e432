"""What a server takes from the dump of another: everything as it was, or nothing and a sentence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS, JOBS, NODES, PODS, PRIORITY_CLASSES
from fairlead.api.objects import Obj
from fairlead.runtime import rng
from fairlead.server.registry.restore import restore
from tests.played import played
from tests.server.registry_world import POD_SPEC, World, run

NODE: Obj = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "u1"},
    "status": {"phase": "Running"},
}


@played(run)
async def test_a_dump_is_restored_as_it_was_and_only_once(world: World) -> None:
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert (await restore(world.registry, [dict(NODE), gone])).stored == {"Node": 1, "ConfigMap": 1}
    assert (await restore(world.registry, [dict(NODE)])).stored == {}
    node = await world.get(NODES, "n1")
    assert node is not None
    assert (node["metadata"]["uid"], node["status"]["phase"]) == ("u1", "Running")


@played(run)
async def test_what_is_made_after_a_run_with_the_same_seed_has_uids_of_its_own(world: World) -> None:
    """The dump of a simulated cluster goes into the next simulation, which draws from the same seed."""
    with rng.seeded(1):
        node: Obj = NODE | {"metadata": {"name": "n1", "uid": rng.uid()}}
    with rng.seeded(1):
        gone = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
        await restore(world.registry, [gone, node])
    made = (await world.api.get(CONFIG_MAPS, "a", "default")).obj()
    assert made["metadata"]["uid"] != node["metadata"]["uid"]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({}, "not a kind that this server serves"),
        ({"apiVersion": ["v1"], "kind": "Node", "metadata": {"name": "a"}}, "not a kind"),
        ({"apiVersion": "v1", "kind": "Node"}, "name"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": 3}}, "name"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a/b"}}, "name"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "a/b"}}, "namespace"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": 3}, "cannot"),
    ],
)
@played(run)
async def test_a_dump_that_cannot_be_restored_is_refused_in_words(world: World, obj: Obj, message: str) -> None:
    before = world.registry.revision
    with pytest.raises(ValueError, match=message):
        await restore(world.registry, [obj])
    assert world.registry.revision == before


def crd(**spec: Any) -> Obj:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "foos", "kind": "Foo"}
    whole = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": "foos.example.com"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": spec or whole,
    }


def foo(size: object) -> Obj:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f", "namespace": "new"}, "size": size}


def of(kind: str, api: str = "v1", **fields: Any) -> Obj:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "bad", "namespace": "n"}, **fields}


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([of("Pod")], r"Pod n/bad cannot be stored: spec\.containers: Required value"),
        ([of("Pod", spec={"containers": [{"name": 3}]})], "Pod n/bad: "),
        ([of("Deployment", "apps/v1")], r"Deployment n/bad cannot be stored: spec\.selector"),
        ([crd(group="example.com")], r"CustomResourceDefinition foos.example.com cannot be stored: .*; …"),
        ([crd(), foo("large")], r"Foo new/f cannot be stored: size: "),
    ],
)
@played(run)
async def test_nothing_of_a_dump_with_an_unsound_object_is_stored(
    world: World, objects: list[Obj], message: str
) -> None:
    """Everything in the process relies on the rules of each kind."""
    before = world.registry.revision
    with pytest.raises(ValueError, match=message):
        await restore(world.registry, [dict(NODE), *objects])
    assert world.registry.revision == before


@played(run)
async def test_what_an_older_server_let_in_may_stay(world: World) -> None:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    ingress = of("Ingress", "networking.k8s.io/v1", spec={"defaultBackend": backend, "ingressClassName": "new"})
    ingress["metadata"]["annotations"] = {"kubernetes.io/ingress.class": "old"}
    ingress["spec"]["tls"] = [{"secretName": "A"}]
    peer = {"ipBlock": {"cidr": "10.0.0.1/16", "except": ["10.0.1.1/24"]}}
    policy = of("NetworkPolicy", "networking.k8s.io/v1", spec={"podSelector": {}, "egress": [{"to": [peer]}]})
    ingress["metadata"]["uid"], policy["metadata"]["uid"] = "u1", "u2"
    found = (await restore(world.registry, [ingress, policy])).stored
    assert (found["Ingress"], found["NetworkPolicy"]) == (1, 1)
    peer["ipBlock"]["except"] = ["10.1.0.0/24"]
    policy["metadata"] |= {"name": "worse", "uid": "u3"}
    with pytest.raises(ValueError, match="strict subset"):
        await restore(world.registry, [policy])


@played(run)
async def test_objects_of_unknown_kinds_are_skipped_and_counted(world: World) -> None:
    unknown = {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "a"}}
    found = await restore(world.registry, [dict(unknown), foo(1), dict(NODE), dict(unknown)])
    assert found.stored == {"Node": 1}
    assert found.skipped == {"Certificate (cert-manager.io/v1)": 2, "Foo (example.com/v1)": 1}


@played(run)
async def test_objects_of_a_custom_kind_come_with_their_definition_in_any_order(world: World) -> None:
    assert (await restore(world.registry, [foo(3), crd()])).stored == {"Foo": 1, "CustomResourceDefinition": 1}
    await asyncio.sleep(1)
    found = world.registry.find("foos.example.com", "f", "new")
    assert found is not None
    assert found.obj()["size"] == 3


@played(run)
async def test_a_namespace_that_a_dump_lacks_is_made(world: World) -> None:
    await restore(
        world.registry, [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "m"}}]
    )
    found = world.registry.find("namespaces", "m")
    assert found is not None
    made = found.obj()
    assert (made["spec"]["finalizers"], made["status"]["phase"]) == (["kubernetes"], "Active")


@played(run)
async def test_the_classes_of_pods_that_a_dump_lacks_are_made_so_that_pods_can_be_replaced(world: World) -> None:
    admitted = {"priorityClassName": "urgent", "priority": 700, "preemptionPolicy": "Never"}
    admitted |= {"runtimeClassName": "g.visor", "overhead": {"cpu": "250m"}}
    named = {"priorityClassName": "later", "runtimeClassName": "kata"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC | named}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    system = {"priorityClassName": "system-node-critical", "priority": 2_000_001_000}
    dump = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u1"}, "spec": POD_SPEC | admitted},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r", "uid": "u2"}, "spec": spec},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "s", "uid": "u3"}, "spec": POD_SPEC | system},
    ]
    restored = await restore(world.registry, dump)
    assert restored.stored == {"Pod": 2, "ReplicaSet": 1}
    found = {name: await world.get(PRIORITY_CLASSES, name) for name in ("urgent", "later")}
    values = {
        name: (found_class["value"], found_class["preemptionPolicy"])
        for name, found_class in found.items()
        if found_class
    }
    assert values == {"urgent": (700, "Never"), "later": (0, "PreemptLowerPriority")}
    again = {"priorityClassName": "urgent", "runtimeClassName": "g.visor"}
    made = [
        await world.create(PODS, {"metadata": {"generateName": "new-"}, "spec": POD_SPEC | found_class})
        for found_class in (again, named)
    ]
    assert [(pod["spec"]["priority"], pod["spec"].get("overhead")) for pod in made] == [
        (700, {"cpu": "250m"}),
        (0, None),
    ]


@played(run)
async def test_an_object_that_was_never_on_a_server_is_completed_like_a_new_one(world: World) -> None:
    template = {"spec": POD_SPEC | {"restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n"}}
    await restore(world.registry, [job | {"spec": {"template": template}}])
    made = await world.get(JOBS, "j")
    assert made is not None
    assert made["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]}


@played(run)
async def test_a_pod_that_was_debugged_keeps_its_ephemeral_containers(world: World) -> None:
    debugger = {"name": "debug", "image": "busybox", "terminationMessagePolicy": "File"}
    pod = of("Pod", spec=POD_SPEC | {"ephemeralContainers": [debugger]}, status={"phase": "Running"})
    assert (await restore(world.registry, [pod])).stored == {"Pod": 1}
