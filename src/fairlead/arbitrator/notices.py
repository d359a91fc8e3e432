"""Eviction notices: which pods will be evicted, and when at the earliest (S2-38)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.objects import Proposal
from fairlead.arbitrator.publishing import EvictionNotice
from fairlead.arbitrator.reclaim import NamespaceReclaim
from fairlead.runtime import clock


class Notices:
    """The notices of all namespaces. Each victim has its own deadline, counted from when its notice was published."""

    def __init__(self) -> None:
        self._notices: dict[str, EvictionNotice] = {}
        self._told: dict[str, dict[str, float]] = {}  # deadlines by uid, of those that have been published
        self._before: dict[str, frozenset[str]] = {}  # uids of those that had been before this cycle

    def get(self, namespace: str) -> EvictionNotice | None:
        return self._notices.get(namespace)

    def all(self) -> Iterable[EvictionNotice]:
        return self._notices.values()

    def recall(self, namespace: str, earlier: Proposal) -> None:
        """Take over the notice that another arbitrator published."""
        self._told[namespace] = {
            victim.uid: clock.parse_timestamp(victim.deadline or earlier.deadline) for victim in earlier.victims
        }

    def on_notice(self) -> frozenset[str]:
        """The uids of all pods in published notices."""
        return frozenset(uid for deadlines in self._told.values() for uid in deadlines)

    def give(self, namespace: str, reclaim: NamespaceReclaim, grace_seconds: float) -> EvictionNotice | None:
        """Set the namespace's notice to this plan; returns the part of it that is new, if any."""
        published = self._told.get(namespace, {})
        deadline = float(math.ceil(clock.now() + grace_seconds))  # whole seconds, as the Allocation shows it
        deadlines = {pod.metadata.uid: published.get(pod.metadata.uid, deadline) for pod in reclaim.victims}
        notice = EvictionNotice(deadlines, tuple(reclaim.victims), tuple(reclaim.beneficiaries))
        self._notices[namespace], self._before[namespace] = notice, frozenset(published)
        fresh = tuple(pod for pod in notice.victims if pod.metadata.uid not in published)
        return replace(notice, deadlines=_deadlines_of(fresh, deadlines), victims=fresh) if fresh else None

    def published(self, namespace: str) -> None:
        """The notice is in the Allocation now: from here on it counts as given."""
        if (notice := self._notices.get(namespace)) is not None:
            self._told[namespace] = dict(notice.deadlines)

    def withdraw(self, wanted: frozenset[str]) -> None:
        """Drop the notices of all other namespaces."""
        for namespace in [name for name in self._notices if name not in wanted]:
            del self._notices[namespace], self._before[namespace]
        for namespace in [name for name in self._told if name not in wanted]:
            del self._told[namespace]

    def due(self, now: float) -> list[tuple[str, EvictionNotice]]:
        """The victims whose deadline has passed and whose notice was published in an earlier cycle."""
        found = []
        for namespace, notice in self._notices.items():
            before, deadlines = self._before[namespace], notice.deadlines
            victims = tuple(
                pod for pod in notice.victims if pod.metadata.uid in before and now >= deadlines[pod.metadata.uid]
            )
            if victims:
                found.append((namespace, replace(notice, deadlines=_deadlines_of(victims, deadlines), victims=victims)))
        return found


def _deadlines_of(pods: Iterable[Pod], deadlines: Mapping[str, float]) -> dict[str, float]:
    return {pod.metadata.uid: deadlines[pod.metadata.uid] for pod in pods}
