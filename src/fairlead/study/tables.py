"""Variants side by side, as text: the figures that say something, who fares worse, and where to ask on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from fairlead.sim.attribution import quota_of
from fairlead.sim.durations import span
from fairlead.sim.histories import PREEMPTED
from fairlead.study.changes.changed_cluster import HeldUp
from fairlead.study.comparison import LONGER, WAITING, Hurt, LostWorkload, Missing, grouped, lost, missing, worse
from fairlead.study.figures import FIGURES, WHOLE
from fairlead.study.outcome import Outcome, Waits
from fairlead.study.records import Run
from fairlead.study.rules import shown
from fairlead.wording import counted

#: How many of the pods that fare worse are told of, one by one.
LISTED: Final = 10
_DAY: Final = 86400.0

#: The rows, by figure; those in the second list are left out where they say nothing.
ROWS: Final = (
    ("placed", "placed"),
    ("waiting", "waiting at the end"),
    ("longestWait", "longest wait"),
    ("preempted", "preempted"),
    ("evictedByNode", "evicted by node"),
    ("oomKilled", "OOM-killed"),
    ("cpuRequested", "cpu requested, mean"),
    ("memoryRequested", "memory requested, mean"),
)
IF_ANY: Final = (
    ("evicted", "evicted"),
    ("lostWithNode", "lost with its node"),
    ("refusedByNode", "refused by node"),
    ("refusedByQuota", "refused by quota"),
    ("notEvicted", "not to be evicted"),
    ("throttledSeconds", "throttled"),
    ("nodeHours", "node hours"),
    ("cost", "cost"),
)


def comparison_text(run: Run, kept_as: str = "") -> str:
    """`kept_as`: what `fairlead why --in` takes to ask on, where it is another run."""
    before, variants = run.before, run.variants
    lines = [headline(run), _table(run), ""]
    for variant in variants:
        title = f" under {variant.name}" if len(variants) > 1 else ""
        hurt, fewer, absent = worse(before, variant), missing(before, variant), lost(before, variant)
        lines += [*_unfinished(variant, title), *_worse(hurt, title, variant, of_whom(fewer, absent))]
        lines += [*_lost(absent, title, variant), *_missing(fewer, title)]
        lines += [*_quotas(variant, title, fewer), *_others_refused(variant, title, fewer, before)]
        lines += _waits(before, variant, title)
        lines += _shares(before, variant, title)
        if hurt:
            lines.append(f"Why {hurt[0].pod}?   fairlead why {hurt[0].pod} --in {kept_as or run.name}")
            lines.append("")
    lines += _others_refused(before, " without a change, too", ())
    return "\n".join(lines).rstrip()


def refusals_text(outcome: Outcome) -> str:
    """What was not created of a run that is compared with nothing."""
    return "\n".join([*_quotas(outcome, "", ()), *_others_refused(outcome, "", ())]).rstrip()


def findings(before: Outcome, variant: Outcome) -> list[list[str]]:
    """What else is told of a variant than its pods, which are there for all to see: sections, each with its title
    first.
    """
    fewer, absent = missing(before, variant), lost(before, variant)
    sections = (
        _unfinished(variant, ""),
        _lost(absent, "", variant),
        _missing(fewer, ""),
        _quotas(variant, "", fewer),
        _others_refused(variant, "", fewer),
    )
    return [[title.rstrip(":"), *(line.strip() for line in lines if line)] for title, *lines in filter(None, sections)]


def headline(run: Run) -> str:
    summary = run.before.summary
    what = f"{counted(summary['nodesInAll'], 'node')}, {counted(summary['created'], 'pod')}"
    longest = max(outcome.ended - outcome.began for outcome in run.outcomes)
    return f"Replayed {span(longest)} of {what} (seed {run.seed}, digest {run.digest[:12]})"


def _table(run: Run) -> str:
    names = ["before", *(outcome.name if len(run.variants) > 1 else "after" for outcome in run.variants)]
    widths = [max(len(name), 9) + 2 for name in names]
    lines = [" " * 26 + "".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))]
    for row in rows_of(run.outcomes):
        if row.is_silent:
            continue
        cells = "".join(f"{value:>{width}}" for value, width in zip(row.shown, widths, strict=True))
        note = _NOTES[row.figure](run.variants[0]) if len(run.variants) == 1 and row.figure in _NOTES else ""
        lines.append(f"  {row.label:<24}{cells}" + (f"    {note}" if note else ""))
    return "\n".join(lines)


class Row(NamedTuple):
    """A figure of all outcomes."""

    figure: str
    label: str
    values: Sequence[float]
    shown: Sequence[str]

    @property
    def is_silent(self) -> bool:
        """Whether it says nothing to people, and may be left out."""
        is_same = self.figure == "nodeHours" and len(set(self.values)) == 1
        return (self.figure, self.label) in IF_ANY and (not any(self.values) or is_same)


def rows_of(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    for figure, label in (*ROWS, *IF_ANY):
        values = [FIGURES[figure](outcome, WHOLE) for outcome in outcomes]
        yield Row(figure, label, values, [shown(figure, value) for value in values])
        if figure == "memoryRequested":
            yield from map(partial(_extended, outcomes), extended_resources(outcomes))


def extended_resources(outcomes: Sequence[Outcome]) -> list[str]:
    """Those of which something was requested: GPUs and the like."""
    requested = {
        name
        for outcome in outcomes
        for name, use in outcome.summary["utilisation"].items()
        if use["peak"] and name not in ("cpu", "memory")
    }
    return sorted(requested)


def _extended(outcomes: Sequence[Outcome], resource: str) -> Row:
    values = [float((outcome.summary["utilisation"].get(resource) or {}).get("mean", 0.0)) for outcome in outcomes]
    return Row(resource, f"{resource}, mean", values, [f"{value:.0%}" for value in values])


def _where(outcome: Outcome) -> str:
    """The namespaces in which pods wait."""
    waiting = Counter[str]()
    for group in outcome.waits:
        waiting[group.namespace] += group.still_waiting
    return ", ".join(f"{namespace} {count}" for namespace, count in waiting.most_common(3) if count)


def _longest(outcome: Outcome) -> str:
    pods = sorted(outcome.pods, key=lambda pod: (-pod.waited(outcome.ended), pod.lineage))
    if not pods or pods[0].waited(outcome.ended) < 1:
        return ""
    return f"{pods[0].pod} since {clock(pods[0].created, outcome)}"


def _preemptors(outcome: Outcome) -> str:
    by = Counter(
        disruption.by.rpartition("-")[0] or disruption.by
        for pod in outcome.pods
        for disruption in pod.disruptions
        if disruption.kind == PREEMPTED and disruption.by
    )
    return ", ".join(f"{count} by {name}" for name, count in by.most_common(2))


def _evictors(outcome: Outcome) -> str:
    causes = outcome.summary["nodeTroubles"]["evictions"]
    return ", ".join(f"{count} {cause}" for cause, count in causes.items())


#: What stands beside a row where there is one variant alone.
_NOTES: Final[dict[str, Callable[[Outcome], str]]] = {
    "waiting": _where,
    "longestWait": _longest,
    "preempted": _preemptors,
    "evictedByNode": _evictors,
}


def _worse(hurt: Sequence[Hurt], title: str, variant: Outcome, of_whom: str) -> list[str]:
    if not hurt:
        return [f"No pod fares worse{title}{of_whom}.", ""]
    lines = [f"{counted(len(hurt), 'pod')} fare{'s' if len(hurt) == 1 else ''} worse{title}:"]
    groups = grouped(hurt)
    for group in groups[:LISTED]:
        pod = group.first
        more = f" and {len(group.pods) - 1:,} more of {pod.owner}" if len(group.pods) > 1 else ""
        lines.append(f"  {pod.pod}{more}  {fate(pod, variant)}")
        lines += [f"      {cause}" for cause in pod.causes]
    if rest := sum(len(group.pods) for group in groups[LISTED:]):
        lines.append(f"  and {rest:,} more (all of them with -o json)")
    return [*lines, ""]


def of_whom(fewer: Sequence[Missing], absent: Sequence[LostWorkload]) -> str:
    """Of which pods it is said that none fares worse, where there are fewer of them."""
    if absent:
        return ", of those that came and are still there"
    return ", of those that came" if fewer else ""


def _unfinished(variant: Outcome, title: str) -> list[str]:
    found = unfinished(variant)
    return [f"Not done at the end{title}:", *(f"  {line}" for line in found), ""] if found else []


def unfinished(variant: Outcome) -> list[str]:
    """The steps that were still going on, and the pods for which drains wait, or that they have given up."""
    steps = [f"{clock(step.at, variant)} {step.text}" for step in variant.steps if not step.has_ended]
    held = [not_evicted(held) for held in variant.held_up]
    rest = len(held) - LISTED
    more = [f"and {counted(rest, 'pod')} more (all of them with -o json)"] if rest > 0 else []
    return [*steps, *held[:LISTED], *more]


def not_evicted(held: HeldUp) -> str:
    return f"{held.pod} cannot be evicted from {held.node}: {held.message}"


def fate(pod: Hurt, variant: Outcome) -> str:
    since = clock(pod.since, variant)
    if pod.how in WAITING:
        return f"waits since {since} ({span(pod.waited)}): {pod.reason or 'not looked at yet'}"
    if pod.how in LONGER:
        before = f" instead of {span(pod.waited_before)}" if pod.waited_before >= 1 else ""
        reason = f": {pod.reason}" if pod.reason else ""
        return f"waited {span(pod.waited)}{before}, from {since} on{reason}"
    return f"{since} {pod.reason}"


def _lost(absent: Sequence[LostWorkload], title: str, variant: Outcome) -> list[str]:
    if not absent:
        return []
    lines = [f"Not there any more{title}:", *(f"  {gone_since(it, variant)}" for it in absent[:LISTED])]
    if (more := len(absent) - LISTED) > 0:
        lines.append(f"  and {counted(more, 'workload')} more (all of them with -o json)")
    return [*lines, ""]


def gone_since(it: LostWorkload, variant: Outcome) -> str:
    causes = "".join(f", {cause}" for cause in it.causes)
    return f"{it.namespace}/{it.workload}  {counted(it.pods, 'pod')} gone since {clock(it.since, variant)}{causes}"


def _missing(fewer: Sequence[Missing], title: str) -> list[str]:
    if not fewer:
        return []
    pods = counted(sum(it.pods_before - it.pods for it in fewer), "pod")
    lines = [f"{pods} fewer came{title} than before:"]
    lines += [f"  {fewer_pods(it)}" for it in fewer[:LISTED]]
    if (more := len(fewer) - LISTED) > 0:
        lines.append(f"  and of {counted(more, 'workload')} more (all of them with -o json)")
    return [*lines, ""]


def fewer_pods(it: Missing) -> str:
    reason = f": {it.reason}" if it.reason else ""
    return f"{it.namespace}/{it.workload}  {it.pods:,} instead of {it.pods_before:,}{reason}"


def _quotas(variant: Outcome, title: str, fewer: Sequence[Missing]) -> list[str]:
    lines = [f"  {line}" for line in (*quotas(variant), *refused(variant, fewer, by_quota=True))]
    head = f"Quotas that refuse{title} (what runs goes on, what is made anew is refused):"
    return [head, *lines, ""] if lines else []


def _others_refused(variant: Outcome, title: str, fewer: Sequence[Missing], before: Outcome | None = None) -> list[str]:
    """Without what was so before: no change has brought it."""
    known = {
        (short.namespace, short.workload or short.owner)
        for short in (before.shortfalls if before is not None else ())
        if quota_of(short.message) is None
    }
    lines = [f"  {line}" for line in refused(variant, fewer, known, by_quota=False)]
    return [f"What else is refused{title}:", *lines, ""] if lines else []


def refused(
    variant: Outcome, fewer: Sequence[Missing], known: Collection[tuple[str, str]] = (), *, by_quota: bool
) -> list[str]:
    """Whose pods could not be created, of those of whom none are missing: they came later, or had not come before."""
    told = {(it.namespace, it.workload) for it in fewer} | set(known)
    late = {}
    for short in variant.shortfalls:
        workload = short.workload or short.owner
        if (short.namespace, workload) not in told and (quota_of(short.message) is not None) == by_quota:
            late[short.namespace, workload] = short.message
    return [
        f"{namespace}/{workload} could not create pods: {message}"
        for (namespace, workload), message in list(late.items())[:LISTED]
    ]


def quotas(variant: Outcome) -> list[str]:
    """The bounds that are exceeded or for which pods were refused, a line for each quota."""
    lines = []
    for (namespace, quota), states in groupby(variant.quotas, key=lambda state: (state.namespace, state.quota)):
        bounds = list(states)
        refused = f"refused {counted(bounds[0].refusals, 'time')}; " if bounds[0].refusals else ""
        used = [
            f"{bound.resource}: {bound.used} of {bound.hard} used"
            + (", more than it allows" if bound.is_exceeded else "")
            for bound in bounds
        ]
        lines.append(f"{namespace}/{quota}  {refused}{'; '.join(used)}")
    return lines


class ChangedWaits(NamedTuple):
    namespace: str
    priority: int
    #: The median, the 95 % and the longest, each before and after.
    spans: Sequence[tuple[str, str]]


def changed_waits(before: Outcome, variant: Outcome) -> list[ChangedWaits]:
    """The waits of each namespace and priority where they have changed."""
    known = {(group.namespace, group.priority): group for group in before.waits}
    found = []
    for group in variant.waits:
        old = known.get((group.namespace, group.priority))
        olds, spans = _spans(old) if old is not None else ["-"] * 3, _spans(group)
        if olds != spans:
            found.append(ChangedWaits(group.namespace, group.priority, [*zip(olds, spans, strict=True)]))
    return found


def _spans(group: Waits) -> list[str]:
    return [span(seconds) for seconds in (group.quantile(0.5), group.quantile(0.95), group.longest)]


def _waits(before: Outcome, variant: Outcome, title: str) -> list[str]:
    lines = [
        f"  {waits.namespace:<18}{waits.priority:>10}" + "".join(f"{f'{old} → {new}':>22}" for old, new in waits.spans)
        for waits in changed_waits(before, variant)
    ]
    if not lines:
        return []
    head = f"  {'waits' + title:<18}{'priority':>10}{'median':>22}{'95 %':>22}{'longest':>22}"
    return [head, *lines, ""]


def _shares(before: Outcome, variant: Outcome, title: str) -> list[str]:
    """What each namespace deserved and used of the cluster, where an arbitrator is at work."""
    known = {shares.namespace: shares for shares in before.fairness}
    lines = []
    for shares in variant.fairness:
        old = known.get(shares.namespace)
        pairs = [(old.deserved, shares.deserved), (old.used, shares.used)] if old is not None else []
        cells = [f"{a:.0%} → {b:.0%}" for a, b in pairs] or [f"{shares.deserved:.0%}", f"{shares.used:.0%}"]
        lines.append(f"  {shares.namespace:<28}" + "".join(f"{cell:>22}" for cell in cells))
    head = f"  {'shares, mean' + title:<28}{'deserved':>22}{'used':>22}"
    return [head, *lines, ""] if lines else []


def clock(moment: float, outcome: Outcome) -> str:
    """A moment of a run: the time of day, with the date where the run takes more than one day."""
    form = "%H:%M" if outcome.ended - outcome.began <= _DAY else "%m-%d %H:%M"
    return datetime.fromtimestamp(moment, UTC).strftime(form)
