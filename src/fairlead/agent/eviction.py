"""Keeps the node from running out of memory, disk, inodes or process IDs: it looks every few seconds, and ends pods.

    measured ─▶ a pass of `node.eviction` ─▶ freed on the node, measured again ─▶ pods evicted ─▶ they are gone
        ▲                                                                                             │
        └─────────────────────────────────────────────────────────────────────────────────────────────┘

What goes wrong in one pass is tried again in the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from fairlead.agent.measuring.measurer import Measurer
from fairlead.agent.memory_notices import MemoryNotices
from fairlead.agent.pods.worker import PodWorker
from fairlead.agent.reclaiming import Reclaimer
from fairlead.api.event_types import WARNING
from fairlead.node.eviction.candidates import PodUsage, candidate
from fairlead.node.eviction.manager import (
    CLEANUP_SECONDS,
    Eviction,
    EvictionInputs,
    EvictionState,
    PassOutcome,
    eviction_pass,
)
from fairlead.node.eviction.measured import node_stats, pod_usage
from fairlead.node.eviction.messages import THRESHOLD_MET, attempting_to_reclaim
from fairlead.node.eviction.settings import EvictionSettings
from fairlead.node.eviction.signals import Signal
from fairlead.node.evidence import RANKING, STORAGE_USE, StorageUse, annotation, ranking
from fairlead.node.grace_periods import stop_timeout
from fairlead.node.plan import NodeEvent
from fairlead.node.pod_lifecycle import PodKill
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.runtime.clock import monotonic, now

#: Who goes back and forth over a threshold has the node look no more often.
_BETWEEN_NOTICES_SECONDS: Final = 1.0
#: How long a pass waits to know what pods have on the disk now: the disk goes on filling.
_WALK_SECONDS: Final = 5.0
#: How long before a look at its usual time that is found out: limits of local storage are held against what is there.
_FRESH_SECONDS: Final = 0.5

log = logging.getLogger(__name__)


class Evictions:
    """`pressed` is called when the node shows other conditions, `tell` with what there is to say of it."""

    def __init__(
        self,
        settings: EvictionSettings,
        worker: PodWorker,
        measurer: Measurer,
        reclaimer: Reclaimer,
        notices: MemoryNotices,
        pressed: Callable[[], None],
        tell: Callable[[NodeEvent], None],
    ) -> None:
        self._notices = notices
        self._settings, self._worker, self._measurer = settings, worker, measurer
        self._reclaimer, self._pressed, self._tell = reclaimer, pressed, tell
        #: Of pods, by signal, since the start.
        self.counts: Counter[str] = Counter()
        self._state = EvictionState()
        self._doomed: frozenset[str] = frozenset()  # uids of those that the last pass has ended
        self._wait_until = 0.0

    @property
    def pressures(self) -> Sequence[str]:
        """The conditions that the node shows."""
        return self._state.conditions

    async def run(self, seconds: float) -> None:
        """Measure and look so often, and when the kernel tells that memory is short; until cancelled."""
        try:
            while True:
                try:
                    await self._look()
                except OSError as error:
                    log.warning("what this node is short of cannot be found out, trying again: %s", error)
                await self._next_look(seconds)
        finally:
            self._notices.close()

    async def _next_look(self, seconds: float) -> None:
        """Folders are walked right before, but not if memory falls short, which does not wait."""
        least = min(seconds, _BETWEEN_NOTICES_SECONDS)
        fresh = min(_FRESH_SECONDS, seconds - least)
        await asyncio.sleep(least)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds - least - fresh):
                await self._notices.noticed.wait()
        if not self._notices.noticed.is_set():
            walked_by = monotonic() + fresh
            await self._measurer.walk(fresh)
            await asyncio.sleep(walked_by - monotonic())
        self._notices.noticed.clear()

    async def _look(self) -> None:
        are_leaving = any(map(self._worker.holds, self._doomed))  # as it was before anything was measured
        measured = await self._measurer.measure()
        self._notices.set(measured)
        await self._reclaimer.notice()
        if are_leaving and monotonic() < self._wait_until:
            return  # what they use is there again only when they are gone
        before, filesystems = self._state.conditions, self._measurer.file_systems
        usages = _usages(measured)
        begun = self._measurer.pods_with_containers  # also those of which nothing runs now: they count as the worst
        candidates = [candidate(pod) for pod in self._worker.admitted if pod["metadata"]["uid"] in begun]
        inputs = EvictionInputs.of_pods(filesystems, candidates, usages)
        outcome = await self._pass(measured, inputs, usages)
        self._state = outcome.state
        if set(self._state.conditions) != set(before):
            self._pressed()
        if outcome.starved_resource:
            self._tell(NodeEvent(WARNING, THRESHOLD_MET, attempting_to_reclaim(outcome.starved_resource)))
        doomed = set()
        for eviction in outcome.evictions:
            evidence = {}
            if eviction.excess is not None:
                evidence[STORAGE_USE] = annotation(StorageUse.of(eviction.excess))
            else:
                evidence[RANKING] = annotation(ranking(candidates, usages, Signal(eviction.signal), filesystems))
            if self._evict(eviction, evidence):
                doomed.add(eviction.candidate.uid)
        self._doomed, self._wait_until = frozenset(doomed), monotonic() + CLEANUP_SECONDS

    async def _pass(
        self, measured: NodeMeasurements, inputs: EvictionInputs, usages: dict[str, PodUsage]
    ) -> PassOutcome:
        """`usages` are brought up to date before anybody goes for a disk: who filled it may have done so just now."""
        stats = node_stats(measured, inputs.filesystems)
        running_pass = eviction_pass(self._settings, self._state, stats, inputs, monotonic())
        try:
            wanted = next(running_pass)
            while True:
                await self._reclaimer.reclaim(wanted)
                await self._measurer.walk(_WALK_SECONDS, is_for_all=True)
                after = await self._measurer.measure()
                usages.update(_usages(after))
                wanted = running_pass.send(node_stats(after, inputs.filesystems))
        except StopIteration as ended:
            outcome: PassOutcome = ended.value
        return outcome

    def _evict(self, eviction: Eviction, evidence: Mapping[str, str]) -> bool:
        """Whether it goes for that, and not for something else already."""
        uid, stop_seconds = eviction.candidate.uid, stop_timeout(eviction.grace_seconds)
        kill = PodKill(eviction.status(), eviction.condition(), stop_seconds, now())
        real = self._worker.real_pod(uid)
        if real is None or not self._worker.evict(uid, kill):
            return False
        self.counts[eviction.signal] += 1
        real.place.events.evicted(real.pod, eviction.message, {**(eviction.annotations or {}), **evidence})
        return True


def _usages(measured: NodeMeasurements) -> dict[str, PodUsage]:
    """By uid."""
    return {pod.uid: pod_usage(pod) for pod in measured.pods}
