"""What came in a span before the dump comes again: at the same distances, span after span.

Each namespace's Jobs and pods of one stem are a stream. Its newest says how large the others are that are gone. Who
ended lives as long as it did. Of the others nobody knows: they live as long as one of the stream, by lot, that fits to
what is known of them; if none has ended, as Little's law has it: so many times the span as are there for each that
came.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.api.objects import Obj
from fairlead.runtime import rng
from fairlead.sim.behaviour import EXIT_CODE, LIFETIME_SECONDS
from fairlead.sim.durations import span as span_text
from fairlead.sim.openb import Arrival
from fairlead.sim.workloads.generators import MOST_PODS
from fairlead.study.past.events import said_in
from fairlead.study.past.evidence import Came, evidence_of
from fairlead.study.past.templates import again
from fairlead.wording import counted

#: Names of Jobs and of their pods have room for so much of a stem.
_LONGEST_STEM: Final = 40
_MOST_NAMED: Final = 3
#: Events that reach back over so much of the span do.
_ENOUGH: Final = 0.9


@dataclass(frozen=True, slots=True)
class Past:
    arrivals: list[Arrival]
    #: What came, and what cannot be known of it, in lines of text.
    notes: list[str]


@dataclass(frozen=True, slots=True)
class _Stream:
    """All of one stem, the oldest first."""

    all: Sequence[Came]
    #: Those of the span that comes again.
    coming: Sequence[Came]
    taken: float
    span: float

    @property
    def job(self) -> Obj | None:
        return next((came.job for came in reversed(self.all) if came.job is not None), None)

    @property
    def name(self) -> str:
        return f"{self.all[0].namespace}/{self.all[0].stem}"

    @property
    def lives(self) -> list[float]:
        return [came.life for came in self.all if came.life is not None]

    def life(self, came: Came) -> float:
        """How long the pods of one that comes again live."""
        if came.life is not None:
            return came.life
        seen = self.taken - came.at
        if fitting := [life for life in self.lives if (life >= seen if came.is_running else life <= seen)]:
            return rng.source().choice(fitting)
        if not came.is_running:
            return seen
        return max(seen, self.span * sum(each.is_running for each in self.all) / len(self.coming))


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
    if rounds * sum(len(stream.coming) for stream in known) > MOST_PODS:
        raise ValueError(f"what came within {span_text(span)} is more than {MOST_PODS:,} pods in so long a run")
    found: list[Arrival] = []
    for stream in known:
        found += _played(stream, rounds, span if length is None else length)
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
        all_.sort(key=lambda came: came.at)
        if coming := [came for came in all_ if taken - span < came.at <= taken]:
            found.append(_Stream(all_, coming, taken, span))
    return found


def _played(stream: _Stream, rounds: int, length: float) -> Iterator[Arrival]:
    job, stem, number = stream.job, stream.all[0].stem[:_LONGEST_STEM].rstrip("-."), 0
    assert job is not None
    for turn in range(rounds):
        for came in stream.coming:
            at = turn * stream.span + came.at - (stream.taken - stream.span)
            if at < length:
                number += 1
                annotations = {LIFETIME_SECONDS: f"{max(stream.life(came), 0.001):.3f}"}
                if came.has_failed:
                    annotations[EXIT_CODE] = "1"
                yield Arrival(at, again(came.job or job, f"{stem}-again-{number}", came.namespace, annotations))


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
