"""The `fairlead` command."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

from fairlead import COMPATIBILITY_VERSION, __version__
from fairlead.runtime.memory import collect_seldom

#: In the order of the help. Each is a function of that name in `fairlead.cli.NAME`. It is imported when it is called,
#: so that a command does not load the libraries of the others.
COMMANDS: Final[Mapping[str, str]] = {
    "up": "a cluster on this machine, for kubectl and every Kubernetes client",
    "status": "whether a cluster of this machine runs, and how to reach it",
    "down": "stop a cluster of this machine",
    "kubectl": "the kubectl of your PATH, pointed at a cluster of this machine",
    "kubeconfig": "the way in for somebody else: a user with a client certificate",
    "snapshot": "save a cluster of this machine to one file, and bring it back",
    "simulate": "the same cluster under a virtual clock: weeks in minutes",
    "capture": "what simulate needs of a cluster, in one file",
    "report": "a kept run of simulate on a page, to look around in",
    "diff": "two runs of simulate side by side",
    "node": "this machine as a node with real containers; or what a node would make of its configuration",
    "images": "the images of this machine, for nodes that run containers",
    "scheduler": "the scheduler alone, against any API server",
    "arbitrator": "the arbitrator alone: what each namespace of any cluster deserves",
    "shares": "who has which share of a cluster, and what it uses",
    "verify": "the same workload predicted and on this machine, side by side",
    "usage": "what simulated pods and nodes use, set by hand",
    "why": "why a pod waits, or is where it is",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        collect_seldom()
        found: click.Command = getattr(import_module(f"fairlead.cli.{cmd_name}"), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table: click would import every command for its first line."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(
    __version__, "-V", "--version", message=f"Fairlead %(version)s (Kubernetes {COMPATIBILITY_VERSION} API)"
)
def main() -> None:
    """Kubernetes resource management that you run, embed and simulate."""
