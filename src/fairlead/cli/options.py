"""Options that several commands share: the nodes, and what the cluster contains at the start."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fairlead.cli.failures import WrongUsage
from fairlead.compose import EVICT_FIRST, REFUSE
from fairlead.sim.manifests import files_of

Command = TypeVar("Command", bound=Callable[..., Any])

#: Twenty times what Kubernetes is made for; a typing error would otherwise fill the memory.
MOST_NODES: Final = 100_000

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _files_of(context: click.Context, option: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    try:
        return tuple(file for path in paths for file in files_of(path))
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


_OPTIONS = (
    click.option(
        "--nodes",
        type=click.IntRange(0, MOST_NODES),
        help="How many simulated nodes.  [default: 3, or those of a dump]",
    ),
    click.option("--node-cpu", default="4", show_default=True, metavar="QUANTITY", help="CPU of each."),
    click.option("--node-memory", default="16Gi", show_default=True, metavar="QUANTITY", help="Memory of each."),
    click.option(
        "--node-pods",
        type=click.IntRange(0),
        help="Pods that fit on each, as --max-pods.  [default: what --node-config says, else 110]",
    ),
    click.option(
        "--nodes-from",
        type=_FILE,
        help="Take the nodes from a file instead: YAML (kubectl get nodes -o yaml) or an openb node list (CSV).",
    ),
    click.option(
        "--import",
        "dumps",
        metavar="FILE",
        type=click.Path(exists=True, allow_dash=True, path_type=Path),
        callback=_files_of,
        multiple=True,
        help="Load a dump of a real cluster first (kubectl get ... -o yaml; - is standard input), or manifests, also a "
        "folder of them. Objects that exist already are left as they are; deleted ones come back; those of unknown "
        "kinds are skipped. May be repeated.",
    ),
    click.option(
        "--scheduler-config",
        type=_FILE,
        help="How the scheduler decides: a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) in YAML.",
    ),
    click.option(
        "--arbitrator",
        is_flag=True,
        help="Divide the cluster fairly among namespaces, as their Consumers say. Those may be among what is imported.",
    ),
    click.option(
        "--overused-namespaces",
        default="",
        metavar="A,B",
        help="With --arbitrator: what simulated nodes do with pods of namespaces that use more than they deserve: "
        "refuse, evict-first or both.  [default: nothing]",
    ),
)


def overuse_strategies(text: str, *, has_arbitrator: bool) -> frozenset[str]:
    """What nodes do to pods of overused namespaces."""
    strategies = frozenset(chosen_names("strategy", text, (REFUSE, EVICT_FIRST)))
    if strategies and not has_arbitrator:
        raise WrongUsage("--overused-namespaces needs --arbitrator, which says what each namespace deserves")
    return strategies


def chosen_names(what: str, text: str, known: Collection[str]) -> tuple[str, ...]:
    """The names in a list with commas."""
    chosen = names_in(text)
    if unknown := sorted(set(chosen) - set(known)):
        raise WrongUsage(f"unknown {what} {', '.join(unknown)}; known are {', '.join(known)}")
    return chosen


def names_in(text: str) -> tuple[str, ...]:
    """The names in a list with commas, whatever they are."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def cluster_options(command: Command) -> Command:
    """The options above, in this order in the help."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
