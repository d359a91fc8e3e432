"""Page cache within a container's memory limit, which counts it as it counts every other page.

The kernel makes room at the limit: cache that nobody needs goes first. Cache in use that is larger than the room left
for it is read round and round, and each page is gone before it is used again: so none of it counts as in use (measured:
of 110 MiB for which 150 are wanted 14 to 30 do, a few seconds after it has stopped to grow).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.api.pods import Pod
from fairlead.sim.machine.own_limit import memory_limit
from fairlead.sim.usage.declarations import Declaration, PodUsageModels
from fairlead.sim.usage.measures import Measure
from fairlead.sim.usage.models import Constant, Sum, UsageModel

_CACHES: Final = (Measure.ACTIVE_FILE, Measure.INACTIVE_FILE)
_NOTHING: Final = Constant(0.0)


class _Cache(msgspec.Struct, frozen=True):
    """What a container wants of each kind, and what else has to fit in its limit."""

    active: UsageModel
    inactive: UsageModel
    anonymous: UsageModel
    limit: int

    def room(self, now: float, since: float) -> float:
        return max(self.limit - self.anonymous.at(now, since), 0.0)


class _ActiveFile(msgspec.Struct, frozen=True):
    cache: _Cache

    def at(self, now: float, since: float) -> float:
        wanted = self.cache.active.at(now, since)
        return wanted if wanted <= self.cache.room(now, since) else 0.0

    def peak(self, begin: float, end: float, since: float) -> float:
        """An upper bound."""
        return min(self.cache.active.peak(begin, end, since), self.cache.limit)


class _InactiveFile(msgspec.Struct, frozen=True):
    cache: _Cache

    def at(self, now: float, since: float) -> float:
        cache, room = self.cache, self.cache.room(now, since)
        active = cache.active.at(now, since)
        return room if active > room else min(cache.inactive.at(now, since), room - active)

    def peak(self, begin: float, end: float, since: float) -> float:
        """An upper bound."""
        cache = self.cache
        wanted = cache.active.peak(begin, end, since) + cache.inactive.peak(begin, end, since)
        return min(wanted, cache.limit)


def within_limits(usage: PodUsageModels, pod: Pod, without_children: frozenset[str]) -> PodUsageModels:
    """The same, with no more page cache of any container than its limit leaves room for."""
    if not any(cache in measures for measures in usage.containers.values() for cache in _CACHES):
        return usage
    limits = {it.name: memory_limit(pod, it) for it in (*pod.spec.containers, *pod.spec.init_containers)}
    containers = dict(usage.containers)
    for name, measures in usage.containers.items():
        limit = limits.get(name)
        if limit and any(cache in measures for cache in _CACHES):
            containers[name] = _limited(usage, name, limit, has_children=name not in without_children)
    return msgspec.structs.replace(usage, containers=containers)


def _limited(usage: PodUsageModels, name: str, limit: int, *, has_children: bool) -> Mapping[Measure, Declaration]:
    def model(measure: Measure) -> UsageModel:
        return usage.model(name, measure) or _NOTHING

    children = [model(Measure.CHILD_MEMORY)] if has_children else []
    anonymous = Sum((model(Measure.MEMORY), *children, *usage.in_memory(name)))
    cache = _Cache(model(Measure.ACTIVE_FILE), model(Measure.INACTIVE_FILE), anonymous, limit)
    return {
        **usage.containers[name],
        Measure.ACTIVE_FILE: Declaration(_ActiveFile(cache), "", ""),
        Measure.INACTIVE_FILE: Declaration(_InactiveFile(cache), "", ""),
    }
