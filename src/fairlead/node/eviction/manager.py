"""The eviction loop: what one pass makes of what was observed (S3-35 to S3-44, S3-55, S3-59 to S3-66, S3-79 to S3-82).

A pass is a generator, for in its middle something may have to be freed on the node and measured again. At most one pod
goes in a pass, local storage limits aside; whoever drives it waits for the pod to be gone before the next.

Two habits of the kubelet: in its first pass it does not know yet what follows from the file systems that there are
(thresholds of containerfs), and among several thresholds of disk or process IDs it leaves the choice to chance. We take
the first as it was configured, hard before soft.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from fairlead.api.objects import Obj
from fairlead.node.disruption import disruption
from fairlead.node.eviction.candidates import Candidate, MeasuredPod
from fairlead.node.eviction.local_storage import Excess, over_limits
from fairlead.node.eviction.messages import EVICTED, eviction_message
from fairlead.node.eviction.ranking import Overuse, Usages, first_victim
from fairlead.node.eviction.reclaim import Reclaim, reclaims
from fairlead.node.eviction.settings import EvictionSettings
from fairlead.node.eviction.signals import (
    CONDITION,
    MEMORY,
    RESOURCE,
    FileSystems,
    NodeStats,
    Observation,
    Observations,
    Signal,
)
from fairlead.node.eviction.thresholds import Threshold, met, unresolved, with_containerfs

#: How long a pod gets to stop when it has to go at once.
IMMEDIATE_GRACE_SECONDS: Final = 1
#: How often a node looks at its signals, and how long it waits for an evicted pod to be gone.
MONITORING_SECONDS: Final = 10.0
CLEANUP_SECONDS: Final = 30.0


class Eviction(msgspec.Struct, frozen=True):
    """A pod that has to go."""

    candidate: Candidate
    #: Of a threshold, or of a limit of local storage.
    signal: str
    message: str
    grace_seconds: int
    #: Of the event; None if there are none to make.
    annotations: Mapping[str, str] | None = None
    #: Whether the node is short of something, which the pod's conditions then say.
    is_disruption: bool = True
    #: The limit of local storage that it exceeds, if it goes for that.
    excess: Excess | None = None

    def status(self) -> Obj:
        return {"phase": "Failed", "reason": EVICTED, "message": self.message}

    def condition(self) -> Obj | None:
        return disruption(self.message) if self.is_disruption else None


class EvictionState(msgspec.Struct, frozen=True):
    """What one pass leaves to the next."""

    #: Thresholds in force; None before the first pass.
    thresholds: tuple[Threshold, ...] | None = None
    #: When each threshold that is met now was met first.
    first_met: Mapping[Threshold, float] = msgspec.field(default_factory=dict)
    #: Those of them that are past their grace period.
    past_grace: tuple[Threshold, ...] = ()
    #: When each condition was seen last.
    last_seen: Mapping[str, float] = msgspec.field(default_factory=dict)
    #: Conditions that the node shows.
    conditions: tuple[str, ...] = ()
    observations: Observations = msgspec.field(default_factory=dict)


class EvictionInputs(msgspec.Struct, frozen=True):
    """What a pass looks at besides the node's figures."""

    filesystems: FileSystems
    #: The pod that goes first when a signal is low; None if nobody may go. A pass asks once, and only if somebody must
    #: go: who simulates many nodes measures the victim alone.
    victim: Callable[[Signal], MeasuredPod | None]
    #: Those pods that have limits of local storage, as hardly any has.
    storage_limited: Iterable[MeasuredPod] = ()

    @classmethod
    def of_pods(
        cls, filesystems: FileSystems, candidates: Sequence[Candidate], usages: Usages, overuse: Overuse | None = None
    ) -> EvictionInputs:
        """Of a node's pods that have anything running, and what was measured of each, by uid."""

        def victim(signal: Signal) -> MeasuredPod | None:
            first = first_victim(candidates, usages, signal, filesystems, overuse)
            return None if first is None else MeasuredPod(first, usages.get(first.uid))

        limited = (MeasuredPod(pod, usages.get(pod.uid)) for pod in candidates if pod.has_storage_limits)
        return cls(filesystems, victim, tuple(limited))


class PassOutcome(msgspec.Struct, frozen=True):
    state: EvictionState
    #: What the node is about to reclaim: it says so in an event.
    starved_resource: str = ""
    evictions: tuple[Eviction, ...] = ()


