"""What several who hand something out settle on: cases of a kubelet's own tests (topologymanager/policy_test.go)."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.node.cpus.policy import StaticPolicy
from fairlead.node.cpus.state import CpuState
from fairlead.node.cpus.topology import Location, Topology
from fairlead.node.numa_hints import BEST_EFFORT, NONE, RESTRICTED, SINGLE_NODE, Hint, HintPolicy, Hints, NumaNodes
from fairlead.node.placement import Held, Policies, placed
from tests.work import calls

ALL = NumaNodes(frozenset(range(4)))


def hint(nodes: str | None, is_preferred: bool = True) -> Hint:
    return Hint(None if nodes is None else frozenset(map(int, nodes)), is_preferred)


def no(nodes: str | None) -> Hint:
    return hint(nodes, is_preferred=False)


def of(*alternatives: Hint) -> Hints:
    return {"r": alternatives}


#: What they say, and what comes of it: with each policy that looks at hints.
COMMON: list[tuple[list[Hints], Hint]] = [
    ([of(hint("0")), of(hint("0"))], hint("0")),
    ([of(hint("1")), of(hint("1"))], hint("1")),
    ([{}, of(hint("1"))], hint("1")),
    ([of(hint("0"), hint("1")), of(hint("0"))], hint("0")),
    ([of(hint("0"), hint("1")), of(hint("1"))], hint("1")),
    ([of(hint("0"), hint("1")), of(hint("0"), no("01"))], hint("0")),
    ([of(hint("1"), no("01")), of(hint("0"), hint("1"), no("01"))], hint("1")),
    ([{"a": (hint("1"), no("01")), "b": (hint("0"), hint("1"), no("01"))}], hint("1")),
]
WIDE = [no("0123"), no("01")]
BEST: list[tuple[list[Hints], Hint]] = [
    ([of(hint("01"), hint("02")), of(hint("01"), hint("02"))], hint("01")),
    ([], hint("0123")),
    ([{}], hint("0123")),
    ([{"r": None}], hint("0123")),
    ([{"r": ()}], no("0123")),
    ([of(hint(None))], hint("0123")),
    ([of(no(None))], no("0123")),
    ([of(hint("0")), of(hint("1"))], no("0123")),
    ([of(hint("0")), of(no("0"))], no("0")),
    ([of(hint("1")), of(no("1"))], no("1")),
    ([of(hint("0")), of(hint("01"))], no("0")),
    ([of(hint("0"), hint("1")), of(no("01"))], no("0")),
    ([of(hint("1")), of(hint("01"))], no("1")),
    ([of(*WIDE), of(no("01"))], no("01")),
    ([of(*WIDE), of(no("03"))], no("03")),
    ([of(*WIDE), of(no("12"))], no("12")),
    ([of(*WIDE), of(no("23"))], no("23")),
    ([of(*WIDE), of(no("12"), no("23"))], no("12")),
    ([of(*WIDE), of(no("123"), no("12"), no("13"), no("23"))], no("12")),
]
SINGLE: list[tuple[list[Hints], Hint]] = [
    ([], hint(None)),
    ([{}], hint(None)),
    ([{"r": None}], hint(None)),
    ([{"r": ()}], no(None)),
    ([of(hint(None))], hint(None)),
    ([of(no(None))], no(None)),
    ([of(hint("0")), of(hint("1"))], no(None)),
    ([of(hint("0")), of(no("0"))], no(None)),
    ([of(hint("0"), hint("1")), of(no("01"))], no(None)),
    ([{"a": (hint("01"),), "b": (hint("0"), hint("1"), no("01"))}], no(None)),
    ([of(hint("0"), hint("1"), no("01")), {}], hint("0")),
]


@pytest.mark.parametrize("name", [BEST_EFFORT, RESTRICTED])
@pytest.mark.parametrize(("hints", "expected"), [*COMMON, *BEST])
def test_what_is_best_for_all(name: str, hints: list[Hints], expected: Hint) -> None:
    is_taken = name == BEST_EFFORT or expected.is_preferred
    assert HintPolicy(name).best(hints, ALL) == (expected, is_taken)


@pytest.mark.parametrize(("hints", "expected"), [*COMMON, *SINGLE])
def test_one_node_or_none(hints: list[Hints], expected: Hint) -> None:
    assert HintPolicy(SINGLE_NODE).best(hints, ALL) == (expected, expected.is_preferred)


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        ([of(hint("03"), hint("02")), of(hint("03"), hint("02"))], hint("02")),
        ([of(hint("3"), hint("02")), of(hint("3"), hint("02"))], hint("3")),
        ([of(*WIDE), of(no("12"), no("23"))], no("23")),
        ([of(*WIDE), of(no("123"), no("12"), no("13"), no("23"))], no("23")),
    ],
)
def test_nodes_that_are_close_to_each_other_if_that_is_said(hints: list[Hints], expected: Hint) -> None:
    near = {(0, 2), (2, 3)}
    distances = {
        (one, other): 10 if one == other else 11 if {(one, other), (other, one)} & near else 12
        for one in ALL.ids
        for other in ALL.ids
    }
    policy = HintPolicy(BEST_EFFORT, prefers_closest=True)
    assert policy.best(hints, NumaNodes(ALL.ids, distances)) == (expected, True)


masks = st.one_of(st.none(), st.frozensets(st.sampled_from(sorted(ALL.ids)), min_size=1))
alternatives = st.lists(st.builds(Hint, masks, st.booleans()), max_size=4).map(tuple)


@given(st.lists(st.dictionaries(st.sampled_from("ab"), st.one_of(st.none(), alternatives), max_size=2), max_size=3))
def test_no_policy_refuses_nobody_and_the_strict_ones_only_what_is_not_preferred(hints: list[Hints]) -> None:
    assert HintPolicy(NONE).best(hints, ALL) == (Hint(None, False), True)
    assert HintPolicy(BEST_EFFORT).best(hints, ALL)[1]
    restricted, single = (HintPolicy(name).best(hints, ALL)[1] for name in (RESTRICTED, SINGLE_NODE))
    assert restricted or not single


def test_many_kinds_of_resources_on_many_numa_nodes_are_settled_at_once() -> None:
    """Of all combinations of hints that they give there are more than anybody could try."""
    numbers = range(8)
    sets = [frozenset(each) for size in range(1, 9) for each in combinations(numbers, size)]
    narrow = [Hint(nodes, len(nodes) == 2) for nodes in sets if len(nodes) > 1]
    hints = {"cpu": narrow} | {f"hugepages-{size}Mi": narrow for size in range(9)}
    nodes = NumaNodes(frozenset(numbers))
    assert HintPolicy(RESTRICTED).best([hints], nodes) == (hint("01"), True)
    without = [each for each in narrow if each.nodes != frozenset({0, 1})]
    assert HintPolicy(RESTRICTED).best([hints, of(*without)], nodes) == (hint("02"), True)
    assert HintPolicy(RESTRICTED).best([hints, of(hint("7"))], nodes) == (no("7"), False)


def test_without_a_policy_sets_of_numa_nodes_are_not_looked_at() -> None:
    """A machine may have two dozen, of which there are sixteen million sets."""
    machine = Topology({cpu: Location(cpu, numa=cpu % 16) for cpu in range(64)})
    policies = Policies(NumaNodes(machine.ids("numa")), HintPolicy(NONE), StaticPolicy(machine, frozenset({0})))
    amounts = {"cpu": "2", "memory": "1Gi"}
    spec = {"containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]}
    pod = {"metadata": {"uid": "u"}, "spec": spec}

    def place() -> None:
        assert placed(policies, Held(CpuState(machine.cpus)), pod).refusal is None

    assert calls(place) < 20_000
