"""What fits into a node, and which node is the better one, by what pods request."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.scheduler.columns import Amounts, Ints
from tests.scheduler.scheduler_world import Cluster, node, pod

FIT, BALANCED = "NodeResourcesFit", "NodeResourcesBalancedAllocation"


def test_requests_fill_a_node_to_the_last_unit() -> None:
    """S0-50, S0-51: requests against allocatable, limits and usage ignored."""
    cluster = Cluster(node(cpu=1, memory="3Gi"))
    for name in "abc":
        assert cluster.feasible(pod(cpu="300m", memory="1Gi"))
        cluster.place(pod(name, cpu="300m", memory="1Gi"), "n1")
    assert cluster.message(pod(cpu="100m", memory="1")) == "0/1 nodes are available: 1 Insufficient memory."
    assert cluster.feasible(pod(cpu="100m")) == {"n1"}
    assert cluster.feasible(pod(cpu="101m")) == set()


def test_the_last_ninety_milli_fit_and_ninety_one_do_not() -> None:
    """S0-73, S0-74."""
    cluster = Cluster(node(cpu=1, memory="3711Mi"))
    cluster.place(pod("used", cpu="910m", memory="2370Mi"), "n1")
    assert cluster.feasible(pod(cpu="90m", memory="1341Mi")) == {"n1"}
    assert cluster.feasible(pod(cpu="91m")) == cluster.feasible(pod(memory="1342Mi")) == set()


def test_every_lacking_resource_is_told() -> None:
    """S0-69: reasons are sorted as texts, each with its count of nodes."""
    cluster = Cluster(node("n1", cpu=1, memory="1Gi"), node("n2", memory="1Gi"))
    assert cluster.message(pod(cpu=2, memory="2Gi", storage="1Gi", gpu=1)) == (
        "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient ephemeral-storage, "
        "2 Insufficient memory, 2 Insufficient test.dev/gpu."
    )


def test_what_others_add_to_a_refusal_is_not_told_of_the_next_pod() -> None:
    """The reasons are worked out once for as long as nothing changes; extenders add theirs for one pod."""
    cluster = Cluster(node("n1", cpu=1), node("n2", cpu=1))
    wanted = cluster.request(pod(cpu=2))
    message = "0/2 nodes are available: 2 Insufficient cpu."
    found = cluster.decider.diagnose(wanted)
    found.add_failed(cluster.snapshot, {"n1": "no licence"}, {})
    assert cluster.decider.diagnose(wanted).text("") == message
    cluster.snapshot.set_node(node("n3", cpu=1))
    assert cluster.decider.diagnose(wanted).text("") == "0/3 nodes are available: 3 Insufficient cpu."


def test_a_node_caps_the_number_of_pods() -> None:
    """S0-55."""
    cluster = Cluster(node(pods=1))
    cluster.place(pod("a"), "n1")
    assert cluster.message(pod()) == "0/1 nodes are available: 1 Too many pods."


@pytest.mark.parametrize(
    ("spec", "cpu_milli"),
    [
        ({"cpu": 1}, 1000),
        ({"cpu": 1, "initContainers": [{"resources": {"requests": {"cpu": "2500m"}}}]}, 2500),
        ({"cpu": 1, "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]}, 2000),
        ({"cpu": 1, "overhead": {"cpu": "250m"}}, 1250),
        ({"cpu": 1, "resources": {"requests": {"cpu": "1500m"}}}, 1500),
        ({}, 0),
    ],
)
def test_the_pod_needs_what_its_containers_need_at_once(spec: dict[str, Any], cpu_milli: int) -> None:
    assert Cluster().requirements(pod(**spec)).requests.get("cpu", 0) == cpu_milli


def test_a_container_without_requests_scores_by_defaults() -> None:
    """100m and 200Mi, unless the request is given as zero."""
    requirements = Cluster().requirements(pod())
    assert requirements.nonzero_requests == requirements.score_requests == {"cpu": 100, "memory": 200 * 1024 * 1024}
    assert Cluster().requirements(pod(cpu=0, memory=0)).nonzero_requests == {}


def test_own_score_ignores_pod_level_requests_and_placed_pods_count_with_them() -> None:
    requirements = Cluster().requirements(pod(resources={"requests": {"cpu": "2", "memory": "1Gi"}}))
    assert requirements.score_requests == {"cpu": 100, "memory": 200 * 1024 * 1024}
    assert requirements.nonzero_requests == requirements.requests == {"cpu": 2000, "memory": 1024**3}


def test_a_resized_pod_counts_with_the_larger_of_asked_and_granted() -> None:
    """In-place resize: the old amount stays reserved until the node has taken the new one."""
    status = {"containerStatuses": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}]}
    cluster = Cluster(node(cpu=3))
    cluster.place(pod("a", cpu=1, nodeName="n1", status=status), "n1")
    assert cluster.feasible(pod(cpu="1")) == {"n1"}
    assert cluster.feasible(pod(cpu="1001m")) == set()


@pytest.mark.parametrize(
    ("status", "left"),
    [
        ({}, 2),
        ({"resources": {"requests": {"cpu": "2"}}}, 1),
        ({"resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "3"}}, 0),
        (
            {
                "resources": {"requests": {"cpu": "500m"}},
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            },
            2.5,
        ),
    ],
)
def test_a_pod_that_is_resized_as_a_whole_counts_with_the_largest_of_what_is_said(status: Any, left: float) -> None:
    """What will never be granted does not count."""
    cluster = Cluster(node(cpu=3))
    cluster.place(pod("a", nodeName="n1", resources={"requests": {"cpu": "1"}}, status=status), "n1")
    assert bool(cluster.feasible(pod(cpu=f"{int(left * 1000)}m"))) is True
    assert cluster.feasible(pod(cpu=f"{int(left * 1000) + 1}m")) == set()


@pytest.mark.parametrize(
    ("used", "asked", "fit", "balanced"),
    [
        (None, {"cpu": 1, "memory": "2Gi"}, 75, 75),
        ({"cpu": 2, "memory": "1Gi"}, {"cpu": "500m", "memory": "1Gi"}, 56, 75),
        ({"cpu": 3, "memory": "1Gi"}, {"cpu": "500m", "memory": "512Mi"}, 46, 73),
        ({"cpu": 1, "memory": "6Gi"}, {"cpu": 2}, 23, 87),
        (None, {}, 97, 0),
        (None, {"cpu": 0, "memory": 0}, 100, 0),
    ],
)
def test_scores_are_upstreams_to_the_last_digit(used: Any, asked: Any, fit: int, balanced: int) -> None:
    """Two nodes, because a single feasible one would not be scored upstream."""
    cluster = Cluster(node("n1"), node("n2"))
    if used is not None:
        cluster.place(pod("used", **used), "n1")
    fits = cluster.scores(pod(**asked), FIT), cluster.scores(pod(**asked), BALANCED)
    assert [scores.get("n1", 0) for scores in fits] == [fit, balanced]


def test_thousands_of_resources_that_no_node_has_are_not_looked_for_node_by_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(node("n1", cpu=1), node("n2", cpu=1))
    count, looked = 1000, list[str]()
    column = Amounts.__getitem__

    def noted(amounts: Amounts, name: str) -> Ints:
        looked.append(name)
        return column(amounts, name)

    unknown = {f"example.com/r{number}": "1" for number in range(count)}
    container = {"name": "app", "image": "i", "resources": {"requests": {"cpu": "2"} | unknown}}
    wanted = cluster.request(pod(containers=[container]))
    monkeypatch.setattr(Amounts, "__getitem__", noted)
    message = cluster.decider.diagnose(wanted).text("")
    assert message.count("2 Insufficient example.com/r") == count
    assert "2 Insufficient cpu" in message
    assert len(looked) < 50
