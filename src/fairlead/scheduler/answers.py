"""What the plugins say about every node for one set of requirements, kept and brought up to date.

Between two decisions for pods with the same requirements hardly anything changes: one pod more on one node. So the
answers are kept as arrays, and only the rows that the snapshot's journals name are asked about again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.diagnosis import Diagnosis, KnownRefusal
from fairlead.scheduler.framework import Plugin, Reads
from fairlead.scheduler.profile import Profile, Weighted
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.snapshot import Snapshot

INFEASIBLE: Final = -1

#: Priority and preemption policy of who was refused, and the version of the budgets.
RefusalKey = tuple[int, str | None, int]


class PluginResult:
    """What one plugin says, row by row."""

    __slots__ = ("cells", "is_uneven", "plugin", "reads_cluster", "reads_pods", "weight")

    def __init__(self, place: Weighted, dtype: npt.DTypeLike) -> None:
        self.plugin: Plugin = place.plugin
        self.weight = place.weight
        self.reads_pods = bool((Reads.PODS | Reads.AMOUNTS) & self.plugin.reads)
        self.reads_cluster = Reads.CLUSTER in self.plugin.reads
        #: Whether it tells nodes apart; a relative scorer that does not decides nothing.
        self.is_uneven = False
        self.cells: npt.NDArray[Any] = np.zeros(0, dtype=dtype)


class Answers:
    """Masks and scores for some requirements over all nodes, or over those of `domain` alone."""

    def __init__(
        self, requirements: PodRequirements, profile: Profile, snapshot: Snapshot, domain: Rows | None = None
    ) -> None:
        self.requirements = requirements
        self._snapshot = snapshot
        self._domain = domain
        scorers = [
            PluginResult(weighted, np.int64)
            for weighted in profile.plugins
            if weighted.scores and weighted.plugin.scores(requirements)
        ]
        #: Why a scorer has nothing to say; then nobody chooses among several nodes.
        self.scoring_fault = _first_fault(scorers, requirements)
        self._filters = [PluginResult(weighted, np.bool_) for weighted in profile.filtering(requirements)]
        #: Scorers whose scores stand alone, and those whose scores mean something only beside the other nodes'.
        self._absolute = [answer for answer in scorers if not answer.plugin.normalises]
        self._relative = [answer for answer in scorers if answer.plugin.normalises]
        #: What those say who look at nodes alone, all filters together and all absolute scores: pods do not change it.
        self._passed: Mask
        self._fixed: Ints
        #: Why no node will do, once somebody has worked it out and until something changes.
        self.diagnosis: Diagnosis | None = None
        #: What came of trying pods that require this, as long (`known_refusals.py`).
        self.refusals: dict[RefusalKey, KnownRefusal] = {}
        self._ask_everything()

    def refresh(self) -> None:
        """Catch up with the snapshot."""
        nodes = self._snapshot.node_changes.since(self._node_position)
        pods = self._snapshot.pod_changes.since(self._pod_position)
        if nodes is None or pods is None or self._size != self._snapshot.size:
            self._ask_everything()
        elif nodes:
            self._note_positions()
            self._ask(_distinct(nodes), _distinct((*nodes, *pods)), slice(None))
        elif pods:
            self._note_positions()
            changed = _distinct(pods)
            self._ask(None, changed, changed)

    def feasible(self) -> Rows:
        """The rows that every filter lets pass."""
        return np.flatnonzero(self._ranked != INFEASIBLE)

    def passed(self, rows: Rows) -> list[tuple[Plugin, Mask]]:
        """Filter by filter, which of the rows it lets pass."""
        return [(answer.plugin, answer.cells[rows]) for answer in self._filters]

    @property
    def filters(self) -> list[Plugin]:
        """The plugins that have a say about such pods."""
        return [answer.plugin for answer in self._filters]

    def best(self) -> Rows:
        """The feasible rows with the highest total; none if none is feasible."""
        if any(answer.is_uneven for answer in self._relative):
            return best_of(rows := self.feasible(), self.totals(rows))
        best = self._ranked.max()
        return np.flatnonzero(self._ranked == best) if best != INFEASIBLE else np.zeros(0, dtype=np.intp)

    def totals(self, rows: Rows) -> Ints:
        """The total of each of the rows, which must be all that come into question."""
        totals = self._ranked[rows]
        for answer in self._relative:
            if answer.is_uneven and len(rows):
                totals += answer.weight * answer.plugin.normalise(answer.cells[rows])
        return totals

    def scores(self, rows: Rows) -> Iterator[tuple[str, Ints]]:
        """Plugin by plugin the weighted scores of the rows, which must be all the feasible ones."""
        for answer in (*self._absolute, *self._relative):
            yield answer.plugin.name, answer.weight * answer.plugin.normalise(answer.cells[rows])

    def _ask_everything(self) -> None:
        self._size = self._snapshot.size
        for answer in (*self._filters, *self._absolute, *self._relative):
            answer.cells = np.zeros(self._size, dtype=answer.cells.dtype)
        #: The sum of the absolute scores, `INFEASIBLE` where the pod cannot go.
        self._ranked: Ints = np.full(self._size, INFEASIBLE, dtype=np.int64)
        self._owed: Mask = np.zeros(self._size, dtype=np.bool_)
        self._note_positions()
        rows = self._rows()
        self._ask(rows, rows, slice(None))

    def _rows(self) -> Rows:
        return self._snapshot.rows() if self._domain is None else self._domain

    def _note_positions(self) -> None:
        self._node_position = self._snapshot.node_changes.position
        self._pod_position = self._snapshot.pod_changes.position

    def _ask(self, nodes: Rows | None, changed: Rows, touched: Rows | slice) -> None:
        """Ask again about the rows whose node changed, and about those and the ones whose pods `changed`.

        `touched` are the rows whose totals may differ afterwards.
        """
        requirements, snapshot = self.requirements, self._snapshot
        self.diagnosis = None
        self.refusals.clear()
        for answer in self._filters:
            rows = self._stale(answer, nodes, changed)
            if rows is not None:
                answer.cells[rows] = answer.plugin.filter(requirements, snapshot, rows)
        if nodes is not None:
            self._passed = snapshot.alive
            for answer in self._filters:
                self._passed = self._passed if answer.reads_pods else self._passed & answer.cells
        feasible = self._passed[touched]
        for answer in self._filters:
            feasible = feasible & answer.cells[touched] if answer.reads_pods else feasible
        scored = self._to_score(changed, feasible if nodes is None else None)
        for answer in self._absolute:
            rows = self._stale(answer, nodes, scored)
            if rows is not None and len(rows):
                answer.cells[rows] = answer.plugin.score(requirements, snapshot, rows)
        if nodes is not None:
            self._fixed = np.zeros(self._size, dtype=np.int64)
            for answer in self._absolute:
                self._fixed = self._fixed if answer.reads_pods else self._fixed + answer.weight * answer.cells
        total = self._fixed[touched]
        for answer in self._absolute:
            total = total + answer.weight * answer.cells[touched] if answer.reads_pods else total
        self._ranked[touched] = np.where(feasible, total, INFEASIBLE)
        for answer in self._relative:
            rows = self._stale(answer, nodes, changed)
            if rows is not None:
                answer.cells[rows] = answer.plugin.score(requirements, snapshot, rows)
                answer.is_uneven = _is_uneven(answer.cells[self._rows()])

    def _to_score(self, changed: Rows, feasible: Mask | None) -> Rows:
        """Of the rows whose pods changed those that the pod can go to; None: nodes changed, and it may be any.

        The others are owed a score until their pods, or any node, change again: nobody asks for it before.
        """
        if feasible is None:
            owed = np.flatnonzero(self._owed)
            self._owed[owed] = False
            return np.union1d(changed, owed) if len(owed) else changed
        self._owed[changed] = ~feasible
        return changed[feasible]

    def _stale(self, answer: PluginResult, nodes: Rows | None, changed: Rows) -> Rows | None:
        """The rows to ask this plugin about."""
        if nodes is None:
            return changed if answer.reads_pods else None
        if answer.reads_cluster:
            return self._rows()
        return changed if answer.reads_pods else nodes


def _first_fault(scorers: Iterable[PluginResult], requirements: PodRequirements) -> str:
    for answer in scorers:
        if why := answer.plugin.scoring_fault(requirements):
            return f'running PreScore plugin "{answer.plugin.name}": {why}'
    return ""


def best_of(rows: Rows, totals: Ints) -> Rows:
    """The rows with the highest total."""
    return rows[totals == totals.max()] if len(rows) else rows


def _distinct(rows: Iterable[int]) -> Rows:
    return np.array(list(set(rows)), dtype=np.intp)


def _is_uneven(scores: Ints) -> bool:
    return bool(len(scores)) and bool((scores != scores[0]).any())
