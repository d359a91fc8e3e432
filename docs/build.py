"""Generates reference.md, pod-fields.md, kubelet-settings.md, two files of deploy/arbitrator: `python -m docs.build`.

A test fails when a file is out of date.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
import yaml

from docs.kubelet_settings import settings_page
from docs.pod_fields import page
from fairlead.api.builtin import RESOURCES
from fairlead.arbitrator.definitions import definitions
from fairlead.arbitrator.permissions import CLUSTER, NAMESPACE, Permission
from fairlead.cli.main import main
from fairlead.server.admission.chain import OFF_BY_DEFAULT, PLUGINS

REFERENCE = Path(__file__).parent / "reference.md"
POD_FIELDS = Path(__file__).parent / "pod-fields.md"
KUBELET_SETTINGS = Path(__file__).parent / "kubelet-settings.md"
_DEPLOY = Path(__file__).parents[1] / "deploy" / "arbitrator"
CRDS, RIGHTS = _DEPLOY / "crds.yaml", _DEPLOY / "rbac.yaml"
_EMPTY = '""'
_GENERATED = "# Generated from the code by `python -m docs.build`; do not edit.\n"


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
        lines += _help(command, click.Context(command, parent=context, info_name=name, **command.context_settings))
    return lines


def _help(command: click.Command, context: click.Context) -> list[str]:
    """What a command says of itself, and each of those within it."""
    lines = [f"### {context.command_path}", "", "```", command.get_help(context).strip(), "```", ""]
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            lines += _help(inner, click.Context(inner, parent=context, info_name=name, **inner.context_settings))
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
    return _GENERATED + yaml.dump_all(definitions(), Dumper=_Spelt, sort_keys=False, width=120)


def rights() -> str:
    """The arbitrator's account and what it may do, for `kubectl apply`."""
    parts = [
        f"{_GENERATED}# What each is for: docs/arbitrator-on-kubernetes.md.\n"
        f"apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {_ACCOUNT}\n  namespace: {_NAMESPACE}\n",
        _role("Cluster", CLUSTER),
        _binding("Cluster"),
        _role("", NAMESPACE),
        _binding(""),
    ]
    return "---\n".join(parts)


_ACCOUNT, _NAMESPACE = "fairlead-arbitrator", "kube-system"


def _role(prefix: str, permissions: Iterable[Permission]) -> str:
    lines = [*_head(f"{prefix}Role", is_namespaced=not prefix), "rules:"]
    for permission in permissions:
        if permission.why:
            lines.append(f"  # {permission.why}")
        first = "  - "
        for field, values in permission.rule().items():
            lines.append(f"{first}{field}: [{', '.join(value or _EMPTY for value in values)}]")
            first = "    "
    return "\n".join(lines) + "\n"


def _binding(prefix: str) -> str:
    group = "rbac.authorization.k8s.io"
    lines = [
        *_head(f"{prefix}RoleBinding", is_namespaced=not prefix),
        *("roleRef:", f"  apiGroup: {group}", f"  kind: {prefix}Role", f"  name: {_ACCOUNT}"),
        *("subjects:", "  - kind: ServiceAccount", f"    name: {_ACCOUNT}", f"    namespace: {_NAMESPACE}"),
    ]
    return "\n".join(lines) + "\n"


def _head(kind: str, *, is_namespaced: bool) -> list[str]:
    lines = ["apiVersion: rbac.authorization.k8s.io/v1", f"kind: {kind}", "metadata:", f"  name: {_ACCOUNT}"]
    return [*lines, f"  namespace: {_NAMESPACE}"] if is_namespaced else lines


if __name__ == "__main__":
    REFERENCE.write_text(reference())
    POD_FIELDS.write_text(page())
    KUBELET_SETTINGS.write_text(settings_page())
    CRDS.write_text(crds())
    RIGHTS.write_text(rights())
