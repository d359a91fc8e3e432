"""Runs in virtual time, for tests: what `fairlead simulate` plays, without the command."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.objects import Obj
from fairlead.compose import Settings
from fairlead.runtime.loops import DEFAULT_EPOCH
from fairlead.sim.openb import Arrival
from fairlead.study.changes.document import Change
from fairlead.study.outcome import Outcome
from fairlead.study.run import Scene, play

UNCHANGED = Change("before")


def outcome_of(
    settings: Settings,
    arrivals: Sequence[Arrival] = (),
    limit: float | None = None,
    change: Change = UNCHANGED,
    seed: int = 1,
) -> Outcome:
    return play(Scene(settings, arrivals, limit, DEFAULT_EPOCH, seed), change, lambda count, at: None)


def summary_of(settings: Settings, arrivals: Sequence[Arrival], limit: float | None = None, seed: int = 1) -> Obj:
    return outcome_of(settings, arrivals, limit, seed=seed).summary
