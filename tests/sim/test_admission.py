"""A node refuses what does not fit, whoever sent it (S0-54, S0-55; SC-14)."""

from __future__ import annotations

from fairlead.sim.admission import Ledger, amounts


def ledger(**quantities: str) -> Ledger:
    return Ledger(amounts({"pods": "3", **quantities}))


def test_a_pod_that_does_not_fit_is_refused_with_the_numbers() -> None:
    node = ledger(cpu="1")
    assert node.admit("a", amounts({"cpu": "800m"})) is None
    refusal = node.admit("b", amounts({"cpu": "500m"}))
    assert refusal is not None
    assert refusal.status() == {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 800, capacity: 1000",
    }


def test_a_full_node_takes_no_more_pods() -> None:
    node = ledger(cpu="8")
    assert [node.admit(uid, {}) for uid in "abc"] == [None] * 3
    refusal = node.admit("d", {})
    assert refusal is not None
    assert refusal.reason == "OutOfpods"


def test_what_leaves_gives_its_resources_back() -> None:
    node = ledger(memory="1Gi")
    assert node.admit("a", amounts({"memory": "1Gi"})) is None
    node.release("a")
    assert node.admit("b", amounts({"memory": "1Gi"})) is None


def test_a_pod_that_is_in_already_is_not_judged_again() -> None:
    node = ledger(cpu="1")
    node.hold("a", amounts({"cpu": "2"}))
    assert node.admit("a", amounts({"cpu": "2"})) is None


def test_a_resource_that_the_node_does_not_have_is_not_enough() -> None:
    refusal = ledger(cpu="1").admit("a", amounts({"example.com/gpu": "1"}))
    assert refusal is not None
    assert refusal.reason == "OutOfexample.com/gpu"
