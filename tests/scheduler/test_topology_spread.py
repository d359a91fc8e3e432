"""Where a pod may go, and where it would rather be, by how pods are spread (PodTopologySpread)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Node, Pod
from fairlead.api.services import Service
from fairlead.scheduler.cluster_events import node_changed
from fairlead.scheduler.configuration import load
from fairlead.scheduler.framework import ClusterEvent, EventKind
from fairlead.scheduler.plugins.pod_relations.topology_spread import PodTopologySpread
from tests.scheduler.pods_in_zones import WEB, ZONE, in_namespace, near, term, terminating, zoned
from tests.scheduler.scheduler_world import Cluster, Obj, node, node_obj, pod
from tests.work import calls

NOT_NEAR = "node(s) didn't match pod affinity rules"
SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{SKEWED} (missing required label)"
SPREAD = "PodTopologySpread"
HOST = "kubernetes.io/hostname"


# --- what must be ---------------------------------------------------------------------------------------------------


def rule(skew: int = 1, key: str = ZONE, when: str = "DoNotSchedule", **more: Any) -> Obj:
    chosen = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when}
    return chosen | {"labelSelector": {"matchLabels": WEB}} | more


def spread(*rules: Obj, **more: Any) -> Pod:
    return pod("new", **({"labels": WEB} | more), topologySpreadConstraints=list(rules))


def populate(cluster: Cluster, **counts: int) -> None:
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
    populate(cluster, a1=3, b1=1)
    assert cluster.feasible(spread(*rules)) == feasible


def test_a_newcomer_that_its_own_rule_does_not_count_adds_nothing() -> None:
    cluster = zoned("a1", "b1")
    populate(cluster, a1=1)
    assert cluster.feasible(spread(rule())) == {"b1"}
    assert cluster.feasible(spread(rule(), labels={})) == {"a1", "b1"}


@pytest.mark.parametrize("when", ["DoNotSchedule", "ScheduleAnyway"])
def test_of_many_labels_that_no_node_has_the_first_decides(when: str) -> None:
    """A pod may have thousands of rules; a node has not as many labels."""
    cluster, works = zoned("a1", "b1"), list[int]()
    plugin = PodTopologySpread()
    for count in (1, 100):
        request = cluster.request(spread(*(rule(key=f"rack{number}", when=when) for number in range(count))))
        ask = plugin.filter if when == "DoNotSchedule" else plugin.score
        rows = cluster.snapshot.rows()
        assert not ask(request, cluster.snapshot, rows).any()
        works.append(calls(partial(ask, request, cluster.snapshot, rows)))
    assert works[1] < 100 * works[0] / 2


def test_a_rule_without_selector_counts_nobody() -> None:
    cluster = zoned("a1", "b1")
    populate(cluster, a1=5)
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
    populate(cluster, a1=1)
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
    populate(cluster, a1=1, b1=1)
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
    populate(cluster, a1=1, b1=1)
    assert cluster.feasible(spread(rule(**policies), nodeSelector=ssd)) == feasible


@pytest.mark.parametrize(
    ("policies", "feasible"),
    [({}, set()), ({"nodeTaintsPolicy": "Ignore"}, set()), ({"nodeTaintsPolicy": "Honor"}, {"a1", "b1"})],
)
def test_tainted_nodes_count_unless_taints_are_honoured(policies: Obj, feasible: set[str]) -> None:
    taint = {"key": "team", "value": "red", "effect": "NoSchedule"}
    cluster = zoned("a1", "b1")
    cluster.snapshot.set_node(node("c1", labels={ZONE: "c"}, taints=[taint]))
    populate(cluster, a1=1, b1=1)
    assert cluster.feasible(spread(rule(**policies))) == feasible
    tolerant = spread(rule(**policies), tolerations=[{"operator": "Exists"}])
    assert cluster.feasible(tolerant) == {"c1"}


def test_nodes_that_lack_one_of_the_labels_count_for_no_rule() -> None:
    cluster = zoned("a1", "-1")
    cluster.snapshot.set_node(node("b1", labels={ZONE: "b"}))
    populate(cluster, **{"-1": 2, "b1": 1})
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
    populate(cluster, a1=1)
    cluster.snapshot.set_node(node("b1", labels={ZONE: "b"}, unschedulable=True))
    assert cluster.message(spread(rule()), whole=True) == (
        f"0/3 nodes are available: 1 {SKEWED}, 1 {NO_LABEL}, 1 node(s) were unschedulable. "
        "no new claims to deallocate, preemption: 0/3 nodes are available: "
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )


def test_spread_speaks_before_affinity() -> None:
    cluster = zoned("a1", "b1")
    populate(cluster, a1=1)
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


# --- what should be -------------------------------------------------------------------------------------------------


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
    populate(cluster, a1=3, b1=1)
    soft = [constraint | {"whenUnsatisfiable": "ScheduleAnyway"} for constraint in rules]
    assert cluster.scores(spread(*soft), SPREAD) == scores


def test_nodes_that_lack_a_label_are_ignored_and_get_nothing() -> None:
    cluster = zoned("a1", "b1", "-1")
    populate(cluster, a1=1, **{"-1": 9})
    soft = spread(rule(when="ScheduleAnyway"), rule(when="ScheduleAnyway", key=HOST))
    assert cluster.scores(soft, SPREAD) == {"a1": 0, "b1": 200, "-1": 0}


def test_a_soft_rule_keeps_nobody_away() -> None:
    cluster = zoned("a1")
    cluster.snapshot.set_node(node("b1", labels={ZONE: "b"}, unschedulable=True))
    populate(cluster, a1=9)
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
    populate(cluster, a1=3)
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": selector}}
    cluster.snapshot.owners.set_service(None, encoded(service).view(Service))
    assert cluster.scores(pod("new", labels=labels), SPREAD) == scores


def test_a_node_without_zone_is_one_more_zone_to_the_defaults_of_the_system() -> None:
    """Three on a1, one on b1, two on a node of no zone: by hosts ln(3+2) each and 2 more, by zones ln(3+2) and 4 more;
    together 15.7, 9.2 and, by hosts alone, 5.2.
    """
    cluster = zoned("a1", "b1", "-1")
    populate(cluster, a1=3, b1=1, **{"-1": 2})
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}}
    cluster.snapshot.owners.set_service(None, encoded(service).view(Service))
    assert cluster.scores(pod("new", labels=WEB), SPREAD) == {"a1": 2 * 31, "b1": 2 * 75, "-1": 200}


def test_a_zone_without_a_name_is_that_of_nodes_without_a_zone() -> None:
    """To the defaults of the system: three pods on a1 and two on the nodes of no zone, one of which says so."""
    cluster = Cluster(node("a1", labels={ZONE: "a"}), node("b1", labels={ZONE: ""}), node("c1"))
    populate(cluster, a1=3, c1=2)
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
    populate(cluster, a1=1)
    assert cluster.feasible(pod("new", labels=WEB)) == {"a1", "b1"}
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}}
    cluster.snapshot.owners.set_service(None, encoded(service).view(Service))
    assert cluster.feasible(pod("new", labels=WEB)) == {"b1"}
    assert cluster.feasible(pod("new")) == {"a1", "b1"}
    own = [rule(9)]
    assert cluster.feasible(spread(*own)) == {"a1", "b1"}
