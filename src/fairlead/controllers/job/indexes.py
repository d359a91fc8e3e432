"""Numbered pods: which index a pod has, and sets of indexes as a status writes them (`0-2,5`).

Source: pkg/controller/job/indexed_job_utils.go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from heapq import merge
from typing import Final

import msgspec

from fairlead.api.jobs import Job
from fairlead.api.pods import Pod
from fairlead.golang.numbers import known_int

INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


class Indexes(msgspec.Struct, frozen=True):
    """A set of indexes, kept as runs: `0-2147483646` is one of them, and costs as much as `0`."""

    runs: tuple[tuple[int, int], ...] = ()  # first and last, in order, neither touching nor overlapping

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        return cls(_merged(sorted((index, index) for index in indexes)))

    @classmethod
    def parsed(cls, text: str, completions: int) -> Indexes:
        """The indexes below `completions` of `0-2,5`; what cannot be read is left out."""
        runs: list[tuple[int, int]] = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            start, end = known_int(first), known_int(last or first)
            if start is not None and end is not None and 0 <= start <= (end := min(end, completions - 1)):
                runs.append((start, end))
        runs.sort()
        return cls(_merged(runs))

    def __str__(self) -> str:
        """`0-2,5`; two neighbours are not worth a dash: `0,1`."""
        return ",".join(
            str(first) if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}"
            for first, last in self.runs
        )

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)

    def __contains__(self, index: int) -> bool:
        position = bisect_right(self.runs, index, key=_first)
        return position > 0 and index <= self.runs[position - 1][1]

    def __or__(self, other: Indexes) -> Indexes:
        if not self.runs or not other.runs:
            return self if self.runs else other
        return Indexes(_merged(merge(self.runs, other.runs)))

    def count_shared(self, other: Indexes) -> int:
        """How many indexes are in both."""
        return len(self) + len(other) - len(self | other)

    def lowest_missing(self, wanted: int, completions: int) -> list[int]:
        """The lowest indexes below `completions` that are not in the set, at most so many."""
        found: list[int] = []
        following = 0
        for first, last in (*self.runs, (completions, completions)):
            found += range(following, min(first, completions, following + wanted - len(found)))
            following = last + 1
            if len(found) == wanted:
                break
        return found


def _first(run: tuple[int, int]) -> int:
    return run[0]


def _merged(runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Runs that are sorted by where they begin, with those joined that touch or overlap."""
    found: list[tuple[int, int]] = []
    for first, last in runs:
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def index_of(pod: Pod, job: Job) -> int | None:
    """The index of a pod, if the job has such an index."""
    index = known_int(pod.metadata.annotations.get(INDEX, ""))
    return index if index is not None and 0 <= index < (job.spec.completions or 0) else None


def failure_count(pod: Pod) -> int:
    """How often the index of this pod had failed before it."""
    return _number(pod, FAILURES)


def ignored_failure_count(pod: Pod) -> int:
    return _number(pod, IGNORED_FAILURES)


def _number(pod: Pod, annotation: str) -> int:
    return max(known_int(pod.metadata.annotations.get(annotation, "")) or 0, 0)
