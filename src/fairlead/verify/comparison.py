"""Whether reality did what was predicted: the same things to the same ones, in the same order, at about the same time.

The k-th happening of a kind to somebody is the same happening in both runs. What lies within a moment of each other has
no order: reality would not do it twice alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import msgspec

from fairlead.verify.happenings import THROTTLED, Course, Happening

#: Times may be so far apart: both have to be exceeded.
MOST_SECONDS: Final = 2.0
MOST_SHARE: Final = 0.1
#: Closer than this, nothing comes before anything else.
MOMENT_SECONDS: Final = 1.0


class Row(msgspec.Struct, frozen=True):
    """One happening in both runs; None: not in this one."""

    kind: str
    who: str
    detail: str
    predicted: float | None
    real: float | None
    problem: str = ""


class CpuRow(msgspec.Struct, frozen=True):
    """Seconds of cpu of one container."""

    who: str
    predicted: float
    real: float
    problem: str = ""


class Comparison(msgspec.Struct, frozen=True):
    rows: tuple[Row, ...]
    cpu: tuple[CpuRow, ...]
    #: Pairs that came the other way round, as sentences.
    disorder: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        return not (self.disorder or self.problems)

    @property
    def problems(self) -> tuple[str, ...]:
        """Of single happenings and of cpu."""
        found = (*(row.problem for row in self.rows), *(row.problem for row in self.cpu))
        return tuple(problem for problem in found if problem)


class _Pair(NamedTuple):
    predicted: Happening | None
    real: Happening | None


def longer(seconds: float) -> float:
    """For how long both have to run, so that what is due just before the end may come a little late."""
    return max(seconds + MOST_SECONDS, seconds * (1 + MOST_SHARE))


def compare(predicted: Course, real: Course, seconds: float, with_cpu: Collection[str]) -> Comparison:
    """Of what one of them has after the end nothing is said, and of cpu only where somebody said how much is used.

    A small quota may hold a container back for seconds while it takes its memory, and nobody foretells that.
    """
    pairs = [pair for pair in _pairs(predicted, real) if _is_due(pair, seconds) and _is_foretold(pair, with_cpu)]
    pairs.sort(key=lambda pair: min(it.at for it in pair if it is not None))
    rows = tuple(_row(pair) for pair in pairs)
    theirs, ours = predicted.cpu_seconds, real.cpu_seconds
    cpu = tuple(_cpu_row(name, theirs.get(name, 0.0), ours.get(name, 0.0)) for name in sorted(with_cpu))
    return Comparison(rows, cpu, tuple(_disorder(pairs)))


def _pairs(predicted: Course, real: Course) -> Iterable[_Pair]:
    theirs, ours = _by_name(predicted.happenings), _by_name(real.happenings)
    for name in dict.fromkeys([*theirs, *ours]):
        first, second = theirs.get(name, []), ours.get(name, [])
        for number in range(max(len(first), len(second))):
            yield _Pair(
                first[number] if number < len(first) else None, second[number] if number < len(second) else None
            )


def _by_name(happenings: Iterable[Happening]) -> Mapping[tuple[str, str, str], list[Happening]]:
    found: dict[tuple[str, str, str], list[Happening]] = {}
    for each in happenings:
        found.setdefault((each.kind, each.who, each.detail), []).append(each)
    return found


def _is_due(pair: _Pair, seconds: float) -> bool:
    return any(it is not None and it.at <= seconds for it in pair)


def _is_foretold(pair: _Pair, with_cpu: Collection[str]) -> bool:
    either = _either(pair)
    return either.kind != THROTTLED or either.who in with_cpu


def _either(pair: _Pair) -> Happening:
    either = pair.predicted or pair.real
    assert either is not None
    return either


def _row(pair: _Pair) -> Row:
    either = _either(pair)
    predicted, real = (None if it is None else it.at for it in pair)
    problem = ""
    if predicted is None:
        problem = "was not predicted"
    elif real is None:
        problem = "did not happen"
    elif _is_off(predicted, real):
        problem = "at another time"
    return Row(either.kind, either.who, either.detail, predicted, real, problem)


def _cpu_row(who: str, predicted: float, real: float) -> CpuRow:
    return CpuRow(who, predicted, real, "another amount" if _is_off(predicted, real) else "")


def _is_off(predicted: float, real: float) -> bool:
    apart = abs(predicted - real)
    return apart > MOST_SECONDS and apart > MOST_SHARE * max(predicted, real)


def _disorder(pairs: Sequence[_Pair]) -> Iterable[str]:
    both = [(pair.predicted, pair.real) for pair in pairs if pair.predicted is not None and pair.real is not None]
    both.sort(key=lambda each: each[0].at)
    for (first, first_real), (second, second_real) in combinations(both, 2):
        if second.at - first.at > MOMENT_SECONDS and first_real.at - second_real.at > MOMENT_SECONDS:
            yield f"{_named(first)} was predicted before {_named(second)}, and came after it"


def _named(happening: Happening) -> str:
    return f"{happening.who} {happening.kind}"
