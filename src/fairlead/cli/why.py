"""`fairlead why`: why a pod waits, why it is where it is, or why it is gone."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import msgspec

from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.cli.failures import ANSWER_SECONDS, Failure, WrongUsage, explained, parsing
from fairlead.cli.scheduling import scheduling
from fairlead.cli.standalone import pod_key, which_cluster_options
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access, load_merged
from fairlead.runtime import log_lines
from fairlead.runtime.loops import run
from fairlead.scheduler.configuration import Configuration
from fairlead.scheduler.explain import Explanation, RefusalGroup
from fairlead.study.asking import story
from fairlead.study.explaining import Unreadable, explained_pod
from fairlead.study.records import load as load_run
from fairlead.wording import counted

#: Names that are listed of a group, and nodes whose scores are shown.
_NAMED, _SCORED = 5, 5
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Why a pod waits, is where it is, or is gone.")
@click.argument("pod", metavar="[NAMESPACE/]POD")
@click.option("-n", "--namespace", help="The pod's namespace.  [default: the context's, or default]")
@which_cluster_options("Which cluster to ask.")
@click.option(
    "--dump",
    "dumps",
    type=_FILE,
    multiple=True,
    help="Ask a dump instead (kubectl get nodes,pods,... -A -o yaml). May be repeated.",
)
@click.option("--in", "run_name", metavar="RUN", help="Ask a run that fairlead simulate kept, by name or file.")
@click.option("--variant", default="", help="Of that run, one variant alone.")
@click.option("--scheduler-config", type=_FILE, help="How the scheduler decides there: a KubeSchedulerConfiguration.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def why(
    pod: str,
    namespace: str | None,
    kubeconfig: tuple[Path, ...],
    context: str,
    dumps: tuple[Path, ...],
    run_name: str | None,
    variant: str,
    scheduler_config: Path | None,
    output: str,
) -> None:
    """Tell, for each group of nodes, what refuses the pod and what would help; and for a pod that has a node, how the
    scores came about if it were placed now. Where an arbitrator is at work, tell also what the share of its namespace
    has to do with it; and of a pod that is gone, what was said of its end.

    Nothing is changed anywhere: the decision is taken again here, over a copy of the cluster.

    \b
    Example:
      fairlead why web-7 -n shop      # or shop/web-7
      kubectl get nodes,pods,namespaces -A -o yaml > dump.yaml && fairlead why web-7 -n shop --dump dump.yaml
      fairlead why shop/web-7 --in run-7c1e    # in a run of fairlead simulate
    """
    log_lines.configure(logging.ERROR)
    if run_name is not None:
        _ask_run(run_name, pod_key(pod, namespace, "default"), variant, output)
        return
    with parsing():
        configuration = scheduling(scheduler_config)
        objects = _dumped(dumps)
        if not dumps and not kubeconfig:
            raise WrongUsage("which cluster? Name a kubeconfig with --kubeconfig, or a file with --dump")
        access = load_merged(kubeconfig, context) if kubeconfig and not dumps else None
        key = pod_key(pod, namespace, access.namespace if access else "default")
    with explained(dumps):
        explanation = run(_explained(objects, access, configuration, key))
    if explanation is None:
        place, _, name = key.partition("/")
        raise Failure(f'pods "{name}" not found in namespace {place}')
    click.echo(msgspec.json.encode(explanation).decode() if output == "json" else "\n".join(_lines(explanation)))


def _ask_run(name: str, key: str, variant: str, output: str) -> None:
    """What became of the pod in a run that was kept."""
    with parsing():
        lines = story(load_run(name), key, variant)
    click.echo(msgspec.json.encode({"pod": key, "story": lines}).decode() if output == "json" else "\n".join(lines))


async def _explained(
    objects: list[Obj], access: Access | None, configuration: Configuration | None, key: str
) -> Explanation | None:
    async with _cluster(objects, access) as api:
        try:
            return await explained_pod(api, configuration, key)
        except Unreadable as error:
            raise Failure(str(error)) from None


def _dumped(dumps: tuple[Path, ...]) -> list[Obj]:
    """Whoever asks a live cluster does not wait until an API server is loaded."""
    if not dumps:
        return []
    from fairlead.cli.inputs import imported_objects

    return imported_objects(dumps)


@asynccontextmanager
async def _cluster(objects: list[Obj], access: Access | None) -> AsyncIterator[Api]:
    """The cluster that is asked: a live one, or what a dump says."""
    if access is not None:
        async with HttpApi(access, user_agent="fairlead-why", connect_seconds=ANSWER_SECONDS) as api:
            yield api
    else:
        from fairlead.compose import restored  # as above

        async with restored(objects) as api:
            yield api


def _lines(explanation: Explanation) -> list[str]:
    lines = [explanation.headline]
    lines += [f"  note: {note}" for note in explanation.notes]
    if explanation.preemption:
        lines += ["", f"  preemption: {explanation.preemption}"]
    for group in explanation.groups:
        lines += ["", f"  {counted(len(group.nodes), 'node')}  {_names(group)}"]
        lines.append(f"    {group.plugin}: {', '.join(group.reasons)}")
        if group.helps:
            lines.append(f"    would help: {group.helps}")
    if explanation.scored:
        lines += ["", f"  {counted(len(explanation.scored), 'node')} would do" + _best(len(explanation.scored))]
        for node in explanation.scored[:_SCORED]:
            parts = " + ".join(
                f"{plugin} {score}" for plugin, score in sorted(node.scores.items(), key=lambda item: -item[1])
            )
            lines.append(f"    {node.total:>5}  {node.node:<20} {parts}")
    return lines


def _best(count: int) -> str:
    return f", the best {_SCORED}:" if count > _SCORED else ":"


def _names(group: RefusalGroup) -> str:
    more = len(group.nodes) - _NAMED
    return ", ".join(group.nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")
