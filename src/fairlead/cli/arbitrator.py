"""`fairlead arbitrator`: the arbitrator alone, against any API server."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from fairlead.arbitration.joined import Arbitration
from fairlead.arbitrator.books import Books
from fairlead.arbitrator.ledger import Ledger
from fairlead.cli.alone import access_of, candidate, serve
from fairlead.cli.failures import Failure, explained, parsing
from fairlead.client.http import HttpApi
from fairlead.client.informer import Informers
from fairlead.client.kubeconfig import Access
from fairlead.client.leader import LostLeadership, Terms
from fairlead.runtime.loops import run

LEASE = "fairlead-arbitrator"


@click.command(short_help="Run the arbitrator alone, against any API server.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="KUBECONFIG",
    help="Which API server, and as whom.",
)
@click.option("--context", default="", help="A context of the kubeconfig.  [default: the current one]")
@click.option(
    "--leader-elect/--no-leader-elect", default=True, show_default=True, help="Whether to share the work by a lease."
)
def arbitrator(kubeconfig: Path | None, context: str, leader_elect: bool) -> None:
    """Publish what each namespace of a cluster deserves, a real Kubernetes included.

    It installs the kinds Consumer, ConsumerGroup, ArbitratorPolicy and Allocation, gives every namespace a Consumer,
    and keeps the Allocations up to date. Nobody is evicted and nobody is held back by it yet.

    \b
    Example:
      fairlead arbitrator --kubeconfig ~/.kube/config &
      kubectl get consumers,allocations -A
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname).1s %(name)s: %(message)s")
    with parsing():
        access = access_of(kubeconfig, context)
    with explained():
        try:
            run(_run(access, Terms(LEASE) if leader_elect else None))
        except* LostLeadership as lost:
            raise Failure(f"leader election lost: {lost.exceptions[0]}") from None


async def _run(access: Access, terms: Terms | None) -> None:
    async with HttpApi(access, user_agent="fairlead-arbitrator") as api:
        informers = Informers(api)
        ledger = Ledger(Books())

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(informers.run())
                group.create_task(Arbitration(api, informers, ledger).run())

        click.echo(f"Arbitrating at {access.server}")
        await serve(work, candidate(api, terms) if terms else None)
