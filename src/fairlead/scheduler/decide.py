"""Where a pod goes: a pure function of a snapshot and what the pod asks for.

Nothing here waits, reads a clock or talks to a server, so the loop, a simulation and `fairlead why` share it. Among
nodes with the same total the choice is by lot, from the one seeded source.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from fairlead.runtime import chance
from fairlead.scheduler.answers import Answers, best_of
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.company import Task
from fairlead.scheduler.diagnosis import NO_NODES, Diagnosis, add_narrowed, diagnose, refused_outright
from fairlead.scheduler.framework import CompanyPlugin, Narrowed, Plugin, Profile, Reads, Refusals, Refused
from fairlead.scheduler.nominations import Nominations
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Placed, Snapshot

#: Answers are kept for as many shapes as fit into about this many array cells.
REMEMBERED_CELLS = 1_000_000
FEWEST_REMEMBERED = 16


@dataclass(frozen=True, slots=True)
class Chosen:
    """The pod goes to this node."""

    row: int
    node: str


@dataclass(frozen=True, slots=True)
class Unfit:
    """The pod goes nowhere as things are, and why."""

    found: Diagnosis


class Decider:
    """Decides for one profile over one snapshot."""

    def __init__(self, snapshot: Snapshot, profile: Profile, nominations: Nominations | None = None) -> None:
        self.snapshot = snapshot
        self.profile = profile
        self.nominations = Nominations(snapshot) if nominations is None else nominations
        self._answers: OrderedDict[Shape, Answers] = OrderedDict()

    def decide(self, task: Task) -> Chosen | Unfit:
        """The node for the pod, or why there is none."""
        if not self.snapshot.count:
            return Unfit(Diagnosis(0, said=NO_NODES))
        tied = self.best(task)
        if len(tied):
            return self._drawn(tied)
        return Unfit(self.diagnose(task))

    def _drawn(self, tied: Rows) -> Chosen:
        """One of these, by lot."""
        row = int(tied[chance.source().randrange(len(tied))] if len(tied) > 1 else tied[0])
        return Chosen(row, self.snapshot.names[row])

    def best(self, task: Task) -> Rows:
        """The rows among which the lot decides; none if the pod fits nowhere."""
        answers = self.answers(task.shape)
        if self._is_plain(task):
            return answers.best()
        rows = self.feasible_of(task, answers)
        if task.nominated and (row := self.snapshot.row_of(task.nominated)) is not None and row in rows:
            return np.array([row], dtype=np.intp)  # what was promised is tried first, and alone
        if len(rows) < 2:
            return rows
        totals = answers.totals(rows)
        for _, scores in self._company_scores(task, rows):
            totals += scores
        return best_of(rows, totals)

    def choose_among(self, task: Task, names: Sequence[str], extra: Mapping[str, int]) -> Chosen | None:
        """The best of these nodes, if they still will do, with what somebody else adds to their scores."""
        feasible = self.feasible(task)
        wanted = [row for name in names if (row := self.snapshot.row_of(name)) is not None]
        rows = feasible[np.isin(feasible, wanted)]
        if not len(rows):
            return None
        totals = self.answers(task.shape).totals(rows)
        for _, scores in self._company_scores(task, rows):
            totals += scores
        totals += np.array([extra.get(self.snapshot.names[row], 0) for row in rows.tolist()], dtype=np.int64)
        return self._drawn(best_of(rows, totals))

    def feasible(self, task: Task) -> Rows:
        """All rows where the pod fits."""
        return self.feasible_of(task, self.answers(task.shape))

    def _is_plain(self, task: Task) -> bool:
        """Nobody else matters to the pod, and nobody has been promised anything."""
        if len(self.nominations):
            return False
        profile, snapshot = self.profile, self.snapshot
        return not any(one.filters(task, snapshot) for one in profile.company_filters) and not any(
            one.plugin.scores(task, snapshot) for one in profile.company_scorers
        )

    def feasible_of(self, task: Task, answers: Answers) -> Rows:
        """The same, of what the plugins about nodes have said already."""
        rows = answers.feasible()
        for plugin in self.profile.company_filters:
            if len(rows) and plugin.filters(task, self.snapshot):
                rows = rows[plugin.filter(task, self.snapshot, rows)]
        if len(self.nominations) and len(rows):
            rows = rows[self._respects_promises(task, answers, rows)]
        return rows

    def _company_scores(self, task: Task, rows: Rows) -> list[tuple[str, Ints]]:
        """Plugin by plugin the weighted scores of the feasible rows."""
        return [
            (place.plugin.name, place.weight * place.plugin.score(task, self.snapshot, rows))
            for place in self.profile.company_scorers
            if place.plugin.scores(task, self.snapshot)
        ]

    # --- promises ---------------------------------------------------------------------------------------------------

    def _respects_promises(self, task: Task, answers: Answers, rows: Rows) -> Mask:
        """Which rows still do if those to whom they are promised were there already."""
        crowded, promised = self.nominations.crowded(task)
        mask = np.ones(len(rows), dtype=np.bool_)
        touched = np.isin(rows, promised)
        if not touched.any():
            return mask
        for plugin in answers.filters:
            if Reads.AMOUNTS in plugin.reads:
                mask[touched] &= plugin.filter(task.shape, crowded, rows[touched])
        if self._reads_pods(task, answers):
            for index in np.flatnonzero(touched & mask):
                mask[index] = self._refusal_with_promises(task, answers, int(rows[index])) is None
        return mask

    def _reads_pods(self, task: Task, answers: Answers) -> bool:
        """Whether it matters to the pod who the others are, and not only how much they take."""
        return any((Reads.PODS | Reads.CLUSTER) & plugin.reads for plugin in answers.filters) or any(
            plugin.filters(task, self.snapshot) for plugin in self.profile.company_filters
        )

    def _refusal_with_promises(self, task: Task, answers: Answers, row: int) -> tuple[str, Refusals] | None:
        """Who refuses that one node if everybody to whom it is promised were there, and why."""
        company = self._company_filters(task)
        with self._dry_run(task, beside=self.nominations.against(task, self.snapshot.names[row])):
            return self._refusal(task, answers.filters, company, row)

    def _company_filters(self, task: Task) -> list[CompanyPlugin]:
        """Who has a say about the pod as things are. It stays so while something else is supposed, as upstream has it:
        a plugin that had nothing to say at first is not asked again.
        """
        return [one for one in self.profile.company_filters if one.filters(task, self.snapshot)]

    def _refusal(
        self, task: Task, filters: list[Plugin], company: list[CompanyPlugin], row: int
    ) -> tuple[str, Refusals] | None:
        """Who refuses one node, asked anew, and why."""
        rows = np.array([row], dtype=np.intp)
        for plugin in filters:
            if not plugin.filter(task.shape, self.snapshot, rows)[0]:
                return plugin.name, plugin.refusals(task.shape, self.snapshot, rows)
        for one in company:
            if not one.filter(task, self.snapshot, rows)[0]:
                return one.name, one.refusals(task, self.snapshot, rows)
        return None

    def refusal_if(
        self, task: Task, row: int, *, without: list[Placed], back: list[Placed], promises: list[Placed]
    ) -> tuple[str, Refusals] | None:
        """The same if some of the node's pods had left, and some of those were back; with those to whom it is promised,
        and without them.
        """
        filters, company = self.answers(task.shape).filters, self._company_filters(task)
        if promises:
            with self._dry_run(task, without=without, beside=[*back, *promises]):
                refused = self._refusal(task, filters, company, row)
            if refused is not None:
                return refused
        with self._dry_run(task, without=without, beside=back):
            return self._refusal(task, filters, company, row)

    def _dry_run(
        self, task: Task, *, without: Iterable[Placed] = (), beside: Iterable[Placed] = ()
    ) -> AbstractContextManager[None]:
        """Suppose it as upstream does. PodTopologySpread does not count pods that are going away, nor anybody by an
        empty selector; but when it is told that one is gone or there, it does not ask, and counts one less or more
        all the same (updateWithPod).
        """
        is_any = task.company.spreads_among_all

        def supposed(one: Placed) -> Placed:
            is_other = is_any or one.company.is_terminating
            return replace(one, company=one.company.supposed) if is_other else one

        return self.snapshot.supposing(without=map(supposed, without), beside=map(supposed, beside))

    # --- answers ----------------------------------------------------------------------------------------------------

    def answers(self, shape: Shape) -> Answers:
        """What the plugins about nodes say for that shape, as of now."""
        found = self._answers.get(shape)
        if found is not None:
            self._answers.move_to_end(shape)
            found.refresh()
            return found
        narrowed = self._narrowed(shape)
        if narrowed:  # few nodes, and often a shape that only one pod has: that of a daemon
            return Answers(shape, self.profile, self.snapshot, self._rows_within(narrowed))
        if shape.claims:  # what they say changes with the claims, and those are one pod's own
            return Answers(shape, self.profile, self.snapshot)
        found = self._answers[shape] = Answers(shape, self.profile, self.snapshot)
        if len(self._answers) > max(FEWEST_REMEMBERED, REMEMBERED_CELLS // self.snapshot.size):
            self._answers.popitem(last=False)
        return found

    def diagnose(self, task: Task) -> Diagnosis:
        """Why no node is feasible for the pod. It is the caller's to add to."""
        answers = self.answers(task.shape)
        if not self._is_plain(task):
            return self._diagnosed(task, answers)
        if answers.diagnosis is None:  # who waits for days is refused again and again by a cluster at rest
            answers.diagnosis = self._diagnosed(task, answers)
        return answers.diagnosis.copy()

    def _diagnosed(self, task: Task, answers: Answers) -> Diagnosis:
        snapshot = self.snapshot
        if (outright := self.outright_refusal(answers.shape)) is not None:
            return refused_outright(*outright, snapshot)
        narrowed = self._narrowed(answers.shape)
        rows = self._rows_within(narrowed) if narrowed else snapshot.rows()
        found, asked = Diagnosis(snapshot.count), len(rows)
        is_crowded = len(self.nominations) > 0
        crowded, promised = self.nominations.crowded(task) if is_crowded else (snapshot, rows[:0])
        if len(promised) and self._reads_pods(task, answers):
            touched = np.isin(rows, promised)
            for row in rows[touched].tolist():
                refused = self._refusal_with_promises(task, answers, row)
                if refused is not None:
                    found.add(*refused, np.array([row], dtype=np.intp))
                    rows = rows[rows != row]
            crowded = snapshot
        passed = [
            (plugin, plugin.filter(task.shape, crowded, rows) if is_crowded and Reads.AMOUNTS in plugin.reads else mask)
            for plugin, mask in answers.passed(rows)
        ]
        left = diagnose(found, task.shape, crowded, passed, rows)
        for one in self.profile.company_filters:
            if len(left) and one.filters(task, snapshot):
                mask = one.filter(task, snapshot, left)
                failing = left[~mask]
                if len(failing):
                    found.add(one.name, one.refusals(task, snapshot, failing), failing)
                left = left[mask]
        if narrowed:
            add_narrowed(found, frozenset(narrowed), asked)
        return found

    def outright_refusal(self, shape: Shape) -> tuple[Plugin, Refused] | None:
        """The plugin that lets such a pod go nowhere, before nodes are looked at."""
        said = ((one.plugin, one.plugin.pre_filter(shape, self.snapshot)) for one in self.profile.plugins)
        return next(((plugin, one) for plugin, one in said if isinstance(one, Refused)), None)

    def _narrowed(self, shape: Shape) -> dict[str, Narrowed]:
        """The plugins that let only some nodes come into question."""
        said = ((one.plugin.name, one.plugin.pre_filter(shape, self.snapshot)) for one in self.profile.plugins)
        return {name: one for name, one in said if isinstance(one, Narrowed)}

    def _rows_within(self, narrowed: dict[str, Narrowed]) -> Rows:
        names = frozenset.intersection(*(one.names for one in narrowed.values()))
        rows = (self.snapshot.row_of(name) for name in names)
        return np.array(sorted(row for row in rows if row is not None), dtype=np.intp)

    def scores(self, task: Task) -> dict[str, dict[str, int]]:
        """Node → plugin → weighted score, of all feasible nodes; zeros are left out."""
        answers = self.answers(task.shape)
        rows = self.feasible_of(task, answers)
        told: dict[str, dict[str, int]] = {self.snapshot.names[row]: {} for row in rows}
        for plugin, scores in (*answers.scores(rows), *self._company_scores(task, rows)):
            for row, score in zip(rows, scores.tolist(), strict=True):
                if score:
                    told[self.snapshot.names[row]][plugin] = score
        return told
