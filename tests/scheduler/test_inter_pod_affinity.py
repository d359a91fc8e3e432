"""Where a pod may go, and where it would rather be, by which pods are near (InterPodAffinity)."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.scheduler.cluster_events import node_changed
from fairlead.scheduler.framework import ClusterEvent, EventKind
from fairlead.scheduler.plugins.pod_relations.inter_pod_affinity import InterPodAffinity
from tests.scheduler.pods_in_zones import WEB, ZONE, apart, in_namespace, near, prefers, term, terminating, zoned
from tests.scheduler.scheduler_world import Cluster, Obj, node, pod

NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
OTHERS_APART = "node(s) didn't satisfy existing pods anti-affinity rules"
AFFINITY = "InterPodAffinity"
HOST = "kubernetes.io/hostname"


# --- what must be ---------------------------------------------------------------------------------------------------


def test_nearness_is_the_same_value_of_the_topology_label() -> None:
    cluster = zoned("a1", "a2", "b1", "-1")
    cluster.place(pod("web", labels=WEB), "a1")
    assert cluster.feasible(pod(affinity=near(term()))) == {"a1", "a2"}
    assert cluster.feasible(pod(affinity=near(term(key=HOST)))) == {"a1"}
    assert cluster.feasible(pod(affinity=near(term(key="rack")))) == set()


def test_a_pod_on_a_node_without_the_label_is_near_nobody() -> None:
    cluster = zoned("-1", "-2", "a1")
    cluster.place(pod("web", labels=WEB), "-1")
    assert cluster.feasible(pod(affinity=near(term()))) == set()
    assert cluster.feasible(pod(affinity=apart(term()))) == {"-1", "-2", "a1"}


def test_one_pod_that_all_terms_mean_must_be_near_by_each() -> None:
    cluster = zoned("a1", "a2")
    cluster.place(pod("web", labels=WEB), "a1")
    cluster.place(pod("db", labels={"tier": "db"}), "a1")
    both = near(term(), term({"tier": "db"}))
    assert cluster.feasible(pod(affinity=both)) == set()
    cluster.place(pod("both", labels=WEB | {"tier": "db"}), "a2")
    assert cluster.feasible(pod(affinity=both)) == {"a1", "a2"}
    assert cluster.feasible(pod(affinity=near(term(), term({"tier": "db"}, key=HOST)))) == {"a2"}


def test_the_first_of_its_kind_may_start_where_the_label_is() -> None:
    cluster = zoned("a1", "b1", "-1")
    assert cluster.feasible(pod(labels=WEB, affinity=near(term()))) == {"a1", "b1"}
    assert cluster.feasible(pod(affinity=near(term()))) == set()
    cluster.place(pod("web", labels=WEB), "a1")
    assert cluster.feasible(pod(labels=WEB, affinity=near(term()))) == {"a1"}


@pytest.mark.parametrize(
    ("more", "feasible"),
    [
        ({}, set()),
        ({"namespaces": ["other"]}, {"a1"}),
        ({"namespaces": ["third"]}, set()),
        ({"namespaces": ["third"], "namespaceSelector": {"matchLabels": {"team": "red"}}}, {"a1"}),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, set()),
        ({"namespaceSelector": {}}, {"a1"}),
    ],
)
def test_a_term_means_its_own_namespace_unless_it_names_others(more: Obj, feasible: set[str]) -> None:
    cluster = zoned("a1", "b1")
    cluster.snapshot.pod_index.set_namespace("other", {"team": "red"})
    cluster.place(in_namespace("other", "web", labels=WEB), "a1")
    assert cluster.feasible(pod(affinity=near(term(**more)))) == feasible


def test_a_namespace_that_is_labelled_anew_is_meant_anew() -> None:
    cluster = zoned("a1", "b1")
    cluster.place(in_namespace("other", "web", labels=WEB), "a1")
    seeker = pod(affinity=near(term(namespaceSelector={"matchLabels": {"team": "red"}})))
    assert cluster.feasible(seeker) == set()
    cluster.snapshot.pod_index.set_namespace("other", {"team": "red"})
    assert cluster.feasible(seeker) == {"a1"}
    cluster.snapshot.pod_index.set_namespace("other", None)
    assert cluster.feasible(seeker) == set()


@pytest.mark.parametrize(
    ("selector", "feasible"),
    [
        (None, set()),
        ({}, {"a1"}),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}, {"a1"}),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}, set()),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, {"a1"}),
    ],
)
def test_a_term_without_selector_means_nobody_and_an_empty_one_everybody(selector: Any, feasible: set[str]) -> None:
    cluster = zoned("a1", "b1")
    cluster.place(pod("web", labels=WEB), "a1")
    term = {"topologyKey": ZONE} | ({} if selector is None else {"labelSelector": selector})
    assert cluster.feasible(pod(affinity=near(term))) == feasible


def test_pods_stay_apart_from_those_that_their_terms_mean() -> None:
    cluster = zoned("a1", "a2", "b1", "-1")
    cluster.place(pod("web", labels=WEB), "a1")
    assert cluster.feasible(pod(affinity=apart(term()))) == {"b1", "-1"}
    assert cluster.feasible(pod(affinity=apart(term(key=HOST)))) == {"a2", "b1", "-1"}
    assert cluster.feasible(pod(affinity=apart(term({"app": "db"}), term()))) == {"b1", "-1"}


def test_pods_that_are_there_keep_others_away() -> None:
    cluster = zoned("a1", "a2", "b1")
    cluster.place(pod("shy", affinity=apart(term())), "a1")
    assert cluster.feasible(pod(labels=WEB)) == {"b1"}
    assert cluster.feasible(pod()) == {"a1", "a2", "b1"}
    assert cluster.feasible(in_namespace("other", "w", labels=WEB)) == {"a1", "a2", "b1"}
    cluster.snapshot.remove("default/shy")
    assert cluster.feasible(pod(labels=WEB)) == {"a1", "a2", "b1"}


def test_pods_that_are_going_away_still_are_company() -> None:
    cluster = zoned("a1", "b1")
    cluster.place(terminating("web", labels=WEB), "a1")
    assert cluster.feasible(pod(affinity=near(term()))) == {"a1"}
    assert cluster.feasible(pod(affinity=apart(term()))) == {"b1"}


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"affinity": near(term({"app": "db"}))}, f"2 {NOT_NEAR}."),
        ({"affinity": apart(term())}, f"2 {NOT_APART}."),
        ({"labels": {"app": "loud"}}, f"2 {OTHERS_APART}."),
        ({"labels": {"app": "loud"}, "affinity": near(term({"app": "db"})) | apart(term())}, f"2 {NOT_NEAR}."),
        ({"labels": {"app": "loud"}, "affinity": apart(term(key=HOST))}, f"1 {NOT_APART}, 1 {OTHERS_APART}."),
        ({"cpu": 5, "affinity": apart(term())}, "2 Insufficient cpu."),
    ],
)
def test_each_node_tells_the_first_rule_that_it_breaks(wanted: Obj, reason: str) -> None:
    cluster = zoned("a1", "a2")
    cluster.place(pod("web", labels=WEB, affinity=apart(term({"app": "loud"}))), "a1")
    assert cluster.message(pod(**wanted)) == f"0/2 nodes are available: {reason}"


def test_only_affinity_cannot_be_helped_by_driving_pods_away() -> None:
    """S3-20, S3-31: but the first of its kind may come where nobody else of that kind is left."""
    cluster = zoned("a1", "b1")
    cluster.place(pod("old", labels=WEB), "a1")
    head = "0/2 nodes are available:"
    unhelpful = "no new claims to deallocate, preemption: 0/2 nodes are available:"
    assert cluster.message(pod(priority=1, affinity=near(term({"app": "db"}))), whole=True) == (
        f"{head} 2 {NOT_NEAR}. {unhelpful} 2 Preemption is not helpful for scheduling."
    )
    full = zoned("a1")
    full.place(pod("old", labels=WEB, cpu=4), "a1")
    seeker = pod(priority=1, cpu=1, affinity=near(term()))
    assert full.message(seeker, whole=True) == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        f"no new claims to deallocate, preemption: 0/1 nodes are available: 1 {NOT_NEAR}."
    )


@pytest.mark.parametrize(
    ("wanted", "old", "new", "helps"),
    [
        (near(term()), None, {ZONE: "b"}, True),
        (near(term()), None, {}, False),
        (near(term()), {}, {ZONE: "b"}, True),
        (near(term()), {ZONE: "a"}, {ZONE: "b"}, True),
        (near(term()), {ZONE: "a"}, {}, False),
        (near(term()), {ZONE: "a"}, {ZONE: "a", "other": "label"}, False),
        (apart(term()), None, {ZONE: "b"}, True),
        (apart(term()), None, {}, True),
        (apart(term()), {}, {ZONE: "b"}, False),
        (apart(term()), {ZONE: "a"}, {ZONE: "b"}, True),
        (apart(term()), {ZONE: "a"}, {}, True),
        (apart(term()), {ZONE: "a"}, {ZONE: "a", "other": "label"}, False),
        ({}, None, {ZONE: "b"}, False),
    ],
)
def test_a_node_wakes_whom_its_place_may_help(wanted: Obj, old: Obj | None, new: Obj, helps: bool) -> None:
    """Who is only avoided by others has no terms that a node could meet: it sleeps, as upstream."""
    waiting = Cluster().request(pod(affinity=wanted))
    before = None if old is None else node(labels=old)
    assert InterPodAffinity().helps(node_changed(before, node(labels=new)), waiting) is helps


DB = {"app": "db"}


@pytest.mark.parametrize(
    ("wanted", "old", "new", "helps"),
    [
        (near(term()), None, WEB, True),
        (near(term(), term(DB)), None, WEB, False),
        (near(term(), term({"a": "1"})), None, WEB | {"a": "1"}, True),
        (near(term()), DB, WEB, True),
        (near(term()), WEB, WEB | {"a": "1"}, False),
        (apart(term()), WEB, None, True),
        (apart(term(), term({"a": "1"})), WEB, None, False),
        (apart(term()), WEB, DB, True),
        (apart(term()), DB, WEB, False),
        (near(term(namespaceSelector={})), None, WEB, True),
        (near(term(namespaceSelector={"matchLabels": {"team": "red"}})), None, WEB, False),
        (apart(term(namespaces=["other"])), WEB, None, False),
        ({}, WEB, None, False),
    ],
)
def test_a_pod_wakes_whom_all_terms_of_the_waiting_one_mean(
    wanted: Obj, old: Obj | None, new: Obj | None, helps: bool
) -> None:
    """As upstream asks, without the labels of namespaces."""
    cluster = Cluster()
    before, after = (
        None if labels is None else cluster.request(pod("old", labels=labels)).relations for labels in (old, new)
    )
    event = ClusterEvent(EventKind.POD_LABELS, old_relations=before, new_relations=after)
    assert InterPodAffinity().helps(event, cluster.request(pod(affinity=wanted))) is helps


@pytest.mark.parametrize(
    ("wanted", "helps"), [(apart(term()), True), (apart(term(DB)), False), (apart(term(), term(DB)), False)]
)
def test_who_goes_wakes_whom_it_avoided(wanted: Obj, helps: bool) -> None:
    cluster = Cluster()
    event = ClusterEvent(EventKind.POD_REMOVED, old_relations=cluster.request(pod("shy", affinity=wanted)).relations)
    assert InterPodAffinity().helps(event, cluster.request(pod(labels=WEB))) is helps


# --- what should be -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("affinity", "scores"),
    [
        (prefers("podAffinity", (10, term())), {"a1": 200, "a2": 200, "b1": 100, "c1": 0}),
        (prefers("podAntiAffinity", (10, term())), {"a1": 0, "a2": 0, "b1": 100, "c1": 200}),
        (prefers("podAffinity", (10, term(key=HOST))), {"a1": 200, "a2": 0, "b1": 100, "c1": 0}),
        (prefers("podAffinity", (1, term()), (1, term(key=HOST))), {"a1": 200, "a2": 100, "b1": 100, "c1": 0}),
        (prefers("podAffinity", (3, term({"app": "db"}))), {"a1": 0, "a2": 0, "b1": 0, "c1": 0}),
        ({}, {"a1": 0, "a2": 0, "b1": 0, "c1": 0}),
    ],
)
def test_preferred_company_counts_by_weight_and_number(affinity: Obj, scores: dict[str, int]) -> None:
    """Two such pods are on a1, one is on b1; the least of all nodes becomes 0, the most 100, and the weight is 2."""
    cluster = zoned("a1", "a2", "b1", "c1")
    for name, where in (("w1", "a1"), ("w2", "a1"), ("w3", "b1")):
        cluster.place(pod(name, labels=WEB), where)
    assert cluster.scores(pod(affinity=affinity), AFFINITY) == scores


@pytest.mark.parametrize(
    ("affinity", "scores"),
    [
        (prefers("podAffinity", (5, term())), {"a1": 200, "a2": 200, "b1": 0}),
        (prefers("podAntiAffinity", (5, term())), {"a1": 0, "a2": 0, "b1": 200}),
        (near(term()), {"a1": 200, "a2": 200, "b1": 0}),
        (near(term()) | prefers("podAntiAffinity", (1, term())), {"a1": 0, "a2": 0, "b1": 0}),
        (prefers("podAffinity", (5, term({"app": "db"}))), {"a1": 0, "a2": 0, "b1": 0}),
    ],
)
def test_pods_that_are_there_draw_and_repel_others(affinity: Obj, scores: dict[str, int]) -> None:
    """What they require to be near counts 1 (hardPodAffinityWeight)."""
    cluster = zoned("a1", "a2", "b1")
    cluster.place(pod("old", affinity=affinity), "a1")
    assert cluster.scores(pod(labels=WEB), AFFINITY) == scores


def test_scores_are_stretched_between_the_feasible_nodes_and_cut_off() -> None:
    """0, 1 and 3 become 0, 33 and 100; the node with 9 does not come into question."""
    cluster = zoned("a1", "b1", "c1")
    cluster.snapshot.set_node(node("d1", labels={ZONE: "d"}, unschedulable=True))
    for index, where in enumerate(["b1"] + ["c1"] * 3 + ["d1"] * 9):
        cluster.place(pod(f"w{index}", labels=WEB), where)
    seeker = pod(affinity=prefers("podAffinity", (1, term())))
    assert cluster.scores(seeker, AFFINITY) == {"a1": 0, "b1": 2 * 33, "c1": 200}
