"""The scheduler's belief about the cluster: assumed pods count, forgotten ones do not, and caches never lag."""

from __future__ import annotations

from fairlead.scheduler.decide import Chosen, Unfit
from tests.scheduler.scheduler_world import Cluster, node, pod


def test_an_assumed_pod_takes_room_until_it_is_forgotten() -> None:
    cluster = Cluster(node(cpu=1))
    first = pod("a", cpu=1)
    decision = cluster.decide(first)
    assert isinstance(decision, Chosen)
    cluster.assume(first, decision.row)
    assert isinstance(cluster.decide(pod("b", cpu=1)), Unfit)
    assert cluster.snapshot.forget("default/a", "uid-a")
    assert isinstance(cluster.decide(pod("b", cpu=1)), Chosen)


def test_a_confirmed_pod_is_not_forgotten() -> None:
    """The server's word stands, whatever an answer that was lost seemed to say."""
    cluster = Cluster(node(cpu=1))
    first = pod("a", cpu=1)
    cluster.assume(first, 0)
    cluster.place(first, "n1")
    assert not cluster.snapshot.forget("default/a", "uid-a")
    assert isinstance(cluster.decide(pod("b", cpu=1)), Unfit)


def test_a_pod_bound_elsewhere_than_assumed_moves() -> None:
    cluster = Cluster(node("n1", cpu=1), node("n2", cpu=1))
    first = pod("a", cpu=1)
    cluster.assume(first, 0)
    cluster.place(first, "n2")
    assert cluster.feasible(pod("b", cpu=1)) == {"n1"}


def test_pods_of_an_unknown_node_count_when_it_appears() -> None:
    """Pods and nodes come from different watches, in any order."""
    cluster = Cluster(node("n2", cpu=1))
    cluster.place(pod("a", cpu=1), "n1")
    cluster.snapshot.set_node(node("n1", cpu=1))
    assert cluster.feasible(pod("b", cpu=1)) == {"n2"}


def test_pods_outlive_their_node_and_count_when_it_returns() -> None:
    cluster = Cluster(node("n1", cpu=1))
    cluster.place(pod("a", cpu=1), "n1")
    cluster.snapshot.remove_node("n1")
    assert cluster.message(pod("b"), whole=True) == "no nodes available to schedule pods"
    cluster.snapshot.set_node(node("n1", cpu=1))
    assert cluster.feasible(pod("b", cpu=1)) == set()
    cluster.snapshot.remove("default/a")
    assert cluster.feasible(pod("b", cpu=1)) == {"n1"}


def test_a_row_that_is_used_again_keeps_nothing_of_the_node_before() -> None:
    cluster = Cluster(node("n1", gpu=1, unschedulable=True, labels={"a": "1"}), node("n2"))
    selected = pod(nodeSelector={"a": "1"}, gpu=1, tolerations=[{"operator": "Exists"}])
    assert cluster.feasible(selected) == {"n1"}
    cluster.snapshot.remove_node("n1")
    cluster.snapshot.set_node(node("n3"))
    assert cluster.feasible(selected) == set()
    assert cluster.feasible(pod()) == {"n2", "n3"}


def test_columns_grow_with_the_cluster() -> None:
    cluster = Cluster(node("n0"))
    assert cluster.feasible(pod(nodeSelector={"a": "1"})) == set()
    for number in range(1, 200):
        cluster.snapshot.set_node(node(f"n{number}", labels={"a": "1"}))
    assert len(cluster.feasible(pod(nodeSelector={"a": "1"}))) == 199


def test_cached_answers_survive_a_forgotten_journal() -> None:
    """Requirements that were not seen for long are asked about everything again."""
    cluster = Cluster(node("n1", cpu=1), node("n2", cpu=2))
    assert cluster.feasible(pod(cpu=1)) == {"n1", "n2"}
    for _ in range(500):
        cluster.place(pod("a", cpu=1), "n1")
        cluster.snapshot.remove("default/a")
    cluster.place(pod("a", cpu=1), "n1")
    assert cluster.feasible(pod(cpu=1)) == {"n2"}


def test_pods_of_one_template_share_their_requirements() -> None:
    """Names, environments and token volumes differ; what decides does not."""
    cluster = Cluster()
    template = {"cpu": 1, "volumes": [{"name": "kube-api-access-abcde"}], "hostname": "x"}
    first, second = pod("a", **template), pod("b", **template | {"volumes": [{"name": "kube-api-access-vwxyz"}]})
    assert cluster.requirements(first) is cluster.requirements(second)
    assert cluster.requirements(first) is not cluster.requirements(pod("c", cpu=2))


def test_pods_too_long_to_be_worth_remembering_are_decided_about_all_the_same() -> None:
    """What strangers send does not fill the memory: each such pod is worked out by itself."""
    cluster = Cluster(node("n1", cpu=1, taints=[{"key": "k1999", "effect": "NoSchedule"}]))
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(2000)]
    first, second = (pod(name, cpu=1, tolerations=tolerations) for name in ("a", "b"))
    assert cluster.requirements(first) is not cluster.requirements(second)
    assert cluster.feasible(first) == {"n1"}
    cluster.place(first, "n1")
    cluster.place(first, "n1")  # told twice, counted once
    assert cluster.feasible(second) == set()
    cluster.snapshot.remove("default/a")
    assert cluster.feasible(second) == {"n1"}
