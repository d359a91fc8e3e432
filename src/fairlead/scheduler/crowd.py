"""Where the pods are that other pods care about: counts per node, kept up to date pod by pod.

Whoever asks "how many pods of these labels are on each node" gets a column that is counted once, when somebody first
asks, and changed by one whenever a pod comes or goes; whoever asks "who on these nodes cares about a pod like this"
gets the terms of the pods that are there. So a decision never looks at pods, however many there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np

from fairlead.scheduler.columns import Ints, grown
from fairlead.scheduler.company import REMEMBERED, Company, Term

#: Columns that were not asked for longest are forgotten beyond this number.
MOST_TALLIES: Final = 128

Matches = Callable[[Company], bool]


class Tally:
    """How many pods that match are on each row."""

    __slots__ = ("_matches", "counts", "verdicts")

    def __init__(self, size: int, matches: Matches) -> None:
        self.counts: Ints = np.zeros(size, dtype=np.int64)
        self.verdicts: dict[Company, bool] = {}
        self._matches = matches

    def counts_in(self, company: Company) -> bool:
        """Whether pods of that company are counted; worked out once for each company."""
        found = self.verdicts.get(company)
        if found is None:
            found = self.verdicts[company] = self._matches(company)
        return found


class Wish(Enum):
    """In which role a pod has a term."""

    NEAR = auto()
    APART = auto()
    PREFERS_NEAR = auto()
    PREFERS_APART = auto()


@dataclass(slots=True)
class Wishers:
    """The pods that have one term in one role with one weight: how many on each row."""

    wish: Wish
    weight: int
    term: Term
    counts: Ints
    total: int = 0


class Crowd:
    """All pods on nodes, by company and row."""

    def __init__(self, size: int) -> None:
        self.namespace_labels: dict[str, dict[str, str]] = {}
        self._size = size
        self._rows: dict[Company, dict[int, int]] = {}
        self._tallies: OrderedDict[Hashable, Tally] = OrderedDict()
        self._wishers: dict[tuple[Wish, int, Term], Wishers] = {}
        self._concerned: dict[Company, tuple[Wishers, ...]] = {}

    def tally(self, key: Hashable, matches: Matches) -> Tally:
        """The column of that key; what it counts is said again by whoever asks, and the same for the same key."""
        found = self._tallies.get(key)
        if found is not None:
            self._tallies.move_to_end(key)
            return found
        found = self._tallies[key] = Tally(self._size, matches)
        for company, rows in self._rows.items():
            if found.counts_in(company):
                for row, count in rows.items():
                    found.counts[row] += count
        if len(self._tallies) > MOST_TALLIES:
            self._tallies.popitem(last=False)
        return found

    def meant_by(self, term: Term) -> Tally:
        """The pods that a term means."""
        return self.tally(term, lambda company: term.matches(company, self.namespace_labels))

    def meant_by_all(self, terms: tuple[Term, ...]) -> Tally:
        """The pods that each of these terms means."""
        labels = self.namespace_labels
        return self.tally(terms, lambda company: all(term.matches(company, labels) for term in terms))

    def concerned_about(self, company: Company) -> tuple[Wishers, ...]:
        """Those among the crowd who have a term that means a pod of that company."""
        if not self._wishers:
            return ()
        found = self._concerned.get(company)
        if found is None:
            labels = self.namespace_labels
            found = tuple(one for one in self._wishers.values() if one.term.matches(company, labels))
            if len(self._concerned) >= REMEMBERED:
                self._concerned.clear()
            self._concerned[company] = found
        return found

    def count(self, row: int, company: Company, sign: int) -> None:
        """A pod came (1) or went (-1)."""
        rows = self._rows.setdefault(company, {})
        left = rows.get(row, 0) + sign
        if left:
            rows[row] = left
        else:
            del rows[row]
        for tally in self._tallies.values():
            if tally.counts_in(company):
                tally.counts[row] += sign
        if company.has_terms:
            for wish in _wishes(company):
                self._count_wish(wish, row, sign)
        if not rows:
            del self._rows[company]
            for tally in self._tallies.values():
                tally.verdicts.pop(company, None)

    def _count_wish(self, wish: tuple[Wish, int, Term], row: int, sign: int) -> None:
        found = self._wishers.get(wish)
        if found is None:
            found = self._wishers[wish] = Wishers(*wish, np.zeros(self._size, dtype=np.int64))
            self._concerned.clear()
        found.counts[row] += sign
        found.total += sign
        if not found.total:
            del self._wishers[wish]
            self._concerned.clear()

    def set_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        """The labels of a namespace; None if it is gone. What was counted by other labels is counted anew."""
        if self.namespace_labels.get(name) == labels:
            return
        self.namespace_labels.pop(name, None)
        if labels is not None:
            self.namespace_labels[name] = labels
        self._tallies.clear()
        self._concerned.clear()

    def grow(self, size: int) -> None:
        self._size = size
        for tally in self._tallies.values():
            tally.counts = grown(tally.counts, size)
        for wishers in self._wishers.values():
            wishers.counts = grown(wishers.counts, size)


def _wishes(company: Company) -> Iterator[tuple[Wish, int, Term]]:
    for term in company.near:
        yield Wish.NEAR, 1, term
    for term in company.apart:
        yield Wish.APART, 1, term
    for weight, term in company.prefers_near:
        yield Wish.PREFERS_NEAR, weight, term
    for weight, term in company.prefers_apart:
        yield Wish.PREFERS_APART, weight, term
