"""Groups may name each other as they like: it is a tree all the same, and no deeper than shares are worked out."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.divide import divide_cluster
from fairlead.arbitrator.group_tree import MOST_LEVELS, GroupTree
from fairlead.arbitrator.objects import Consumer, ConsumerGroup, PolicySpec

T = TypeVar("T", Consumer, ConsumerGroup)

_NAMES = [f"g{number}" for number in range(12)]
_named = st.dictionaries(st.sampled_from(_NAMES), st.sampled_from(["", "missing", *_NAMES]))


def _reached(tree: GroupTree) -> dict[str, int]:
    """Every group that is below the cluster, with its level."""
    found: dict[str, int] = {}
    level, number = list(tree.below("")), 1
    while level:
        assert not found.keys() & set(level)
        found |= dict.fromkeys(level, number)
        level, number = [child for name in level for child in tree.below(name)], number + 1
    return found


@given(_named)
def test_every_group_has_one_place(named: dict[str, str]) -> None:
    tree = GroupTree(named)
    found = _reached(tree)
    assert found == {name: tree.level(name) for name in named} == {name: len(tree.above(name)) for name in named}
    assert all(tree.parents[name] in ("", named[name]) for name in named)


@given(_named)
def test_a_group_leaves_its_parent_only_to_break_a_circle(named: dict[str, str]) -> None:
    tree = GroupTree(named)
    for name, parent in named.items():
        if parent in named and tree.parents[name] != parent:
            way = [name]
            while way[-1] != name or len(way) == 1:
                way.append(named[way[-1]])
            assert name == min(way)


def test_a_chain_of_many_is_cut() -> None:
    names = [f"{number:06}" for number in range(20_000)]
    tree = GroupTree(dict(zip(names, ["", *names], strict=False)))
    assert max(_reached(tree).values()) == MOST_LEVELS
    assert len(list(tree.below(""))) == len(names) // MOST_LEVELS


def test_as_many_levels_as_there_may_be() -> None:
    names = [f"{number:06}" for number in range(MOST_LEVELS)]
    tree = GroupTree(dict(zip(names, ["", *names], strict=False)))
    assert (list(tree.below("")), tree.level(names[-1]), tree.height(names[0])) == (
        [names[0]],
        MOST_LEVELS,
        MOST_LEVELS,
    )


def test_an_arbitrator_divides_whatever_nobody_has_reviewed() -> None:
    """A chain of 2,000 groups ended it, and every one that started after it."""
    groups = [_object(ConsumerGroup, f"g{number}", parent=f"g{number - 1}") for number in range(2_000)]
    member = _object(Consumer, "defaults", "team", parent="g1999")
    found = asyncio.run(divide_cluster([member], groups, PolicySpec(), Accounting()))
    assert found.namespaces.keys() == {"team"}
    assert len(found.groups) == 2_000


def _object(kind: type[T], name: str, namespace: str = "", **spec: str) -> T:
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, "spec": spec}, kind)
