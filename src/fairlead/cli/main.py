"""The `fairlead` command."""

from __future__ import annotations

import click

from fairlead import COMPATIBILITY_VERSION, __version__
from fairlead.cli.simulate import simulate
from fairlead.cli.up import up


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(
    __version__, "-V", "--version", message=f"Fairlead %(version)s (Kubernetes {COMPATIBILITY_VERSION} API)"
)
def main() -> None:
    """Kubernetes resource management that you run, embed and simulate.

    \b
    fairlead up         a cluster on this machine, for kubectl and every Kubernetes client
    fairlead simulate   the same cluster under a virtual clock: weeks in minutes
    """


main.add_command(up)
main.add_command(simulate)
