"""`fairlead simulate`: what would happen, in a fraction of the time; and what a change would change."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import click
import msgspec

from fairlead.api.objects import Obj
from fairlead.api.scheduling import DEFAULT_SCHEDULER
from fairlead.cli.failures import Failure, WrongUsage, explained, parsing
from fairlead.cli.inputs import (
    DEFAULT_NODES,
    arrivals,
    import_summary,
    imported_objects,
    namespaces_of,
    node_objects,
)
from fairlead.cli.node_options import NodesCommand, check_nodes, kubelet_options, node_configurations
from fairlead.cli.options import cluster_options, overuse_strategies
from fairlead.cli.scheduling import scheduling
from fairlead.cli.study_options import StudyRequest, study_options, study_request
from fairlead.compose import Settings
from fairlead.runtime import rng
from fairlead.runtime.clock import timestamp
from fairlead.runtime.loops import DEFAULT_EPOCH
from fairlead.scheduler.configuration import Configuration
from fairlead.server.registry.restore import Restored
from fairlead.sim.durations import seconds_of, span
from fairlead.sim.manifests import is_node, latest_date
from fairlead.sim.nodes import NodeShape
from fairlead.sim.openb import Arrival
from fairlead.sim.replay import ArrivalRefused
from fairlead.study import records
from fairlead.study.changes.document import Step
from fairlead.study.changes.errors import ChangeError
from fairlead.study.dump_behaviour import declared
from fairlead.study.dump_notes import assumed_sources, notes
from fairlead.study.export import check_extra, run_csv, run_document, write_parquet
from fairlead.study.foreseen import foresee
from fairlead.study.html import report
from fairlead.study.node_groups import NodeGroups, has_groups, node_groups
from fairlead.study.other_schedulers import replaced
from fairlead.study.parallel import play_all
from fairlead.study.past.arrivals import arrivals_of_past
from fairlead.study.queues.reading import admit, queues_of, stuck
from fairlead.study.recorded import RESTLESS
from fairlead.study.records import Run
from fairlead.study.rules import Verdict, check, judge
from fairlead.study.run import Scene, Stage
from fairlead.study.stand_ins import stand_ins
from fairlead.study.summary_text import summary_text
from fairlead.study.sweep import bisect
from fairlead.study.tables import comparison_text, refusals_text
from fairlead.wording import counted

_A_DAY = 86400.0
_MINUTE: Final = 60.0
#: So long nothing is said of a run that goes on.
_SILENT_SECONDS: Final = 10.0


@click.command(cls=NodesCommand, short_help="Replay a cluster or a workload in virtual time, and through changes.")
@cluster_options
@kubelet_options
@click.option(
    "--pods-from",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The pods and when they come: a trace (CSV), pods (YAML, all come at once), or kind: Arrivals (by chance).",
)
@click.option(
    "--pods-mapping",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What the columns of a CSV mean that is not openb's: a kind: ArrivalMapping.",
)
@click.option(
    "--pods-from-past",
    "past",
    metavar="DURATION",
    help="What came to the dumped cluster in so long before (1h) comes again: by its Events, Jobs and pods.",
)
@click.option(
    "--autoscale",
    is_flag=True,
    help="Node groups of the dump (Karpenter, Cluster API) grow for pods that wait, and shrink.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same run.")
@click.option(
    "--for", "duration", metavar="DURATION", help="Run for this much virtual time (90s, 12h, 7d). Default: the end."
)
@study_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "csv", "parquet"]),
    default="text",
    show_default=True,
    help="csv and parquet: a row for each pod to which something happened.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def simulate(
    nodes_from: Path | None,
    node_config: tuple[str, ...],
    nodes: int | None,
    node_cpu: str,
    node_memory: str,
    node_pods: int | None,
    pods_from: Path | None,
    pods_mapping: Path | None,
    past: str | None,
    dumps: tuple[Path, ...],
    scheduler_config: Path | None,
    arbitrator: bool,
    overused_namespaces: str,
    autoscale: bool,
    seed: int,
    duration: str | None,
    output: str,
    quiet: bool,
) -> None:
    """Replay a cluster or a workload through the same scheduler, controllers and nodes as `fairlead up`, under a
    virtual clock; with --change, --set and the like also through changes, and tell who fares worse and why.

    The run begins at the latest date of what is imported, and ends when nothing is left to happen, or after --for. What
    it prints is the same bytes every time (what it took goes to stderr); its digest is that of everything that happened
    to every pod. The exit code is 1 where a rule of --expect is not met.

    \b
    Example:
      fairlead simulate --import prod.yaml --change quota-cut.yaml --for 24h
      fairlead simulate --import prod.yaml --remove-node node-7 --set quota/team/requests.cpu=40 --for 24h
      fairlead simulate --import prod.yaml --sweep nodes=90..110 --expect rules.yaml --find smallest --for 24h
      fairlead simulate --nodes 10 --pods-from batch.yaml --for 24h -o json
    """
    began = time.perf_counter()
    with parsing():
        imported = imported_objects(dumps)
        taken = latest_date(imported)
        epoch = taken or DEFAULT_EPOCH
        if dumps and not imported:
            raise ValueError(f"{', '.join(map(str, dumps))}: there is no object")
        if not quiet:
            _tell_dump(imported, taken, time.perf_counter() - began)
            if nodes is None and nodes_from is None:
                _tell_missing_nodes(imported, NodeShape(node_cpu, node_memory))
        limit = _limit(duration, imported, is_quiet=quiet)
        with rng.seeded(seed):
            coming = arrivals(pods_from, pods_mapping) if pods_from else []
            if past is not None:
                coming = sorted(
                    [*coming, *_past(imported, epoch, past, limit, is_quiet=quiet)], key=lambda arrival: arrival.at
                )
        scheduler, request = scheduling(scheduler_config), study_request()
        _check_extras(request, output)
        _other_schedulers(
            [*imported, *(arrival.obj for arrival in coming)],
            [scheduler, *(change.scheduler for change in request.changes)],
            is_quiet=quiet,
        )
        imported += declared(imported, epoch)
        beside = _node_groups(imported, is_autoscaled=autoscale, is_quiet=quiet)
        imported += _queues(imported, has_arbitrator=arbitrator, is_quiet=quiet)
        settings = Settings(
            nodes=tuple(node_objects(nodes_from, imported, nodes, NodeShape(node_cpu, node_memory))),
            imported=(*imported, *namespaces_of(coming, imported)),
            on_restored=None if quiet else _TellImport(),
            scheduling=scheduler,
            arbitrator=arbitrator,
            overused_namespaces=overuse_strategies(overused_namespaces, has_arbitrator=arbitrator),
            configurations=node_configurations(node_config, node_pods),
            assumed_sources=assumed_sources(imported),
        )
        check_nodes(settings.configurations, settings.nodes)
        _refuse_extenders(settings, request)
        if request.rules:
            _check_rules(request, settings, coming, beside)
        if not quiet:
            _tell_late(request, limit)
    scene = Scene(settings, coming, limit, epoch, seed, beside, None if quiet else _telling(limit))
    began = time.perf_counter()
    progress = ReplayProgress(len(coming), is_quiet=quiet)
    try:
        with explained(dumps):
            run, verdicts = _played(scene, request, progress)
    except ArrivalRefused as error:
        raise Failure(str(error)) from None
    except ChangeError as error:
        raise WrongUsage(str(error)) from None
    finally:
        progress.done()
    if request.is_kept:
        _remember(run)
    try:
        _save(run, verdicts, request)
    finally:
        _print(run, verdicts, request, output)
    if not quiet:
        click.echo(f"took {time.perf_counter() - began:.1f} s", err=True)
    if not all(verdict.is_met for verdict in verdicts):
        raise click.exceptions.Exit(1)


def _played(scene: Scene, request: StudyRequest, progress: ReplayProgress) -> tuple[Run, list[Verdict]]:
    """All variants, and what the rules say of them. Bisection plays only those that it needs."""
    if request.find is None:
        outcomes = play_all(scene, [request.base, *request.variants()], progress)
        run = Run(scene.seed, outcomes)
        return run, judge(request.rules, outcomes)
    (before,) = play_all(scene, [request.base], progress)
    tried = {}

    def is_met(value: str) -> bool:
        (outcome,) = play_all(scene, [request.variant(value)], progress)
        verdicts = judge(request.rules, [before, outcome])
        tried[value] = outcome, verdicts
        return all(verdict.is_met for verdict in verdicts)

    sweep = request.sweep
    assert sweep is not None
    found = bisect(sweep.values, is_met, smallest=request.find == "smallest")
    run = Run(scene.seed, [before, *(outcome for outcome, _ in tried.values())], found=found or "")
    return run, tried[found][1] if found else next(iter(tried.values()))[1]


def _check_extras(request: StudyRequest, output: str) -> None:
    if request.html is not None:
        check_extra("bokeh", "a report (--html)")
    if output == "parquet":
        check_extra("pyarrow", "-o parquet")


def _tell_late(request: StudyRequest, limit: float | None) -> None:
    """Steps that come when the run has ended already."""
    for change in request.changes:
        for step in change.steps:
            if limit is not None and step.at >= limit:
                click.echo(
                    f"{step.origin}: {step.action.text} would come after {span(step.at)}, when the run has ended",
                    err=True,
                )


def _refuse_extenders(settings: Settings, request: StudyRequest) -> None:
    configurations = [settings.scheduling, *(change.scheduler for change in request.changes)]
    if any(found is not None and found.settings.extenders for found in configurations):
        raise WrongUsage("extenders answer in real time, so a simulation cannot ask them: use another configuration")


def _check_rules(request: StudyRequest, settings: Settings, coming: Sequence[Arrival], beside: Sequence[Step]) -> None:
    """Before the run, which may take long."""
    variants = request.variants()
    if request.find is not None:
        for rule in request.rules:
            if rule.variant:
                raise ChangeError(rule.origin, "--find asks the rules of every value: leave out variant:")
    objects = [*settings.nodes, *settings.imported, *(arrival.obj for arrival in coming)]
    steps = [*beside, *(step for variant in variants for step in variant.steps)]
    foreseen = foresee(objects, (step.action for step in steps))
    check(request.rules, [variant.name for variant in variants], foreseen)


def _remember(run: Run) -> None:
    """Among the latest runs. Where that cannot be, the run is still worth its time: the result is told all the same."""
    try:
        records.save(run)
    except OSError as error:
        click.echo(
            f"the run cannot be asked about later, for it cannot be kept{_where(error)}. "
            "Name another folder with FAIRLEAD_RUNS, or say --no-keep.",
            err=True,
        )


def _save(run: Run, verdicts: Sequence[Verdict], request: StudyRequest) -> None:
    """Where the user wants it."""
    try:
        if request.save is not None:
            records.save(run, request.save)
        if request.html is not None:
            request.html.write_text(report(run, verdicts), "utf-8")
    except OSError as error:
        raise Failure(f"the run cannot be kept{_where(error)}") from None


def _where(error: OSError) -> str:
    return f" in {error.filename}: {error.strerror}" if error.filename else f": {error.strerror}"


def _print(run: Run, verdicts: Sequence[Verdict], request: StudyRequest, output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(run_document(run, verdicts))).decode())
    elif output == "csv":
        click.echo(run_csv(run), nl=False)
    elif output == "parquet":
        write_parquet(run, sys.stdout.buffer)
    else:
        click.echo(comparison_text(run) if run.variants else _alone_text(run))
        for verdict in verdicts:
            mark = "met    " if verdict.is_met else "NOT MET"
            click.echo(
                f"{mark}  {verdict.variant}: {verdict.text}" if len(run.variants) > 1 else f"{mark}  {verdict.text}"
            )
        if run.found is not None and request.sweep is not None:
            what, values = request.sweep.what, request.sweep.values
            click.echo(
                f"{what}: {run.found} is the {request.find} that meets the rules"
                if run.found
                else f"{what}: none from {values[0]} to {values[-1]} meets the rules"
            )


def _alone_text(run: Run) -> str:
    """Of a run without a change."""
    return "\n\n".join(filter(None, (summary_text(run.before.summary | {"seed": run.seed}), refusals_text(run.before))))


def _limit(duration: str | None, imported: Sequence[Obj], *, is_quiet: bool) -> float | None:
    """When to stop, in seconds from the start; None: when nothing is left to happen."""
    if duration is not None:
        return seconds_of(duration)
    restless = sorted({obj["kind"] for obj in imported} & RESTLESS)
    if not restless:
        return None
    if not is_quiet:
        kinds = " and ".join(f"{kind}s" for kind in restless)
        text = f"With {kinds} a cluster never comes to rest: stopping after 24h. Say how long with --for."
        click.echo(text, err=True)
    return _A_DAY


def _tell_dump(imported: Sequence[Obj], taken: float | None, took: float) -> None:
    if not imported:
        return
    click.echo(f"import: read {counted(len(imported), 'object')} in {took:.1f} s", err=True)
    for note in notes(imported):
        click.echo(f"import: {note}", err=True)
    why = "the latest date among them" if taken else "for there is no date among them"
    click.echo(f"import: the run begins at {timestamp(taken or DEFAULT_EPOCH)}, {why}", err=True)


def _tell_missing_nodes(imported: Sequence[Obj], shape: NodeShape) -> None:
    if imported and not any(map(is_node, imported)):
        count = len(stand_ins(imported, shape))
        size = f"of {shape.cpu} cpu, {shape.memory}"
        found = f"{DEFAULT_NODES} nodes {size} stand for its own"
        if count:
            found = f"{counted(count, 'node')} {size}, or what their pods request, stand for those that its pods are on"
        click.echo(f"import: no Node is in the dump: {found} (--nodes, --nodes-from)", err=True)


def _past(imported: Sequence[Obj], epoch: float, span: str, limit: float | None, *, is_quiet: bool) -> list[Arrival]:
    """What came within that span before the dump, for as long as the run is."""
    if not imported:
        raise ValueError("--pods-from-past takes a dump of a cluster: --import FILE")
    found = arrivals_of_past(imported, epoch, seconds_of(span), limit)
    for note in found.notes if not is_quiet else ():
        click.echo(f"past: {note}", err=True)
    return found.arrivals


def _queues(imported: Sequence[Obj], *, has_arbitrator: bool, is_quiet: bool) -> list[Obj]:
    """What the arbitrator divides by where the dump has queues of another batch system."""
    found, told = queues_of(imported)
    if found and not has_arbitrator:
        told = [f"the dump has queues of a batch system: with --arbitrator they divide the cluster{stuck(imported)}"]
        found = []
    elif found:
        told += admit(imported)
    for line in told if not is_quiet else ():
        click.echo(f"import: {line}", err=True)
    return found


def _other_schedulers(
    objects: Sequence[Obj], configurations: Sequence[Configuration | None], *, is_quiet: bool
) -> None:
    """Let the default one place pods that ask for a scheduler of which no configuration speaks."""
    played = {profile.name for found in configurations if found is not None for profile in found.profiles}
    for line in replaced(objects, played | {DEFAULT_SCHEDULER}):
        if not is_quiet:
            click.echo(f"import: {line}", err=True)


def _node_groups(imported: Sequence[Obj], *, is_autoscaled: bool, is_quiet: bool) -> list[Step]:
    """The pools of the dump, which are there in every variant."""
    has_some = has_groups(imported)
    found = node_groups(imported) if is_autoscaled else NodeGroups()
    lines = found.notes
    if is_autoscaled and not has_some:
        lines = ["--autoscale: there is no NodePool of Karpenter, and no node group of Cluster API"]
    elif has_some and not is_autoscaled:
        lines = ["the dump has node groups of an autoscaler: with --autoscale they grow for pods that wait, and shrink"]
    for line in lines if not is_quiet else ():
        click.echo(f"import: {line}", err=True)
    return found.steps


class _TellImport:
    """Says once what came of the import: every variant begins with the same."""

    def __init__(self) -> None:
        self._has_told = False

    def __call__(self, found: Restored) -> None:
        if not self._has_told:
            self._has_told = True
            for line in import_summary(found):
                click.echo(f"import: {line}", err=True)


def _telling(limit: float | None) -> Callable[[str, Callable[[], Stage]], AbstractContextManager[None]]:
    """Says after some seconds, and ever more seldom, how far a variant is: each in the process that plays it."""
    of = "" if limit is None else f" of {span(limit)}"

    @contextmanager
    def telling(name: str, stage: Callable[[], Stage]) -> Iterator[None]:
        over = threading.Event()

        def tell() -> None:
            pause = _SILENT_SECONDS
            while not over.wait(pause):
                seconds, pods = stage()
                text = f"still playing {name}: {span(seconds)}{of}, {counted(pods, 'pod')} so far"
                click.echo(f"\r\x1b[K{text}" if sys.stderr.isatty() else text, err=True)
                pause = max(2 * pause, _MINUTE)

        thread = threading.Thread(target=tell, name="how far it is", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    return telling


class ReplayProgress:
    """Shows at a terminal how far the run is, twice a second."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self._total, self._shown_at = total, 0.0
        self._is_shown = not is_quiet and sys.stderr.isatty()

    def __call__(self, count: int, at: float) -> None:
        if self._is_shown and time.perf_counter() - self._shown_at > 0.5:
            self._shown_at = time.perf_counter()
            click.echo(f"\r{span(at):>10} · {count:,} of {self._total:,} pods\x1b[K", err=True, nl=False)

    def done(self) -> None:
        """Clear the line."""
        if self._is_shown:
            click.echo("\r\x1b[K", err=True, nl=False)
