"""What a write may say about the object itself: its version, its times, its owners, and who is meant.

Source: apiserver `registry/rest/{create,update,delete}.go`, `registry/generic/registry/store.go`, release-1.36.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import pytest

from fairlead.api.builtin import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    FLOW_SCHEMAS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    ROLES,
    SERVICE_CIDRS,
    SERVICES,
    VALIDATING_ADMISSION_POLICIES,
    VOLUME_ATTACHMENTS,
)
from fairlead.api.errors import AlreadyExists, ApiError, BadRequest, Conflict, Forbidden, Invalid, Unknown
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import DeleteOptions, WriteOptions
from fairlead.server.context import INTERNAL
from tests.played import played
from tests.server.registry_world import NAMESPACE, POD_SPEC, World, run

DRY = WriteOptions(dry_run=True)


async def refused(world: World, resource: Resource, name: str, meta: Obj, subresource: str = "") -> ApiError:
    with pytest.raises(ApiError) as error:
        await world.api.patch(resource, name, NAMESPACE, {"metadata": meta}, subresource=subresource)
    return error.value


# -- versions


@pytest.mark.parametrize(
    ("resource", "whole"),
    [
        (LEASES, {"spec": {"holderIdentity": "me"}}),
        (POD_DISRUPTION_BUDGETS, {"spec": {"minAvailable": 1}}),
    ],
)
@played(run)
async def test_some_kinds_are_never_updated_without_a_version(world: World, resource: Resource, whole: Obj) -> None:
    await world.create(resource, {"metadata": {"name": "x"}, **whole})
    with pytest.raises(Invalid) as refused:
        await world.api.update(resource, {"metadata": {"name": "x", "namespace": NAMESPACE}, **whole})
    path = "metadata.resourceVersion"
    assert refused.value.message == (
        f'{resource.qualified} "x" is invalid: {path}: Invalid value: 0: must be specified for an update'
    )
    assert refused.value.details["kind"] == resource.plural
    assert len(refused.value.causes) == 1


@pytest.mark.parametrize(("version", "is_refused"), [("", False), ("0", False), ("abc", False), ("7", True)])
@played(run)
async def test_a_new_object_has_no_version_yet(world: World, version: str, is_refused: bool) -> None:
    new = {"metadata": {"name": "a", "resourceVersion": version}}
    if not is_refused:
        await world.create(CONFIG_MAPS, new)
        return
    with pytest.raises(Unknown, match="resourceVersion should not be set on objects to be created"):
        await world.create(CONFIG_MAPS, new)
    with pytest.raises(Invalid):  # the store is asked last
        await world.create(CONFIG_MAPS, {"metadata": {"name": "A_", "resourceVersion": version}})


@pytest.mark.parametrize("resource", [SERVICES, LIMIT_RANGES, LEASES, ROLES])
@played(run)
async def test_a_put_creates_some_kinds_whatever_version_it_names(world: World, resource: Resource) -> None:
    spec = {"spec": {"ports": [{"port": 80}]}} if resource is SERVICES else {}
    new = {"metadata": {"name": "x", "namespace": NAMESPACE, "resourceVersion": "5"}, **spec}
    assert (await world.registry.update(INTERNAL, resource, new)).code == HTTPStatus.CREATED


@played(run)
async def test_an_update_means_one_object_before_it_means_a_version_of_it(world: World) -> None:
    await world.config("a")
    new = {"metadata": {"name": "a", "namespace": NAMESPACE, "uid": "u", "resourceVersion": "1"}}
    with pytest.raises(Conflict, match="Precondition failed: UID in precondition: u, UID in object meta: "):
        await world.api.update(CONFIG_MAPS, new)


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"uid": "u"}, "Precondition failed: UID in precondition: u, UID in object meta: $"),
        ({"resourceVersion": "x"}, 'strconv.ParseUint: parsing "x": invalid syntax'),
    ],
)
@played(run)
async def test_a_put_creates_nothing_that_claims_to_be_there_already(world: World, claim: Obj, message: str) -> None:
    with pytest.raises((Conflict, Unknown), match=message):
        await world.api.update(LEASES, {"metadata": {"name": "x", "namespace": NAMESPACE} | claim})
    assert await world.get(LEASES, "x") is None


# -- names that are taken


@played(run)
async def test_a_name_whose_holder_is_going_is_still_taken(world: World) -> None:
    await world.config("a", finalizers=["example.com/x"])
    await world.api.delete(CONFIG_MAPS, "a", NAMESPACE)
    with pytest.raises(AlreadyExists, match=r'^object is being deleted: configmaps "a" already exists$'):
        await world.config("a")


@played(run)
async def test_a_prefix_makes_the_server_responsible_for_the_name(world: World) -> None:
    await world.config("a")
    with pytest.raises(AlreadyExists) as taken:
        await world.config("a", generateName="pre-")
    assert taken.value.message == (
        'configmaps "a" already exists, the server was not able to generate a unique name for the object'
    )
    assert taken.value.status()["details"]["retryAfterSeconds"] == 1


# -- metadata in an update


@played(run)
async def test_the_time_of_birth_is_the_servers_whatever_is_sent(world: World) -> None:
    born = (await world.config("a"))["metadata"]["creationTimestamp"]
    patch = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "labels": {"a": "b"}}}
    changed = (await world.api.patch(CONFIG_MAPS, "a", NAMESPACE, patch)).obj()
    assert changed["metadata"]["creationTimestamp"] == born


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [("deletionTimestamp", "2001-01-01T00:00:00Z", '"2001-01-01T00:00:00Z"'), ("deletionGracePeriodSeconds", 5, "5")],
)
@played(run)
async def test_an_update_cannot_let_an_object_go(world: World, field: str, value: Any, shown: str) -> None:
    await world.config("a")
    error = await refused(world, CONFIG_MAPS, "a", {field: value})
    expected = f"metadata.{field}: Invalid value: {shown}: field is immutable"
    assert [f"{cause.field}: {cause.message}" for cause in error.causes] == [expected, expected]


@played(run)
async def test_a_prefix_that_is_not_sent_again_is_forgotten(world: World) -> None:
    made = await world.create(CONFIG_MAPS, {"metadata": {"generateName": "a-"}})
    del made["metadata"]["generateName"]
    stored = (await world.api.update(CONFIG_MAPS, made)).obj()
    assert "generateName" not in stored["metadata"]


BAD_LABEL = {"labels": {"bad key": "x"}}


@pytest.mark.parametrize(
    ("resource", "new", "times"),
    [
        (POD_DISRUPTION_BUDGETS, {"spec": {"minAvailable": 1}}, 2),  # no look of its own at metadata
        (LEASES, {}, 3),
        (LIMIT_RANGES, {}, 3),
        (CONFIG_MAPS, {}, 4),  # the whole object is validated again
        (PODS, {"spec": POD_SPEC}, 4),
    ],
)
@played(run)
async def test_a_cause_is_told_as_often_as_upstream_looks(
    world: World, resource: Resource, new: Obj, times: int
) -> None:
    await world.create(resource, {"metadata": {"name": "x"}, **new})
    error = await refused(world, resource, "x", BAD_LABEL)
    assert [cause.field for cause in error.causes] == ["metadata.labels"] * times
    assert error.message.count("metadata.labels") == 1


@played(run)
async def test_the_status_endpoint_looks_three_times(world: World) -> None:
    await world.create(PODS, {"metadata": {"name": "p"}, "spec": POD_SPEC})
    assert len((await refused(world, PODS, "p", BAD_LABEL, "status")).causes) == 3


# -- owners

OWNER: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "u"}
OTHER: Obj = OWNER | {"name": "other"}


@played(run)
async def test_an_owner_that_is_named_twice_is_kept_once(world: World) -> None:
    new = {"metadata": {"name": "a", "ownerReferences": [OWNER, OTHER, OWNER]}}
    made = await world.registry.create(INTERNAL, CONFIG_MAPS, new, NAMESPACE)
    assert made.object.obj()["metadata"]["ownerReferences"] == [OWNER, OTHER]
    (warning,) = made.warnings
    assert warning.startswith(".metadata.ownerReferences contains duplicate entries; API server dedups")
    assert warning.endswith("duplicate UID(s) observed: u")
    patch = {"metadata": {"ownerReferences": [OWNER, OWNER]}}
    patched = await world.registry.patch(INTERNAL, CONFIG_MAPS, "a", NAMESPACE, patch)
    assert "contains duplicate entries after mutating admission happens; API server" in patched.warnings[0]


# -- deletions and bindings of what is meant


@played(run)
async def test_preconditions_name_the_kind_and_its_group(world: World) -> None:
    await world.create(LEASES, {"metadata": {"name": "x"}})
    with pytest.raises(Conflict, match=r'on Lease.coordination.k8s.io "x": the UID in the precondition'):
        await world.api.delete(LEASES, "x", NAMESPACE, DeleteOptions(precondition_uid="u"))


@played(run)
async def test_namespaces_have_words_of_their_own_for_preconditions(world: World) -> None:
    uid = (await world.get(NAMESPACES, NAMESPACE) or {})["metadata"]["uid"]
    why = f'on namespaces "n": Precondition failed: UID in precondition: u, UID in object meta: {uid}'
    with pytest.raises(Conflict, match=why):
        await world.api.delete(NAMESPACES, NAMESPACE, options=DeleteOptions(precondition_uid="u"))


@played(run)
async def test_the_priority_classes_of_the_system_stay_but_for_a_collection(world: World) -> None:
    name = "system-node-critical"
    for options in (DeleteOptions(), DeleteOptions(dry_run=True)):
        with pytest.raises(Forbidden, match="this is a system priority class and cannot be deleted"):
            await world.api.delete(PRIORITY_CLASSES, name, options=options)
    await world.api.delete_collection(PRIORITY_CLASSES)
    assert await world.names(PRIORITY_CLASSES) == []


async def bind(world: World, **meta: Any) -> None:
    binding = {"metadata": {"name": "p", **meta}, "target": {"name": "node"}}
    await world.create(PODS, binding, name="p", subresource="binding")


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
@played(run)
async def test_a_binding_means_one_version_of_one_pod(world: World, field: str) -> None:
    await world.create(PODS, {"metadata": {"name": "p"}, "spec": POD_SPEC})
    with pytest.raises(Conflict, match=r'on pods "p": StorageError: invalid object, Code: 4, .* in precondition: 1'):
        await bind(world, **{field: "1"})
    await bind(world)


@pytest.mark.parametrize("subresource", ["binding", "eviction"])
@played(run)
async def test_what_is_sent_to_a_pod_is_in_its_namespace(world: World, subresource: str) -> None:
    await world.create(PODS, {"metadata": {"name": "p"}, "spec": POD_SPEC})
    body = {"metadata": {"name": "p", "namespace": "other"}, "target": {"name": "node"}}
    if subresource == "eviction":
        del body["target"]
    with pytest.raises(BadRequest, match="does not match the namespace sent on the request"):
        await world.create(PODS, body, name="p", subresource=subresource)


@played(run)
async def test_a_rehearsed_binding_is_refused_as_a_real_one_and_binds_nothing(world: World) -> None:
    await world.create(PODS, {"metadata": {"name": "p"}, "spec": POD_SPEC})
    rehearsal = {"metadata": {"name": "p"}, "target": {"name": "node"}}
    await world.create(PODS, rehearsal, name="p", subresource="binding", options=DRY)
    assert "nodeName" not in (await world.get(PODS, "p") or {})["spec"]
    await bind(world)
    with pytest.raises(Conflict, match="already assigned"):
        await world.create(PODS, rehearsal, name="p", subresource="binding", options=DRY)


@played(run)
async def test_a_volume_knows_when_its_phase_changed(world: World) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}}
    made = await world.create(PERSISTENT_VOLUMES, {"metadata": {"name": "v"}, "spec": spec})
    born = made["metadata"]["creationTimestamp"]
    assert made["status"] == {"phase": "Pending", "lastPhaseTransitionTime": born}

    async def times(status: Obj) -> str:
        await asyncio.sleep(1)
        patched = await world.api.patch(PERSISTENT_VOLUMES, "v", "", {"status": status}, subresource="status")
        time: str = patched.obj()["status"]["lastPhaseTransitionTime"]
        return time

    assert await times({"message": "x", "lastPhaseTransitionTime": None}) == born
    assert await times({"phase": "Available"}) == born[:-2] + "2Z"
    assert await times({"phase": "Bound", "lastPhaseTransitionTime": born}) == born


POLICY = {
    "validations": [{"expression": "true"}],
    "matchConstraints": {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    },
}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {**POD_SPEC, "restartPolicy": "Always"}}


@pytest.mark.parametrize(
    ("resource", "spec", "kept"),
    [
        (DEPLOYMENTS, {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}, {"labels"}),
        (RESOURCE_CLAIMS, {}, {"labels", "annotations", "finalizers"}),
        (SERVICE_CIDRS, {"cidrs": ["10.7.0.0/24"]}, {"labels", "annotations", "finalizers"}),
        (VALIDATING_ADMISSION_POLICIES, POLICY, {"labels", "annotations", "finalizers"}),
        (
            VOLUME_ATTACHMENTS,
            {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
            {"labels", "annotations", "finalizers"},
        ),
        (FLOW_SCHEMAS, {"priorityLevelConfiguration": {"name": "exempt"}}, {"labels", "annotations", "finalizers"}),
        (
            PERSISTENT_VOLUMES,
            {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}},
            set(),
        ),
    ],
)
@played(run)
async def test_what_a_status_says_about_the_object_itself_counts_for_some_kinds_alone(
    world: World, resource: Resource, spec: Obj, kept: set[str]
) -> None:
    meta = {"labels": {"a": "1"}, "annotations": {"b": "1"}, "finalizers": ["example.com/c"]}
    namespace = NAMESPACE if resource.namespaced else ""
    await world.create(resource, {"kind": resource.kind, "metadata": {"name": "x"}, "spec": spec})
    await world.api.patch(resource, "x", namespace, {"metadata": meta}, subresource="status")
    found = (await world.get(resource, "x") or {})["metadata"]
    assert {field for field, sent in meta.items() if found.get(field) != sent} == kept


@pytest.mark.parametrize(
    ("resource", "wrong"),
    [
        (EVENTS, {"involvedObject": {"namespace": "elsewhere"}}),
        (POD_DISRUPTION_BUDGETS, {"spec": {"minAvailable": -1}}),
    ],
)
@played(run)
async def test_metadata_of_some_kinds_is_looked_at_last(world: World, resource: Resource, wrong: Obj) -> None:
    labelled = {"metadata": {"name": "x", "labels": {"a": "!"}}}
    with pytest.raises(Invalid) as refused:
        await world.create(resource, labelled | wrong)
    assert "metadata.labels" not in refused.value.message
    right = {"involvedObject": {"namespace": NAMESPACE}, "spec": {"minAvailable": 1}}
    with pytest.raises(Invalid) as refused:
        await world.create(resource, labelled | {key: right[key] for key in wrong})
    assert [cause.field for cause in refused.value.causes] == ["metadata.labels"]
