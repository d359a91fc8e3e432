"""A node refuses what does not fit, whoever sent it (S0-54, S0-55, S2-51; SC-14)."""

from __future__ import annotations

from fairlead.api.objects import Obj
from fairlead.node.admission import admit, refusal_for
from fairlead.node.allocation import NodeAllocation, amounts


def allocation(**quantities: str) -> NodeAllocation:
    return NodeAllocation(amounts({"pods": "3", **quantities}))


def pod(name: str = "new", **spec: object) -> Obj:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"containers": [{"name": "main"}], **spec}}


def node(**spec: object) -> Obj:
    return {"metadata": {"name": "n"}, "spec": spec, "status": {"allocatable": {"pods": "10", "cpu": "4"}}}


def test_a_pod_that_does_not_fit_is_refused_with_the_numbers() -> None:
    state = allocation(cpu="1")
    state.hold("a", amounts({"cpu": "800m"}))
    (shortage,) = state.shortages(amounts({"cpu": "500m"}))
    assert refusal_for(shortage).status() == {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 800, capacity: 1000",
    }


def test_what_leaves_gives_its_resources_back() -> None:
    state = allocation(memory="1Gi")
    state.hold("a", amounts({"memory": "1Gi"}))
    assert list(state.shortages(amounts({"memory": "1Gi"})))
    state.release("a")
    assert not list(state.shortages(amounts({"memory": "1Gi"})))


def test_a_pod_that_is_held_again_counts_once() -> None:
    state = allocation(cpu="1")
    state.hold("a", amounts({"cpu": "2"}))
    state.hold("a", amounts({"cpu": "600m"}))
    assert not list(state.shortages(amounts({"cpu": "400m"})))


def test_shortages_are_told_in_the_order_of_the_kubelet() -> None:
    state = allocation(cpu="1", memory="1", **{"ephemeral-storage": "1", "example.com/gpu": "1"})
    for uid in "abc":
        state.hold(uid, {})
    wanted = {"example.com/gpu": 2, "ephemeral-storage": 2, "memory": 2, "cpu": 1001}
    assert [shortage.resource for shortage in state.shortages(wanted)] == [
        *("pods", "cpu", "memory", "ephemeral-storage", "example.com/gpu")
    ]


def test_only_namespaces_that_are_not_overused_get_in_if_somebody_reckons_that() -> None:
    """S2-51."""
    overuse = {"team": 0.5, "poor": 0.0}.__getitem__
    assert admit(pod(), node(), []).refusal is None
    refusal = admit(pod(), node(), [], overuse=overuse).refusal
    assert refusal is not None
    assert refusal.reason == "NamespaceOverused"
    assert (
        admit(pod() | {"metadata": {"name": "new", "namespace": "poor"}}, node(), [], overuse=overuse).refusal is None
    )


def test_a_critical_pod_gets_in_however_much_its_namespace_uses() -> None:
    """S2-51: the hook is for the fairness of ordinary pods."""
    assert admit(pod(priority=2_000_000_000), node(), [], overuse=lambda _: 1.0).refusal is None
