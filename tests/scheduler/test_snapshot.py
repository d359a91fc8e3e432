"""The scheduler's belief about the cluster: assumed pods count, forgotten ones do not, and caches never lag."""

from __future__ import annotations

import tracemalloc
from weakref import ref

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead.scheduler.columns import Amounts
from fairlead.scheduler.decide import Chosen, Unfit
from tests.scheduler.scheduler_world import Cluster, node, pod
from tests.work import calls


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


def test_images_that_a_node_still_has_are_not_looked_at_again() -> None:
    images = {f"image-{number}": 1 for number in range(1000)}
    first, second = node("n1", images=images), node("n1", images=images, labels={"a": "b"})
    cluster = Cluster(first)
    assert calls(lambda: cluster.snapshot.set_node(second)) < 500
    cluster.snapshot.set_node(node("n1", images={"image-1": 1}))
    assert cluster.snapshot.images.get("image-0") is None
    assert cluster.snapshot.images.get("image-1") is not None


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


def test_pods_too_long_to_be_worth_remembering_share_their_requirements_while_they_are_there() -> None:
    """What strangers send does not fill the memory, and a pod that changes is not worked out each time."""
    cluster = Cluster(node("n1", cpu=1, taints=[{"key": "k1999", "effect": "NoSchedule"}]))
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(2000)]
    first, second = (pod(name, cpu=1, tolerations=tolerations) for name in ("a", "b"))
    found = cluster.requirements(first)
    assert cluster.requirements(second) is found
    unused = ref(found)
    del found
    assert unused() is None
    assert cluster.feasible(first) == {"n1"}
    cluster.place(first, "n1")
    cluster.place(first, "n1")  # told twice, counted once
    assert cluster.feasible(second) == set()
    cluster.snapshot.remove("default/a")
    assert cluster.feasible(second) == {"n1"}


def test_what_pods_name_and_no_node_has_leaves_nothing() -> None:
    """Each label and resource that a stranger's pods named had been a column over all nodes, for ever."""
    cluster = Cluster(node("n1", labels={"zone": "a"}), node("n2"))
    snapshot = cluster.snapshot
    for number in range(3):
        assert cluster.feasible(pod(nodeSelector={f"key-{number}": "x"})) == set()
    assert cluster.feasible(pod(gpu=1)) == set()
    assert snapshot.labels("key-1") is snapshot.labels("key-2")
    assert snapshot.allocatable["test.dev/gpu"] is snapshot.allocatable["example.com/other"]
    cluster.place(pod("a", gpu=1), "n1")
    assert snapshot.requested["test.dev/gpu"].sum() == 1
    snapshot.remove("default/a")
    assert snapshot.requested["test.dev/gpu"] is snapshot.requested["example.com/other"]


def test_nothing_of_a_resource_costs_nothing() -> None:
    """A placed pod may request none of thousands of them; and where a device plugin is gone, a node offers none."""
    cluster = Cluster(node("n1", gpu=0))
    snapshot, nothing = cluster.snapshot, cluster.snapshot.requested["example.com/other"]
    cluster.place(pod("a", gpu=0), "n1")
    assert snapshot.requested["test.dev/gpu"] is nothing
    assert snapshot.allocatable["test.dev/gpu"] is snapshot.allocatable["example.com/other"]
    snapshot.remove("default/a")
    assert snapshot.requested["test.dev/gpu"] is nothing


def test_a_label_that_comes_and_goes() -> None:
    cluster = Cluster(node("n1"), node("n2"))
    selected = pod(nodeSelector={"zone": "a"})
    assert cluster.feasible(selected) == set()
    cluster.snapshot.set_node(node("n2", labels={"zone": "a"}))
    assert cluster.feasible(selected) == {"n2"}
    cluster.snapshot.set_node(node("n1", labels={"zone": "a"}))
    cluster.snapshot.set_node(node("n2", labels={"zone": "b"}))
    assert cluster.feasible(selected) == {"n1"}
    cluster.snapshot.set_node(node("n1"))
    cluster.snapshot.remove_node("n2")
    assert cluster.feasible(selected) == set()


def test_values_that_nodes_had_once_are_forgotten() -> None:
    """Names of nodes that an autoscaler has made, and the times of taints."""
    cluster = Cluster(node("n1", labels={"tier": "x"}))
    snapshot = cluster.snapshot
    for number in range(1000):
        taint = {"key": "k", "effect": "NoExecute", "timeAdded": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"}
        snapshot.set_node(node("n1", labels={"tier": f"v{number}"}, taints=[taint]))
        assert cluster.feasible(pod(nodeSelector={"tier": f"v{number}"}, tolerations=[{"operator": "Exists"}])) == {
            "n1"
        }
    assert len(snapshot.labels("tier").values) < 200
    assert len(snapshot.taints.values) < 200


def test_resources_that_few_pods_make_up_take_memory_by_pod_and_not_by_node() -> None:
    """One pod of a thousand names, put on a node by `nodeName`, had taken a column over all nodes for each of them."""
    cluster = Cluster(*(node(f"n{number}") for number in range(1_000)))
    tracemalloc.start()
    requests = {f"example.com/r{number}": "1" for number in range(1_000)}
    cluster.place(pod("a", containers=[{"name": "app", "image": "a", "resources": {"requests": requests}}]), "n1")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2_000_000  # 8 MB a list of such columns, and there were two


@given(
    st.lists(st.tuples(st.integers(0, 255), st.sampled_from("ab"), st.integers(1, 1 << 62), st.booleans()), max_size=60)
)
def test_amounts_add_up_however_many_rows_have_some(changes: list[tuple[int, str, int, bool]]) -> None:
    amounts, expected = Amounts(128), {name: np.zeros(256, dtype=np.int64) for name in "ab"}
    for position, (row, name, amount, comes) in enumerate(changes):
        if position == 20:
            amounts.grow(256)
        row %= 128 if position < 20 else 256
        sign = 1 if comes else -1
        with np.errstate(over="ignore"):
            amounts.add(row, {name: amount}, sign)
            expected[name][row] += sign * amount
    size = 256 if len(changes) > 20 else 128
    assert {name: amounts[name].tolist() for name in "ab"} == {name: expected[name][:size].tolist() for name in "ab"}
    assert set(amounts) == {name for name in "ab" if expected[name].any()}
