"""The PodDisruptionBudgets of the cluster: the facts behind whom preemption spares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.labels import Labels, LabelSelector
from fairlead.api.scheduling import Pod

#: Where pods are looked up that a selector may match: their namespace, and a label if there is one that they must have.
_Place: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Guard:
    budget: PodDisruptionBudget
    matches: Callable[[Labels], bool]


class Budgets:
    """Every budget by `namespace/name`; `version` grows with each change."""

    def __init__(self) -> None:
        self.version = 0
        self._places: dict[str, _Place] = {}
        self._guards: dict[_Place, dict[str, _Guard]] = {}

    def __len__(self) -> int:
        """How many there are that guard anybody."""
        return len(self._places)

    def guarding(self, pod: Pod) -> Iterator[PodDisruptionBudget]:
        """Those against which the pod's leaving would count; one that is let go already counts no more."""
        meta = pod.metadata
        namespace, labels = meta.namespace, meta.labels
        places = chain([(namespace,)], ((namespace, key, value) for key, value in labels.items()))
        for place in places if labels else ():
            for guard in self._guards.get(place, {}).values():
                if guard.matches(labels) and meta.name not in guard.budget.status.disrupted_pods:
                    yield guard.budget

    def set(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        """A budget came, changed or went."""
        either = new or old
        assert either is not None
        key = either.metadata.key
        if (place := self._places.pop(key, None)) is not None:
            del self._guards[place][key]
            if not self._guards[place]:
                del self._guards[place]
        if new is not None and (selector := new.spec.selector) is not None and not selector.is_empty:
            self._places[key] = place = _place(new.metadata.namespace, selector)
            self._guards.setdefault(place, {})[key] = _Guard(new, selector.for_many())
        self.version += 1


def _place(namespace: str, selector: LabelSelector) -> _Place:
    return (namespace, *min(selector.match_labels.items())) if selector.match_labels else (namespace,)
