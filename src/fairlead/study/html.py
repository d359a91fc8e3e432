"""A run as one HTML file to send to others: figures, plots, and the pods that were hurt most. It needs no network.

The plots are Bokeh's (the extra `fairlead[report]`), whose script is part of the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from fairlead.study.comparison import grouped, lost, missing, worse
from fairlead.study.outcome import Outcome, quantile
from fairlead.study.records import Run
from fairlead.study.rules import Verdict
from fairlead.study.tables import (
    LISTED,
    changed_waits,
    clock,
    extended_resources,
    fate,
    fewer_pods,
    gone_since,
    headline,
    of_whom,
    quotas,
    refused,
    rows_of,
    unfinished,
)
from fairlead.wording import counted

_COLOURS: Final = ("#6b7280", "#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d")
#: So many variants are drawn; the table has all of them.
_MOST_DRAWN: Final = 8
#: Shares have a plot for each of so many variants, with so many namespaces.
_MOST_OF_SHARES: Final = 4
_MOST_NAMESPACES: Final = 6
#: So many resources beside cpu and memory are drawn.
_MOST_EXTENDED: Final = 4
#: So many steps of a change are listed.
_MOST_STEPS: Final = 20
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MILLISECONDS: Final = 1000.0
_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1f2937;--back:#fff;--line:#e5e7eb;--soft:#6b7280;--bad:#b91c1c;--good:#047857}
@media(prefers-color-scheme:dark){:root{--ink:#e5e7eb;--back:#111827;--line:#374151;--soft:#9ca3af;--bad:#f87171;--good:#34d399}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:1080px;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2.2rem}h3{font-size:1rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.3rem .7rem;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
.wide{overflow-x:auto}.soft{color:var(--soft)}.bad{color:var(--bad)}.good{color:var(--good)}
li{margin:.5rem 0}code{font-size:.9em;overflow-wrap:anywhere}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1rem}
.plots>div{background:#fff;border-radius:6px;padding:.4rem}
@media(prefers-color-scheme:dark){.plots>div{filter:invert(.92) hue-rotate(180deg)}}
"""


def report(run: Run, verdicts: Sequence[Verdict] = ()) -> str:
    """The whole file. Takes Bokeh (`check_extra`)."""
    from bokeh.embed import components
    from bokeh.resources import Resources

    drawn = run.outcomes[:_MOST_DRAWN]
    requested = ("cpu", "memory", *extended_resources(drawn)[:_MOST_EXTENDED])
    plots = [*(_used(drawn, resource) for resource in requested), _waits(drawn), _disruptions(drawn)]
    plots = [plot for plot in (*plots, *map(_shares, drawn[:_MOST_OF_SHARES])) if plot]
    script, places = components(plots)
    script, *places = _named_after(run.digest, [script, *places])
    library = Resources(mode="inline", components=["bokeh"]).render_js()
    body = [
        f"<h1>{escape(headline(run))}</h1>",
        _table(run),
        _rules(verdicts),
        '<div class="plots">' + "".join(f"<div>{place}</div>" for place in places) + "</div>",
        *(_hurt(run, variant) for variant in run.variants),
        f'<p class="soft">Ask on: <code>fairlead why NAMESPACE/POD --in {escape(run.name)}</code></p>',
    ]
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(run.name)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>{library}</head>'
        f"<body>{''.join(body)}{script}</body></html>\n"
    )


def _named_after(digest: str, parts: Sequence[str]) -> list[str]:
    """Bokeh's parts of the page with other names of elements: its own are random, and equal runs are equal files."""
    names: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        return names.setdefault(found[0], str(uuid5(NAMESPACE_OID, f"{digest} {len(names)}")))

    return [_UUID.sub(renamed, part) for part in parts]


