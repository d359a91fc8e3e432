"""A profile: which plugins a scheduler has, where each takes part, and with which weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from fairlead.api.scheduling import DEFAULT_SCHEDULER, Pod
from fairlead.scheduler.framework import NO_EVENT, AnyPlugin, EventKind, Plugin, PodRelationPlugin, Refused
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.snapshot import Snapshot


class Weighted(msgspec.Struct, frozen=True):
    """A plugin's place in a profile. The weight counts only if it scores."""

    plugin: Plugin
    weight: int = 1
    filters: bool = True
    scores: bool = True


class WeightedRelationPlugin(msgspec.Struct, frozen=True):
    """The same for a plugin of the other family."""

    plugin: PodRelationPlugin
    weight: int = 1
    filters: bool = True
    scores: bool = True


@dataclass(frozen=True)
class Profile:
    """The plugins of one scheduler, in the order in which they are asked."""

    plugins: Sequence[Weighted]
    relations: Sequence[WeightedRelationPlugin] = ()
    #: Pods ask for it by `schedulerName`.
    name: str = DEFAULT_SCHEDULER
    #: The plugins at these extension points, in the order in which they are asked.
    post_filters: Sequence[AnyPlugin] = ()
    pre_binders: Sequence[AnyPlugin] = ()
    binders: Sequence[AnyPlugin] = ()

    @cached_property
    def all(self) -> tuple[AnyPlugin, ...]:
        return (*(place.plugin for place in self.plugins), *(place.plugin for place in self.relations))

    def enables(self, kind: type[AnyPlugin]) -> bool:
        return any(isinstance(plugin, kind) for plugin in self.all)

    @cached_property
    def rank(self) -> Callable[[Pod, float], tuple[float, ...]]:
        """Orders the pods that wait: PrioritySort, unless a plugin knows better (S3-15)."""
        return next((plugin for plugin in self.all if overrides(plugin, "rank")), AnyPlugin()).rank

    @cached_property
    def reservers(self) -> tuple[AnyPlugin, ...]:
        return tuple(plugin for plugin in self.all if overrides(plugin, "reserve") or overrides(plugin, "unreserve"))

    @cached_property
    def permitters(self) -> tuple[AnyPlugin, ...]:
        return tuple(plugin for plugin in self.all if overrides(plugin, "permit"))

    @cached_property
    def gates(self) -> tuple[AnyPlugin, ...]:
        return tuple(plugin for plugin in self.all if overrides(plugin, "pre_enqueue"))

    def filtering(self, requirements: PodRequirements) -> list[Weighted]:
        """The plugins about nodes that have a say about such pods."""
        return [place for place in self.plugins if place.filters and place.plugin.filters(requirements)]

    @cached_property
    def lookers(self) -> tuple[Plugin, ...]:
        """The plugins that may have something to find out before they filter."""
        filters = (place.plugin for place in self.plugins if place.filters)
        return tuple(plugin for plugin in filters if overrides(plugin, "look_in_turns", Plugin))

    @cached_property
    def relation_filters(self) -> tuple[PodRelationPlugin, ...]:
        return tuple(place.plugin for place in self.relations if place.filters)

    @cached_property
    def relation_scorers(self) -> tuple[WeightedRelationPlugin, ...]:
        return tuple(place for place in self.relations if place.scores)

    @cached_property
    def relation_names(self) -> frozenset[str]:
        """The plugins about other pods."""
        return frozenset(place.plugin.name for place in self.relations)

    @cached_property
    def events(self) -> EventKind:
        """The changes that may help with any of the plugins."""
        found = NO_EVENT
        for plugin in self.all:
            found |= plugin.events
        return found

    def pre_enqueue(self, pod: Pod, snapshot: Snapshot) -> tuple[AnyPlugin, Refused] | None:
        """The first plugin that holds the pod back, and why."""
        for plugin in self.gates:
            refused = plugin.pre_enqueue(pod, snapshot)
            if refused is not None:
                return plugin, refused
        return None

    def named(self, names: frozenset[str]) -> list[AnyPlugin]:
        return [plugin for plugin in self.all if plugin.name in names]


def overrides(plugin: AnyPlugin, method: str, base: type[AnyPlugin] = AnyPlugin) -> bool:
    """Whether the plugin takes part at an extension point."""
    return getattr(type(plugin), method) is not getattr(base, method)
