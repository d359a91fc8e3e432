"""Numbered pods: which index a pod has, and sets of indexes as a status writes them (`0-2,5`).

Source: pkg/controller/job/indexed_job_utils.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import count, islice
from typing import Final

from fairlead.api.jobs import Job
from fairlead.api.pods import Pod

INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


def parsed(text: str, completions: int) -> set[int]:
    """The indexes below `completions` of `0-2,5`; what cannot be read is left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), min(int(last or first) + 1, completions)))
    return found


def written(indexes: Iterable[int]) -> str:
    """`0-2,5`; two neighbours are not worth a dash: `0,1`."""
    return ",".join(
        str(first) if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}"
        for first, last in _runs(indexes)
    )


def _runs(indexes: Iterable[int]) -> Iterator[tuple[int, int]]:
    ordered = sorted(indexes)
    start = 0
    for position, index in enumerate(ordered):
        if position + 1 == len(ordered) or ordered[position + 1] != index + 1:
            yield ordered[start], index
            start = position + 1


def index_of(pod: Pod, job: Job) -> int | None:
    """The index of a pod, if the job has such an index."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() and int(text) < (job.spec.completions or 0) else None


def first_free(taken: Collection[int], wanted: int, completions: int) -> list[int]:
    """The lowest indexes that are not taken."""
    free = (index for index in islice(count(), completions) if index not in taken)
    return list(islice(free, wanted))


def failure_count(pod: Pod) -> int:
    """How often the index of this pod had failed before it."""
    return _number(pod, FAILURES)


def ignored_failure_count(pod: Pod) -> int:
    return _number(pod, IGNORED_FAILURES)


def _number(pod: Pod, annotation: str) -> int:
    text = pod.metadata.annotations.get(annotation, "")
    return int(text) if text.isdecimal() else 0
