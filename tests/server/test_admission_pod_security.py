"""Whom PodSecurity refuses, whom it warns, and what it says of pods that were there before."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.api.errors import Forbidden, InternalError, Invalid
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.runtime.loops import run_virtual
from fairlead.server.admission.base import Attributes
from fairlead.server.admission.pod_security import PodSecurity
from tests.server.admission_world import DEPLOYMENTS, NAMESPACES, PODS, World, change, creation, pod
from tests.server.http_world import Server, serving_in_a_thread

PREFIX = "pod-security.kubernetes.io/"
HOST = "host namespaces (hostNetwork=true)"


def world(**labels: str) -> World:
    return World().put("namespaces", namespace(**labels))


def namespace(**labels: str) -> Obj:
    prefixed = {PREFIX + key.replace("_", "-"): value for key, value in labels.items()}
    return {"metadata": {"name": "ns", **({"labels": prefixed} if prefixed else {})}}


def judge(world: World, attributes: Attributes) -> list[str]:
    """The warnings; raises the refusal."""
    plugin = PodSecurity(world.dependencies)
    if plugin.concerns(attributes.operation, attributes.resource.qualified, attributes.subresource):
        run_virtual(plugin.validate(attributes))
    return attributes.warnings


def refusal(world: World, attributes: Attributes) -> str:
    with pytest.raises(Forbidden) as refused:
        judge(world, attributes)
    return refused.value.message


# -- pods


def test_a_namespace_without_labels_allows_everything() -> None:
    assert judge(world(), creation(pod(hostNetwork=True))) == []
    assert judge(world(enforce="privileged", enforce_version="v1.20"), creation(pod(hostNetwork=True))) == []


def test_a_pod_that_violates_the_enforced_level_is_refused_and_not_warned_of() -> None:
    attributes = creation(pod(hostNetwork=True))
    assert refusal(world(enforce="baseline", warn="restricted"), attributes) == (
        f'pods "p" is forbidden: violates PodSecurity "baseline:latest": {HOST}'
    )
    assert attributes.warnings == []


def test_a_pod_is_warned_of_what_another_level_would_refuse() -> None:
    warnings = judge(world(warn="baseline", warn_version="v1.25"), creation(pod(hostNetwork=True)))
    assert warnings == [f'would violate PodSecurity "baseline:v1.25": {HOST}']


def test_audit_alone_neither_refuses_nor_warns() -> None:
    assert judge(world(audit="restricted"), creation(pod(hostNetwork=True))) == []


def test_a_level_that_cannot_be_read_refuses_as_the_strictest() -> None:
    assert 'violates PodSecurity "restricted:latest"' in refusal(world(enforce="strict"), creation(pod()))


def test_a_pod_of_a_missing_namespace_is_not_waved_through() -> None:
    with pytest.raises(InternalError) as refused:
        judge(World(), creation(pod()))
    assert refused.value.message == 'Internal error occurred: failed to lookup namespace "ns"'


def ephemeral(image: str) -> Obj:
    return pod(hostNetwork=True, ephemeralContainers=[{"name": "debug", "image": image}])


IMAGE = pod(hostNetwork=True, containers=[{"name": "c", "image": "img:2"}])


@pytest.mark.parametrize(
    ("old", "new", "subresource"),
    [
        (pod(hostNetwork=True), IMAGE, ""),
        (pod(hostNetwork=True), ephemeral("i"), "ephemeralcontainers"),
        (ephemeral("i"), ephemeral("j"), "ephemeralcontainers"),
    ],
)
def test_a_pod_is_judged_again_when_it_gets_another_image(old: Obj, new: Obj, subresource: str) -> None:
    assert HOST in refusal(world(enforce="baseline"), change(old, new, subresource=subresource))


@pytest.mark.parametrize(
    ("old", "new", "subresource"),
    [
        (pod(hostNetwork=True), {**pod(hostNetwork=True), "metadata": {"name": "p", "labels": {"a": "b"}}}, ""),
        (pod(hostNetwork=True), IMAGE, "status"),
        (ephemeral("i"), ephemeral("i"), "ephemeralcontainers"),
        (pod(hostNetwork=True), pod(hostNetwork=True, activeDeadlineSeconds=1), ""),
    ],
)
def test_other_changes_of_a_pod_that_was_there_before_pass(old: Obj, new: Obj, subresource: str) -> None:
    assert judge(world(enforce="restricted"), change(old, new, subresource=subresource)) == []


def test_a_binding_passes() -> None:
    assert judge(world(enforce="restricted"), creation(pod(), PODS, subresource="binding")) == []


# -- workloads

TEMPLATE: Obj = {"metadata": {}, "spec": {"hostNetwork": True, "containers": []}}
IN_SPEC: Obj = {"spec": {"template": TEMPLATE}}


@pytest.mark.parametrize(
    ("group", "plural", "fields"),
    [
        ("", "podtemplates", {"template": TEMPLATE}),
        ("", "replicationcontrollers", IN_SPEC),
        ("apps", "deployments", IN_SPEC),
        ("apps", "replicasets", IN_SPEC),
        ("apps", "statefulsets", IN_SPEC),
        ("apps", "daemonsets", IN_SPEC),
        ("batch", "jobs", IN_SPEC),
        ("batch", "cronjobs", {"spec": {"jobTemplate": IN_SPEC}}),
    ],
)
def test_a_workload_is_warned_by_its_template_and_never_refused(group: str, plural: str, fields: Obj) -> None:
    attributes = creation({"metadata": {"name": "w", "namespace": "ns"}, **fields}, Resource(group, "v1", plural, "W"))
    assert judge(world(enforce="baseline"), attributes) == [f'would violate PodSecurity "baseline:latest": {HOST}']


def test_a_workload_without_a_template_and_one_where_nothing_warns_pass() -> None:
    controllers = Resource("", "v1", "replicationcontrollers", "ReplicationController")
    meta = {"metadata": {"name": "w", "namespace": "ns"}}
    assert judge(world(warn="baseline"), creation(meta | {"spec": {}}, controllers)) == []
    quiet = world(enforce="restricted", warn="privileged")
    assert judge(quiet, creation(meta | IN_SPEC, DEPLOYMENTS)) == []
    scaled = change(meta | IN_SPEC, meta | IN_SPEC, DEPLOYMENTS, subresource="scale")
    assert judge(world(warn="baseline"), scaled) == []


# -- namespaces


def test_labels_that_mean_nothing_are_refused_unless_they_were_there_before() -> None:
    bad = namespace(enforce="strict")
    with pytest.raises(Invalid) as refused:
        judge(World(), creation(bad, NAMESPACES))
    assert refused.value.message == (
        f'Namespace "ns" is invalid: metadata.labels[{PREFIX}enforce]: Invalid value: "strict": '
        "must be one of privileged, baseline, restricted"
    )
    with pytest.raises(Invalid):
        judge(World(), change(namespace(), bad, NAMESPACES))
    with pytest.raises(Invalid):
        judge(World(), change(bad, namespace(enforce="stricter"), NAMESPACES))
    assert judge(World(), change(bad, {**bad, "spec": {"finalizers": []}}, NAMESPACES)) == []


def crowded(*pods: Obj) -> World:
    made = World()
    for each in pods:
        made.put("pods", each)
    return made


def tighten(world: World, **labels: str) -> list[str]:
    return judge(world, change(namespace(), namespace(**labels), NAMESPACES))


def test_pods_that_would_not_be_allowed_any_more_are_told_by_what_they_violate() -> None:
    two = (pod("b", hostNetwork=True), pod("a", hostNetwork=True))
    three = (pod(name, hostPID=True, volumes=[{"name": "v", "hostPath": {}}]) for name in "edc")
    assert tighten(crowded(pod("fine"), *two, *three, pod("z", hostIPC=True, volumes=[])), enforce="baseline") == [
        'existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 2 other pods): host namespaces",
        "c (and 2 other pods): host namespaces, hostPath volumes",
    ]
    assert tighten(crowded(*two), enforce="baseline", enforce_version="v1.2")[1:] == [
        "a (and 1 other pod): host namespaces"
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"enforce": "baseline"}, {"enforce": "baseline", "warn": "restricted"}),
        ({"enforce": "restricted"}, {"enforce": "baseline"}),
        ({"enforce": "restricted"}, {}),
        ({}, {"warn": "restricted", "audit": "restricted"}),
    ],
)
def test_pods_are_not_looked_at_where_nothing_gets_stricter(before: dict[str, str], after: dict[str, str]) -> None:
    request = change(namespace(**before), namespace(**after), NAMESPACES)
    assert judge(crowded(pod(hostNetwork=True)), request) == []


def test_another_version_of_the_level_is_looked_at() -> None:
    request = change(namespace(enforce="restricted", enforce_version="v1.7"), namespace(enforce="baseline"), NAMESPACES)
    assert len(judge(crowded(pod(hostNetwork=True)), request)) == 2


def owned(name: str, owner: str, **spec: Any) -> Obj:
    made = pod(name, **spec)
    made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}]
    return made


def test_of_very_many_pods_the_first_are_looked_at_and_each_controller_has_one_among_them() -> None:
    many = [owned(f"a{number:04}", "many") for number in range(3500)]
    assert tighten(crowded(*many, owned("z", "few", hostNetwork=True)), enforce="baseline") == [
        "new PodSecurity enforce level only checked against the first 3000 of 3501 existing pods",
        'existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"',
        "z: host namespaces",
    ]


class HurryingLoop(asyncio.SelectorEventLoop):
    """A loop on which every look at the clock is a hundredth of a second after the one before."""

    looks = 0

    def time(self) -> float:
        self.looks += 1
        return self.looks / 100


def test_pods_are_looked_at_for_a_second_at_most() -> None:
    world = crowded(*(pod(f"p{number}", hostNetwork=True) for number in range(200)))
    request = change(namespace(), namespace(enforce="baseline"), NAMESPACES)
    with asyncio.Runner(loop_factory=HurryingLoop) as runner:
        runner.run(PodSecurity(world.dependencies).validate(request))
    first, _, offenders = request.warnings
    checked = re.fullmatch(
        r"new PodSecurity enforce level only checked against the first (\d+) of 200 existing pods", first
    )
    assert checked is not None
    assert offenders == f"p0 (and {int(checked[1]) - 1} other pods): host namespaces"
    assert 50 < int(checked[1]) < 101


# -- over HTTP


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_in_a_thread() as running:
        yield running


MERGE = {"content-type": "application/merge-patch+json"}
SPEC: Obj = {"containers": [{"name": "c", "image": "i"}]}


def test_whoever_writes_reads_of_it_in_headers_and_refusals(server: Server) -> None:
    labels = {f"{PREFIX}enforce": "baseline", f"{PREFIX}warn": "restricted"}
    made = server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "secured", "labels": labels}})
    assert (made.code, made.warnings) == (201, [])
    pods = "/api/v1/namespaces/secured/pods"
    warned = server.ask("POST", pods, {"metadata": {"name": "w"}, "spec": SPEC})
    assert warned.code == 201
    assert len(warned.warnings) == 1
    assert warned.warnings[0].startswith(r'299 - "would violate PodSecurity \"restricted:latest\": allowPrivilege')
    refused = server.ask("POST", pods, {"metadata": {"generateName": "r-"}, "spec": {**SPEC, "hostPID": True}})
    assert (refused.code, refused.obj["reason"]) == (403, "Forbidden")
    name = refused.obj["details"]["name"]
    assert name.startswith("r-")
    assert refused.obj["message"] == (
        f'pods "{name}" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    )
    labels[f"{PREFIX}enforce"] = "restricted"
    tightened = server.ask("PATCH", "/api/v1/namespaces/secured?dryRun=All", {"metadata": {"labels": labels}}, MERGE)
    assert tightened.warnings[1].startswith('299 - "w: allowPrivilegeEscalation != false, unrestricted capabilities')


def test_a_label_that_means_nothing_is_a_field_error(server: Server) -> None:
    labels = {f"{PREFIX}audit-version": "1.30"}
    reply = server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "odd", "labels": labels}})
    assert (reply.code, reply.obj["details"]["causes"]) == (
        422,
        [
            {
                "reason": "FieldValueInvalid",
                "message": 'Invalid value: "1.30": must be "latest" or "v1.x"',
                "field": f"metadata.labels[{PREFIX}audit-version]",
            }
        ],
    )
