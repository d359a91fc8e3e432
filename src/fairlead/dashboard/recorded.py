"""A run that `fairlead simulate` kept: its pods' histories as batches in the order of their times, and its figures.

A run keeps the pods to which something happened, and of the others the figures alone. So its nodes are those of these
pods, and have no amounts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import groupby
from typing import Final

from fairlead.api.objects import Obj
from fairlead.dashboard.rows import Batch, NodeRow, PodRow, ShareRow
from fairlead.dashboard.source import TURN_ROWS, About, Chart, UnknownPod
from fairlead.runtime.offload import offload
from fairlead.sim.histories import PodHistory
from fairlead.study.asking import NotInRun, story
from fairlead.study.comparison import in_words
from fairlead.study.outcome import Outcome
from fairlead.study.records import Run
from fairlead.study.tables import findings
from fairlead.wording import counted

#: Of so many pods the histories are shown; a browser would not become fluid with more.
MOST_PODS: Final = 20_000
_QUIET_SECONDS: Final = 15.0
_PER_MILLE: Final = 1000

#: Something that happened: when, and the row of the pod from then on, or the key of one that is gone.
_Moment = tuple[float, PodRow | str]


class RecordedRun:
    """Shows one run, variant by variant."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._outcomes = {outcome.name: outcome for outcome in run.outcomes}
        first = [run.outcomes[-1].name, *(outcome.name for outcome in run.outcomes[:-1])]
        self.about = About(run.name, is_live=False, variants=first, note=_note(run))

    async def batches(self, variant: str) -> AsyncGenerator[Batch | Chart | None, None]:
        """All at once: a run has ended."""
        outcome = self._outcomes.get(variant, self._run.outcomes[-1])
        yield await offload(lambda: _chart(outcome, self._run.before), is_long=True)
        for batch in await offload(lambda: batches_of(outcome), is_long=True):
            yield batch
            await asyncio.sleep(0)
        while True:
            await asyncio.sleep(_QUIET_SECONDS)
            yield None

    async def why(self, key: str, variant: str) -> Obj:
        try:
            lines = await offload(lambda: story(self._run, key, variant), is_long=True)
        except NotInRun as error:
            raise UnknownPod(str(error)) from None
        return {"pod": key, "headline": lines[0], "story": lines[1:]}


def _note(run: Run) -> str:
    left_out = max((len(outcome.pods) for outcome in run.outcomes), default=0) - MOST_PODS
    note = "Shown are the pods to which something happened, and the nodes on which these were."
    return note if left_out <= 0 else f"{note} {counted(left_out, 'pod')} more are left out."


def batches_of(outcome: Outcome) -> list[Batch]:
    """In the order of their times; first the nodes, which are there from the beginning."""
    pods = outcome.pods[:MOST_PODS]
    nodes = sorted({pod.node for pod in pods if pod.node})
    beginning = Batch(outcome.began, [NodeRow(name) for name in nodes], shares=_shares(outcome))
    found = [beginning]
    moments = sorted((moment for pod in pods for moment in _moments(pod)), key=lambda moment: moment[0])
    for at, of_moment in groupby(moments, key=lambda moment: moment[0]):
        news = list(of_moment)
        for start in range(0, len(news), TURN_ROWS):
            part = [what for _, what in news[start : start + TURN_ROWS]]
            gone = [what for what in part if isinstance(what, str)]
            found.append(Batch(at, pods=[what for what in part if not isinstance(what, str)], gone=gone))
    return found


def _moments(pod: PodHistory) -> Iterator[_Moment]:
    """Each row that the pod had: waiting, placed, disrupted, gone."""

    def row(phase: str, node: str, note: str) -> PodRow:
        return PodRow(pod.pod, node, phase, priority=pod.priority, note=note)

    yield pod.created, row("Pending", "", pod.waits_for)
    phase, node, note = "Pending", "", pod.waits_for
    changes = [(disruption.at, in_words(disruption)) for disruption in pod.disruptions]
    if pod.bound is not None:
        changes.append((pod.bound, ""))
    for at, text in sorted(changes):
        if text:
            note = text
        else:
            phase, node, note = "Running", pod.node, ""
        yield at, row(phase, node, note)
    if pod.ended is not None:
        end = pod.phase or ("Gone" if pod.disruptions else "")
        yield pod.ended, row(end, node, note) if end else pod.pod


def _shares(outcome: Outcome) -> list[ShareRow]:
    """On average over the run, in thousandths of the cluster."""
    return [
        ShareRow(
            fairness.namespace,
            fairness.used,
            {"share": round(fairness.deserved * _PER_MILLE)},
            {"share": round(fairness.used * _PER_MILLE)},
        )
        for fairness in outcome.fairness
    ]


def _chart(outcome: Outcome, before: Outcome) -> Chart:
    lines: dict[str, Sequence[float]] = {}
    for label, figures in (("requested", "utilisation"), ("used", "used")):
        for resource in ("cpu", "memory"):
            parts = (outcome.summary.get(figures) or {}).get(resource, {}).get("overTime")
            if parts:
                lines[f"{resource} {label}"] = parts
    return Chart(
        outcome.began,
        outcome.ended,
        {name: list(parts) for name, parts in lines.items()},
        [(step.at, step.text) for step in outcome.steps],
        findings(before, outcome),
    )
