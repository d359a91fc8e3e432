"""Who selects whom by labels, found without a look at everything in the namespace.

With a thousand services over a thousand pods, a look at all services for each pod that changes is a million looks. So
an object is filed under each of its labels, and a selector under labels of which whatever it selects has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from fairlead.api.labels import Label, LabelSelector
from fairlead.api.meta import Object
from fairlead.client.informer import Index
from fairlead.controllers.actions import Kind
from fairlead.controllers.base import World, by_name

T = TypeVar("T", bound=Object)

#: The selector of an object; None for one that selects nothing.
SelectorOf: TypeAlias = Callable[[T], LabelSelector | None]


def selected(world: World, kind: Kind[T], namespace: str, selector: LabelSelector) -> list[T]:
    """The objects of a namespace that a selector selects, by name."""
    filed = world.of(kind).index("labels", _by_labels)
    return by_name(_matching(filed, namespace, selector))


def selected_orphans(world: World, kind: Kind[T], namespace: str, selector: LabelSelector) -> list[T]:
    """Those of them that nobody controls, in no particular order."""
    filed = world.of(kind).index("labels of orphans", _by_labels_if_orphan)
    return _matching(filed, namespace, selector)


def selecting(
    world: World, kind: Kind[T], selector_of: SelectorOf[T], namespace: str, labels: Mapping[str, str]
) -> list[T]:
    """The objects of a namespace that select what has these labels, by name. Each kind has one sort of selector."""
    informer = world.of(kind)
    if not informer:
        return []

    def keys(obj: T) -> list[str]:
        selector = selector_of(obj)
        return _keys(obj.metadata.namespace, selector.narrowest()) if selector is not None else []

    filed = informer.index("selector", keys)
    places = [*_keys(namespace, tuple(labels.items())), _anywhere(namespace)]
    found = (obj for place in dict.fromkeys(places) for obj in filed[place])
    return by_name([obj for obj in found if (selector := selector_of(obj)) is not None and selector.matches(labels)])


def _matching(filed: Index[T], namespace: str, selector: LabelSelector) -> list[T]:
    """Looks through the labels that the fewest objects have."""
    alternatives = [_keys(namespace, labels) for labels in selector.required()] or [[_anywhere(namespace)]]
    places, matches = min(alternatives, key=lambda keys: sum(map(filed.count, keys))), selector.for_many()
    return [obj for place in dict.fromkeys(places) for obj in filed[place] if matches(obj.metadata.labels)]


def _keys(namespace: str, labels: Sequence[Label]) -> list[str]:
    return [f"{namespace}/{key}={value}" for key, value in labels] or [_anywhere(namespace)]


def _anywhere(namespace: str) -> str:
    return f"{namespace}/"


def _by_labels(obj: Object) -> list[str]:
    namespace = obj.metadata.namespace
    return [*(f"{namespace}/{key}={value}" for key, value in obj.metadata.labels.items()), _anywhere(namespace)]


def _by_labels_if_orphan(obj: Object) -> list[str]:
    return _by_labels(obj) if obj.metadata.controller is None else []
