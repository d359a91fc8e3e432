"""`fairlead kubectl`: the real kubectl, pointed at a cluster of this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click

from fairlead import COMPATIBILITY_VERSION
from fairlead.cli.clusters import chosen, running, which_cluster
from fairlead.cli.failures import Failure, explained, parsing


@click.command(
    short_help="Run kubectl against a cluster of this machine.",
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": ["--help"],
    },
    add_help_option=True,
)
@which_cluster
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl(data_dir: Path | None, name: str | None, arguments: tuple[str, ...]) -> None:
    """Run the kubectl of your PATH against the cluster in DATA-DIR, or against the one of that name, whatever
    KUBECONFIG says. --name and --data-dir come before kubectl's own arguments.

    \b
    Example:
      fairlead kubectl get pods -A
      fairlead kubectl --name dev apply -f app.yaml
    """
    with parsing(), explained():
        cluster = chosen(data_dir, name)
        running(cluster)
    program = shutil.which("kubectl")
    if program is None:
        raise Failure(
            "there is no kubectl on your PATH. Get one (any version from 1.30 on; "
            f"{COMPATIBILITY_VERSION} fits best) from https://kubernetes.io/docs/tasks/tools/"
        )
    os.execve(program, ["kubectl", *arguments], os.environ | {"KUBECONFIG": str(cluster.kubeconfig.absolute())})
