"""Columns: what is known of all nodes, one number per node and array.

A loop over five thousand node objects for every pod would make the scheduler slow however clever the rest is. Here a
node is a row number, a fact about nodes is an array, and a question about all nodes is one array operation.
Amounts are int64 in declared units, never floats.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
#: Row numbers, the argument of every vectorised question.
Rows: TypeAlias = npt.NDArray[np.intp]

V = TypeVar("V", bound=Hashable)
T = TypeVar("T")

#: A name is rare while fewer than one row in so many has it; a column that half as many have left is given up.
_ROWS_OF_RARE = 64
_WRAPS_AT = 1 << 63


def grown(column: npt.NDArray[Any], size: int, fill: int = 0) -> npt.NDArray[Any]:
    """A longer copy of a column."""
    longer = np.full(size, fill, dtype=column.dtype)
    longer[: len(column)] = column
    return longer


def _zeros(size: int) -> Ints:
    """A column of nothing, which nobody may change."""
    found: Ints = np.zeros(size, dtype=np.int64)
    found.flags.writeable = False
    return found


class Amounts:
    """How much of each resource each row has, as int64 that wraps as Go's does.

    A name that many rows have is a column; the others, of which a pod may make up thousands, are kept row by row, so
    that memory grows with what there is and not with names times nodes.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._columns: dict[str, Ints] = {}
        self._rare: dict[str, dict[int, int]] = {}
        self._nothing = _zeros(size)

    def __contains__(self, name: str) -> bool:
        """Whether there is any of it."""
        return name in self._columns or name in self._rare

    def __iter__(self) -> Iterator[str]:
        """The names of which there is any."""
        yield from self._columns
        yield from self._rare

    def __getitem__(self, name: str) -> Ints:
        """One number for each row, to be read alone."""
        if (column := self._columns.get(name)) is not None:
            return column
        return self._nothing if (amounts := self._rare.get(name)) is None else self._column_of(amounts)

    def add(self, row: int, amounts: dict[str, int], sign: int) -> None:
        for name, amount in amounts.items():
            if not amount:
                continue
            if (column := self._columns.get(name)) is None:
                self._add_rare(name, row, sign * amount)
                continue
            column[row] += sign * amount
            if sign < 0 and not column[row] and np.count_nonzero(column) * 2 * _ROWS_OF_RARE < self._size:
                del self._columns[name]
                if held := np.flatnonzero(column).tolist():
                    self._rare[name] = dict(zip(held, column[held].tolist(), strict=True))

    def _add_rare(self, name: str, row: int, amount: int) -> None:
        amounts = self._rare.setdefault(name, {})
        amounts[row] = _wrapped(amounts.get(row, 0) + amount)
        if not amounts[row]:
            del amounts[row]
        if not amounts:
            del self._rare[name]
        elif len(amounts) * _ROWS_OF_RARE > self._size:
            self._columns[name] = self._column_of(self._rare.pop(name))

    def _column_of(self, amounts: dict[int, int]) -> Ints:
        column: Ints = np.zeros(self._size, dtype=np.int64)
        column[list(amounts)] = list(amounts.values())
        return column

    def plus(self, more: Amounts) -> Amounts:
        """The other's amounts added, to be read alone: it shares the columns of which the other has nothing."""
        both = Amounts(self._size)
        both._columns = {**self._columns, **{name: self[name] + more[name] for name in more}}
        both._rare = self._rare
        return both

    def grow(self, size: int) -> None:
        self._size = size
        self._nothing = _zeros(size)
        self._columns = {name: grown(column, size) for name, column in self._columns.items()}


def _wrapped(amount: int) -> int:
    return (amount + _WRAPS_AT) % (2 * _WRAPS_AT) - _WRAPS_AT


class Codes(Generic[V]):
    """A column of values that are no numbers, such as those of a label: each distinct value has a code."""

    def __init__(self, size: int) -> None:
        self.codes: Ints = np.full(size, -1, dtype=np.int64)
        self.values: list[V] = []
        self._code_of: dict[V, int] = {}

    def __setitem__(self, row: int, value: V | None) -> None:
        self.codes[row] = -1 if value is None else self._code(value)

    def _code(self, value: V) -> int:
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        return code

    def find(self, value: V) -> int | None:
        """The code of that value; None if no row has ever had it."""
        return self._code_of.get(value)

    def map(self, rows: Rows, question: Callable[[V | None], int]) -> Ints:
        """The question's answer for each row; it is asked once per distinct value."""
        codes = self.codes[rows]
        if len(self.values) <= len(rows):
            # The answer for "no value" stands last, where index -1 finds it.
            answers = [question(value) for value in (*self.values, None)]
            return np.array(answers, dtype=np.int64)[codes]
        known = {code: question(None if code < 0 else self.values[code]) for code in set(codes.tolist())}
        return np.array([known[code] for code in codes.tolist()], dtype=np.int64)

    def sums(self, counts: Ints, rows: Rows | None = None) -> Ints:
        """What is counted on the rows (all of them without `rows`), added up by value; the last cell is 0, for -1."""
        held = np.flatnonzero(counts) if rows is None else rows[counts[rows] != 0]
        return self.sums_of(held, counts[held])

    def sums_of(self, held: Rows, counts: Ints) -> Ints:
        """The same of counts that are on these rows alone."""
        codes = self.codes[held]
        if len(codes) and codes.min() < 0:
            is_labelled = codes >= 0
            codes, counts = codes[is_labelled], counts[is_labelled]
        return np.bincount(codes, weights=counts, minlength=len(self.values) + 1).astype(np.int64)

    @property
    def is_outgrown(self) -> bool:
        """Most of its values are of rows that have others now."""
        return len(self.values) > 2 * len(self.codes)

    def grow(self, size: int) -> None:
        self.codes = grown(self.codes, size, fill=-1)


def distinct_of(codes: Ints) -> Rows:
    """The different codes, none of which is negative."""
    return np.flatnonzero(np.bincount(codes))


class Journal(Generic[T]):
    """Which rows changed, or other things, in order, so that each reader catches up from where it stopped."""

    def __init__(self) -> None:
        self._rows: list[T] = []
        self._forgotten = 0

    @property
    def position(self) -> int:
        return self._forgotten + len(self._rows)

    def mark(self, row: T) -> None:
        self._rows.append(row)

    def since(self, position: int) -> list[T] | None:
        """The rows that changed since then, some perhaps twice; None if that is forgotten."""
        if position < self._forgotten:
            return None
        return self._rows[position - self._forgotten :]

    def trim(self, longest: int) -> None:
        """Forget the older half when it has become cheaper to look at everything than to read it."""
        if len(self._rows) > 2 * longest:
            drop = len(self._rows) - longest
            del self._rows[:drop]
            self._forgotten += drop
