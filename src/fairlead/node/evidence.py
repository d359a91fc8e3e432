"""What a node knew when it chose whom to evict or the kernel whom to kill, kept as an annotation of the event.

Upstream says only what it did. Whoever asks why later (`fairlead why`) needs the others that were there at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from fairlead.api.objects import Obj

#: On `Evicted` events: the order in which pods would have gone.
RANKING: Final = "fairlead.dev/eviction-ranking"
#: On `SystemOOM` events: the processes with the greatest scores.
OOM_SCORES: Final = "fairlead.dev/oom-scores"
#: How many pods or processes are kept.
MOST_KEPT: Final = 10

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


class RankedPod(msgspec.Struct, frozen=True):
    """Amounts of the resource that was short: bytes, inodes or processes."""

    pod: str
    priority: int
    used: int
    requested: int

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
    processes: tuple[ScoredProcess, ...]
    more: int = 0


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
