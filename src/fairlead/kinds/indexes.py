"""Sets of completion indexes as jobs write them: `1,3-5,7`.

Source: `validateIndexesFormat` of pkg/apis/batch/validation (1.36).
"""

from __future__ import annotations

from fairlead.golang.numbers import known_int
from fairlead.golang.quoting import go_quote

Interval = tuple[int, int]


class IndexesError(ValueError):
    """The text is no such set; `str()` of it is upstream's message."""


def count_indexes(text: str, completions: int) -> int:
    """How many indexes the text names; all must be below `completions`."""
    return sum(last - first + 1 for first, last in _intervals(text, completions))


def first_overlap(completed: str, failed: str, completions: int) -> int | None:
    """The first index that is in both sets; malformed parts are passed over."""
    return next(
        (
            max(success[0], failure[0])
            for success in _readable(completed, completions)
            for failure in _readable(failed, completions)
            if success[0] <= failure[1] and failure[0] <= success[1]
        ),
        None,
    )


def _intervals(text: str, completions: int) -> list[Interval]:
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        interval = _interval(part, completions)
        if found and found[-1][1] >= interval[0]:
            raise IndexesError(f"non-increasing order, previous: {found[-1][1]}, current: {interval[0]}")
        found.append(interval)
    return found


def _readable(text: str, completions: int) -> list[Interval]:
    found = []
    for part in text.split(",") if text else ():
        try:
            found.append(_interval(part, completions))
        except IndexesError:
            continue
    return found


def _interval(part: str, completions: int) -> Interval:
    limits = part.split("-")
    if len(limits) > 2:
        raise IndexesError(
            f"the fragment {go_quote(part)} violates the requirement that an index interval can have at most two "
            "parts separated by '-'"
        )
    numbers = [_index(limit, completions) for limit in limits]
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise IndexesError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def _index(text: str, completions: int) -> int:
    number = known_int(text)
    if number is None:
        raise IndexesError(f"cannot convert string to integer for index: {go_quote(text)}")
    if number >= completions:
        raise IndexesError(f"too large index: {go_quote(text)}")
    return number
