"""What a node knew when it chose whom to evict or the kernel whom to kill, kept as an annotation of the event.

Upstream says only what it did. Whoever asks why later (`fairlead why`) needs the others that were there at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from fairlead.api.objects import Obj
from fairlead.node.eviction.candidates import Candidate, PodUsage
from fairlead.node.eviction.local_storage import Excess
from fairlead.node.eviction.manager import EvictionState
from fairlead.node.eviction.ranking import Overuse, Usages, disk_usage, measured, ranked
from fairlead.node.eviction.signals import (
    CONDITION,
    INODES,
    MEMORY,
    PIDS,
    RESOURCE,
    STORAGE,
    FileSystems,
    Signal,
    amount,
)

#: On `Evicted` events: the order in which pods would have gone.
RANKING: Final = "fairlead.dev/eviction-ranking"
#: On `SystemOOM` and `OOMKilling` events: the processes with the greatest scores.
OOM_SCORES: Final = "fairlead.dev/oom-scores"
#: On `Evicted` events of pods above a limit of local storage.
STORAGE_USE: Final = "fairlead.dev/local-storage-use"
#: On events of pods that a node refused because it is short of something.
PRESSURE: Final = "fairlead.dev/pressure"
#: How many pods or processes are kept.
MOST_KEPT: Final = 10

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


class RankedPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """Amounts of the resource that was short: bytes, inodes or processes."""

    pod: str
    priority: int
    used: int
    requested: int
    #: How far its namespace is above what it deserves, if that counts.
    overuse: float = 0.0

    @property
    def excess(self) -> int:
        return self.used - self.requested


class Ranking(msgspec.Struct, frozen=True):
    resource: str
    #: First to go first.
    pods: tuple[RankedPod, ...]
    #: How many came after these.
    more: int = 0


class ScoredProcess(msgspec.Struct, frozen=True):
    pod: str
    container: str
    memory: int
    oom_score_adj: int
    oom_score: int


class OomScores(msgspec.Struct, frozen=True):
    #: The one with the greatest score, which was killed, comes first.
    processes: tuple[ScoredProcess, ...]
    more: int = 0
    #: Whose memory ended; none: that of the whole machine.
    cgroup: str = ""


class StorageUse(msgspec.Struct, frozen=True):
    #: In bytes.
    used: int
    limit: str

    @classmethod
    def of(cls, excess: Excess) -> StorageUse:
        return cls(excess.used, str(excess.limit))


class LowSignal(msgspec.Struct, frozen=True):
    signal: str
    threshold: str
    available: str
    #: Or only was so: a condition outlasts its cause.
    is_met: bool


class Pressure(msgspec.Struct, frozen=True):
    signals: tuple[LowSignal, ...]


def pressure(state: EvictionState) -> Pressure:
    """The thresholds behind the conditions that a node shows, with what was observed last."""
    rows = []
    for condition in state.conditions:
        concerned = [it for it in state.thresholds or () if CONDITION[RESOURCE[it.signal]] == condition]
        met = [it for it in concerned if it in state.first_met]
        for threshold in met or concerned:
            resource = RESOURCE[threshold.signal]
            if (observation := state.observations.get(threshold.signal)) is not None:
                available = str(amount(resource, observation.available))
                limit = amount(resource, threshold.of(observation).units)
                rows.append(LowSignal(threshold.signal, str(limit), available, bool(met)))
    return Pressure(tuple(rows))


def ranked_pod(
    candidate: Candidate, usage: PodUsage, signal: Signal, filesystems: FileSystems, overuse: Overuse | None = None
) -> RankedPod:
    """What counts of a pod when that signal is low."""
    return RankedPod(
        f"{candidate.namespace}/{candidate.name}",
        candidate.priority,
        _used(candidate, usage, signal, filesystems),
        _requested(candidate, RESOURCE[signal]),
        overuse(candidate.namespace) if overuse else 0.0,
    )


def ranking(candidates: Iterable[Candidate], usages: Usages, signal: Signal, filesystems: FileSystems) -> Ranking:
    """The order in which they go when that signal is low; what was not measured is shown as nothing."""
    evictable = [each for each in candidates if not each.is_critical]
    order = ranked(evictable, usages, signal, filesystems)
    first = tuple(ranked_pod(each, usages.get(each.uid, PodUsage()), signal, filesystems) for each in order[:MOST_KEPT])
    return Ranking(RESOURCE[signal], first, len(order) - len(first))


def _requested(candidate: Candidate, resource: str) -> int:
    """Nobody requests inodes or processes."""
    if resource == MEMORY:
        return candidate.memory_request.units
    return candidate.storage_request.units if resource == STORAGE else 0


def _used(candidate: Candidate, usage: PodUsage, signal: Signal, filesystems: FileSystems) -> int:
    resource = RESOURCE[signal]
    if resource == MEMORY:
        return usage.memory or 0
    if resource == PIDS:
        return usage.processes
    disk = disk_usage(candidate, usage, measured(signal, filesystems))
    return (disk.inodes if resource == INODES else disk.used) or 0


def annotation(evidence: msgspec.Struct) -> str:
    return msgspec.json.encode(evidence).decode()


def found_in(events: Iterable[Obj], key: str, kind: type[_Kind]) -> _Kind | None:
    """The evidence of the latest of these events that has any; what cannot be read is none."""
    for event in reversed(list(events)):
        text = (event["metadata"].get("annotations") or {}).get(key)
        if text:
            try:
                return msgspec.json.decode(text, type=kind)
            except msgspec.DecodeError:
                continue
    return None
