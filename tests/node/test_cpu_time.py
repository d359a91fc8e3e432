"""How cpu is divided: shares of what is there, quotas, and nothing left idle that somebody wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.node.cgroups.cpu import agent_weight, runtime_weight, shares
from fairlead.node.cgroups.cpu_time import CpuGroup, divide

amounts = st.floats(0, 8000)
containers = st.builds(CpuGroup, st.integers(1, 10000), st.just(float("inf")) | st.floats(1, 8000), amounts)
trees = st.recursive(
    containers,
    lambda members: st.builds(
        CpuGroup,
        st.integers(1, 10000),
        st.just(float("inf")) | st.floats(1, 8000),
        members=st.dictionaries(st.sampled_from("abcd"), members, min_size=1),
    ),
    max_leaves=12,
)


def groups(group: CpuGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CpuGroup]]:
    yield path, group
    for name, member in group.members.items():
        yield from groups(member, (*path, name))


def of_requests(*requests: int, wanted: float, to_weight: Callable[[int], int] = agent_weight) -> CpuGroup:
    members = {
        str(index): CpuGroup(to_weight(shares(milli)), wanted_milli=wanted) for index, milli in enumerate(requests)
    }
    return CpuGroup(100, members=members)


def test_two_pods_share_in_proportion_to_their_requests() -> None:
    """S0-110: 1 and 2 cores requested, 4.5 there."""
    given = divide(of_requests(1000, 2000, wanted=8000), 4500)
    assert given["0",] == pytest.approx(1487, abs=1)
    assert given["1",] == pytest.approx(3013, abs=1)


def test_two_containers_of_a_pod_do_not_quite() -> None:
    """S0-57, S0-110: the runtime's weights are no proportion."""
    given = divide(of_requests(1000, 2000, wanted=8000, to_weight=runtime_weight), 4500)
    assert given["0",] == pytest.approx(1642, abs=1)
    assert given["1",] == pytest.approx(2858, abs=1)


def test_what_one_does_not_want_another_gets() -> None:
    """S0-108, S0-111: a container without a limit may take all that is idle, one with a limit its quota."""
    idle = CpuGroup(5000, wanted_milli=100)
    node = CpuGroup(
        1, members={"idle": idle, "limited": CpuGroup(5000, 500, 4000), "busy": CpuGroup(1, wanted_milli=4000)}
    )
    given = divide(node, 2000)
    assert given == {("idle",): 100, ("limited",): 500, ("busy",): pytest.approx(1400)}


def test_a_weight_counts_among_its_neighbours_alone() -> None:
    """S1-12: the same 1024 shares beside Burstable, and in it."""
    pod = CpuGroup(agent_weight(1024), wanted_milli=4000)
    burstable = CpuGroup(agent_weight(2048), members={"b": pod, "c": pod})
    given = divide(CpuGroup(100, members={"guaranteed": pod, "burstable": burstable}), 3000)
    assert given["guaranteed",] == pytest.approx(992, abs=1)
    assert given["burstable", "b"] == given["burstable", "c"] == pytest.approx(1004, abs=1)


@given(trees, amounts)
def test_no_more_is_given_than_there_is_wanted_or_allowed(tree: CpuGroup, available: float) -> None:
    given = divide(tree, available)
    for path, group in groups(tree):
        total = sum(amount for leaf, amount in given.items() if leaf[: len(path)] == path)
        assert total <= min(available, group.usable_milli) + 1e-6
    assert all(amount >= 0 for amount in given.values())


@given(trees, amounts)
def test_nothing_is_idle_that_somebody_may_have(tree: CpuGroup, available: float) -> None:
    assert sum(divide(tree, available).values()) == pytest.approx(min(available, tree.usable_milli), abs=1e-6)


@given(st.lists(st.integers(1, 10000), min_size=2, max_size=6), st.floats(1, 8000))
def test_under_contention_everybody_gets_by_weight(weights: list[int], available: float) -> None:
    """S0-58, S0-108."""
    node = CpuGroup(
        1, members={str(index): CpuGroup(weight, wanted_milli=8000) for index, weight in enumerate(weights)}
    )
    given = divide(node, available)
    for index, weight in enumerate(weights):
        assert given[str(index),] == pytest.approx(min(available * weight / sum(weights), 8000))


@given(trees, amounts)
def test_whoever_wants_more_has_no_less_for_its_weight_than_any_neighbour(tree: CpuGroup, available: float) -> None:
    """S0-108: whatever the others want, at every level of the tree."""
    given = divide(tree, available)
    for path, group in groups(tree):
        got = {
            name: sum(amount for leaf, amount in given.items() if leaf[: len(path) + 1] == (*path, name))
            for name in group.members
        }
        levels = {name: got[name] / member.weight for name, member in group.members.items()}
        for name, member in group.members.items():
            if got[name] < member.usable_milli - 1e-6:
                assert levels[name] >= max(levels.values()) - 1e-6
