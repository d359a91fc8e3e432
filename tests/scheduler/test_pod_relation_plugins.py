"""Where a pod may go, and where it would rather be, by who is there already: InterPodAffinity, PodTopologySpread."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Node, Pod
from fairlead.api.services import Service
from fairlead.scheduler.cluster_events import node_changed
from fairlead.scheduler.configuration import load
from fairlead.scheduler.framework import ClusterEvent, EventKind
from fairlead.scheduler.plugins.pod_relations.inter_pod_affinity import InterPodAffinity
from fairlead.scheduler.plugins.pod_relations.topology_spread import PodTopologySpread
from tests.scheduler.scheduler_world import Cluster, node, node_obj, pod, pod_obj

Obj = dict[str, Any]

AFFINITY, SPREAD = "InterPodAffinity", "PodTopologySpread"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB = {"app": "web"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
OTHERS_APART = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{SKEWED} (missing required label)"


def zoned(*names: str) -> Cluster:
    """`a1` and `a2` are in zone a; what begins with `-` is in none."""
    return Cluster(*(node(name, labels={} if name[0] == "-" else {ZONE: name[0]}) for name in names))


def term(labels: Obj | None = None, key: str = ZONE, **more: Any) -> Obj:
    return {"topologyKey": key, "labelSelector": {"matchLabels": WEB if labels is None else labels}} | more


def near(*terms: Obj) -> Obj:
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: Obj) -> Obj:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def prefers(kind: str, *weighted: tuple[int, Obj]) -> Obj:
    return {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term} for weight, term in weighted]}}


def in_namespace(namespace: str, name: str, **more: Any) -> Pod:
    obj = pod_obj(name, **more)
    obj["metadata"]["namespace"] = namespace
    return encoded(obj).view(Pod)


def terminating(name: str, **more: Any) -> Pod:
    obj = pod_obj(name, **more)
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return encoded(obj).view(Pod)


# --- InterPodAffinity: what must be ---------------------------------------------------------------------------------


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


# --- InterPodAffinity: what should be -------------------------------------------------------------------------------


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


# --- PodTopologySpread: what must be --------------------------------------------------------------------------------


def rule(skew: int = 1, key: str = ZONE, when: str = "DoNotSchedule", **more: Any) -> Obj:
    chosen = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when}
    return chosen | {"labelSelector": {"matchLabels": WEB}} | more


def spread(*rules: Obj, **more: Any) -> Pod:
    return pod("new", **({"labels": WEB} | more), topologySpreadConstraints=list(rules))


def pod_index(cluster: Cluster, **counts: int) -> None:
    """That many counted pods on those nodes."""
    for where, count in counts.items():
        for index in range(count):
            cluster.place(pod(f"{where}-{index}", labels=WEB), where)


@pytest.mark.parametrize(
    ("rules", "feasible"),
    [
        ([rule(1)], {"c1"}),
        ([rule(2)], {"b1", "c1"}),
        ([rule(3)], {"b1", "c1"}),
        ([rule(4)], {"a1", "a2", "b1", "c1"}),
        ([rule(1, HOST)], {"a2", "c1"}),
        ([rule(2, HOST)], {"a2", "b1", "c1"}),
        ([rule(4), rule(1, HOST)], {"a2", "c1"}),
        ([rule(1, labelSelector={"matchLabels": {"app": "db"}})], {"a1", "a2", "b1", "c1"}),
        ([rule(1, labelSelector={})], {"a1", "a2", "b1", "c1"}),
        ([rule(1, labelSelector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})], {"c1"}),
        ([rule(1, key="rack")], set()),
    ],
)
def test_no_domain_may_have_many_more_than_the_emptiest(rules: list[Obj], feasible: set[str]) -> None:
    """Three on a1, one on b1, none on a2 and c1; the newcomer is counted too."""
    cluster = zoned("a1", "a2", "b1", "c1")
    pod_index(cluster, a1=3, b1=1)
    assert cluster.feasible(spread(*rules)) == feasible


def test_a_newcomer_that_its_own_rule_does_not_count_adds_nothing() -> None:
    cluster = zoned("a1", "b1")
    pod_index(cluster, a1=1)
    assert cluster.feasible(spread(rule())) == {"b1"}
    assert cluster.feasible(spread(rule(), labels={})) == {"a1", "b1"}


def test_a_rule_without_selector_counts_nobody() -> None:
    cluster = zoned("a1", "b1")
    pod_index(cluster, a1=5)
    bare = rule()
    del bare["labelSelector"]
    assert cluster.feasible(spread(bare)) == {"a1", "b1"}


def test_pods_of_other_namespaces_and_those_going_away_are_not_counted() -> None:
    cluster = zoned("a1", "b1")
    cluster.place(in_namespace("other", "web", labels=WEB), "a1")
    cluster.place(terminating("old", labels=WEB), "a1")
    assert cluster.feasible(spread(rule())) == {"a1", "b1"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"matchLabelKeys": ["app"], "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
        {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}},
    ],
)
def test_a_newcomer_that_is_going_away_counts_itself_all_the_same(more: Obj) -> None:
    """Upstream asks about deletion only of those that are there."""
    cluster = zoned("a1")
    pod_index(cluster, a1=1)
    strict = rule(minDomains=2, **more)
    assert cluster.feasible(terminating("new", labels=WEB, topologySpreadConstraints=[strict])) == set()
    assert cluster.feasible(terminating("new", labels=WEB, topologySpreadConstraints=[strict | {"maxSkew": 2}])) == {
        "a1"
    }


@pytest.mark.parametrize(
    ("least", "feasible"), [(1, {"a1", "b1"}), (2, {"a1", "b1"}), (3, set())], ids=["one", "two", "three"]
)
def test_too_few_domains_count_as_if_one_were_empty(least: int, feasible: set[str]) -> None:
    """KEP-3022."""
    cluster = zoned("a1", "b1")
    pod_index(cluster, a1=1, b1=1)
    assert cluster.feasible(spread(rule(minDomains=least))) == feasible


@pytest.mark.parametrize(
    ("policies", "feasible"),
    [
        ({}, {"a1", "b1"}),
        ({"nodeAffinityPolicy": "Honor"}, {"a1", "b1"}),
        ({"nodeAffinityPolicy": "Ignore"}, set()),
    ],
)
def test_nodes_where_affinity_does_not_let_the_pod_go_count_only_if_it_is_ignored(
    policies: Obj, feasible: set[str]
) -> None:
    """KEP-3094. The empty zone has no such disks."""
    ssd = {"disk": "ssd"}
    cluster = Cluster(*(node(f"{zone}1", labels={ZONE: zone} | ssd) for zone in "ab"), node("c1", labels={ZONE: "c"}))
    pod_index(cluster, a1=1, b1=1)
    assert cluster.feasible(spread(rule(**policies), nodeSelector=ssd)) == feasible


@pytest.mark.parametrize(
    ("policies", "feasible"),
    [({}, set()), ({"nodeTaintsPolicy": "Ignore"}, set()), ({"nodeTaintsPolicy": "Honor"}, {"a1", "b1"})],
)
def test_tainted_nodes_count_unless_taints_are_honoured(policies: Obj, feasible: set[str]) -> None:
    taint = {"key": "team", "value": "red", "effect": "NoSchedule"}
    cluster = zoned("a1", "b1")
    cluster.snapshot.set_node(node("c1", labels={ZONE: "c"}, taints=[taint]))
    pod_index(cluster, a1=1, b1=1)
    assert cluster.feasible(spread(rule(**policies))) == feasible
    tolerant = spread(rule(**policies), tolerations=[{"operator": "Exists"}])
    assert cluster.feasible(tolerant) == {"c1"}


def test_nodes_that_lack_one_of_the_labels_count_for_no_rule() -> None:
    cluster = zoned("a1", "-1")
    cluster.snapshot.set_node(node("b1", labels={ZONE: "b"}))
    pod_index(cluster, **{"-1": 2, "b1": 1})
    assert cluster.feasible(spread(rule(), rule(1, HOST))) == {"a1"}


def test_pods_of_the_same_revision_are_counted_alone() -> None:
    """KEP-3243: matchLabelKeys."""
    cluster = zoned("a1", "b1")
    for name, where, revision in (("w1", "a1", "1"), ("w2", "a1", "1"), ("w3", "b1", "2")):
        cluster.place(pod(name, labels=WEB | {"hash": revision}), where)
    by_revision = rule(matchLabelKeys=["hash", "absent"])
    assert cluster.feasible(spread(by_revision, labels=WEB | {"hash": "1"})) == {"b1"}
    assert cluster.feasible(spread(by_revision, labels=WEB | {"hash": "2"})) == {"a1"}
    assert cluster.feasible(spread(by_revision, labels=WEB)) == {"b1"}


def test_a_node_that_lacks_the_label_says_so_and_cannot_be_helped() -> None:
    cluster = zoned("a1", "b1", "-1")
    pod_index(cluster, a1=1)
    cluster.snapshot.set_node(node("b1", labels={ZONE: "b"}, unschedulable=True))
    assert cluster.message(spread(rule()), whole=True) == (
        f"0/3 nodes are available: 1 {SKEWED}, 1 {NO_LABEL}, 1 node(s) were unschedulable. "
        "no new claims to deallocate, preemption: 0/3 nodes are available: "
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )


def test_spread_speaks_before_affinity() -> None:
    cluster = zoned("a1", "b1")
    pod_index(cluster, a1=1)
    both = spread(rule(), affinity=near(term({"app": "db"})))
    assert cluster.message(both) == f"0/2 nodes are available: 1 {NOT_NEAR}, 1 {SKEWED}."


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, {ZONE: "c"}, True),
        (None, {"rack": "r"}, False),
        ({ZONE: "c"}, None, True),
        ({"rack": "r"}, None, False),
        ({}, {ZONE: "c"}, True),
        ({ZONE: "c"}, {}, True),
        ({ZONE: "a"}, {ZONE: "c"}, True),
        ({ZONE: "a"}, {ZONE: "a", "rack": "r"}, False),
    ],
)
def test_a_node_wakes_whom_its_place_may_help_by_a_hard_rule(old: Obj | None, new: Obj | None, helps: bool) -> None:
    """The soft rule refuses nobody, so nobody waits for its label."""
    waiting = Cluster().request(spread(rule(), rule(key="rack", when="ScheduleAnyway")))
    before, after = (None if labels is None else node(labels=labels) for labels in (old, new))
    assert PodTopologySpread().helps(node_changed(before, after), waiting) is helps


@pytest.mark.parametrize(("labels", "helps"), [({ZONE: "a"}, True), ({}, False)])
def test_other_taints_of_a_node_wake_whom_its_place_may_help(labels: Obj, helps: bool) -> None:
    event = node_changed(node(labels=labels, taints=[{"key": "team", "effect": "NoSchedule"}]), node(labels=labels))
    assert PodTopologySpread().helps(event, Cluster().request(spread(rule()))) is helps


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, WEB, True),
        (None, {"app": "db"}, False),
        (WEB, None, True),
        (WEB, {"app": "db"}, True),
        ({"app": "db"}, WEB, True),
        (WEB, WEB | {"other": "label"}, False),
    ],
)
def test_a_pod_wakes_whom_it_counts_for_now_or_no_longer(old: Obj | None, new: Obj | None, helps: bool) -> None:
    cluster = Cluster()
    hard_and_soft = spread(rule(), rule(key="rack", when="ScheduleAnyway", labelSelector={}))
    before, after = (
        None if labels is None else cluster.request(pod("old", labels=labels)).relations for labels in (old, new)
    )
    event = ClusterEvent(EventKind.POD_LABELS, old_relations=before, new_relations=after)
    assert PodTopologySpread().helps(event, cluster.request(hard_and_soft)) is helps


# --- PodTopologySpread: what should be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "scores"),
    [
        # 3, 1 and 0 of the domain, each times ln(3 + 2) and rounded: 5, 2 and 0.
        ([rule(1)], {"a1": 0, "a2": 0, "b1": 2 * 60, "c1": 200}),
        # The same with 4 more each: 9, 6 and 4.
        ([rule(5)], {"a1": 2 * 44, "a2": 2 * 44, "b1": 2 * 77, "c1": 200}),
        # 3, 0, 1 and 0 of the host, each times ln(4 + 2): 5, 0, 2 and 0.
        ([rule(1, HOST)], {"a1": 0, "a2": 200, "b1": 2 * 60, "c1": 200}),
        # Both together: 10.2, 4.8, 3.4 and 0.
        ([rule(1), rule(1, HOST)], {"a1": 0, "a2": 2 * 50, "b1": 2 * 70, "c1": 200}),
        ([rule(1, labelSelector={"matchLabels": {"app": "db"}})], {"a1": 200, "a2": 200, "b1": 200, "c1": 200}),
    ],
)
def test_fuller_domains_score_less(rules: list[Obj], scores: dict[str, int]) -> None:
    """Three on a1, one on b1, none on a2 and c1; the weight is 2."""
    cluster = zoned("a1", "a2", "b1", "c1")
    pod_index(cluster, a1=3, b1=1)
    soft = [constraint | {"whenUnsatisfiable": "ScheduleAnyway"} for constraint in rules]
    assert cluster.scores(spread(*soft), SPREAD) == scores


def test_nodes_that_lack_a_label_are_ignored_and_get_nothing() -> None:
    cluster = zoned("a1", "b1", "-1")
    pod_index(cluster, a1=1, **{"-1": 9})
    soft = spread(rule(when="ScheduleAnyway"), rule(when="ScheduleAnyway", key=HOST))
    assert cluster.scores(soft, SPREAD) == {"a1": 0, "b1": 200, "-1": 0}


def test_a_soft_rule_keeps_nobody_away() -> None:
    cluster = zoned("a1")
    cluster.snapshot.set_node(node("b1", labels={ZONE: "b"}, unschedulable=True))
    pod_index(cluster, a1=9)
    assert cluster.feasible(spread(rule(when="ScheduleAnyway"))) == {"a1"}


@pytest.mark.parametrize(
    ("labels", "selector", "scores"),
    [
        (WEB, WEB, {"a1": 2 * 40, "a2": 2 * 73, "b1": 200}),
        (WEB, {"app": "db"}, {"a1": 0, "a2": 0, "b1": 0}),
        ({}, WEB, {"a1": 0, "a2": 0, "b1": 0}),
    ],
)
def test_pods_of_a_service_are_spread_by_default(labels: Obj, selector: Obj, scores: dict[str, int]) -> None:
    """KEP-895: over hosts with skew 3, over zones with 5.

    Three on a1: 3·ln(3+2)+2 and 3·ln(2+2)+4 are 15 together; a2 has 2 and 8.2, b1 has 2 and 4.
    """
    cluster = zoned("a1", "a2", "b1")
    pod_index(cluster, a1=3)
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": selector}}
    cluster.snapshot.owners.set_service(None, encoded(service).view(Service))
    assert cluster.scores(pod("new", labels=labels), SPREAD) == scores


def test_a_node_without_zone_is_one_more_zone_to_the_defaults_of_the_system() -> None:
    """Three on a1, one on b1, two on a node of no zone: by hosts ln(3+2) each and 2 more, by zones ln(3+2) and 4 more;
    together 15.7, 9.2 and, by hosts alone, 5.2.
    """
    cluster = zoned("a1", "b1", "-1")
    pod_index(cluster, a1=3, b1=1, **{"-1": 2})
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}}
    cluster.snapshot.owners.set_service(None, encoded(service).view(Service))
    assert cluster.scores(pod("new", labels=WEB), SPREAD) == {"a1": 2 * 31, "b1": 2 * 75, "-1": 200}


def test_a_zone_without_a_name_is_that_of_nodes_without_a_zone() -> None:
    """To the defaults of the system: three pods on a1 and two on the nodes of no zone, one of which says so."""
    cluster = Cluster(node("a1", labels={ZONE: "a"}), node("b1", labels={ZONE: ""}), node("c1"))
    pod_index(cluster, a1=3, c1=2)
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}}
    cluster.snapshot.owners.set_service(None, encoded(service).view(Service))
    # a1: 3 ln 5 + 2 + 3 ln 4 + 4 = 15; b1: 2 + 2 ln 4 + 4 = 8.8; c1: 2 ln 5 + 2 = 5.2
    assert cluster.scores(pod("new", labels=WEB), SPREAD) == {"a1": 2 * 33, "b1": 2 * 73, "c1": 200}


def test_a_profile_has_defaults_of_its_own() -> None:
    """A hard default holds for pods that something selects, and for no others."""
    default = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultingType": "List", "defaultConstraints": [default]}
    config = load({"profiles": [{"pluginConfig": [{"name": SPREAD, "args": args}]}]})
    cluster = Cluster(profile=config.profiles[0])
    for name in ("a1", "b1"):
        cluster.snapshot.set_node(encoded(node_obj(name, labels={ZONE: name[0]})).view(Node))
    pod_index(cluster, a1=1)
    assert cluster.feasible(pod("new", labels=WEB)) == {"a1", "b1"}
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}}
    cluster.snapshot.owners.set_service(None, encoded(service).view(Service))
    assert cluster.feasible(pod("new", labels=WEB)) == {"b1"}
    assert cluster.feasible(pod("new")) == {"a1", "b1"}
    own = [rule(9)]
    assert cluster.feasible(spread(*own)) == {"a1", "b1"}
