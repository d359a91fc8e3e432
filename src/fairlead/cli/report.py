"""`fairlead report`: what a kept run of `fairlead simulate` has to show."""

from __future__ import annotations

import click

from fairlead.cli.failures import explained, parsing
from fairlead.dashboard.app import dashboard
from fairlead.dashboard.recorded import RecordedRun
from fairlead.dashboard.source import DEFAULT_PORT
from fairlead.runtime.http.listener import bind
from fairlead.runtime.loops import run as run_loop
from fairlead.runtime.stopping import stop_signals
from fairlead.study.records import Run, load


@click.group(short_help="Show a kept run of simulate.")
def report() -> None:
    """Show a run that `fairlead simulate` kept."""


@report.command(short_help="Show it in the browser, until ctrl-C.")
@click.argument("run", metavar="RUN")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="Its port; 0 picks one."
)
def serve(run: str, port: int) -> None:
    """Show a run, by name (run-7c1e) or file, on a page of this machine: its figures over time, where the pods
    were to which something happened, and why. Only whoever has the link that is printed sees it.

    \b
    Example:
      fairlead simulate --import prod.yaml --remove-node node-2 --for 2h
      fairlead report serve run-7c1e
    """
    with parsing():
        kept = load(run)
    with explained(ports={"--port": port}):
        run_loop(_serve(kept, port))


async def _serve(kept: Run, port: int) -> None:
    with stop_signals() as stopping:
        async with dashboard(RecordedRun(kept), bind(port)) as link:
            click.echo(f"{kept.name}  {link}      only this machine, only with this link; stop with ctrl-C")
            await stopping.wait()
