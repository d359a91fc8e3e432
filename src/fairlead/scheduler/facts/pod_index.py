"""Where the pods are that other pods care about: counts per node, kept up to date pod by pod.

Whoever asks "how many pods of these labels are on each node" gets a column that is counted once, when somebody first
asks, and changed by one whenever a pod comes or goes; whoever asks "who on these nodes cares about a pod like this"
gets the terms of the pods that are there. So a decision never looks at pods, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from enum import Enum, auto
from typing import Final

import numpy as np

from fairlead.caches import LruCache
from fairlead.scheduler.columns import Codes, Ints, grown
from fairlead.scheduler.pod_relations import REMEMBERED, AffinityTerm, PodRelations

#: Columns that were not asked for longest are forgotten beyond this number.
MOST_MATCH_COUNTS: Final = 128
#: Up to one row in so many, a term's pods are counted row by row.
_FEW_OF_ALL: Final = 16

Matches = Callable[[PodRelations], bool]


class MatchCount:
    """How many pods that match are on each row."""

    __slots__ = ("_matches", "counts", "verdicts")

    def __init__(self, size: int, matches: Matches) -> None:
        self.counts: Ints = np.zeros(size, dtype=np.int64)
        self.verdicts: dict[PodRelations, bool] = {}
        self._matches = matches

    def counts_in(self, relations: PodRelations) -> bool:
        """Whether pods with those relations are counted; worked out once for each."""
        found = self.verdicts.get(relations)
        if found is None:
            found = self.verdicts[relations] = self._matches(relations)
        return found


class AffinityKind(Enum):
    """Which list of a pod's affinity a term is in."""

    AFFINITY = auto()
    ANTI_AFFINITY = auto()
    PREFERRED_AFFINITY = auto()
    PREFERRED_ANTI_AFFINITY = auto()


class ExistingTerms:
    """The placed pods that have one term, of one kind and weight: how many on each row.

    A pod may have thousands of terms that nobody else has, so a term gets a column once it is on many rows.
    """

    __slots__ = ("_column", "_few", "kind", "term", "total", "weight")

    def __init__(self, kind: AffinityKind, weight: int, term: AffinityTerm) -> None:
        self.kind, self.weight, self.term = kind, weight, term
        self.total = 0
        self._few: dict[int, int] = {}
        self._column: Ints | None = None

    def count(self, row: int, sign: int, size: int) -> None:
        """A pod came (1) or went (-1); `size`: how many rows there are."""
        self.total += sign
        if self._column is not None:
            self._column[row] += sign
            return
        self._few[row] = self._few.get(row, 0) + sign
        if not self._few[row]:
            del self._few[row]
        elif len(self._few) > size // _FEW_OF_ALL:
            self._column = np.zeros(size, dtype=np.int64)
            for each, count in self._few.items():
                self._column[each] = count
            self._few.clear()

    def sums(self, places: Codes[str]) -> Ints:
        """How many are at each of these places."""
        if self._column is not None:
            return places.sums(self._column)
        rows, counts = list(self._few), list(self._few.values())
        return places.sums_of(np.array(rows, dtype=np.intp), np.array(counts, dtype=np.int64))

    def grow(self, size: int) -> None:
        if self._column is not None:
            self._column = grown(self._column, size)


class PodIndex:
    """All pods on nodes, by relations and row."""

    def __init__(self, size: int) -> None:
        self.namespace_labels: dict[str, dict[str, str]] = {}
        self._size = size
        self._rows: dict[PodRelations, dict[int, int]] = {}
        self._match_counts: LruCache[Hashable, MatchCount] = LruCache(MOST_MATCH_COUNTS)
        self._existing_terms: dict[tuple[AffinityKind, int, AffinityTerm], ExistingTerms] = {}
        self._selecting: dict[PodRelations, tuple[ExistingTerms, ...]] = {}

    def match_count(self, key: Hashable, matches: Matches) -> MatchCount:
        """The column of that key. Callers say what it counts, always the same for the same key."""
        found = self._match_counts.get(key)
        if found is not None:
            return found
        found = MatchCount(self._size, matches)
        for relations, rows in self._rows.items():
            if found.counts_in(relations):
                for row, count in rows.items():
                    found.counts[row] += count
        self._match_counts.put(key, found)
        return found

    def matching(self, term: AffinityTerm) -> MatchCount:
        """The pods that a term selects."""
        return self.match_count(term, lambda relations: term.matches(relations, self.namespace_labels))

    def matching_all(self, terms: tuple[AffinityTerm, ...]) -> MatchCount:
        """The pods that each of these terms selects."""
        labels = self.namespace_labels
        return self.match_count(terms, lambda relations: all(term.matches(relations, labels) for term in terms))

    def terms_selecting(self, relations: PodRelations) -> tuple[ExistingTerms, ...]:
        """The terms of placed pods that select a pod with those relations."""
        if not self._existing_terms:
            return ()
        found = self._selecting.get(relations)
        if found is None:
            labels = self.namespace_labels
            found = tuple(
                existing for existing in self._existing_terms.values() if existing.term.matches(relations, labels)
            )
            if len(self._selecting) >= REMEMBERED:
                self._selecting.clear()
            self._selecting[relations] = found
        return found

    def count(self, row: int, relations: PodRelations, sign: int) -> None:
        """A pod came (1) or went (-1)."""
        rows = self._rows.setdefault(relations, {})
        left = rows.get(row, 0) + sign
        if left:
            rows[row] = left
        else:
            del rows[row]
        for match_count in self._match_counts.values():
            if match_count.counts_in(relations):
                match_count.counts[row] += sign
        if relations.has_terms:
            for kind in _terms_of(relations):
                self._count_term(kind, row, sign)
        if not rows:
            del self._rows[relations]
            for match_count in self._match_counts.values():
                match_count.verdicts.pop(relations, None)

    def _count_term(self, kind: tuple[AffinityKind, int, AffinityTerm], row: int, sign: int) -> None:
        found = self._existing_terms.get(kind)
        if found is None:
            found = self._existing_terms[kind] = ExistingTerms(*kind)
            self._selecting.clear()
        found.count(row, sign, self._size)
        if not found.total:
            del self._existing_terms[kind]
            self._selecting.clear()

    def set_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        """The labels of a namespace; None if it is gone. What was counted by other labels is counted anew."""
        if self.namespace_labels.get(name) == labels:
            return
        self.namespace_labels.pop(name, None)
        if labels is not None:
            self.namespace_labels[name] = labels
        self._match_counts.clear()
        self._selecting.clear()

    def grow(self, size: int) -> None:
        self._size = size
        for match_count in self._match_counts.values():
            match_count.counts = grown(match_count.counts, size)
        for terms in self._existing_terms.values():
            terms.grow(size)


def _terms_of(relations: PodRelations) -> Iterator[tuple[AffinityKind, int, AffinityTerm]]:
    for term in relations.affinity:
        yield AffinityKind.AFFINITY, 1, term
    for term in relations.anti_affinity:
        yield AffinityKind.ANTI_AFFINITY, 1, term
    for weight, term in relations.preferred_affinity:
        yield AffinityKind.PREFERRED_AFFINITY, weight, term
    for weight, term in relations.preferred_anti_affinity:
        yield AffinityKind.PREFERRED_ANTI_AFFINITY, weight, term