def _table(run: Run) -> str:
    names = "".join(f"<th>{escape(outcome.name)}</th>" for outcome in run.outcomes)
    rows = []
    for row in rows_of(run.outcomes):
        if any(row.values):
            cells = "".join(f"<td>{escape(value)}</td>" for value in row.shown)
            rows.append(f"<tr><td>{escape(row.label)}</td>{cells}</tr>")
    return f'<div class="wide"><table><tr><th></th>{names}</tr>{"".join(rows)}</table></div>'


def _rules(verdicts: Iterable[Verdict]) -> str:
    items = [
        f'<li class="{"good" if verdict.is_met else "bad"}">{"met" if verdict.is_met else "not met"}: '
        f"{escape(verdict.variant)}: {escape(verdict.text)}</li>"
        for verdict in verdicts
    ]
    return f"<h2>Rules</h2><ul>{''.join(items)}</ul>" if items else ""


def _hurt(run: Run, variant: Outcome) -> str:
    hurt = worse(run.before, variant)
    groups = grouped(hurt)[:LISTED]
    items = []
    for group in groups:
        pod = group.first
        more = f" and {len(group.pods) - 1:,} more of {pod.owner}" if len(group.pods) > 1 else ""
        causes = "".join(f'<br><span class="soft">{escape(cause)}</span>' for cause in pod.causes)
        items.append(f"<li><b>{escape(pod.pod)}</b>{escape(more)}: {escape(fate(pod, variant))}{causes}</li>")
    fewer = missing(run.before, variant)
    absent = lost(run.before, variant)
    nobody = "no pod fares worse" + of_whom(fewer, absent)
    head = f"{counted(len(hurt), 'pod')} fare{'s' if len(hurt) == 1 else ''} worse" if hurt else nobody
    listed = f"<ol>{''.join(items)}</ol>" if items else ""
    rest = len(hurt) - sum(len(group.pods) for group in groups)
    more = f'<p class="soft">and {rest:,} more (all of them with -o json)</p>' if rest else ""
    steps = [f"{clock(step.at, variant)} {step.text}" for step in variant.steps]
    shown_steps = [
        *steps[:_MOST_STEPS],
        *([f"and {len(steps) - _MOST_STEPS:,} more"] if len(steps) > _MOST_STEPS else []),
    ]
    return (
        f"<h2>{escape(variant.name)}: {head}</h2>{_list('What changed', shown_steps)}"
        f"{_list('Not done at the end', unfinished(variant))}"
        f"{'<h3>Who fares worse</h3>' if listed else ''}{listed}{more}{_waiting(run.before, variant)}"
        f"{_list('Not there any more', (gone_since(it, variant) for it in absent[:LISTED]))}"
        f"{_list('Fewer pods came than before', map(fewer_pods, fewer[:LISTED]))}"
        f"{_list('Quotas that refuse', [*quotas(variant), *refused(variant, fewer, by_quota=True)])}"
        f"{_list('What else is refused', refused(variant, fewer, by_quota=False))}"
    )


def _waiting(before: Outcome, variant: Outcome) -> str:
    rows = "".join(
        f"<tr><td>{escape(wait.namespace)}</td><td>{wait.priority}</td>"
        + "".join(f"<td>{old} → {new}</td>" for old, new in wait.spans)
        + "</tr>"
        for wait in changed_waits(before, variant)
    )
    head = "<th>namespace</th><th>priority</th><th>median</th><th>95 %</th><th>longest</th>"
    return f'<h3>Waits</h3><div class="wide"><table><tr>{head}</tr>{rows}</table></div>' if rows else ""


def _list(title: str, items: Iterable[str]) -> str:
    listed = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<h3>{escape(title)}</h3><ul>{listed}</ul>" if listed else ""


def _figure(title: str, **settings: Any) -> Any:
    from bokeh.plotting import figure

    return figure(
        title=title, height=280, sizing_mode="stretch_width", tools="hover", toolbar_location=None, **settings
    )


