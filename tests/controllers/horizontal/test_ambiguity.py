"""Which autoscalers select the same pods, found without holding up everybody else."""

from __future__ import annotations

import msgspec

from fairlead.api.labels import Labels
from fairlead.api.pods import Pod
from fairlead.api.selector_text import parse
from fairlead.api.selectors import Selector
from fairlead.controllers.actions import GiveWay
from fairlead.controllers.horizontal.ambiguity import TargetSelectors


def _selecting(selectors: TargetSelectors, *labels: dict[str, str]) -> tuple[list[str], int]:
    """The autoscalers found, and how often others got a turn meanwhile."""
    pods = [msgspec.convert({"metadata": {"name": "p", "labels": each}}, Pod) for each in labels]
    steps, turns = selectors.selecting("n", pods), 0
    while True:
        try:
            action = next(steps)
        except StopIteration as end:
            return end.value, turns
        assert isinstance(action, GiveWay)
        turns += 1


def test_autoscalers_of_a_namespace_whose_selectors_meet_in_some_pod_are_found() -> None:
    selectors = TargetSelectors()
    for namespace, name, text in (("n", "b", "app=web"), ("n", "a", "tier=1"), ("n", "c", "app=db"), ("m", "d", "app")):
        selectors.put(namespace, name, parse(text))
    assert _selecting(selectors, {"app": "web"}, {"app": "web", "tier": "1"}) == (["a", "b"], 0)
    selectors.remove("n", "a")
    assert _selecting(selectors, {"app": "web"}, {"app": "web", "tier": "1"}) == (["b"], 0)


def test_a_selector_that_changes_counts_as_it_is_now_however_it_is_written() -> None:
    selectors = TargetSelectors()
    for name, text in (("a", "app=web"), ("b", "app in (web,db)"), ("c", "!legacy"), ("d", "tier=1,app=web")):
        selectors.put("n", name, parse(text))
    assert _selecting(selectors, {"app": "web"}) == (["a", "b", "c"], 0)
    selectors.put("n", "a", parse("app=db"))
    selectors.put("n", "d", parse("app=web"))
    assert _selecting(selectors, {"app": "web"}) == (["b", "c", "d"], 0)


def test_autoscalers_of_other_pods_are_not_asked() -> None:
    """With hundreds of them in a namespace each look would else cost hundreds."""
    asked: list[str] = []

    class Counted(Selector):
        def matches(self, labels: Labels) -> bool:
            asked.append(str(self))
            return super().matches(labels)

    selectors = TargetSelectors()
    for number in range(100):
        selectors.put("n", f"a-{number}", Counted(parse(f"tier=1,app=app-{number}").requirements))
    assert _selecting(selectors, {"app": "app-7", "tier": "1"}) == (["a-7"], 0)
    assert asked == ["app=app-7,tier=1"]


def test_others_get_a_turn_while_many_pods_are_looked_at() -> None:
    selectors = TargetSelectors()
    selectors.put("n", "a", parse("app=web"))
    selectors.put("n", "b", parse("app=db"))
    assert _selecting(selectors, *[{"app": "web"}] * 4001) == (["a"], 2)
