"""Which autoscalers select the same pods: two that scale by what one set of pods uses would work against each other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeAlias

from fairlead.api.pods import Pod
from fairlead.api.selectors import Selector
from fairlead.controllers.actions import Action, GiveWay
from fairlead.controllers.horizontal.proposals import TURN_PODS

_Label: TypeAlias = tuple[str, str]


class TargetSelectors:
    """The selector of each autoscaler's target, as last seen, by namespace and name; and filed under a label that
    whatever it selects has, or under None: with hundreds of autoscalers, each would else ask all the others.
    """

    def __init__(self) -> None:
        self._selectors: dict[str, dict[str, Selector]] = {}
        self._filed: dict[tuple[str, _Label | None], dict[str, Selector]] = {}
        self._followers: list[Callable[[str], None]] = []

    def follow(self, changed: Callable[[str], None]) -> None:
        """`changed` is called with a namespace where one comes, goes or changes."""
        self._followers.append(changed)

    def put(self, namespace: str, name: str, selector: Selector) -> None:
        known = self._selectors.setdefault(namespace, {})
        if known.get(name) == selector:
            return
        self._unfile(namespace, name)
        known[name] = selector
        self._filed.setdefault((namespace, _label_of(selector)), {})[name] = selector
        self._changed(namespace)

    def remove(self, namespace: str, name: str) -> None:
        self._unfile(namespace, name)
        known = self._selectors.get(namespace, {})
        known.pop(name, None)
        if not known:
            self._selectors.pop(namespace, None)
        self._changed(namespace)

    def selecting(self, namespace: str, pods: Iterable[Pod]) -> Generator[Action, Any, list[str]]:
        """The autoscalers that select any of the pods, by name; each set of labels is looked at once."""
        if len(self._selectors.get(namespace, {})) < 2:
            return []
        different = set[tuple[_Label, ...]]()
        for index, pod in enumerate(pods):
            different.add(tuple(pod.metadata.labels.items()))
            if index % TURN_PODS == TURN_PODS - 1:
                yield GiveWay()
        found = set[str]()
        for labels in different:
            found |= self.matching(namespace, labels)
        return sorted(found)

    def matching(self, namespace: str, labels: Iterable[_Label]) -> set[str]:
        """The autoscalers that select what has these labels, by name."""
        found, values = set[str](), dict(labels)
        for label in (*values.items(), None):
            filed = self._filed.get((namespace, label), {})
            found |= {name for name, selector in filed.items() if name not in found and selector.matches(values)}
        return found

    def _changed(self, namespace: str) -> None:
        for changed in self._followers:
            changed(namespace)

    def _unfile(self, namespace: str, name: str) -> None:
        selector = self._selectors.get(namespace, {}).get(name)
        if selector is not None:
            place = namespace, _label_of(selector)
            del self._filed[place][name]
            if not self._filed[place]:
                del self._filed[place]


def _label_of(selector: Selector) -> _Label | None:
    """The label that the fewest pods will have, as far as that can be told: long values are seldom shared."""
    return max(selector.equalities, key=lambda label: len(label[1]), default=None)
