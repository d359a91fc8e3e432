"""`fairlead capture`: what a study needs of a cluster, in one file."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import IO

import click
import msgspec

from fairlead.api.resources import Resource
from fairlead.cli.failures import ANSWER_SECONDS, Failure, explained, parsing
from fairlead.cli.standalone import access_of, which_cluster_options
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access
from fairlead.runtime import log_lines
from fairlead.runtime.loops import run
from fairlead.runtime.whole_files import written_whole
from fairlead.sim.durations import seconds_of
from fairlead.study.capture import captured
from fairlead.study.prometheus import NoPrometheus, Usage, check_url, usage_of_pods
from fairlead.wording import counted


@click.command(short_help="What a study needs of a cluster, in one file; read-only.")
@which_cluster_options()
@click.option("--file", "-f", type=click.Path(dir_okay=False, path_type=Path), help="Where to.  [default: stdout]")
@click.option("--prometheus", metavar="URL", help="Ask this Prometheus what pods have used, not metrics.k8s.io.")
@click.option(
    "--prometheus-for", "span", metavar="DURATION", default="24h", show_default=True, help="For how long, until now."
)
def capture(kubeconfig: tuple[Path, ...], context: str, file: Path | None, prometheus: str | None, span: str) -> None:
    """Write a List of the nodes, pods, controllers, quotas and classes of a cluster, for `fairlead simulate --import`.

    It only reads, page by page, and leaves out Secrets, ConfigMaps, commands, and the values of variables. What pods
    use now becomes their annotation, where metrics.k8s.io is served; with --prometheus, what they have used: their
    highest memory, and their mean CPU or its course over the day.

    \b
    Example:
      fairlead capture --kubeconfig ~/.kube/config -f prod.json
      fairlead simulate --import prod.json --remove-node node-7 --for 24h
    """
    log_lines.configure(logging.ERROR)
    with parsing():
        access = access_of(kubeconfig, context)
        seconds = seconds_of(span)
        url = check_url(prometheus) if prometheus else ""
    source = partial(usage_of_pods, url, seconds) if url else None
    with explained():
        if file is None:
            counts = run(_written(access, sys.stdout.buffer, source))
        else:
            with written_whole(file) as out:
                counts = run(_written(access, out, source))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    click.echo(f"captured {counted(counts.total(), 'object')}: {kinds}", err=True)


async def _written(access: Access, out: IO[bytes], source: Callable[[], Awaitable[Usage]] | None) -> Counter[str]:
    """An object a line, so that it need not be held as a whole; returns how many there are by kind."""
    try:
        usage = None if source is None else await source()
    except NoPrometheus as problem:
        raise Failure(str(problem)) from None
    counts = Counter[str]()

    def skipped(kind: Resource, why: str) -> None:
        click.echo(f"without {kind.qualified}: {why}", err=True)

    async with HttpApi(access, user_agent="fairlead-capture", connect_seconds=ANSWER_SECONDS) as api:
        out.write(b'{"apiVersion":"v1","kind":"List","items":[')
        async for obj in captured(api, skipped, usage):
            out.write((b",\n" if counts else b"\n") + msgspec.json.encode(obj))
            counts[obj["kind"]] += 1
        out.write(b"\n]}\n")
    return counts
