"""Shared by the commands that work with any API server."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from fairlead.api.verbs import Api
from fairlead.cli.failures import WrongUsage
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access, in_cluster, load_merged
from fairlead.client.leader import Election, Terms
from fairlead.client.metrics import leader_family
from fairlead.runtime import rng
from fairlead.runtime.metrics import Family
from fairlead.runtime.process_metrics import process_families
from fairlead.runtime.stopping import stop_signals

Command = TypeVar("Command", bound=Callable[..., Any])


def which_cluster_options(which: str = "Which cluster.") -> Callable[[Command], Command]:
    """`--kubeconfig` and `--context`: `access_of` takes what they say. `which`: what is meant, for the help."""

    def decorate(command: Command) -> Command:
        context = click.option("--context", default="", help="A context of the kubeconfig.  [default: the current one]")
        kubeconfig = click.option(
            "--kubeconfig",
            type=click.Path(dir_okay=False, path_type=Path),
            multiple=True,
            envvar="KUBECONFIG",
            help=f"{which} May be repeated: of what has one name the first counts, as of the files in KUBECONFIG.",
        )
        return kubeconfig(context(command))

    return decorate


def access_of(kubeconfigs: Sequence[Path], context: str) -> Access:
    """The cluster of the kubeconfigs; without any, that of our own pod. Raises WrongUsage if there is neither."""
    if kubeconfigs:
        return load_merged(kubeconfigs, context)
    try:
        return in_cluster(os.environ)
    except ValueError:
        raise WrongUsage("which API server? Name a kubeconfig with --kubeconfig") from None


def pod_key(text: str, namespace: str | None, default: str) -> str:
    """`NAMESPACE/NAME` of a pod that is called `NAME`, `pod/NAME` or `NAMESPACE/NAME`. Raises WrongUsage for others."""
    match text.split("/"):
        case [name] | [("pod" | "pods" | "po"), name] if name:
            return f"{namespace or default}/{name}"
        case [own, name] if own and name and namespace in (None, own):
            return f"{own}/{name}"
        case [own, name] if own and name:
            raise WrongUsage(f"{text!r} is in namespace {own}, and --namespace says {namespace}")
    raise WrongUsage(f"{text!r} is no pod: say NAME, pod/NAME or NAMESPACE/NAME")


def new_election(api: Api, terms: Terms) -> Election:
    """This process as a candidate in the leader election."""
    return Election(api, f"{socket.gethostname()}_{rng.uid()}", terms)


def own_families(api: HttpApi, election: Election | None) -> list[Family]:
    """The metrics of a process that works with an API server: of itself, and of what it asks there."""
    families = [*process_families(), *api.metrics.families]
    return families if election is None else [*families, leader_family(election.lease, election.is_leading)]


async def serve(work: Callable[[], Awaitable[None]], election: Election | None) -> None:
    """Work until a stop signal; if there is an election, only while leading.

    Raises LostLeadership, or what the work raises.
    """
    with stop_signals() as stopping:
        working = asyncio.ensure_future(election.lead(work) if election else work())
        stopped = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            for task in (working, stopped):
                task.cancel()
            await asyncio.gather(working, stopped, return_exceptions=True)
            if election is not None:
                await election.release()
