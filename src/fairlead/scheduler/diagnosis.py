"""Why a pod fits nowhere, counted over the nodes and said in the words of kube-scheduler (FitError).

0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. <what would help>
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.framework import Plugin, Refused
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Snapshot

NO_NODES: Final = "no nodes available to schedule pods"

_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


@dataclass(slots=True)
class Diagnosis:
    """What the filters said. `resolvable` are the rows where evicting pods might help."""

    node_count: int
    reasons: Counter[str]
    resolvable: Rows
    plugins: frozenset[str]
    #: Said before nodes were looked at: then no node has reasons of its own.
    outright: str = ""

    def text(self, advice: str) -> str:
        """The whole message; `advice` tells what was tried to make room."""
        said = f"{self.outright}." if self.outright else sentence(self.reasons)
        parts = [f"0/{self.node_count} nodes are available:", said, advice]
        return " ".join(part for part in parts if part)


def sentence(reasons: Counter[str]) -> str:
    """`1 Too many pods, 2 Insufficient cpu.`: sorted as texts, so that `10 …` comes before `2 …` (S0-69)."""
    told = sorted(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"{', '.join(told)}." if told else ""


def refused_outright(plugin: Plugin, refused: Refused, snapshot: Snapshot) -> Diagnosis:
    """No node was looked at; evicting pods cannot help."""
    return Diagnosis(snapshot.count, Counter(), _NO_ROWS, frozenset({plugin.name}), refused.reason)


def diagnose(shape: Shape, snapshot: Snapshot, passed: list[tuple[Plugin, Mask]], rows: Rows) -> Diagnosis:
    """Each node is refused by the first filter that it does not pass, for all the reasons of that filter."""
    found = Diagnosis(snapshot.count, Counter(), _NO_ROWS, frozenset())
    remaining = np.ones(len(rows), dtype=np.bool_)
    for plugin, mask in passed:
        failing = rows[remaining & ~mask]
        remaining &= mask
        if len(failing):
            refusals = plugin.refusals(shape, snapshot, failing)
            found.reasons += refusals.reasons
            found.resolvable = np.concatenate([found.resolvable, failing[~refusals.unresolvable]])
            found.plugins |= {plugin.name}
    return found


def add_narrowed(found: Diagnosis, narrowed: frozenset[str], evaluated: int) -> None:
    """Count the nodes that these plugins kept from coming into question at all."""
    missing = found.node_count - evaluated
    if missing:
        found.reasons[f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed))}]"] += missing
    found.plugins |= narrowed
