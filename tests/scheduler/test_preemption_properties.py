"""Whom preemption drives away, against the slow scheduler and its properties (S3-17 to S3-31)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Pod
from fairlead.scheduler.framework import Nominate
from tests.examples import examples
from tests.scheduler.both_schedulers import Pair, key_of, named, unreserved
from tests.scheduler.cluster_strategies import KEYS, NAMESPACES, SELECTORS, VALUES, roomy_nodes, social_pods
from tests.scheduler.preemption_world import budget, minute
from tests.scheduler.scheduler_world import Obj, pod_obj
from tests.scheduler.slow_scheduler import reasons

PRIORITIES = st.integers(-1, 2)
SMALL = st.sampled_from(["1", "2", "3"])


@st.composite
def residents(draw: st.DrawFn) -> Obj:
    """Pods to be driven away, or to drive others away."""
    if draw(st.integers(0, 3)) == 0:
        found = draw(social_pods())
    else:
        found = pod_obj("template", cpu=draw(SMALL), labels=draw(st.dictionaries(KEYS, VALUES)))
        found["metadata"]["namespace"] = draw(NAMESPACES)
    if draw(st.integers(0, 5)) == 0:
        found["spec"]["containers"][0]["ports"] = [{"hostPort": 80}]
    if draw(st.booleans()):
        found["status"] = found["status"] | minute(draw(st.integers(0, 3)))
    found["spec"]["priority"] = draw(PRIORITIES)
    if draw(st.integers(0, 5)) == 0:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return found


@st.composite
def budgets(draw: st.DrawFn, name: str) -> Obj:
    found = budget(name, draw(st.integers(0, 2)), draw(st.none() | SELECTORS))
    found["metadata"]["namespace"] = draw(NAMESPACES)
    return found


@st.composite
def worlds(draw: st.DrawFn) -> Pair:
    """A few nodes with pods on them, budgets, and nominated pods."""
    pair = Pair()
    names = [f"n{index}" for index in range(draw(st.integers(1, 3)))]
    for name in names:
        pair.set_node(draw(roomy_nodes(name)))
    for index in range(draw(st.integers(0, 9))):
        pair.place(named(draw(residents()), f"p{index}"), draw(st.sampled_from(names)))
    for index in range(draw(st.integers(0, 2))):
        pair.add_budget(draw(budgets(f"b{index}")))
    for index in range(draw(st.integers(0, 1))):
        pair.nominate(unreserved(named(draw(residents()), f"q{index}")), draw(st.sampled_from(names)))
    return pair


@settings(max_examples=examples(150))
@given(worlds(), st.lists(residents(), min_size=1, max_size=3))
def test_victims_are_less_important_and_as_few_as_can_be(pair: Pair, newcomers: list[Obj]) -> None:
    """S3-18, S3-19; after they have left the pod fits there, and if any of them stayed it would not."""
    for index, template in enumerate(newcomers):
        obj = named(template, f"new{index}")
        preemptor = encoded(obj).view(Pod)
        if pair.real.feasible(preemptor):
            continue
        found = pair.make_room(obj)
        if not isinstance(found, Nominate):
            continue
        assert found.victims
        assert all(victim.pod.priority < preemptor.priority for victim in found.victims)
        leaving = [pod for pod in pair.slow.nodes[found.node].pods if key_of(pod) in {v.key for v in found.victims}]
        for spared in leaving:
            spare = pair.slow.without(found.node, leaving).beside(found.node, [spared])
            assert reasons(obj, found.node, spare)[0]
        for victim in found.victims:
            pair.remove_pod(victim.key)
        if not any(victim.relations.is_terminating for victim in found.victims):  # those were not counted anyway
            assert found.node in pair.real.feasible(preemptor)
        pair.decide(obj)


@settings(max_examples=examples(100))
@given(worlds(), st.data())
def test_the_choice_is_the_slow_ones_after_any_history(pair: Pair, data: st.DataObject) -> None:
    """S3-21; plans are kept from one preemptor to the next of its kind, so pods come and go in between."""
    kinds = data.draw(st.lists(residents(), min_size=1, max_size=2))
    for step in range(data.draw(st.integers(1, 8))):
        action = data.draw(st.sampled_from(["new", "new", "gone", "node", "budget"]))
        if action == "new":
            pair.decide(named(data.draw(st.sampled_from(kinds)), f"new{step}"))
        elif action == "node":
            pair.set_node(data.draw(roomy_nodes(data.draw(st.sampled_from(sorted(pair.slow.nodes))))))
        elif action == "budget":
            pair.add_budget(data.draw(budgets(f"late{step}")))
        elif pair.placed:
            pair.remove_pod(data.draw(st.sampled_from(sorted(pair.placed))))
