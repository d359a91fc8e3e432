"""Deployments move from one template to the next within surge and unavailability (X-10)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.encoded import encoded
from fairlead.api.objects import Obj
from fairlead.api.workloads import Deployment
from fairlead.controllers.actions import Action, Create, Delete, Emit, Patch, Requeue
from fairlead.controllers.deployment import Deployments, sizes, status
from fairlead.controllers.deployment.sizes import Sized
from fairlead.controllers.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from fairlead.runtime.clock import timestamp
from tests.controllers.driving import StillWorld, drive, of_type, view

NOW = 1_767_225_600.0
OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u-d", "controller": True}


def template(version: str) -> Obj:
    return {"metadata": {"labels": {"app": "a", "v": version}}, "spec": {"containers": [{"name": "c"}]}}


def deployment(
    replicas: int, version: str = "1", *, surge: int | str = "25%", unavailable: int | str = "25%", **spec: Any
) -> Obj:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return {
        "metadata": {"name": "d", "namespace": "n", "uid": "u-d", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "a"}},
            "template": template(version),
            "strategy": rolling,
            "progressDeadlineSeconds": 600,
        }
        | spec,
    }


def replica_set(
    version: str, replicas: int, available: int, *, desired: int | None = None, revision: int | None = None
) -> Obj:
    number = int(version)
    annotations = {"deployment.kubernetes.io/revision": str(revision or number)}
    if desired is not None:
        annotations |= {sizes.DESIRED: str(desired), sizes.MAXIMUM: str(desired)}
    return {
        "metadata": {
            "name": f"d-{version}",
            "namespace": "n",
            "uid": f"u-{version}",
            "creationTimestamp": timestamp(NOW + number),
            "labels": {"app": "a"},
            "annotations": annotations,
            "ownerReferences": [OWNER],
        },
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template(version)},
        "status": {"replicas": replicas, "availableReplicas": available, "terminatingReplicas": 0},
    }


def patched(action: Action) -> Any:
    """A server that merges the fields that this controller patches."""
    if not isinstance(action, Patch) or action.subresource:
        return None
    target = action.target
    meta: Obj = {"name": target.metadata.name, "uid": target.metadata.uid}
    meta["annotations"] = target.metadata.annotations | action.patch.get("metadata", {}).get("annotations", {})
    number = target.metadata.name.rpartition("-")[2]
    known = replica_set(number, 0, 0) if number.isdecimal() else {"spec": {"selector": {}}}
    status = getattr(target, "status", None)
    counts = {"replicas": status.replicas, "availableReplicas": status.available_replicas} if status else {}
    return encoded({"metadata": meta, "spec": known["spec"] | action.patch.get("spec", {}), "status": counts})


def decide(owner: Obj, *sets: Obj, pods: tuple[Obj, ...] = (), now: float = NOW) -> list[Action]:
    world = StillWorld(now)
    world.put(DEPLOYMENTS, [owner])
    world.put(REPLICA_SETS, sets)
    world.put(PODS, pods)
    return drive(Deployments().reconcile(view(DEPLOYMENTS, owner), world), patched)


def told(actions: list[Action]) -> list[str]:
    return [one.message for one in of_type(actions, Emit)]


def condition(actions: list[Action], type_: str) -> Obj | None:
    [patch] = [one for one in of_type(actions, Patch) if "status" in one.patch]
    return next((one for one in patch.patch["status"].get("conditions", ()) if one["type"] == type_), None)


def test_a_new_deployment_gets_a_replica_set_named_and_labelled_by_its_template() -> None:
    actions = decide(deployment(3))
    [create] = of_type(actions, Create)
    hash_ = create.obj["metadata"]["labels"]["pod-template-hash"]
    assert create.obj["metadata"]["name"] == f"d-{hash_}"
    assert create.obj["spec"]["selector"]["matchLabels"] == {"app": "a", "pod-template-hash": hash_}
    assert create.obj["metadata"]["annotations"] == {
        "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
    }
    assert told(actions) == [f"Scaled up replica set d-{hash_} from 0 to 3"]


@pytest.mark.parametrize(
    ("surge", "unavailable", "sets", "steps"),
    [
        pytest.param("25%", "25%", [("1", 4, 4)], ["new from 0 to 1", "d-1 from 4 to 3"], id="both at once"),
        pytest.param(1, 0, [("1", 3, 3), ("2", 1, 0)], [], id="surge alone waits for the new pod"),
        pytest.param(1, 0, [("1", 3, 3), ("2", 1, 1)], ["d-1 from 3 to 2"], id="an available new pod replaces an old"),
        pytest.param(0, 1, [("1", 3, 3), ("2", 0, 0)], ["d-1 from 3 to 2"], id="no surge: old pods go first"),
        pytest.param(0, 1, [("1", 2, 2), ("2", 0, 0)], ["d-2 from 0 to 1"], id="and new ones take their place"),
        pytest.param(0, 1, [("1", 3, 1), ("2", 0, 0)], ["d-1 from 3 to 2"], id="what serves nobody goes first"),
        pytest.param(0, 1, [("1", 2, 1), ("2", 1, 0)], [], id="and no more than is needed"),
    ],
)
def test_a_rollout_takes_one_step_at_a_time(
    surge: int | str, unavailable: int | str, sets: list[tuple[str, int, int]], steps: list[str]
) -> None:
    size = 4 if isinstance(surge, str) else 3
    owner = deployment(size, "2", surge=surge, unavailable=unavailable)
    actions = decide(owner, *(replica_set(*one, desired=size) for one in sets))
    done = " | ".join(text.partition("replica set ")[2] for text in told(actions))
    for created in of_type(actions, Create):
        done = done.replace(created.obj["metadata"]["name"], "new")
    assert done.split(" | ") == (steps or [""])


def test_recreate_makes_no_new_pod_while_an_old_one_runs() -> None:
    owner = deployment(2, "2", strategy={"type": "Recreate"})
    controller = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "d-1", "uid": "u-1", "controller": True}
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "deletionTimestamp": timestamp(NOW),
            "ownerReferences": [controller],
        },
        "status": {"phase": "Running"},
    }
    old = replica_set("1", 0, 0, desired=2)
    assert not of_type(decide(owner, old, pods=(pod,)), Create)
    assert len(of_type(decide(owner, old), Create)) == 1


def test_a_paused_deployment_is_resized_but_makes_no_new_replica_set() -> None:
    actions = decide(deployment(5, "2", paused=True), replica_set("1", 3, 3, desired=3))
    assert not of_type(actions, Create)
    assert told(actions) == ["Scaled up replica set d-1 from 3 to 5"]
    progressing = condition(actions, "Progressing")
    assert progressing is not None
    assert (progressing["status"], progressing["reason"]) == ("Unknown", "DeploymentPaused")


def test_a_paused_deployment_tells_no_set_of_another_surge() -> None:
    actions = decide(deployment(3, "1", paused=True, surge=3), replica_set("1", 3, 3, desired=3))
    assert [one.target.metadata.name for one in of_type(actions, Patch)] == ["d", "d"]


def test_a_template_that_comes_back_gets_the_newest_revision_and_remembers_its_old_one() -> None:
    actions = decide(deployment(1, "1"), replica_set("1", 0, 0), replica_set("2", 1, 1))
    numbered = next(one for one in of_type(actions, Patch) if one.target.metadata.name == "d-1")
    assert numbered.patch["metadata"]["annotations"] == {
        "deployment.kubernetes.io/revision": "3",
        "deployment.kubernetes.io/revision-history": "1",
    }
    deployed = next(one for one in of_type(actions, Patch) if one.target.metadata.name == "d")
    assert deployed.patch["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "3"}


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ("0", 'Rolled back deployment "d" to revision 1'),
        ("1", 'Rolled back deployment "d" to revision 1'),
        ("2", 'The rollback revision contains the same template as current deployment "d"'),
        ("7", "Unable to find the revision to rollback to."),
    ],
)
def test_an_annotation_rolls_back(wish: str, expected: str) -> None:
    owner = deployment(1, "2")
    owner["metadata"]["annotations"] = {"deprecated.deployment.rollback.to": wish, "why": "2"}
    actions = decide(owner, replica_set("1", 0, 0), replica_set("2", 1, 1, desired=1))
    assert told(actions) == [expected]
    patch = of_type(actions, Patch)[-1].patch
    assert patch["metadata"]["annotations"]["deprecated.deployment.rollback.to"] is None
    if expected.startswith("Rolled"):
        assert patch["metadata"]["annotations"]["why"] is None
        assert patch["spec"]["template"]["metadata"]["labels"]["v"] == "1"


def test_the_history_is_cut_to_its_limit_once_the_rollout_is_complete() -> None:
    done = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    owner = deployment(1, "4", revisionHistoryLimit=1) | {"status": done}
    old = [replica_set(version, 0, 0) for version in ("1", "2", "3")]
    actions = decide(owner, *old, replica_set("4", 1, 1))
    assert [one.target.metadata.name for one in of_type(actions, Delete)] == ["d-1", "d-2"]


def test_a_resize_leaves_the_history_alone_unless_the_deployment_is_paused() -> None:
    old = [replica_set(version, 0, 0) for version in ("1", "2")]
    running = replica_set("3", 1, 1, desired=1)
    for paused, goes in ((False, []), (True, ["d-1"])):
        actions = decide(deployment(2, "3", revisionHistoryLimit=1, paused=paused), *old, running)
        assert told(actions) == ["Scaled up replica set d-3 from 1 to 2"]
        assert [one.target.metadata.name for one in of_type(actions, Delete)] == goes


def test_a_long_name_leaves_room_for_the_hash() -> None:
    owner = deployment(1)
    owner["metadata"]["name"] = "d" * 250
    [made] = of_type(decide(owner), Create)
    prefix, _, hash_ = made.obj["metadata"]["name"].partition("-")
    assert prefix == "d" * 242
    assert hash_ == made.obj["metadata"]["labels"]["pod-template-hash"]


def test_a_rollout_without_progress_is_looked_at_again_and_then_timed_out() -> None:
    sets = [replica_set("1", 1, 0, desired=1)]
    told_before = {
        "type": "Progressing",
        "status": "True",
        "reason": "ReplicaSetUpdated",
        "message": 'ReplicaSet "d-1" is progressing.',
        "lastUpdateTime": timestamp(NOW - 100),
        "lastTransitionTime": timestamp(NOW - 100),
    }
    unavailable = told_before | {
        "type": "Available",
        "status": "False",
        "reason": "MinimumReplicasUnavailable",
        "message": "Deployment does not have minimum availability.",
    }
    status = {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        "unavailableReplicas": 1,
        "terminatingReplicas": 0,
        "conditions": [told_before, unavailable],
    }
    owner = deployment(1) | {"status": status}
    owner["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    assert of_type(decide(owner, *sets), Requeue) == [Requeue(501.0)]

    late = condition(decide(owner, *sets, now=NOW + 501), "Progressing")
    assert late is not None
    assert (late["status"], late["reason"]) == ("False", "ProgressDeadlineExceeded")


def test_what_was_complete_once_and_lost_pods_since_waits_for_a_change_alone() -> None:
    """It never times out, so weeks of waiting cost nothing."""
    complete = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
    long_ago = complete | {"lastUpdateTime": timestamp(NOW - 1e6), "lastTransitionTime": timestamp(NOW - 1e6)}
    deployment_ = view(DEPLOYMENTS, deployment(2) | {"status": {"replicas": 2, "conditions": [long_ago]}})
    assert status.next_progress_check(deployment_, deployment_.status, NOW) is None


counts = st.integers(0, 60)


@given(st.lists(counts, min_size=1, max_size=4), counts)
def test_a_resize_in_mid_rollout_shares_exactly_what_there_is_to_share(live: list[int], wanted: int) -> None:
    owner: Deployment = view(DEPLOYMENTS, deployment(wanted, surge=2, unavailable=1))
    sets = [replica_set(str(number), size, 0, desired=sum(live)) for number, size in enumerate(live, 1) if size]
    active = [Sized(view(REPLICA_SETS, one), one["spec"]["replicas"]) for one in sets]
    shared = sizes.in_proportion(owner, active)
    assert all(size >= 0 for _, size in shared)
    if shared:
        assert sum(size for _, size in shared) == (sizes.max_replicas(owner) if wanted else 0)
