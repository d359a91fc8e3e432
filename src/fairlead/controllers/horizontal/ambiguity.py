"""Which autoscalers select the same pods: two that scale by what one set of pods uses would work against each other."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from fairlead.api.pods import Pod
from fairlead.api.selectors import Selector
from fairlead.controllers.actions import Action, GiveWay
from fairlead.controllers.horizontal.proposals import TURN_PODS


class TargetSelectors:
    """The selector of each autoscaler's target, as last seen, by namespace and name."""

    def __init__(self) -> None:
        self._selectors: dict[str, dict[str, Selector]] = {}

    def put(self, namespace: str, name: str, selector: Selector) -> None:
        self._selectors.setdefault(namespace, {})[name] = selector

    def remove(self, namespace: str, name: str) -> None:
        known = self._selectors.get(namespace, {})
        known.pop(name, None)
        if not known:
            self._selectors.pop(namespace, None)

    def selecting(self, namespace: str, pods: Iterable[Pod]) -> Generator[Action, Any, list[str]]:
        """The autoscalers that select any of the pods, by name; each set of labels is looked at once."""
        undecided = dict(self._selectors.get(namespace, {}))
        if len(undecided) < 2:
            return []
        different = set[tuple[tuple[str, str], ...]]()
        for index, pod in enumerate(pods):
            different.add(tuple(pod.metadata.labels.items()))
            if index % TURN_PODS == TURN_PODS - 1:
                yield GiveWay()
        found: list[str] = []
        for labels in different:
            matching = [name for name, selector in undecided.items() if selector.matches(dict(labels))]
            found += matching
            for name in matching:
                del undecided[name]
        return sorted(found)
