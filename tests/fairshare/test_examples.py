"""The examples everybody knows: the one of the DRF paper, and the documents' T1, T2 and T3 (S2-34 to S2-36)."""

from __future__ import annotations

from fractions import Fraction

from gmpy2 import mpq

from fairlead.fairshare.claims import Claim
from fairlead.fairshare.grants import Holding, granted
from fairlead.fairshare.rounding import Tasks, picks
from fairlead.fairshare.shares import shares
from fairlead.fairshare.victims import VictimCandidate, VictimChoice, choose_victims

# --- Ghodsi et al., Dominant Resource Fairness, NSDI 2011, section 4.1 ------------------------------------------------

CLUSTER = {"cpu": 9, "mem": 18}
TASK_A = {"cpu": 1, "mem": 4}
TASK_B = {"cpu": 3, "mem": 1}


def of_tasks(name: str, task: dict[str, int], count: int, weight: int = 1) -> Claim:
    return Claim(name, {resource: amount * count for resource, amount in task.items()}, weight)


def test_the_papers_users_get_three_tasks_and_two() -> None:
    found = shares([of_tasks("A", TASK_A, 100), of_tasks("B", TASK_B, 100)], CLUSTER)
    assert found["A"].deserved == {"cpu": 3, "mem": 12}
    assert found["B"].deserved == {"cpu": 6, "mem": 2}


def test_the_papers_users_have_equal_dominant_shares_of_different_resources() -> None:
    found = shares([of_tasks("A", TASK_A, 100), of_tasks("B", TASK_B, 100)], CLUSTER)
    assert found["A"].dominant_share == found["A"].deserved["mem"] / 18 == Fraction(2, 3)
    assert found["B"].dominant_share == found["B"].deserved["cpu"] / 9 == Fraction(2, 3)


def test_the_papers_users_stop_when_the_processors_are_used_up() -> None:
    found = shares([of_tasks("A", TASK_A, 100), of_tasks("B", TASK_B, 100)], CLUSTER)
    assert {share.bottleneck for share in found.values()} == {"cpu"}
    assert sum(share.deserved["mem"] for share in found.values()) == 14


def test_the_papers_tasks_are_given_one_by_one_to_the_same_end() -> None:
    given = picks([Tasks("B", TASK_B, 100), Tasks("A", TASK_A, 100)], CLUSTER)
    assert given == ["B", "A", "A", "B", "A"]


def test_a_user_with_fewer_tasks_leaves_the_rest_to_the_other() -> None:
    found = shares([of_tasks("A", TASK_A, 1), of_tasks("B", TASK_B, 100)], CLUSTER)
    assert found["A"].deserved == TASK_A
    assert found["A"].bottleneck == "demand"
    assert found["B"].deserved == {"cpu": 8, "mem": Fraction(8, 3)}


def test_a_user_of_twice_the_weight_gets_twice_the_dominant_share() -> None:
    found = shares([of_tasks("A", TASK_A, 100, weight=2), of_tasks("B", TASK_B, 100)], CLUSTER)
    of_a, of_b = found["A"].deserved["mem"] / 18, found["B"].deserved["cpu"] / 9
    assert of_a == 2 * of_b == Fraction(12, 13)
    assert found["A"].dominant_share == found["B"].dominant_share  # it is told per weight


# --- the documents' three moments: two processors and two of memory, consumers that want everything ------------------

NODE = {"cpu": 2, "mem": 2}
HALF = {"cpu": 1, "mem": 1}
FIRST = Claim("consumer-1", NODE)
SECOND = Claim("consumer-2", NODE)
NOBODY = VictimChoice((), mpq(0))
PODS = [VictimCandidate("elder", HALF, age_seconds=50), VictimCandidate("younger", HALF, age_seconds=20)]


def granted_of_node(first_uses: dict[str, int], second_uses: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """What the two consumers may use when both deserve one half."""
    deserved = shares([FIRST, SECOND], NODE)
    first, second = {}, {}
    for resource, amount in NODE.items():
        now = granted(
            {
                "consumer-1": Holding(deserved["consumer-1"].deserved[resource], first_uses[resource]),
                "consumer-2": Holding(deserved["consumer-2"].deserved[resource], second_uses[resource]),
            },
            amount,
        )
        first[resource], second[resource] = int(now["consumer-1"]), int(now["consumer-2"])
    return first, second


def victims_at(pods: list[VictimCandidate]) -> VictimChoice:
    return choose_victims(pods, shares([FIRST, SECOND], NODE)["consumer-1"].deserved, NODE)


def test_at_t1_the_only_consumer_gets_everything() -> None:
    found = shares([FIRST], NODE)
    assert found["consumer-1"].deserved == NODE
    assert choose_victims(PODS, found["consumer-1"].deserved, NODE) == NOBODY


def test_at_t2_both_deserve_a_half_at_once() -> None:
    found = shares([FIRST, SECOND], NODE)
    assert found["consumer-1"].deserved == found["consumer-2"].deserved == HALF


def test_at_t2_the_newcomer_is_granted_nothing_that_is_still_held() -> None:
    assert granted_of_node(NODE, {"cpu": 0, "mem": 0}) == (HALF, {"cpu": 0, "mem": 0})


def test_at_t3_the_younger_of_the_two_pods_goes() -> None:
    assert victims_at(PODS) == VictimChoice(("younger",), mpq(0))


def test_at_t3_nobody_goes_if_the_owner_has_picked_a_pod() -> None:
    picked = [VictimCandidate("elder", HALF, age_seconds=50, is_terminating=True), PODS[1]]
    assert victims_at(picked) == NOBODY


def test_at_t3_the_newcomer_still_waits_while_the_victim_is_ending() -> None:
    """A pod that is ending holds what it has until it is gone."""
    assert granted_of_node(NODE, {"cpu": 0, "mem": 0})[1] == {"cpu": 0, "mem": 0}


def test_after_t3_both_are_granted_a_half_and_nobody_else_goes() -> None:
    assert granted_of_node(HALF, {"cpu": 0, "mem": 0}) == (HALF, HALF)
    assert granted_of_node(HALF, HALF) == (HALF, HALF)
    assert victims_at(PODS[:1]) == NOBODY


def test_when_the_second_consumer_leaves_the_first_deserves_everything_again() -> None:
    assert shares([FIRST, Claim("consumer-2", {})], NODE)["consumer-1"].deserved == NODE
