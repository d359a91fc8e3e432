"""Generates docs/reference.md and deploy/arbitrator/crds.yaml from the code: `python -m docs.build`.

A test fails when a file is out of date.
"""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from fairlead.api.builtin import RESOURCES
from fairlead.arbitrator.definitions import definitions
from fairlead.cli.main import main
from fairlead.server.admission.chain import OFF_BY_DEFAULT, PLUGINS

REFERENCE = Path(__file__).parent / "reference.md"
CRDS = Path(__file__).parents[1] / "deploy" / "arbitrator" / "crds.yaml"


def reference() -> str:
    """The whole reference as Markdown."""
    return "\n".join(
        [
            "# Reference",
            "",
            "Generated from the code by `python -m docs.build`; do not edit.",
            "",
            *_commands(),
            *_plugins(),
            *_kinds(),
        ]
    )


def _commands() -> list[str]:
    lines = ["## Commands", ""]
    context = click.Context(main, info_name="fairlead", **main.context_settings)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        lines += _help(command, click.Context(command, parent=context, info_name=name))
    return lines


def _help(command: click.Command, context: click.Context) -> list[str]:
    """What a command says of itself, and each of those within it."""
    lines = [f"### {context.command_path}", "", "```", command.get_help(context).strip(), "```", ""]
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            lines += _help(inner, click.Context(inner, parent=context, info_name=name))
    return lines


def _plugins() -> list[str]:
    lines = [
        "## Admission plugins",
        "",
        "In the order in which they run. `--enable-admission-plugins` and `--disable-admission-plugins` take these",
        "names; what each does is in [Admission](admission.md).",
        "",
        "| plugin | state |",
        "|---|---|",
    ]
    for name, make in PLUGINS:
        lines.append(f"| {name} | {make if isinstance(make, str) else 'off' if name in OFF_BY_DEFAULT else 'on'} |")
    return [*lines, ""]


def _kinds() -> list[str]:
    lines = [
        "## Kinds",
        "",
        "| resource | version | kind | scope | short | subresources |",
        "|---|---|---|---|---|---|",
    ]
    for row in RESOURCES:
        scope = "namespaced" if row.namespaced else "cluster"
        cells = [row.qualified, row.version, row.kind, scope, " ".join(row.short_names), " ".join(row.subresources)]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


class _Spelt(yaml.SafeDumper):
    """Writes everything out: an anchor is a riddle to whoever reads it."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def crds() -> str:
    """The arbitrator's kinds, for `kubectl apply`."""
    told = "# Generated from the code by `python -m docs.build`; do not edit.\n"
    return told + yaml.dump_all(definitions(), Dumper=_Spelt, sort_keys=False, width=120)


if __name__ == "__main__":
    REFERENCE.write_text(reference())
    CRDS.write_text(crds())
