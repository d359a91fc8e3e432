"""What came in a span before the dump comes again: at the same distances, span after span.

Each namespace's Jobs and pods of one stem are a stream. Its newest says how large the others are that are gone. Who
ended lives as long as it did. Of the others nobody knows: they live as long as one of the stream, by lot, that fits to
what is known of them; if none has ended, as Little's law has it: so many times the span as are there for each that
came.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.runtime import rng
from fairlead.sim.behaviour import EXIT_CODE, LIFETIME_SECONDS
from fairlead.sim.durations import span as span_text
from fairlead.sim.openb import Arrival
from fairlead.sim.workloads.generators import MOST_PODS
from fairlead.study.past.events import said_in
from fairlead.study.past.evidence import Came, evidence_of
from fairlead.study.past.templates import again, pods_of
from fairlead.wording import counted

#: Names of Jobs and of their pods have room for so much of a stem.
_LONGEST_STEM: Final = 40
_MOST_NAMED: Final = 3
#: Events that reach back over so much of the span do.
_ENOUGH: Final = 0.9


class Past(msgspec.Struct, frozen=True):
    arrivals: list[Arrival]
    #: What came, and what cannot be known of it, in lines of text.
    notes: list[str]


class _Stream:
    """All of one stem, and those of them that come again."""

    def __init__(self, all_: Sequence[Came], coming: Sequence[Came], taken: float, span: float) -> None:
        newest = sorted(all_, key=lambda came: came.at, reverse=True)
        self.namespace, self.stem, self.coming = newest[0].namespace, newest[0].stem, coming
        #: The newest of which anybody knows how large it is.
        self.job = next((came.job for came in newest if came.job is not None), None)
        #: Of those that have ended, the shortest first; and how many there are.
        self.lives = sorted(came.life for came in all_ if came.life is not None)
        self._running = sum(came.is_running for came in all_)
        self._taken, self._span = taken, span

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.stem}"

    @property
    def pods(self) -> int:
        """How many come in a span."""
        return sum(pods_of(came.job or self.job or {}) for came in self.coming)

    def life(self, came: Came) -> float:
        """How long the pods of one that comes again live."""
        if came.life is not None:
            return came.life
        seen = self._taken - came.at
        first, last = bisect_left(self.lives, seen), len(self.lives)
        if not came.is_running:
            first, last = 0, bisect_right(self.lives, seen)
        if first < last:
            return self.lives[rng.source().randrange(first, last)]
        return max(seen, self._span * self._running / len(self.coming)) if came.is_running else seen

    def played(self, rounds: int, length: float) -> Iterator[Arrival]:
        assert self.job is not None
        name, number = self.stem[:_LONGEST_STEM].rstrip("-."), 0
        for turn in range(rounds):
            for came in self.coming:
                at = turn * self._span + came.at - (self._taken - self._span)
                if at < length:
                    number += 1
                    annotations = {LIFETIME_SECONDS: f"{max(self.life(came), 0.001):.3f}"}
                    if came.has_failed:
                        annotations[EXIT_CODE] = "1"
                    job = again(came.job or self.job, f"{name}-again-{number}", self.namespace, annotations)
                    yield Arrival(at, job)


def arrivals_of_past(objects: Sequence[Obj], taken: float, span: float, length: float | None) -> Past:
    """What came within `span` seconds before the dump was `taken`, for `length` seconds; None: once.

    Raises ValueError where that were too many.
    """
    if span <= 0:
        raise ValueError("the past that comes again must be longer than nothing")
    said = list(said_in(objects))
    streams = _streams(evidence_of(objects, said), taken, span)
    known = [stream for stream in streams if stream.job is not None]
    rounds = 1 if length is None else math.ceil(length / span)
    if rounds * sum(stream.pods for stream in known) > MOST_PODS:
        raise ValueError(f"what came within {span_text(span)} is more than {MOST_PODS:,} pods in so long a run")
    found: list[Arrival] = []
    for stream in known:
        found += stream.played(rounds, span if length is None else length)
    found.sort(key=lambda arrival: arrival.at)
    reach = taken - min(event.first for event in said) if said else None
    return Past(found, list(_notes(streams, span, reach)))


def _streams(evidence: Sequence[Came], taken: float, span: float) -> list[_Stream]:
    """Those of which something came within the span."""
    kinds: dict[tuple[str, str], list[Came]] = defaultdict(list)
    for came in evidence:
        kinds[came.namespace, came.stem].append(came)
    found = []
    for _, all_ in sorted(kinds.items()):
        coming = [came for came in sorted(all_, key=lambda came: came.at) if taken - span < came.at <= taken]
        if coming:
            found.append(_Stream(all_, coming, taken, span))
    return found


def _notes(streams: Sequence[_Stream], span: float, reach: float | None) -> Iterator[str]:
    known = [stream for stream in streams if stream.job is not None]
    if not known:
        yield f"nothing is known of what came within {span_text(span)}: no Jobs, single pods or Events of such"
    else:
        total = sum(len(stream.coming) for stream in known)
        yield f"{counted(total, 'arrival')} within {span_text(span)} ({_some(known)}) come again"
    if lost := [stream for stream in streams if stream.job is None]:
        yield f"of {_some(lost)} nothing says how large they were: they do not come again"
    if endless := [stream for stream in known if not stream.lives and any(came.is_running for came in stream.coming)]:
        yield f"of {_some(endless)} none has ended: how long they live is estimated"
    if reach is None:
        yield "the dump has no Events: of what is gone already nothing is known"
    elif reach < _ENOUGH * span:
        yield f"Events go back {span_text(reach)}: what came before and is gone is not known"


def _some(streams: Sequence[_Stream]) -> str:
    """The most frequent by name."""
    first = sorted(streams, key=lambda stream: (-len(stream.coming), stream.name))
    more = len(first) - _MOST_NAMED
    names = ", ".join(f"{len(stream.coming):,} {stream.name}" for stream in first[:_MOST_NAMED])
    return names + (f" and {counted(more, 'more kind')}" if more > 0 else "")
