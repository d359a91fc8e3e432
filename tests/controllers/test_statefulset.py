"""Stateful sets bring their pods up, down and forward in order, each with its own name and claims (X-10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.api.errors import AlreadyExists, Forbidden
from fairlead.api.objects import Obj
from fairlead.controllers.actions import Action, Create, Delete, Emit, Patch
from fairlead.controllers.history import Wanted, new_revision
from fairlead.controllers.kinds import CLAIMS, CONTROLLER_REVISIONS, PODS, STATEFUL_SETS
from fairlead.controllers.statefulset import StatefulSets
from fairlead.runtime.clock import timestamp
from tests.controllers.driving import Answer, StillWorld, drive, of_type, view

NOW = 1_767_225_600.0
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u-s", "controller": True}


def template(version: str) -> Obj:
    return {"metadata": {"labels": {"app": "a", "v": version}}, "spec": {"containers": [{"name": "c"}]}}


def stateful_set(replicas: int, version: str = "1", *, current: str = "1", partition: int = 0, **spec: Any) -> Obj:
    return {
        "metadata": {"name": "s", "namespace": "n", "uid": "u-s", "generation": 1},
        "spec": {
            "replicas": replicas,
            "serviceName": "svc",
            "selector": {"matchLabels": {"app": "a"}},
            "template": template(version),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
        }
        | spec,
        "status": {"currentRevision": revision(current)["metadata"]["name"]},
    }


def revision(version: str) -> Obj:
    """The controller revision of a template; versions are numbered in order."""
    data = {"spec": {"template": template(version) | {"$patch": "replace"}}}
    bare = view(STATEFUL_SETS, {"metadata": {"name": "s", "namespace": "n", "uid": "u-s"}, "spec": {"selector": {}}})
    wanted = Wanted(STATEFUL_SETS, bare, template(version), "controller.kubernetes.io/hash", 0)
    made = new_revision(wanted, data, int(version), 0)
    made["metadata"]["uid"] = f"u-rev-{version}"
    return made


def pod(ordinal: int, version: str = "1", *, ready: bool = True, **status: Any) -> Obj:
    name = f"s-{ordinal}"
    labels = {
        "app": "a",
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
        "controller-revision-hash": revision(version)["metadata"]["name"],
    }
    since = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": timestamp(NOW - 60)}
    meta = {"name": name, "namespace": "n", "uid": f"u-{name}", "labels": labels, "ownerReferences": [OWNER]}
    return {"metadata": meta, "spec": {}, "status": {"phase": "Running", "conditions": [since]} | status}


def decide(owner: Obj, *pods: Obj, claims: tuple[Obj, ...] = (), answer: Answer = lambda action: None) -> list[Action]:
    world = StillWorld(NOW)
    world.put(STATEFUL_SETS, [owner])
    world.put(PODS, pods)
    world.put(CONTROLLER_REVISIONS, [revision("1"), revision("2")])
    world.put(CLAIMS, claims)
    return drive(StatefulSets().reconcile(view(STATEFUL_SETS, owner), world), answer)


def changes(actions: list[Action]) -> list[str]:
    """`+s-1` for a created pod, `-s-1` for a deleted one."""
    made = [f"+{one.obj['metadata']['name']}" for one in of_type(actions, Create) if one.kind is PODS]
    return made + [f"-{one.target.metadata.name}" for one in of_type(actions, Delete) if one.kind is PODS]


@pytest.mark.parametrize(
    ("owner", "pods", "expected"),
    [
        pytest.param(stateful_set(3, "2"), [], ["+s-0"], id="the first comes first"),
        pytest.param(stateful_set(3, "2"), [pod(0, "2", ready=False)], [], id="the next waits until it is ready"),
        pytest.param(stateful_set(3, "2"), [pod(0, "2")], ["+s-1"], id="and then comes"),
        pytest.param(
            stateful_set(3, "2", podManagementPolicy="Parallel"),
            [],
            ["+s-0", "+s-1", "+s-2"],
            id="parallel",
        ),
        pytest.param(stateful_set(2, "2", ordinals={"start": 5}), [pod(5, "2")], ["+s-6"], id="later ordinals"),
        pytest.param(stateful_set(1, "2"), [pod(n, "2") for n in range(3)], ["-s-2"], id="down: the highest first"),
        pytest.param(
            stateful_set(1, "2"),
            [pod(0, "2"), pod(1, "2", ready=False), pod(2, "2")],
            ["-s-2"],
            id="down: sick ones no bar",
        ),
        pytest.param(stateful_set(3, "2"), [pod(n) for n in range(3)], ["-s-2"], id="update: the highest first"),
        pytest.param(
            stateful_set(3, "2"), [pod(0), pod(1), pod(2, "2", ready=False)], [], id="update: waits for the new pod"
        ),
        pytest.param(stateful_set(3, "2"), [pod(0), pod(1), pod(2, "2")], ["-s-1"], id="update: then the next"),
        pytest.param(
            stateful_set(3, "2", partition=2), [pod(0), pod(1), pod(2, "2")], [], id="update: not below the partition"
        ),
        pytest.param(
            stateful_set(2, "2", updateStrategy={"type": "OnDelete"}),
            [pod(0), pod(1)],
            [],
            id="OnDelete",
        ),
        pytest.param(stateful_set(1, "2"), [pod(0, "2", phase="Failed")], ["-s-0"], id="what failed is replaced"),
        pytest.param(stateful_set(2, "2", minReadySeconds=600), [pod(0, "2")], [], id="ready is not yet available"),
    ],
)
def test_one_step_follows_the_other(owner: Obj, pods: list[Obj], expected: list[str]) -> None:
    assert changes(decide(owner, *pods)) == expected


@pytest.mark.parametrize(("ordinal", "version"), [(0, "1"), (1, "2")])
def test_below_the_partition_a_lost_pod_comes_back_in_its_old_revision(ordinal: int, version: str) -> None:
    others = [pod(n, "1" if n == 0 else "2") for n in range(2) if n != ordinal]
    [create] = of_type(decide(stateful_set(2, "2", partition=1), *others), Create)
    assert create.obj["metadata"]["labels"]["v"] == version
    assert create.obj["metadata"]["labels"]["controller-revision-hash"] == revision(version)["metadata"]["name"]


def test_a_pod_has_a_name_a_place_and_its_claims() -> None:
    data = {"metadata": {"name": "data", "labels": {"x": "y"}}, "spec": {"resources": {}}}
    actions = decide(stateful_set(1, "2", volumeClaimTemplates=[data]))
    claim, made = of_type(actions, Create)
    assert (claim.obj["metadata"]["name"], claim.obj["metadata"]["labels"]) == ("data-s-0", {"x": "y", "app": "a"})
    assert (made.obj["spec"]["hostname"], made.obj["spec"]["subdomain"]) == ("s-0", "svc")
    assert made.obj["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-s-0"}}]
    assert [one.message for one in of_type(actions, Emit)] == [
        "create Claim data-s-0 Pod s-0 in StatefulSet s success",
        "create Pod s-0 in StatefulSet s successful",
    ]


DATA: Obj = {"metadata": {"name": "data"}, "spec": {}}


@pytest.mark.parametrize(("management", "expected"), [("OrderedReady", []), ("Parallel", ["+s-1"])])
def test_a_pod_waits_for_a_claim_that_still_goes_with_its_former_self(management: str, expected: list[str]) -> None:
    former = {"apiVersion": "v1", "kind": "Pod", "name": "s-0", "uid": "u-before"}
    claim = {"metadata": {"name": "data-s-0", "namespace": "n", "ownerReferences": [former]}}
    policy = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    spec: Obj = {"persistentVolumeClaimRetentionPolicy": policy, "podManagementPolicy": management}
    actions = decide(stateful_set(2, "2", volumeClaimTemplates=[DATA], **spec), claims=(claim,))
    assert changes(actions) == expected


def warnings(actions: list[Action]) -> list[str]:
    return [one.message for one in of_type(actions, Emit) if one.type == "Warning"]


def test_a_pod_whose_claim_is_refused_is_told_of_and_those_before_it_are_made() -> None:
    def refuse(action: Action) -> Any:
        is_second = isinstance(action, Create) and action.obj["metadata"]["name"] == "data-s-1"
        return Forbidden("no room") if is_second else None

    owner = stateful_set(3, "2", volumeClaimTemplates=[DATA], podManagementPolicy="Parallel")
    actions = decide(owner, answer=refuse)
    assert changes(actions) == ["+s-0"]
    assert warnings(actions) == [
        "create Claim data-s-1 for Pod s-1 in StatefulSet s failed error: no room",
        "create Pod s-1 in StatefulSet s failed error: failed to create PVC data-s-1: no room",
    ]


def test_a_pod_is_not_made_while_a_claim_of_its_name_is_being_deleted() -> None:
    claim = {"metadata": {"name": "data-s-0", "namespace": "n", "deletionTimestamp": timestamp(NOW)}}
    actions = decide(stateful_set(1, "2", volumeClaimTemplates=[DATA]), claims=(claim,))
    assert changes(actions) == []
    assert warnings(actions) == ["create Pod s-0 in StatefulSet s failed error: pvc data-s-0 is being deleted"]


def test_a_name_that_is_taken_is_no_news() -> None:
    taken = decide(
        stateful_set(1, "2"), answer=lambda action: AlreadyExists("taken") if isinstance(action, Create) else None
    )
    assert warnings(taken) == []


def test_a_pod_that_gets_its_labels_back_is_told_of() -> None:
    bare = pod(0, "2")
    del bare["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"]
    actions = decide(stateful_set(1, "2"), bare)
    assert [one.message for one in of_type(actions, Emit)] == ["update Pod s-0 in StatefulSet s successful"]


def test_a_claim_goes_with_the_pod_that_is_scaled_away_if_the_policy_says_so() -> None:
    spec: Obj = {
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Retain"},
    }
    claim = {"metadata": {"name": "data-s-1", "namespace": "n", "uid": "u-claim"}}
    actions = decide(stateful_set(1, "2", **spec), pod(0, "2"), pod(1, "2"), claims=(claim,))
    tied = next(one for one in of_type(actions, Patch) if one.kind is CLAIMS)
    assert [one["uid"] for one in tied.patch["metadata"]["ownerReferences"]] == ["u-s-1"]


def test_a_template_that_comes_back_renumbers_its_revision() -> None:
    actions = decide(stateful_set(0, "1", current="2"))
    [renumbered] = [one for one in of_type(actions, Patch) if one.kind is CONTROLLER_REVISIONS]
    assert renumbered.patch == {"revision": 3}


def test_an_update_is_complete_when_all_pods_are_new_and_ready() -> None:
    actions = decide(stateful_set(2, "2"), pod(0, "2"), pod(1, "2"))
    [patch] = [one for one in of_type(actions, Patch) if one.subresource == "status"]
    told = patch.patch["status"]
    assert told["currentRevision"] == told["updateRevision"] == revision("2")["metadata"]["name"]
    assert (told["replicas"], told["currentReplicas"], told["availableReplicas"]) == (2, 2, 2)


MANY = 2**31 - 1


@pytest.mark.parametrize(
    ("management", "made"), [("OrderedReady", range(1, 2)), ("Parallel", [*range(1, 4), *range(5, 502)])]
)
def test_replicas_cost_nothing_until_they_exist(management: str, made: range | list[int]) -> None:
    owner = stateful_set(MANY, "2", podManagementPolicy=management, ordinals={"start": 0})
    assert changes(decide(owner, pod(0, "2"), pod(4, "2"))) == [f"+s-{one}" for one in made]


def test_the_highest_of_very_many_ordinals_is_one_like_any_other() -> None:
    owner = stateful_set(MANY, "2", podManagementPolicy="Parallel", ordinals={"start": MANY - 1})
    assert changes(decide(owner, pod(MANY, "2")))[:2] == [f"+s-{MANY - 1}", f"+s-{MANY + 1}"]


def test_the_data_of_a_revision_has_its_keys_in_order() -> None:
    unordered = {"spec": {"containers": [{"name": "c", "image": "i"}], "affinity": {}}, "metadata": {"labels": {}}}
    actions = decide(stateful_set(0, "1", current="1", template=unordered | {"metadata": template("3")["metadata"]}))
    [made] = [one for one in of_type(actions, Create) if one.kind is CONTROLLER_REVISIONS]
    data = made.obj["data"]
    assert json.dumps(data) == json.dumps(data, sort_keys=True)
    assert list(data["spec"]["template"]) == ["$patch", "metadata", "spec"]