#: Yields what is to be freed on the node, and is sent what is observed after that.
EvictionPass: TypeAlias = Generator[tuple[Reclaim, ...], NodeStats, PassOutcome]


def eviction_pass(
    settings: EvictionSettings, state: EvictionState, stats: NodeStats, inputs: EvictionInputs, now: float
) -> EvictionPass:
    if not settings.thresholds and not settings.local_storage_limits:
        return PassOutcome(state)
    observations = stats.observations(inputs.filesystems)
    before = state.observations
    state = _observed(_watched(settings, state, inputs.filesystems), state, observations, settings, now)
    if settings.local_storage_limits:
        limits = over_limits(inputs.storage_limited, inputs.filesystems)
        evictions = tuple(
            Eviction(
                candidate, excess.signal, excess.message, IMMEDIATE_GRACE_SECONDS, is_disruption=False, excess=excess
            )
            for candidate, excess in limits
        )
        if evictions:
            return PassOutcome(state, evictions=evictions)
    due = _due(state.past_grace, observations, before)
    if not due:
        return PassOutcome(state)
    resource = RESOURCE[due[0].signal]
    if wanted := reclaims(due[0].signal, inputs.filesystems):
        after = (yield wanted).observations(inputs.filesystems)
        if not any(unresolved(state.thresholds or (), after)):
            return PassOutcome(state, resource)
    victim = _victim(due, observations, inputs, settings.maximum_grace_seconds)
    return PassOutcome(state, resource, () if victim is None else (victim,))


def _watched(
    settings: EvictionSettings, state: EvictionState, filesystems: FileSystems
) -> tuple[tuple[Threshold, ...], tuple[Threshold, ...]]:
    """The thresholds that this pass looks at, and those that all later ones do."""
    if state.thresholds is not None:
        return state.thresholds, state.thresholds
    known = with_containerfs(settings.thresholds, filesystems)
    return known.replaced, known.completed


def _observed(
    watched: tuple[tuple[Threshold, ...], tuple[Threshold, ...]],
    state: EvictionState,
    observations: Observations,
    settings: EvictionSettings,
    now: float,
) -> EvictionState:
    """What is met now, since when, and what the node shows of it."""
    looked_at, thresholds = watched
    found = dict.fromkeys((*met(looked_at, observations), *unresolved(state.past_grace, observations)))
    first_met = {threshold: state.first_met.get(threshold, now) for threshold in found}
    seen_now = {CONDITION[RESOURCE[threshold.signal]]: now for threshold in found}
    last_seen = {**state.last_seen, **seen_now}
    return EvictionState(
        thresholds=thresholds,
        first_met=first_met,
        past_grace=tuple([each for each, since in first_met.items() if now - since >= each.grace_seconds]),
        last_seen=last_seen,
        conditions=tuple([each for each, at in last_seen.items() if now - at < settings.transition_seconds]),
        observations=observations,
    )


def _due(past_grace: Iterable[Threshold], observations: Observations, before: Observations) -> list[Threshold]:
    """Those whose figures are newer than in the last pass; memory first."""
    fresh = [each for each in past_grace if _is_fresh(observations.get(each.signal), before.get(each.signal))]
    return sorted(fresh, key=lambda threshold: RESOURCE[threshold.signal] != MEMORY)


def _is_fresh(observation: Observation | None, before: Observation | None) -> bool:
    if observation is None:
        return False
    if before is None or observation.measured_at is None or before.measured_at is None:
        return True
    return observation.measured_at > before.measured_at


def _victim(
    due: Sequence[Threshold], observations: Observations, inputs: EvictionInputs, maximum_grace_seconds: int
) -> Eviction | None:
    """The first pod in the order of eviction that is not critical."""
    target = due[0]
    if (victim := inputs.victim(target.signal)) is None:
        return None
    candidate, usage = victim
    message, annotations = eviction_message(RESOURCE[target.signal], candidate, usage, due, observations)
    grace_seconds = IMMEDIATE_GRACE_SECONDS if target.is_hard else _soft_grace(candidate, maximum_grace_seconds)
    return Eviction(candidate, target.signal, message, grace_seconds, annotations)


def _soft_grace(candidate: Candidate, maximum_grace_seconds: int) -> int:
    """The lesser of what the node allows and what the pod asks for (S3-38)."""
    if candidate.grace_seconds is None:
        return maximum_grace_seconds
    return min(maximum_grace_seconds, candidate.grace_seconds)
