"""`fairlead down`: stop a cluster of this machine, and take it away if asked to."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli.clusters import chosen, which_cluster
from fairlead.cli.failures import explained, parsing

#: A cluster ends within five seconds of a stop signal, by force if need be.
STOP_SECONDS = 10.0


@click.command(short_help="Stop a cluster of this machine.")
@which_cluster
@click.option("--delete", is_flag=True, help="Remove its data as well, and its context from the kubeconfig it wrote.")
def down(data_dir: Path | None, name: str | None, delete: bool) -> None:
    """Stop the cluster that runs in DATA-DIR, or the one of that name. Its data stays, unless --delete is given.

    \b
    Example:
      fairlead up --name dev --detach
      fairlead down --name dev --delete
    """
    with parsing(), explained():
        cluster = chosen(data_dir, name)
        stopped = cluster.stop(STOP_SECONDS)
        existed = cluster.exists
        if delete and existed:
            cluster.delete()
    sentences = [f"{cluster.title} stopped."] if stopped else [f"{cluster.title} was not running."]
    if existed:
        sentences.append("Its data is removed." if delete else f"Its data stays in {cluster.data_dir}.")
    click.echo(" ".join(sentences))
