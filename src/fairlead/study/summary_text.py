"""One run in words: what `fairlead simulate` prints where there is nothing to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead.api.objects import Obj
from fairlead.sim.durations import span
from fairlead.wording import counted

#: How many waiting pods are listed.
_LISTED: Final = 10


def summary_text(summary: Obj) -> str:
    """The summary for people."""
    nodes, pods = counted(summary["nodesInAll"], "node"), counted(summary["created"], "pod")
    if summary["seconds"]:
        what = f"Replayed {span(summary['seconds'])} of {nodes}, {pods}"
    else:
        what = f"Nothing happens to {nodes}, {pods}: settled from the start"
    lines = [
        f"{what} (seed {summary['seed']}, digest {summary['digest'][:12]})",
        f"  placed     {summary['placed']:>9,}",
        f"  succeeded  {summary['succeeded']:>9,}",
        f"  failed     {summary['failed']:>9,}",
        f"  waiting    {summary['waiting']:>9,}",
        *_troubles(summary["nodeTroubles"]),
        "",
        *_over_time("requested", summary["utilisation"]),
        *_over_time("used", summary["used"]),
    ]
    if len(summary["namespaces"]) > 1:
        lines += ["", *_by_namespace(summary["namespaces"])]
    if summary["longestWaits"]:
        lines += ["", "  longest waits"]
        lines += [f"  {span(wait['seconds']):>10}  {wait['pod']}" for wait in summary["longestWaits"]]
    if summary["waitingPods"]:
        lines += ["", "  waiting at the end", *_waiting(summary["waitingPods"])]
    return "\n".join(lines)


def _over_time(what: str, resources: Obj) -> list[str]:
    """What was requested or used of each resource; nothing if that is nothing."""
    lines = [
        f"  {name:<18} {use['mean']:>6.0%}  {use['peak']:>6.0%}   {_bars(use['overTime'])}"
        for name, use in resources.items()
        if use["peak"]
    ]
    return [f"  {what:<18}   mean    peak   over time", *lines] if lines or what == "requested" else []


def _troubles(troubles: Obj) -> list[str]:
    """What nodes did to pods; nothing in a run in which they did nothing."""
    lines = [f"  OOM-killed {troubles['oomKills']:>9,}"] if troubles["oomKills"] else []
    for what, counts in (("evicted", troubles["evictions"]), ("refused", troubles["refused"])):
        if counts:
            causes = ", ".join(f"{count:,} {cause}" for cause, count in counts.items())
            lines.append(f"  {what:<10} {sum(counts.values()):>9,}   by node: {causes}")
    if troubles.get("throttledSeconds"):
        lines.append(f"  throttled: {span(troubles['throttledSeconds'])} of containers at their cpu limits")
    for pressure, shown in troubles["pressures"].items():
        lines.append(f"  {pressure}: {counted(shown['nodes'], 'node')}, {span(shown['seconds'])} together")
    return lines


def _waiting(pods: Sequence[Obj]) -> list[str]:
    """The first waiting pods: for how long, and why."""
    lines = [f"  {span(pod['seconds']):>10}  {pod['pod']}: {pod['message'] or pod['reason']}" for pod in pods[:_LISTED]]
    if (more := len(pods) - _LISTED) > 0:
        lines.append(f"  {'':>10}  and {more:,} more (all of them with -o json)")
    return lines


def _by_namespace(namespaces: Obj) -> list[str]:
    """The outcome of each namespace, and its mean part of the cluster."""
    lines = [f"  {'namespace':<18} {'placed':>9} {'waiting':>9} {'evicted':>9} {'cpu':>6} {'memory':>7}"]
    for name, summary in namespaces.items():
        mean = summary["mean"]
        lines.append(
            f"  {name:<18} {summary['placed']:>9,} {summary['waiting']:>9,} {summary['evicted']:>9,} "
            f"{mean.get('cpu', 0):>6.0%} {mean.get('memory', 0):>7.0%}"
        )
    return lines


def _bars(parts: Sequence[float]) -> str:
    """A bar for each part of the run: the used share of the capacity in eighths of a line."""
    return "".join("▁▂▃▄▅▆▇█"[min(int(part * 8), 7)] for part in parts)
