"""Where a pod goes: a pure function of a snapshot and the pod's shape.

Nothing here waits, reads a clock or talks to a server, so the loop, a simulation and `fairlead why` share it. Among
nodes with the same total the choice is by lot, from the one seeded source.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from fairlead.api.scheduling import Pod
from fairlead.runtime import chance
from fairlead.scheduler.answers import Answers
from fairlead.scheduler.columns import Rows
from fairlead.scheduler.diagnosis import NO_NODES, Diagnosis, add_narrowed, diagnose, refused_outright
from fairlead.scheduler.framework import Narrowed, Profile, Refused
from fairlead.scheduler.preemption import advice
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Snapshot

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
    """The pod goes nowhere. Without `plugins` nobody refused it: it is tried again by back-off alone."""

    message: str
    plugins: frozenset[str] = frozenset()


class Decider:
    """Decides for one profile over one snapshot."""

    def __init__(self, snapshot: Snapshot, profile: Profile) -> None:
        self.snapshot = snapshot
        self.profile = profile
        self._answers: OrderedDict[Shape, Answers] = OrderedDict()

    def decide(self, pod: Pod, shape: Shape) -> Chosen | Unfit:
        """The node for the pod, or why there is none."""
        snapshot = self.snapshot
        if not snapshot.count:
            return Unfit(NO_NODES)
        answers = self.answers(shape)
        tied = answers.best()
        if len(tied):
            row = int(tied[chance.source().randrange(len(tied))] if len(tied) > 1 else tied[0])
            return Chosen(row, snapshot.names[row])
        found = self.diagnose(answers)
        return Unfit(found.text(advice(pod, found)), found.plugins)

    def answers(self, shape: Shape) -> Answers:
        """What the plugins say for that shape, as of now."""
        found = self._answers.get(shape)
        if found is not None:
            self._answers.move_to_end(shape)
            found.refresh()
            return found
        narrowed = self._narrowed(shape)
        if narrowed:  # few nodes, and often a shape that only one pod has: that of a daemon
            return Answers(shape, self.profile, self.snapshot, self._rows_within(narrowed))
        found = self._answers[shape] = Answers(shape, self.profile, self.snapshot)
        if len(self._answers) > max(FEWEST_REMEMBERED, REMEMBERED_CELLS // self.snapshot.size):
            self._answers.popitem(last=False)
        return found

    def diagnose(self, answers: Answers) -> Diagnosis:
        """Why no node is feasible for the shape."""
        for place in self.profile.plugins:
            said = place.plugin.pre_filter(answers.shape, self.snapshot)
            if isinstance(said, Refused):
                return refused_outright(place.plugin, said, self.snapshot)
        narrowed = self._narrowed(answers.shape)
        rows = self._rows_within(narrowed) if narrowed else self.snapshot.rows()
        found = diagnose(answers.shape, self.snapshot, answers.passed(rows), rows)
        if narrowed:
            add_narrowed(found, frozenset(narrowed), len(rows))
        return found

    def _narrowed(self, shape: Shape) -> dict[str, Narrowed]:
        """The plugins that let only some nodes come into question."""
        said = ((one.plugin.name, one.plugin.pre_filter(shape, self.snapshot)) for one in self.profile.plugins)
        return {name: one for name, one in said if isinstance(one, Narrowed)}

    def _rows_within(self, narrowed: dict[str, Narrowed]) -> Rows:
        names = frozenset.intersection(*(one.names for one in narrowed.values()))
        rows = (self.snapshot.row_of(name) for name in names)
        return np.array(sorted(row for row in rows if row is not None), dtype=np.intp)

    def scores(self, shape: Shape) -> dict[str, dict[str, int]]:
        """Node → plugin → weighted score, of all feasible nodes; zeros are left out."""
        answers = self.answers(shape)
        rows = answers.feasible()
        told: dict[str, dict[str, int]] = {self.snapshot.names[row]: {} for row in rows}
        for plugin, scores in answers.scores(rows):
            for row, score in zip(rows, scores.tolist(), strict=True):
                if score:
                    told[self.snapshot.names[row]][plugin] = score
        return told
