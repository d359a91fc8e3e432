"""Selectors find what they select, and are found by it, without a look at everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.labels import LabelRequirement, LabelSelector
from fairlead.api.objects import Obj
from fairlead.controllers.claims import controller_reference
from fairlead.controllers.kinds import PODS, REPLICA_SETS
from fairlead.controllers.selecting import selected, selected_orphans, selecting
from tests.controllers.driving import StillWorld, names, view
from tests.work import calls

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from(["", "x", "y"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
REQUIREMENTS = st.one_of(
    st.builds(
        LabelRequirement,
        key=KEYS,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(VALUES, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(LabelRequirement, key=KEYS, operator=st.sampled_from(["Exists", "DoesNotExist"]), values=st.none()),
)
SELECTORS = st.builds(
    LabelSelector, match_labels=LABELS, match_expressions=st.lists(REQUIREMENTS, max_size=2).map(tuple)
)
OWNER = view(REPLICA_SETS, {"metadata": {"name": "r", "uid": "u"}, "spec": {"selector": {}, "template": {}}})


def pod(name: str, labels: dict[str, str], namespace: str = "n", **meta: object) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels} | meta}


def replica_set(name: str, selector: LabelSelector, namespace: str = "n") -> Obj:
    expressions = [
        {"key": term.key, "operator": term.operator, "values": term.values} for term in selector.match_expressions
    ]
    told = {"matchLabels": selector.match_labels, "matchExpressions": expressions}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": told, "template": {}}}


@given(selector=SELECTORS, labels=st.lists(LABELS, max_size=6), changed=LABELS)
def test_a_selector_finds_whatever_it_selects(
    selector: LabelSelector, labels: list[dict[str, str]], changed: dict[str, str]
) -> None:
    world = StillWorld()
    world.put(PODS, [pod(f"p{number}", of_pod) for number, of_pod in enumerate(labels)])
    world.put(PODS, [pod("elsewhere", of_pod, "m") for of_pod in labels])
    selected(world, PODS, "n", selector)  # from now on there is an index, which has to follow
    world.put(PODS, [pod("p0", changed)])
    reference = controller_reference(REPLICA_SETS, OWNER)
    world.put(PODS, [pod("owned", changed, ownerReferences=[reference])])
    every = [one for one in world.within(PODS, "n") if selector.matches(one.metadata.labels)]
    assert selected(world, PODS, "n", selector) == every
    orphans = {one.metadata.name for one in every} - {"owned"}
    found = selected_orphans(world, PODS, "n", selector)
    assert set(names(found)) == orphans


@given(selectors=st.lists(SELECTORS, max_size=6), changed=SELECTORS, labels=LABELS)
def test_what_is_selected_finds_whoever_selects_it(
    selectors: list[LabelSelector], changed: LabelSelector, labels: dict[str, str]
) -> None:
    world = StillWorld()
    world.put(REPLICA_SETS, [replica_set(f"r{number}", selector) for number, selector in enumerate(selectors)])
    world.put(REPLICA_SETS, [replica_set("elsewhere", selector, "m") for selector in selectors])
    selecting(world, REPLICA_SETS, lambda one: one.selector, "n", labels)
    world.put(REPLICA_SETS, [replica_set("r0", changed)])
    every = [one for one in world.within(REPLICA_SETS, "n") if one.selector.matches(labels)]
    assert selecting(world, REPLICA_SETS, lambda one: one.selector, "n", labels) == every


def test_a_label_that_all_have_does_not_make_a_selector_look_at_all() -> None:
    world = StillWorld()
    world.put(PODS, [pod(f"p{number}", {"a": "x", "b": str(number)}) for number in range(500)])
    selector = LabelSelector(match_labels={"a": "x", "b": "7"})
    found = selected(world, PODS, "n", selector)
    assert names(found) == ["p7"]
    assert calls(lambda: selected(world, PODS, "n", selector)) < 100
