"""Why a pod fits nowhere, counted over the nodes and said in the words of kube-scheduler (FitError).

0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. <what would help>
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.framework import EXTENDER, NoRoom, Plugin, Refusals, Refused
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.snapshot import Snapshot

NO_NODES: Final = "no nodes available to schedule pods"

_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


class Diagnosis(msgspec.Struct):
    """What the filters said. `resolvable` are the rows where evicting pods might help."""

    node_count: int
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    resolvable: Rows = msgspec.field(default_factory=lambda: _NO_ROWS)
    #: Who refused. Without anybody, the pod is tried again by back-off alone.
    plugins: frozenset[str] = frozenset()
    #: Said before nodes were looked at: then no node has reasons of its own.
    outright: str = ""
    #: The whole message, where there was nothing to look at.
    message: str = ""

    def copy(self) -> Diagnosis:
        """The same, to be added to."""
        return replace(self, reasons=Counter(self.reasons))

    def add(self, plugin: str, refusals: Refusals, rows: Rows) -> None:
        """That plugin refused these rows."""
        self.reasons += refusals.reasons
        self.resolvable = np.concatenate([self.resolvable, rows[~refusals.unresolvable]])
        self.plugins |= {plugin}

    def add_failed(self, snapshot: Snapshot, failed: Mapping[str, str], unresolvable: Mapping[str, str]) -> None:
        """Extenders refused these nodes, with these texts; the second kind for good."""
        helpable = {name: why for name, why in failed.items() if name not in unresolvable}
        self.reasons += Counter([*helpable.values(), *unresolvable.values()])
        rows = [row for name in helpable if (row := snapshot.row_of(name)) is not None]
        self.resolvable = np.concatenate([self.resolvable, np.array(rows, dtype=np.intp)])
        if self.plugins:  # else it is tried again by back-off: what an extender waits for need not be seen here
            self.plugins |= {EXTENDER}

    def text(self, advice: str) -> str:
        """The whole message; `advice` says what was tried to make room."""
        if self.message:
            return self.message
        reasons = f"{self.outright}." if self.outright else sentence(self.reasons)
        parts = [f"0/{self.node_count} nodes are available:", reasons, advice]
        return " ".join(part for part in parts if part)


class KnownRefusal(msgspec.Struct, frozen=True):
    """Why no node will do, and why nobody can make room, as it was found once. It is nobody's to add to."""

    found: Diagnosis
    outcome: NoRoom
    #: What people read.
    message: str

    @classmethod
    def of(cls, found: Diagnosis, outcome: NoRoom) -> KnownRefusal:
        return cls(found, outcome, found.text(outcome.message))


def sentence(reasons: Counter[str]) -> str:
    """`1 Too many pods, 2 Insufficient cpu.`: sorted as texts, so that `10 …` comes before `2 …` (S0-69)."""
    counted = sorted(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"{', '.join(counted)}." if counted else ""


def refused_outright(plugin: Plugin, refused: Refused, snapshot: Snapshot) -> Diagnosis:
    """No node was looked at; evicting pods cannot help."""
    return Diagnosis(snapshot.count, plugins=frozenset({plugin.name}), outright=refused.reason)


def diagnose(
    found: Diagnosis, requirements: PodRequirements, snapshot: Snapshot, passed: list[tuple[Plugin, Mask]], rows: Rows
) -> Rows:
    """Each node is refused by the first filter that it does not pass, for all the reasons of that filter.

    Returns the rows that all of them let pass.
    """
    remaining = np.ones(len(rows), dtype=np.bool_)
    for plugin, mask in passed:
        failing = rows[remaining & ~mask]
        remaining &= mask
        if len(failing):
            found.add(plugin.name, plugin.refusals(requirements, snapshot, failing), failing)
    return rows[remaining]


def add_narrowed(found: Diagnosis, narrowed: frozenset[str], evaluated: int) -> None:
    """Count the nodes that these plugins kept from coming into question at all."""
    missing = found.node_count - evaluated
    if missing:
        found.reasons[f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed))}]"] += missing
    found.plugins |= narrowed
