"""The PodDisruptionBudgets of the cluster: the facts behind whom preemption spares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeAlias

import msgspec

from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.labels import Labels
from fairlead.api.scheduling import Pod

#: Where a pod finds the budgets that may guard it: its namespace with one of its labels, and alone for those whose
#: pods may have any.
_Place: TypeAlias = tuple[str, ...]


class _Guard(msgspec.Struct, frozen=True):
    budget: PodDisruptionBudget
    matches: Callable[[Labels], bool]


class Budgets:
    """Every budget by `namespace/name`; `version` grows with each change."""

    def __init__(self) -> None:
        self.version = 0
        self._places: dict[str, list[_Place]] = {}
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
        for place in self._places.pop(key, ()):
            del self._guards[place][key]
            if not self._guards[place]:
                del self._guards[place]
        if new is not None and (selector := new.spec.selector) is not None and not selector.is_empty:
            guard, namespace = _Guard(new, selector.for_many()), new.metadata.namespace
            self._places[key] = [(namespace, *label) for label in selector.narrowest()] or [(namespace,)]
            for place in self._places[key]:
                self._guards.setdefault(place, {})[key] = guard
        self.version += 1
