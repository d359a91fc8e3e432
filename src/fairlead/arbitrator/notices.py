"""Who was told that pods must go, and until when nothing happens (S2-38)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.objects import Proposal
from fairlead.arbitrator.publishing import Notice
from fairlead.arbitrator.reclaim import Taking
from fairlead.runtime import clock


class Notices:
    """By namespace. Every victim has a deadline of its own, which counts from when it was told."""

    def __init__(self) -> None:
        self._notices: dict[str, Notice] = {}
        self._told: dict[str, dict[str, float]] = {}  # deadlines by uid, of those that have been published
        self._before: dict[str, frozenset[str]] = {}  # uids of those that had been before this cycle

    def get(self, namespace: str) -> Notice | None:
        return self._notices.get(namespace)

    def all(self) -> Iterable[Notice]:
        return self._notices.values()

    def recall(self, namespace: str, earlier: Proposal) -> None:
        """What another arbitrator has told."""
        self._told[namespace] = {
            victim.uid: clock.parse_timestamp(victim.deadline or earlier.deadline) for victim in earlier.victims
        }

    def on_notice(self) -> frozenset[str]:
        """The uids of all that were told."""
        return frozenset(uid for told in self._told.values() for uid in told)

    def give(self, namespace: str, taking: Taking, grace_seconds: float) -> Notice | None:
        """Who is to be told now; the part of it that is new, if any."""
        told = self._told.get(namespace, {})
        deadline = float(math.ceil(clock.now() + grace_seconds))  # what is told in whole seconds is what counts
        deadlines = {pod.metadata.uid: told.get(pod.metadata.uid, deadline) for pod in taking.victims}
        notice = Notice(deadlines, tuple(taking.victims), tuple(taking.beneficiaries))
        self._notices[namespace], self._before[namespace] = notice, frozenset(told)
        fresh = tuple(pod for pod in notice.victims if pod.metadata.uid not in told)
        return replace(notice, deadlines=_deadlines_of(fresh, deadlines), victims=fresh) if fresh else None

    def published(self, namespace: str) -> None:
        """The owner can read it from now on. Until then nobody was told."""
        if (notice := self._notices.get(namespace)) is not None:
            self._told[namespace] = dict(notice.deadlines)

    def withdraw(self, wanted: frozenset[str]) -> None:
        """Nothing is wanted of the others any more."""
        for namespace in [name for name in self._notices if name not in wanted]:
            del self._notices[namespace], self._before[namespace]
        for namespace in [name for name in self._told if name not in wanted]:
            del self._told[namespace]

    def due(self, now: float) -> list[tuple[str, Notice]]:
        """The victims whose time has run out and that were told before: nobody goes unannounced."""
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
