"""The page that tells what a real node makes of each setting of its configuration, of the rows that the node reads."""

from __future__ import annotations

from fairlead.agent.settings_table import Effect, name_of, rows
from fairlead.node.configuration.settings import SETTINGS

_HEAD = """\
# The settings of a real node

Generated from the code by `python -m docs.build`; do not edit.

What a [real node](real-nodes.md) makes of every setting of a KubeletConfiguration (`kubelet.config.k8s.io/v1beta1`) of
Kubernetes 1.36, and of kubelet's flags. All are read, and checked in kubelet's words; a node that is told something
which does nothing says so when it starts. [Simulated nodes](node.md) obey those that concern resources.
"""


def settings_page() -> str:
    table = rows()
    counts = {effect: sum(row.effect is effect for row in table.values()) for effect in Effect}
    said = ", ".join(f"{count} {effect}" for effect, count in counts.items())
    lines = [_HEAD, f"In numbers: {said}.", "", "| setting | flag | | |", "|---|---|---|---|"]
    for setting in SETTINGS:
        row = table[name_of(setting)]
        name, flag = (f"`{setting.name}`" if setting.name else "", f"`--{setting.flag}`" if setting.flag else "")
        lines.append(f"| {name} | {flag} | {row.effect} | {row.note} |")
    return "\n".join([*lines, ""])
