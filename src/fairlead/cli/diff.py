"""`fairlead diff`: two kept runs side by side."""

from __future__ import annotations

import click
import msgspec

from fairlead.cli.failures import WrongUsage, parsing
from fairlead.study.export import run_document
from fairlead.study.outcome import Outcome
from fairlead.study.records import Run, load
from fairlead.study.tables import comparison_text


@click.command(short_help="Two runs of simulate side by side.")
@click.argument("before", metavar="RUN[:VARIANT]")
@click.argument("after", metavar="RUN[:VARIANT]")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def diff(before: str, after: str, output: str) -> None:
    """Compare what happened in two runs that `fairlead simulate` kept, by name (run-7c1e) or file. Of a run with
    several variants one is named behind a colon; without it the last one is meant.

    \b
    Example:
      fairlead diff run-7c1e run-90ab
      fairlead diff run-7c1e:before run-7c1e:quota-cut
    """
    with parsing():
        first, second = _chosen(before), _chosen(after)
    run = Run(first.seed, [first.outcome, second.outcome])
    document = msgspec.json.format(msgspec.json.encode(run_document(run))).decode() if output == "json" else ""
    click.echo(document or comparison_text(run, second.kept_as))


class _Chosen(msgspec.Struct, frozen=True):
    seed: int
    outcome: Outcome
    #: What `fairlead why --in` takes to find it.
    kept_as: str


def _chosen(text: str) -> _Chosen:
    name, _, variant = text.partition(":")
    run = load(name)
    if not variant:
        return _Chosen(run.seed, run.outcomes[-1], name)
    for outcome in run.outcomes:
        if outcome.name == variant:
            return _Chosen(run.seed, outcome, f"{name} --variant {variant}")
    names = ", ".join(outcome.name for outcome in run.outcomes)
    raise WrongUsage(f"{run.name} has no variant {variant!r}: there are {names}")
