"""Replication controllers and replica sets keep their count, and say what they did (X-10, S0-30)."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.errors import Forbidden
from fairlead.api.objects import Obj
from fairlead.controllers.actions import Action, Create, Delete, Emit, Patch, Requeue
from fairlead.controllers.kinds import PODS, REPLICA_SETS
from fairlead.controllers.ranking import first_to_go
from fairlead.controllers.replication import ReplicaSets
from fairlead.runtime.clock import timestamp
from tests.controllers.driving import StillWorld, drive, of_type, view

NOW = 1_767_225_600.0
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u-r", "controller": True}


def replica_set(replicas: int, **spec: Any) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "r", "namespace": "n", "uid": "u-r", "generation": 3},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}},
        }
        | spec,
        "status": {"replicas": 0},
    }


def pod(name: str, *, owned: bool = True, ready_since: float | None = None, node: str = "n1", **meta: Any) -> Obj:
    metadata = {"name": name, "namespace": "n", "uid": f"u-{name}", "labels": {"app": "a"}} | meta
    if owned:
        metadata["ownerReferences"] = [OWNER]
    status: Obj = {"phase": "Pending"}
    if ready_since is not None:
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(ready_since)}
        status = {"phase": "Running", "conditions": [ready]}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": status}


def decide(owner: Obj, *pods: Obj, answer: Any = lambda action: None) -> list[Action]:
    world = StillWorld(NOW)
    world.put(PODS, pods)
    world.put(REPLICA_SETS, [owner])
    return drive(ReplicaSets().reconcile(view(REPLICA_SETS, owner), world), answer)


def status_of(actions: list[Action]) -> Obj:
    [patch] = [one for one in of_type(actions, Patch) if one.subresource == "status"]
    found: Obj = patch.patch["status"]
    return found


def test_missing_pods_are_made_from_the_template_and_told() -> None:
    actions = decide(replica_set(2), pod("a"))
    [create] = of_type(actions, Create)
    assert create.obj["metadata"]["generateName"] == "r-"
    assert create.obj["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is True
    assert create.obj["spec"] == {"containers": [{"name": "c"}]}
    assert [one.message for one in of_type(actions, Emit)] == ["Created pod: r-new"]
    assert status_of(actions) == {
        "replicas": 1,
        "fullyLabeledReplicas": 1,
        "terminatingReplicas": 0,
        "observedGeneration": 3,
    }


def test_creation_starts_slowly_and_ends_at_the_first_refusal() -> None:
    def refuse(action: Action) -> Any:
        return Forbidden("no room") if isinstance(action, Create) else None

    actions = decide(replica_set(9), answer=refuse)
    assert len(of_type(actions, Create)) == 1
    [condition] = status_of(actions)["conditions"]
    assert (condition["type"], condition["reason"], condition["message"]) == (
        "ReplicaFailure",
        "FailedCreate",
        "no room",
    )
    assert [one.type for one in of_type(actions, Emit)] == ["Warning"]


def test_the_first_failure_is_told_until_there_is_none() -> None:
    owner = replica_set(0)
    known = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no room"}
    owner["status"] = {"replicas": 1, "conditions": [known]}
    refused = decide(owner, pod("a"), answer=lambda action: Forbidden("no") if isinstance(action, Delete) else None)
    assert "conditions" not in status_of(refused)  # as they were
    assert status_of(decide(owner, pod("a")))["conditions"] is None


def test_an_orphan_that_matches_is_adopted_after_a_fresh_look() -> None:
    owner = replica_set(1)
    actions = decide(
        owner,
        pod("lone", owned=False),
        answer=lambda one: view(REPLICA_SETS, owner) if not isinstance(one, Patch) else None,
    )
    adopt = of_type(actions, Patch)[0]
    assert adopt.target.metadata.name == "lone"
    assert adopt.patch["metadata"]["ownerReferences"][0]["uid"] == "u-r"
    assert not of_type(actions, Create)


def test_a_relabelled_pod_is_released_and_replaced() -> None:
    actions = decide(replica_set(1), pod("a", labels={"app": "free"}))
    assert of_type(actions, Patch)[0].patch["metadata"]["ownerReferences"] == [{"$patch": "delete", "uid": "u-r"}]
    assert len(of_type(actions, Create)) == 1


def test_a_finished_pod_is_no_replica() -> None:
    failed = pod("a") | {"status": {"phase": "Failed"}}
    assert len(of_type(decide(replica_set(1), failed), Create)) == 1


def test_a_terminating_pod_is_counted_apart() -> None:
    going = pod("b", deletionTimestamp="2026-01-01T00:00:00Z")
    told = status_of(decide(replica_set(1), pod("a"), going))
    assert (told["replicas"], told["terminatingReplicas"]) == (1, 1)


def test_availability_is_looked_at_again_when_the_wait_is_over() -> None:
    actions = decide(replica_set(1, minReadySeconds=10), pod("a", ready_since=NOW - 4))
    assert "availableReplicas" not in status_of(actions)
    assert of_type(actions, Requeue) == [Requeue(6.0)]


READY = NOW - 100


def restarted(name: str, sidecar: int) -> Obj:
    """A pod whose sidecar restarted so often, and whose setup did so even more often."""
    made = pod(name, ready_since=READY)
    made["spec"]["initContainers"] = [{"name": "setup"}, {"name": "side", "restartPolicy": "Always"}]
    made["status"]["initContainerStatuses"] = [
        {"name": "setup", "restartCount": 9 - sidecar},
        {"name": "side", "restartCount": sidecar},
    ]
    return made


@pytest.mark.parametrize(
    ("stays", "goes"),
    [
        pytest.param(pod("x"), pod("y", node=""), id="unassigned before assigned"),
        pytest.param(pod("x", ready_since=READY), pod("y"), id="not running before running"),
        pytest.param(
            pod("x", ready_since=READY),
            pod("y", ready_since=READY, annotations={"controller.kubernetes.io/pod-deletion-cost": "-1"}),
            id="lower deletion cost first",
        ),
        pytest.param(pod("x", ready_since=READY), pod("y", ready_since=NOW - 1), id="youngest first"),
        pytest.param(restarted("x", 1), restarted("y", 2), id="a sidecar that restarted more often first"),
    ],
)
def test_the_cheapest_pod_goes_first(stays: Obj, goes: Obj) -> None:
    actions = decide(replica_set(1), stays, goes)
    assert [one.target.metadata.name for one in of_type(actions, Delete)] == ["y"]


def test_a_crowded_node_gives_up_a_pod_first() -> None:
    pods = [
        view(PODS, pod(name, ready_since=READY, node=node)) for name, node in (("a", "n1"), ("b", "n2"), ("c", "n2"))
    ]
    assert [one.spec.node_name for one in first_to_go(pods, pods, 1, NOW)] == ["n2"]


def waiting(count: int, since: float) -> list[Obj]:
    return [pod(f"w{number}", node="", creationTimestamp=timestamp(since)) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "ago", "made", "wakes_in"),
    [
        pytest.param(4_999, 0, 500, None, id="few enough wait for a node"),
        pytest.param(5_000, 0, 0, 2, id="too many do: wait"),
        pytest.param(5_000, 2, 500, None, id="and go on"),
        pytest.param(7_500, 2, 0, 2, id="twice as long for more"),
        pytest.param(10_000, 0, 0, 8, id="and for still more"),
    ],
)
def test_pods_that_nobody_can_place_are_made_ever_more_slowly(
    count: int, ago: float, made: int, wakes_in: float | None
) -> None:
    actions = decide(replica_set(2**31 - 1), *waiting(count, NOW - ago))
    assert len(of_type(actions, Create)) == made
    assert [one.seconds for one in of_type(actions, Requeue)] == ([] if wakes_in is None else [wakes_in])


def test_pods_on_nodes_hold_nothing_up() -> None:
    placed = [pod(f"p{number}", creationTimestamp=timestamp(NOW)) for number in range(6_000)]
    assert len(of_type(decide(replica_set(6_100), *placed), Create)) == 100