def _over_time(title: str) -> Any:
    """With days that fit below the hours."""
    from bokeh.models import DatetimeTickFormatter

    plot = _figure(title, x_axis_type="datetime")
    day = "%d %b"
    context = DatetimeTickFormatter(minutes=day, hourmin=day, hours=day, days=day, hide_repeats=True)
    plot.xaxis.formatter.context = context
    return plot


def _with_legend(plot: Any) -> Any:
    """Above the plot, where it hides nothing."""
    legend = plot.legend[0]
    legend.orientation, legend.border_line_alpha = "horizontal", 0.0
    legend.label_text_font_size, legend.padding, legend.nrows = "11px", 2, "auto"
    plot.add_layout(legend, "above")
    return plot


def _used(outcomes: Sequence[Outcome], resource: str) -> Any:
    plot = _over_time(f"{resource} requested")
    for outcome, colour in zip(outcomes, _COLOURS, strict=False):
        parts = (outcome.summary["utilisation"].get(resource) or {}).get("overTime") or []
        _step(plot, outcome, parts, color=colour, line_width=2, legend_label=outcome.name)
    return _from_zero(plot)


def _shares(outcome: Outcome) -> Any:
    """Of the namespaces with the largest shares: what they used, and (dashed) what they deserved."""
    plot = _over_time(f"share of the cluster used, and deserved (dashed): {outcome.name}")
    largest = sorted(outcome.fairness, key=lambda found: (-max(found.deserved, found.used), found.namespace))
    for found, colour in zip(largest[:_MOST_NAMESPACES], _COLOURS, strict=False):
        _step(plot, outcome, found.used_over_time, color=colour, line_width=2, legend_label=found.namespace)
        _step(plot, outcome, found.deserved_over_time, color=colour, line_dash="dashed", legend_label=found.namespace)
    return _from_zero(plot)


def _step(plot: Any, outcome: Outcome, parts: Sequence[float], **style: Any) -> None:
    """A level in equal parts of the run."""
    width = (outcome.ended - outcome.began) / max(len(parts), 1)
    moments = [(outcome.began + width * slot) * _MILLISECONDS for slot in range(len(parts) + 1)]
    if parts:
        plot.step(moments, [*parts, *parts[-1:]], mode="after", **style)


def _from_zero(plot: Any) -> Any:
    """Parts of the whole."""
    from bokeh.models import NumeralTickFormatter

    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0]%")
    plot.y_range.start = 0
    return _with_legend(plot) if plot.renderers else None


def _waits(outcomes: Sequence[Outcome]) -> Any:
    """The 95 % wait of each namespace, in minutes."""
    names = sorted({group.namespace for outcome in outcomes for group in outcome.waits if group.seconds})
    if not names:
        return None
    plot = _figure("waits, 95 %, minutes", x_range=names[:20])
    share = 0.8 / len(outcomes)
    for number, (outcome, colour) in enumerate(zip(outcomes, _COLOURS, strict=False)):
        heights = [
            quantile([group for group in outcome.waits if group.namespace == name], 0.95) / 60 for name in names[:20]
        ]
        places = [(name, -0.4 + share * (number + 0.5)) for name in names[:20]]
        plot.vbar(x=places, top=heights, width=share, color=colour, legend_label=outcome.name)
    return _with_legend(plot)


def _disruptions(outcomes: Sequence[Outcome]) -> Any:
    """How many there were by then."""
    plot = _over_time("disruptions so far")
    for outcome, colour in zip(outcomes, _COLOURS, strict=False):
        moments = Counter(round(d.at, 3) for pod in outcome.pods for d in pod.disruptions)
        if not moments:
            continue
        count, xs, ys = 0, [outcome.began * _MILLISECONDS], [0]
        for moment, more in sorted(moments.items()):
            count += more
            xs.append(moment * _MILLISECONDS)
            ys.append(count)
        plot.step(
            [*xs, outcome.ended * _MILLISECONDS], [*ys, count], mode="after", color=colour, legend_label=outcome.name
        )
    return _with_legend(plot) if plot.renderers else None
