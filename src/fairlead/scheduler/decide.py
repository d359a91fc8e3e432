"""Where a pod goes: a pure function of a snapshot and what the pod asks for.

Nothing here waits, reads a clock or talks to a server, so the loop, a simulation and `fairlead why` share it. Among
nodes with the same total the choice is by lot, from the one seeded source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from fairlead.caches import LruCache
from fairlead.runtime import rng
from fairlead.scheduler.answers import Answers, best_of
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.diagnosis import NO_NODES, Diagnosis, add_narrowed, diagnose, refused_outright
from fairlead.scheduler.dry_run import DryRun
from fairlead.scheduler.framework import CannotDecide, Narrowed, Plugin, Reads, Refusals, Refused
from fairlead.scheduler.nominations import Nominations
from fairlead.scheduler.profile import Profile
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot

#: Answers are kept for as many different requirements as fit into about this many array cells.
REMEMBERED_CELLS = 1_000_000
FEWEST_REMEMBERED = 16


class Chosen(msgspec.Struct, frozen=True):
    """The pod goes to this node."""

    row: int
    node: str


class Unfit(msgspec.Struct, frozen=True):
    """The pod goes nowhere as things are, and why."""

    found: Diagnosis


class Decider:
    """Decides for one profile over one snapshot."""

    def __init__(self, snapshot: Snapshot, profile: Profile, nominations: Nominations | None = None) -> None:
        self.snapshot = snapshot
        self.profile = profile
        self.nominations = Nominations(snapshot) if nominations is None else nominations
        self._answers: LruCache[PodRequirements, Answers] = LruCache(FEWEST_REMEMBERED)

    def decide(self, request: SchedulingRequest) -> Chosen | Unfit:
        """The node for the pod, or why there is none. Raises `CannotDecide`."""
        if not self.snapshot.count:
            return Unfit(Diagnosis(0, message=NO_NODES))
        tied = self.best(request)
        if len(tied):
            return self._drawn(tied)
        return Unfit(self.diagnose(request))

    def _drawn(self, tied: Rows) -> Chosen:
        """One of these, by lot."""
        row = int(tied[rng.source().randrange(len(tied))] if len(tied) > 1 else tied[0])
        return Chosen(row, self.snapshot.names[row])

    def best(self, request: SchedulingRequest) -> Rows:
        """The rows among which the lot decides; none if the pod fits nowhere."""
        answers = self.answers(request.requirements)
        if not answers.scoring_fault and self._is_plain(request):
            return answers.best()
        rows = self.feasible_of(request, answers)
        if request.nominated and (row := self.snapshot.row_of(request.nominated)) is not None and row in rows:
            return np.array([row], dtype=np.intp)  # the nominated node is tried first, and alone
        if len(rows) < 2:
            return rows
        _check_scorers(answers)
        totals = answers.totals(rows)
        for _, scores in self._relation_scores(request, rows):
            totals += scores
        return best_of(rows, totals)

    def choose_among(self, request: SchedulingRequest, names: Sequence[str], extra: Mapping[str, int]) -> Chosen | None:
        """The best of these nodes, if they still will do, with what extenders add to their scores."""
        feasible = self.feasible(request)
        wanted = [row for name in names if (row := self.snapshot.row_of(name)) is not None]
        rows = feasible[np.isin(feasible, wanted)]
        if not len(rows):
            return None
        answers = self.answers(request.requirements)
        if len(rows) > 1:
            _check_scorers(answers)
        totals = answers.totals(rows)
        for _, scores in self._relation_scores(request, rows):
            totals += scores
        totals += np.array([extra.get(self.snapshot.names[row], 0) for row in rows.tolist()], dtype=np.int64)
        return self._drawn(best_of(rows, totals))

    def feasible(self, request: SchedulingRequest) -> Rows:
        """All rows where the pod fits."""
        return self.feasible_of(request, self.answers(request.requirements))

    def _is_plain(self, request: SchedulingRequest) -> bool:
        """No other pod matters to this one, and none is nominated."""
        return self.is_unaffected(request) and not any(
            weighted.plugin.scores(request, self.snapshot) for weighted in self.profile.relation_scorers
        )

    def is_unaffected(self, request: SchedulingRequest) -> bool:
        """No other pod keeps this one from a node, but by what it takes, and none is nominated."""
        if len(self.nominations):
            return False
        return not any(plugin.filters(request, self.snapshot) for plugin in self.profile.relation_filters)

    def feasible_of(self, request: SchedulingRequest, answers: Answers) -> Rows:
        """The same, of what the plugins about nodes have said already."""
        rows = answers.feasible()
        for plugin in self.profile.relation_filters:
            if len(rows) and plugin.filters(request, self.snapshot):
                rows = rows[plugin.filter(request, self.snapshot, rows)]
        if len(self.nominations) and len(rows):
            rows = rows[self._leaves_nominated_room(request, answers, rows)]
        return rows

    def _relation_scores(self, request: SchedulingRequest, rows: Rows) -> list[tuple[str, Ints]]:
        """Plugin by plugin the weighted scores of the feasible rows."""
        return [
            (place.plugin.name, place.weight * place.plugin.score(request, self.snapshot, rows))
            for place in self.profile.relation_scorers
            if place.plugin.scores(request, self.snapshot)
        ]

    # --- nominations ------------------------------------------------------------------------------------------------

    def _leaves_nominated_room(self, request: SchedulingRequest, answers: Answers, rows: Rows) -> Mask:
        """Which rows still do if the pods nominated to them were there already."""
        with_nominated, nominated = self.nominations.with_nominated(request)
        mask = np.ones(len(rows), dtype=np.bool_)
        touched = np.isin(rows, nominated)
        if not touched.any():
            return mask
        for plugin in answers.filters:
            if Reads.AMOUNTS in plugin.reads:
                mask[touched] &= plugin.filter(request.requirements, with_nominated, rows[touched])
        if self._reads_pods(request, answers):
            for index in np.flatnonzero(touched & mask):
                mask[index] = self._refusal_with_nominated(request, int(rows[index])) is None
        return mask

    def _reads_pods(self, request: SchedulingRequest, answers: Answers) -> bool:
        """Whether it matters to the pod who the others are, and not only how much they take."""
        return any((Reads.PODS | Reads.CLUSTER) & plugin.reads for plugin in answers.filters) or any(
            plugin.filters(request, self.snapshot) for plugin in self.profile.relation_filters
        )

    def _refusal_with_nominated(self, request: SchedulingRequest, row: int) -> tuple[str, Refusals] | None:
        """Who refuses that one node if all pods nominated to it were there, and why."""
        dry_run = self.dry_run(request)
        with dry_run, dry_run.beside(self.nominations.against(request, self.snapshot.names[row])):
            return dry_run.refusal(row)

    def dry_run(self, request: SchedulingRequest) -> DryRun:
        """Of the pod, as things are."""
        relations = [plugin for plugin in self.profile.relation_filters if plugin.filters(request, self.snapshot)]
        return DryRun(self.snapshot, request, self.filters_of(request.requirements), relations)

    def filters_of(self, requirements: PodRequirements) -> list[Plugin]:
        """The plugins about nodes that have a say about such pods."""
        return [weighted.plugin for weighted in self.profile.filtering(requirements)]

    # --- answers ----------------------------------------------------------------------------------------------------

    def answers(self, requirements: PodRequirements) -> Answers:
        """What the plugins about nodes say for those requirements, as of now."""
        found = self.known_answers(requirements)
        if found is not None:
            return found
        narrowed = self._narrowed(requirements)
        if narrowed:  # few nodes, and often requirements that only one pod has: those of a daemon
            return Answers(requirements, self.profile, self.snapshot, self._rows_within(narrowed))
        if not self._is_kept(requirements):
            return Answers(requirements, self.profile, self.snapshot)
        found = Answers(requirements, self.profile, self.snapshot)
        self._answers.maxsize = max(FEWEST_REMEMBERED, REMEMBERED_CELLS // self.snapshot.size)
        self._answers.put(requirements, found)
        return found

    def _is_kept(self, requirements: PodRequirements) -> bool:
        """What is said where there are claims changes with them, and those are mostly one pod's own."""
        if requirements.claims or requirements.device_claims:
            return False
        return not self.snapshot.device_offers.replaces(requirements.device_amounts)

    def known_answers(self, requirements: PodRequirements) -> Answers | None:
        """Those that are kept, as of now. What requires claims, or certain nodes, has none."""
        found = self._answers.get(requirements) if self._is_kept(requirements) else None
        if found is not None:
            found.refresh()
        return found

    def diagnose(self, request: SchedulingRequest) -> Diagnosis:
        """Why no node is feasible for the pod. It is the caller's to add to."""
        answers = self.answers(request.requirements)
        if not self.is_unaffected(request):
            return self._diagnosed(request, answers)
        if answers.diagnosis is None:  # who waits for days is refused again and again by a cluster at rest
            answers.diagnosis = self._diagnosed(request, answers)
        return answers.diagnosis.copy()

    def _diagnosed(self, request: SchedulingRequest, answers: Answers) -> Diagnosis:
        snapshot = self.snapshot
        if (outright := self.outright_refusal(answers.requirements)) is not None:
            return refused_outright(*outright, snapshot)
        narrowed = self._narrowed(answers.requirements)
        rows = self._rows_within(narrowed) if narrowed else snapshot.rows()
        found, asked = Diagnosis(snapshot.count), len(rows)
        has_nominated = len(self.nominations) > 0
        with_nominated, nominated = self.nominations.with_nominated(request) if has_nominated else (snapshot, rows[:0])
        if len(nominated) and self._reads_pods(request, answers):
            touched = np.isin(rows, nominated)
            for row in rows[touched].tolist():
                refused = self._refusal_with_nominated(request, row)
                if refused is not None:
                    found.add(*refused, np.array([row], dtype=np.intp))
                    rows = rows[rows != row]
            with_nominated = snapshot
        passed = [
            (
                plugin,
                plugin.filter(request.requirements, with_nominated, rows)
                if has_nominated and Reads.AMOUNTS in plugin.reads
                else mask,
            )
            for plugin, mask in answers.passed(rows)
        ]
        left = diagnose(found, request.requirements, with_nominated, passed, rows)
        for plugin in self.profile.relation_filters:
            if len(left) and plugin.filters(request, snapshot):
                mask = plugin.filter(request, snapshot, left)
                failing = left[~mask]
                if len(failing):
                    found.add(plugin.name, plugin.refusals(request, snapshot, failing), failing)
                left = left[mask]
        if narrowed:
            add_narrowed(found, frozenset(narrowed), asked)
        return found

    def outright_refusal(self, requirements: PodRequirements) -> tuple[Plugin, Refused] | None:
        """The plugin that lets such a pod go nowhere, before nodes are looked at."""
        results = (
            (weighted.plugin, weighted.plugin.pre_filter(requirements, self.snapshot))
            for weighted in self.profile.plugins
        )
        return next(((plugin, result) for plugin, result in results if isinstance(result, Refused)), None)

    def _narrowed(self, requirements: PodRequirements) -> dict[str, Narrowed]:
        """The plugins that let only some nodes come into question."""
        results = (
            (weighted.plugin.name, weighted.plugin.pre_filter(requirements, self.snapshot))
            for weighted in self.profile.plugins
        )
        return {name: result for name, result in results if isinstance(result, Narrowed)}

    def _rows_within(self, narrowed: dict[str, Narrowed]) -> Rows:
        names = frozenset.intersection(*(narrowing.names for narrowing in narrowed.values()))
        rows = (self.snapshot.row_of(name) for name in names)
        return np.array(sorted(row for row in rows if row is not None), dtype=np.intp)

    def scores(self, request: SchedulingRequest) -> dict[str, dict[str, int]]:
        """Node → plugin → weighted score, of all feasible nodes; zeros are left out."""
        answers = self.answers(request.requirements)
        rows = self.feasible_of(request, answers)
        scores_of: dict[str, dict[str, int]] = {self.snapshot.names[row]: {} for row in rows}
        for plugin, scores in (*answers.scores(rows), *self._relation_scores(request, rows)):
            for row, score in zip(rows, scores.tolist(), strict=True):
                if score:
                    scores_of[self.snapshot.names[row]][plugin] = score
        return scores_of


def _check_scorers(answers: Answers) -> None:
    if answers.scoring_fault:
        raise CannotDecide(answers.scoring_fault)
