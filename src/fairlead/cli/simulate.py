"""`fairlead simulate`: what would happen, in a fraction of the time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from fairlead.api.objects import Obj
from fairlead.cli.failures import Failure, WrongUsage, explained, parsing
from fairlead.cli.inputs import arrivals, import_summary, imported_objects, node_objects, scheduling
from fairlead.cli.node_options import NodesCommand, check_nodes, kubelet_options, node_configurations
from fairlead.cli.options import cluster_options, overuse_strategies
from fairlead.cli.wording import counted
from fairlead.compose import Settings
from fairlead.golang.durations import non_negative_seconds
from fairlead.golang.numbers import parse_uint
from fairlead.runtime import rng
from fairlead.runtime.loops import DEFAULT_EPOCH, run_virtual
from fairlead.runtime.memory import keep_started
from fairlead.server.registry.restore import Restored
from fairlead.sim.manifests import latest_date
from fairlead.sim.nodes import NodeShape
from fairlead.sim.openb import Arrival
from fairlead.sim.replay import ArrivalRefused
from fairlead.simulation.run import RESTLESS, recorded

_SECONDS = (86400, 3600, 60, 1)
_A_DAY = 86400.0
#: How many waiting pods the text output lists.
_LISTED = 10


@click.command(cls=NodesCommand, short_help="Replay a workload in virtual time.")
@cluster_options
@kubelet_options
@click.option(
    "--pods-from",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The pods and when they come: an openb pod list (CSV), or YAML (all come at once).",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same run.")
@click.option("--until", metavar="DURATION", help="Run for this much virtual time (90s, 12h, 7d). Default: the end.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def simulate(
    nodes_from: Path | None,
    node_config: tuple[str, ...],
    nodes: int | None,
    node_cpu: str,
    node_memory: str,
    node_pods: int | None,
    pods_from: Path | None,
    dumps: tuple[Path, ...],
    scheduler_config: Path | None,
    arbitrator: bool,
    overused_namespaces: str,
    seed: int,
    until: str | None,
    output: str,
    quiet: bool,
) -> None:
    """Replay a workload through the same scheduler, controllers and nodes as `fairlead up`, under a virtual clock.

    The run begins at the latest date of what is imported, and ends when nothing is left to happen, or after --until.
    Its digest is that of everything that happened to every
    pod: equal runs have equal digests.

    \b
    Example:
      fairlead simulate --nodes 10 --pods-from batch.yaml --until 24h -o json
      fairlead simulate --arbitrator --import tenants.yaml --pods-from batch.yaml
    """
    with parsing():
        imported = list(imported_objects(dumps))
        settings = Settings(
            nodes=tuple(node_objects(nodes_from, imported, nodes, NodeShape(node_cpu, node_memory))),
            imported=tuple(imported),
            on_restored=None if quiet else _tell_import,
            scheduling=scheduling(scheduler_config),
            arbitrator=arbitrator,
            overused_namespaces=overuse_strategies(overused_namespaces, has_arbitrator=arbitrator),
            configurations=node_configurations(node_config, node_pods),
        )
        if settings.scheduling is not None and settings.scheduling.settings.extenders:
            raise WrongUsage(
                "extenders answer in real time, so a simulation cannot ask them: use another configuration"
            )
        check_nodes(settings.configurations, settings.nodes)
        coming = arrivals(pods_from) if pods_from else []
        limit = _limit(until, imported, is_quiet=quiet)
    began = time.perf_counter()
    rng.seed(seed)
    try:
        with explained(dumps):
            began_at = latest_date(imported) or DEFAULT_EPOCH
            summary = run_virtual(
                replay(settings, coming, limit, ReplayProgress(len(coming), is_quiet=quiet)), began_at
            )
    except ArrivalRefused as error:
        raise Failure(str(error)) from None
    summary["seed"] = seed
    took = time.perf_counter() - began
    click.echo(
        msgspec.json.format(msgspec.json.encode(summary)).decode() if output == "json" else summary_text(summary, took)
    )


def _limit(until: str | None, imported: Sequence[Obj], *, is_quiet: bool) -> float | None:
    """When to stop, in seconds from the start; None: when nothing is left to happen."""
    if until is not None:
        return run_seconds(until)
    restless = sorted({obj["kind"] for obj in imported} & RESTLESS)
    if not restless:
        return None
    if not is_quiet:
        kinds = " and ".join(f"{kind}s" for kind in restless)
        text = f"With {kinds} a cluster never comes to rest: stopping after 24h. Say how long with --until."
        click.echo(text, err=True)
    return _A_DAY


def _tell_import(found: Restored) -> None:
    for line in import_summary(found):
        click.echo(f"import: {line}", err=True)


class ReplayProgress:
    """Shows at a terminal how far the run is, twice a second."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self._total, self._shown_at = total, 0.0
        self._is_shown = not is_quiet and sys.stderr.isatty()

    def __call__(self, count: int, at: float) -> None:
        if self._is_shown and time.perf_counter() - self._shown_at > 0.5:
            self._shown_at = time.perf_counter()
            click.echo(f"\r{_span(at):>10} · {count:,} of {self._total:,} pods\x1b[K", err=True, nl=False)

    def done(self) -> None:
        """Clear the line."""
        if self._is_shown:
            click.echo("\r\x1b[K", err=True, nl=False)


async def replay(settings: Settings, coming: Sequence[Arrival], limit: float | None, progress: ReplayProgress) -> Obj:
    """One run, from the first arrival to the end; returns its summary."""
    async with recorded(settings) as run:
        keep_started()
        end = await run.play(coming, limit, progress)
        progress.done()
        return run.observer.summary(run.informers, end)


def run_seconds(text: str) -> float:
    """The seconds of a Go duration, where a bare number means seconds and days may come first: 90, 12h, 1d12h."""
    days, has_days, rest = text.rpartition("d")
    try:
        hours = f"{24 * parse_uint(days)}h" if has_days else ""
        return non_negative_seconds(hours + (f"{rest}s" if rest.isdecimal() else rest))
    except ValueError:
        raise WrongUsage(f"{text!r} is no duration: write 90s, 15m, 12h or 7d") from None


def summary_text(summary: Obj, took: float) -> str:
    """The summary for people."""
    nodes, pods = counted(summary["nodes"], "node"), counted(summary["created"], "pod")
    if summary["seconds"]:
        what = f"Replayed {_span(summary['seconds'])} of {nodes}, {pods}"
    else:
        what = f"Nothing happens to {nodes}, {pods}: settled from the start"
    lines = [
        f"{what} in {took:.1f} s (seed {summary['seed']}, digest {summary['digest'][:12]})",
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
        lines += [f"  {_span(wait['seconds']):>10}  {wait['pod']}" for wait in summary["longestWaits"]]
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
        lines.append(f"  throttled: {_span(troubles['throttledSeconds'])} of containers at their cpu limits")
    for pressure, shown in troubles["pressures"].items():
        lines.append(f"  {pressure}: {counted(shown['nodes'], 'node')}, {_span(shown['seconds'])} together")
    return lines


def _waiting(pods: Sequence[Obj]) -> list[str]:
    """The first waiting pods: for how long, and why."""
    lines = [
        f"  {_span(pod['seconds']):>10}  {pod['pod']}: {pod['message'] or pod['reason']}" for pod in pods[:_LISTED]
    ]
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


def _span(seconds: float) -> str:
    """A duration in its two largest units."""
    rest, parts = int(seconds), []
    for size, unit in zip(_SECONDS, "dhms", strict=True):
        amount, rest = divmod(rest, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return " ".join(parts[:2]) or "0s"
