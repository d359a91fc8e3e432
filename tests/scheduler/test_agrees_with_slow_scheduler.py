"""The vectorised, cached decision is the plain one's, on any cluster and after any history."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.both_schedulers import Pair, named, unreserved
from tests.scheduler.cluster_strategies import (
    KEYS,
    NAMESPACES,
    VALUES,
    nodes,
    pods,
    roomy_nodes,
    services,
    social_pods,
)
from tests.scheduler.slow_cluster import Obj

ALWAYS = ("node", "pod", "pod", "pod", "gone", "node gone")


def live(data: st.DataObject, make_node: Callable[[str], st.SearchStrategy[Obj]], kinds: list[Obj], *more: str) -> None:
    """Nodes come, change and go; few kinds of pods arrive again and again and leave: caches are used all the time."""
    pair = Pair()
    for step in range(data.draw(st.integers(1, 20))):
        action = data.draw(st.sampled_from([*ALWAYS, *more]))
        if action == "node":
            pair.set_node(data.draw(make_node(f"n{data.draw(st.integers(0, 4))}")))
        elif action == "node gone" and pair.slow.nodes:
            pair.remove_node(data.draw(st.sampled_from(sorted(pair.slow.nodes))))
        elif action == "pod":
            pair.decide(named(data.draw(st.sampled_from(kinds)), f"p{step}"))
        elif action == "nominate" and pair.slow.nodes:
            nominated = named(data.draw(st.sampled_from(kinds)), f"p{step}", priority=data.draw(st.integers(-1, 1)))
            pair.nominate(unreserved(nominated), data.draw(st.sampled_from(sorted(pair.slow.nodes))))
        elif action == "nominated pod tried":
            nominated_pods = [rival for node in pair.slow.nodes.values() for rival in node.nominated]
            if nominated_pods:
                pair.decide(data.draw(st.sampled_from(nominated_pods)))
        elif action == "service":
            pair.add_service(data.draw(services(f"s{step}")))
        elif action == "namespace":
            pair.set_namespace(data.draw(NAMESPACES), data.draw(st.dictionaries(KEYS, VALUES)))
        elif pair.placed:
            key = data.draw(st.sampled_from(sorted(pair.placed)))
            if action == "gone":
                pair.remove_pod(key)
            elif action == "terminating":
                pair.change_pod(key, {"deletionTimestamp": "2026-01-01T00:00:00Z"})
            elif action == "other labels":
                pair.change_pod(key, {"labels": data.draw(st.dictionaries(KEYS, VALUES))})


@settings(max_examples=examples(150))
@given(st.data())
def test_decisions_and_messages_agree_after_any_history(data: st.DataObject) -> None:
    live(data, nodes, data.draw(st.lists(pods(), min_size=1, max_size=3)))


@settings(max_examples=examples(150))
@given(st.data())
def test_decisions_about_other_pods_agree_after_any_history(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(social_pods(), min_size=1, max_size=4))
    live(data, roomy_nodes, kinds, "pod", "pod", "terminating", "other labels", "namespace", "service")


@settings(max_examples=examples(150))
@given(st.data())
def test_decisions_beside_nominated_pods_agree_after_any_history(data: st.DataObject) -> None:
    """S3-24: the room of nominated pods counts as taken for pods of lower and of equal priority."""
    kinds = data.draw(st.lists(pods() | social_pods(), min_size=1, max_size=4))
    live(data, roomy_nodes, kinds, "nominate", "nominate", "nominated pod tried")
