"""Pods that are nominated to a node, and those that have to leave them room there (S3-24)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fairlead.api.scheduling import Pod
from fairlead.scheduler.decide import Chosen
from tests.scheduler.preemption_world import HOST, REQUIRED, apart, app, laid_out, outcome
from tests.scheduler.scheduler_world import Cluster, Obj, node, pod


def nominate(cluster: Cluster, nominated: Pod, node_name: str) -> None:
    request = cluster.request(nominated)
    cluster.decider.nominations.set(nominated, request.requirements, request.relations, node_name)


@pytest.mark.parametrize(("priority", "feasible"), [(4, {"n2"}), (5, {"n2"}), (6, {"n1", "n2"})])
def test_a_nomination_holds_against_who_is_not_more_important(priority: int, feasible: set[str]) -> None:
    """S3-24, S3-26."""
    cluster = Cluster(node("n1"), node("n2"))
    nominate(cluster, pod("waits", priority=5, cpu=3), "n1")
    assert cluster.feasible(pod(priority=priority, cpu=2)) == feasible
    assert cluster.feasible(pod(priority=priority, cpu=1)) == {"n1", "n2"}
    cluster.decider.nominations.drop("uid-waits")
    assert cluster.feasible(pod(priority=priority, cpu=2)) == {"n1", "n2"}


@pytest.mark.parametrize(
    ("nominated", "wanted"),
    [
        ({"ports": [80]}, {"ports": [80]}),
        ({"labels": {"app": "web"}}, {"affinity": apart({"app": "web"})}),
    ],
)
def test_a_nomination_counts_in_every_respect(nominated: Obj, wanted: Obj) -> None:
    cluster = Cluster(node("n1"), node("n2"))
    nominate(cluster, pod("waits", priority=5, **nominated), "n1")
    assert cluster.feasible(pod(priority=5, **wanted)) == {"n2"}
    assert cluster.feasible(pod(priority=6, **wanted)) == {"n1", "n2"}


def test_a_nominated_pod_is_nobody_to_be_near_to() -> None:
    """It is not there yet: affinity to it must hold without it, too."""
    cluster = Cluster(node("n1"))
    nominate(cluster, pod("waits", priority=5, labels={"app": "web"}), "n1")
    near = {"podAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": app("web")}]}}
    assert cluster.feasible(pod(affinity=near)) == set()


def test_a_nomination_does_not_stand_in_its_own_way_and_is_tried_first() -> None:
    """S3-25: but where it no longer fits, another node will do."""
    cluster = Cluster(node("n1"), node("n2", cpu=64, memory="64Gi"))
    preemptor = pod("waits", priority=5, cpu=3)
    nominate(cluster, preemptor, "n1")
    request = replace(cluster.request(preemptor), nominated="n1")
    assert cluster.feasible(preemptor) == {"n1", "n2"}
    decision = cluster.decider.decide(request)
    assert isinstance(decision, Chosen)
    assert decision.node == "n1"
    cluster.place(pod("quick", priority=9, cpu=3), "n1")
    decision = cluster.decider.decide(request)
    assert isinstance(decision, Chosen)
    assert decision.node == "n2"


def test_more_have_to_leave_where_others_are_nominated() -> None:
    cluster = laid_out({"n1": {"a": (0, 2), "b": (1, 2)}})
    nominate(cluster, pod("waits", priority=5, cpu=2), "n1")
    assert outcome(cluster, pod("late", priority=5, cpu=2)) == ("n1", {"a", "b"})
    assert outcome(cluster, pod("vip", priority=6, cpu=2)) == ("n1", {"a"})
