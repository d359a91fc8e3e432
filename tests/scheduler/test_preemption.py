"""Whom preemption drives away and where: S3-17 to S3-31."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Pod
from fairlead.scheduler.framework import NoRoom
from fairlead.scheduler.plugins.default_preemption import EnoughCandidates
from tests.scheduler.preemption_world import HOST, Layout, apart, app, budget, laid_out, minute, outcome
from tests.scheduler.scheduler_world import Cluster, Obj, node, pod, pod_obj

ZONE = "topology.kubernetes.io/zone"
TOO_SKEWED = "node(s) didn't match pod topology spread constraints"
ADVICE = "no new claims to deallocate, preemption:"


def advice(cluster: Cluster, preemptor: Pod, nominated: str = "") -> str:
    """Why nobody is driven away."""
    request = replace(cluster.request(preemptor), nominated=nominated)
    found = cluster.runtime.post_filter(preemptor, request, cluster.decider.diagnose(request))
    assert isinstance(found, NoRoom)
    return found.message


# --- on one node ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "wanted", "victims"),
    [
        ({"low": (0, 4)}, 1, {"low"}),
        ({"equal": (5, 4)}, 1, set()),
        ({"higher": (6, 4)}, 1, set()),
        ({"low": (0, 2), "equal": (5, 2)}, 2, {"low"}),
        ({"low": (0, 2), "equal": (5, 2)}, 3, set()),
        # Only as many as must, the least important of them.
        ({"lower": (0, 1), "low": (1, 1), "higher": (2, 2)}, 1, {"lower"}),
        ({"lower": (0, 1), "low": (1, 1), "higher": (2, 2)}, 2, {"lower", "low"}),
        # Room is given back to the most important first, even if one small pod would have been enough.
        ({"big": (1, 3), "small": (0, 1)}, 1, {"small"}),
        ({"big": (0, 3), "small": (1, 1)}, 1, {"big"}),
        ({"big": (1, 3), "small": (0, 1)}, 2, {"big"}),
    ],
)
def test_the_least_important_leave_and_no_more_than_must(
    pods: dict[str, tuple[int, int]], wanted: int, victims: set[str]
) -> None:
    """S3-18, S3-19."""
    cluster = laid_out({"n1": pods})
    assert outcome(cluster, pod(priority=5, cpu=wanted)) == ("n1" if victims else "", victims)


def test_among_equals_the_youngest_leaves() -> None:
    """S3-19: who has run for longer is more important, and who has not started yet is the least."""
    cluster = Cluster(node(cpu=3))
    for name, status in (("waiting", {}), ("young", minute(2)), ("old", minute(1))):
        cluster.place(pod(name, cpu=1, status=status), "n1")
    assert outcome(cluster, pod(priority=1, cpu=1)) == ("n1", {"waiting"})
    assert outcome(cluster, pod(priority=1, cpu=2)) == ("n1", {"waiting", "young"})


def test_slots_and_host_ports_are_freed_too() -> None:
    crowded = laid_out({"n1": {"a": (0, 1), "b": (1, 1)}}, pods=2)
    assert outcome(crowded, pod(priority=5)) == ("n1", {"a"})
    ports = Cluster(node())
    ports.place(pod("holder", ports=[80]), "n1")
    ports.place(pod("other", ports=[81]), "n1")
    assert outcome(ports, pod(priority=5, ports=[80])) == ("n1", {"holder"})


def test_a_host_port_that_two_hold_is_free_when_one_leaves() -> None:
    """Upstream keeps a set of ports; so who is of lower priority leaves, although the other still holds the port."""
    cluster = Cluster(node())
    cluster.place(pod("high", priority=9, ports=[80]), "n1")
    cluster.place(pod("low", ports=[80]), "n1")
    assert outcome(cluster, pod(priority=5, ports=[80])) == ("n1", {"low"})
    cluster.place(pod("lower", priority=-1, ports=[80]), "n1")
    assert outcome(cluster, pod(priority=5, ports=[80])) == ("n1", {"low", "lower"})
    assert cluster.feasible(pod(ports=[80])) == set()
    cluster.snapshot.remove("default/low")
    assert cluster.feasible(pod(ports=[80])) == {"n1"}


def test_who_keeps_the_pod_away_leaves() -> None:
    cluster = Cluster(node())
    cluster.place(pod("shy", affinity=apart({"app": "web"})), "n1")
    cluster.place(pod("web", labels={"app": "web"}), "n1")
    cluster.place(pod("bystander"), "n1")
    assert outcome(cluster, pod(priority=5, labels={"app": "web"})) == ("n1", {"shy"})
    assert outcome(cluster, pod(priority=5, affinity=apart({"app": "web"}))) == ("n1", {"web"})


def test_who_makes_the_domain_too_full_leaves() -> None:
    cluster = Cluster(node("a1", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"}, cpu=1))
    for index in range(2):
        cluster.place(pod(f"w{index}", labels={"app": "web"}, status=minute(index)), "a1")
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app("web")}
    preemptor = pod(priority=5, cpu=2, labels={"app": "web"}, topologySpreadConstraints=[rule])
    assert outcome(cluster, preemptor) == ("a1", {"w0", "w1"})


def test_who_goes_away_anyway_makes_a_domain_less_full_once_more_when_it_leaves() -> None:
    """It is not counted, and taking it away counts one less all the same (updateWithPod asks for no deletion)."""
    cluster = Cluster(node("a1", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"}, cpu=1))
    cluster.place(pod("high", priority=9, labels={"app": "web"}), "a1")
    going = pod_obj("going", labels={"app": "web"})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.place(encoded(going).view(Pod), "a1")
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app("web")}
    preemptor = pod(priority=5, cpu=2, labels={"app": "web"}, topologySpreadConstraints=[rule])
    assert outcome(cluster, preemptor) == ("a1", {"going"})
    assert cluster.feasible(preemptor) == set()


def test_what_was_found_for_a_node_is_found_anew_when_it_changes() -> None:
    """Plans are kept for the next preemptor of the kind."""
    cluster, preemptor = laid_out({"n1": {"a": (0, 2), "b": (1, 2)}}), pod(priority=5, cpu=3)
    assert outcome(cluster, preemptor) == ("n1", {"a", "b"})
    cluster.snapshot.set_node(node("n1", cpu=5))
    assert outcome(cluster, preemptor) == ("n1", {"a"})
    cluster.place(pod("c", priority=2, cpu=1), "n1")
    assert outcome(cluster, preemptor) == ("n1", {"a", "b"})


# --- which node -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "wanted", "node_name"),
    [
        # The least important of the most important victims, however many they are.
        ({"n1": {"a": (2, 4)}, "n2": {"b": (1, 1), "c": (1, 1), "d": (1, 2)}}, 4, "n2"),
        # The smallest sum, to which every victim adds 2^31: so usually the fewest.
        ({"n1": {"a": (1, 4)}, "n2": {"b": (1, 2), "c": (0, 2)}}, 4, "n1"),
        ({"n1": {"a": (1, 2), "b": (1, 2)}, "n2": {"c": (1, 2), "d": (0, 2)}}, 4, "n2"),
        # Where nobody of lower priority is there is no candidate.
        ({"n1": {"a": (5, 4)}, "n2": {"b": (4, 4)}}, 4, "n2"),
    ],
)
def test_the_node_with_the_least_harm_is_chosen(layout: Layout, wanted: int, node_name: str) -> None:
    """S3-21."""
    assert outcome(laid_out(layout), pod(priority=5, cpu=wanted))[0] == node_name


def test_three_victims_of_the_lowest_priorities_weigh_less_than_two() -> None:
    """S3-21: the sum of priority + 2^31 comes before the number of victims."""
    lowest = -(2**31)
    cluster = laid_out({"n1": {"a": (0, 2), "b": (0, 2)}, "n2": {"c": (0, 1), "d": (lowest, 1), "e": (lowest, 2)}})
    assert outcome(cluster, pod(priority=5, cpu=4))[0] == "n2"


def test_where_the_longest_running_started_latest_is_chosen() -> None:
    """S3-21: among the most important victims of each node the earliest start counts."""
    cluster = Cluster(node("n1"), node("n2"), node("n3"))
    starts = {"n1": (5, 9), "n2": (6, 7), "n3": (1, 30)}
    for name, minutes in starts.items():
        for number in minutes:
            cluster.place(pod(f"{name}-{number}", cpu=2, status=minute(number)), name)
        cluster.place(pod(f"{name}-low", priority=-1, status=minute(0)), name)
    assert outcome(cluster, pod(priority=1, cpu=4))[0] == "n2"


@pytest.mark.parametrize(
    ("wanted", "node_name", "head"),
    [
        ({"cpu": 5}, "", "2 Insufficient cpu"),
        ({"cpu": 1, "nodeSelector": {HOST: "n2"}}, "n2", "1 Insufficient cpu"),
        ({"cpu": 1, "nodeSelector": {HOST: "n3"}}, "", "2 node(s) didn't match Pod's node affinity/selector"),
    ],
)
def test_nodes_that_no_leaving_can_help_are_no_candidates(wanted: Obj, node_name: str, head: str) -> None:
    """S3-20."""
    cluster = laid_out({"n1": {"a": (0, 4)}, "n2": {"b": (1, 4)}})
    preemptor = pod(priority=5, **wanted)
    assert outcome(cluster, preemptor)[0] == node_name
    assert cluster.message(preemptor).startswith(f"0/2 nodes are available: {head}")
    if not node_name:
        assert advice(cluster, preemptor) == (
            f"{ADVICE} 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )


@pytest.mark.parametrize("more", [{"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoSchedule"}]}])
def test_cordoned_and_tainted_nodes_are_no_candidates(more: Obj) -> None:
    """S3-20."""
    assert outcome(laid_out({"n1": {"a": (0, 4)}}, **more), pod(priority=5, cpu=1)) == ("", set())


def test_nobody_leaves_for_a_pod_that_is_kept_away_from_another_node() -> None:
    """S3-30: the replay; the other node of the zone does not match the selector."""
    labels = {ZONE: "z"}
    cluster = Cluster(node("n1", labels=labels | {"for": "p"}), node("n2", labels=labels))
    cluster.place(pod("q", labels={"app": "q"}), "n2")
    preemptor = pod("p", priority=5, nodeSelector={"for": "p"}, affinity=apart({"app": "q"}, ZONE))
    assert cluster.message(preemptor, whole=True) == (
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) didn't match pod anti-affinity rules. "
        f"{ADVICE} 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )
    cluster.snapshot.remove("default/q")
    assert cluster.feasible(preemptor) == {"n1"}


@pytest.mark.parametrize(
    ("leaver", "wanted", "refused", "lacking"),
    [
        # Its leaving frees the port, and would still leave the zone too full.
        (
            pod("low", priority=-1, ports=[80]),
            {"ports": [80]},
            "node(s) didn't have free ports for the requested pod ports",
            TOO_SKEWED,
        ),
        # Two plugins refuse; the first one speaks.
        (None, {"affinity": apart({"app": "q"}, ZONE)}, TOO_SKEWED, "No preemption victims found for incoming pod"),
        (pod("low", priority=-1), {"affinity": apart({"app": "q"}, ZONE)}, TOO_SKEWED, TOO_SKEWED),
    ],
)
def test_nobody_leaves_for_a_pod_going_away_that_would_stay_one_too_many(
    leaver: Pod | None, wanted: Obj, refused: str, lacking: str
) -> None:
    """Whether it goes away itself or not, by its own constraint the newcomer counts."""
    cluster = Cluster(node("n1", labels={ZONE: "z"}))
    cluster.place(pod("q", labels={"app": "q"}), "n1")
    if leaver is not None:
        cluster.place(leaver, "n1")
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    going = pod_obj(
        "new", labels={"app": "q"}, topologySpreadConstraints=[rule | {"labelSelector": app("q")}], **wanted
    )
    for metadata in ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}):
        newcomer = encoded(going | {"metadata": going["metadata"] | metadata}).view(Pod)
        assert cluster.message(newcomer, whole=True) == (
            f"0/1 nodes are available: 1 {refused}. {ADVICE} 0/1 nodes are available: 1 {lacking}."
        )


def test_a_node_where_not_even_all_leaving_helps_says_what_would_still_be_lacking() -> None:
    cluster = laid_out({"n1": {"low": (0, 1), "high": (9, 3)}})
    assert advice(cluster, pod(priority=5, cpu=2)) == f"{ADVICE} 0/1 nodes are available: 1 Insufficient cpu."


# --- who may --------------------------------------------------------------------------------------------------------


def test_who_never_preempts_waits() -> None:
    """S3-10, S3-13."""
    cluster = laid_out({"n1": {"low": (0, 4)}})
    never = pod(priority=5, cpu=1, preemptionPolicy="Never")
    assert advice(cluster, never) == f"{ADVICE} not eligible due to preemptionPolicy=Never."
    assert outcome(cluster, pod(priority=5, cpu=1, preemptionPolicy="PreemptLowerPriority"))[0] == "n1"
    cluster = Cluster(node(cpu=1))
    cluster.place(never, "n1")
    assert outcome(cluster, pod("higher", priority=6, cpu=1)) == ("n1", {"w"})  # S3-12


@pytest.mark.parametrize(
    ("reason", "priority", "nominated", "waits"),
    [
        ("PreemptionByScheduler", 0, "n1", True),
        ("EvictionByEvictionAPI", 0, "n1", False),
        ("PreemptionByScheduler", 0, "", False),
        ("PreemptionByScheduler", 5, "n1", False),
    ],
)
def test_nobody_else_leaves_while_earlier_victims_are_going(
    reason: str, priority: int, nominated: str, waits: bool
) -> None:
    """S3-27."""
    cluster = Cluster(node(cpu=3))
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    going = pod_obj("going", priority=priority, cpu=1, status={"conditions": [condition]})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.place(encoded(going).view(Pod), "n1")
    cluster.place(pod("low", cpu=2), "n1")
    preemptor = pod(priority=5, cpu=2)
    request = replace(cluster.request(preemptor), nominated=nominated)
    found = cluster.runtime.post_filter(preemptor, request, cluster.decider.diagnose(request))
    assert isinstance(found, NoRoom) is waits
    if waits:
        assert (
            advice(cluster, preemptor, "n1") == f"{ADVICE} not eligible due to a terminating pod on the nominated node."
        )


# --- budgets --------------------------------------------------------------------------------------------------------


def guarded(*budgets: Obj, layout: dict[str, list[tuple[str, int, Obj]]] | None = None) -> Cluster:
    """Two nodes with one pod each: `a` of lower priority on n1, `b` on n2; labels are the pod's name as app."""
    chosen = layout or {"n1": [("a", 0, {"app": "a"})], "n2": [("b", 1, {"app": "b"})]}
    cluster = Cluster(*(node(name) for name in chosen))
    for name, pods in chosen.items():
        for key, priority, labels in pods:
            cluster.place(pod(key, priority=priority, cpu=4 // len(pods), labels=labels), name)
    for limit in budgets:
        cluster.snapshot.budgets.set(None, encoded(limit).view(PodDisruptionBudget))
    return cluster


@pytest.mark.parametrize(
    ("budgets", "node_name"),
    [
        ([], "n1"),
        ([budget("x", 0, app("a"))], "n2"),
        ([budget("x", 1, app("a"))], "n1"),
        ([budget("x", 0, app("a")), budget("y", 0, app("b"))], "n1"),
        ([budget("x", 0, app("c"))], "n1"),
        ([budget("x", 0, {})], "n1"),
        ([budget("x", 0, None)], "n1"),
        ([budget("x", 0, app("a"), disrupted=("a",))], "n1"),
        ([budget("x", 0, app("a")) | {"metadata": {"name": "x", "namespace": "other"}}], "n1"),
    ],
)
def test_fewest_violated_budgets_come_first_and_none_protects_for_good(budgets: list[Obj], node_name: str) -> None:
    """S3-21, S3-29, S3-106: an empty selector protects nobody."""
    assert outcome(guarded(*budgets), pod(priority=5, cpu=4))[0] == node_name


def test_who_is_protected_gets_room_back_before_who_is_more_important() -> None:
    """S3-19."""
    layout = {"n1": [("a", 0, {"app": "a"}), ("b", 1, {"app": "b"})]}
    preemptor = pod(priority=5, cpu=2)
    assert outcome(guarded(layout=layout), preemptor) == ("n1", {"a"})
    assert outcome(guarded(budget("x", 0, app("a")), layout=layout), preemptor) == ("n1", {"b"})


def test_a_budget_allows_so_many_the_most_important_first() -> None:
    """The first of the two is within the budget, the second is not, and is spared therefore."""
    layout = {"n1": [("a", 1, {"app": "x"}), ("b", 0, {"app": "x"})]}
    assert outcome(guarded(budget("x", 1, app("x")), layout=layout), pod(priority=5, cpu=2)) == ("n1", {"a"})


def test_a_budget_that_changes_or_goes_is_heard_of() -> None:
    cluster, preemptor = guarded(), pod(priority=5, cpu=4)
    strict, lax = (encoded(budget("x", allowed, app("a"))).view(PodDisruptionBudget) for allowed in (0, 1))
    nodes = [outcome(cluster, preemptor)[0]]
    for old, new in ((None, strict), (strict, lax), (lax, strict), (strict, None)):
        cluster.snapshot.budgets.set(old, new)
        nodes.append(outcome(cluster, preemptor)[0])
    assert nodes == ["n1", "n2", "n1", "n2", "n1"]


# --- many nodes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ports", "guarded_by", "count"),
    [
        ([80], None, 12),
        ([80], 1, 12),
        ([80], 0, 40),  # one whose budget allows it might be left
        ([], None, 40),  # arithmetic is quick
    ],
)
def test_enough_candidates_are_enough_where_every_filter_is_asked(
    ports: list[int], guarded_by: int | None, count: int
) -> None:
    """GetOffsetAndNumCandidates, DryRunPreemption."""
    cluster = Cluster(*(node(f"n{number}") for number in range(40)))
    for number in range(40):
        cluster.place(pod(f"p{number}", cpu=4, ports=ports, labels={"app": "p"}), f"n{number}")
    if guarded_by is not None:
        limit = encoded(budget("x", guarded_by, app("p"))).view(PodDisruptionBudget)
        cluster.snapshot.budgets.set(None, limit)
    newcomer = pod(priority=5, cpu=1, ports=ports)
    request = cluster.request(newcomer)
    found, enough = cluster.decider.diagnose(request), EnoughCandidates(percentage=30, absolute=5)
    search = cluster.runtime.preemptor.search(newcomer, request, found, enough)
    assert not isinstance(search, NoRoom)
    search.go_on()
    assert len(search.rows) == count
