"""The two runs side by side, for people."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Sequence

from fairlead.verify.comparison import Comparison, CpuRow, Row
from fairlead.verify.run import Verified
from fairlead.verify.workload import Size

_MIB = 1 << 20


def described(size: Size) -> str:
    return (
        f"{size.memory_bytes // _MIB}Mi of memory, {size.cpus} cpu, {size.disk_bytes // _MIB}Mi of disk,"
        f" {size.seconds:g} s"
    )


def table(verified: Verified) -> str:
    """All that happened, then the cpu that containers used."""
    comparison = verified.comparison
    rows = [_HEAD, *(_happening(row) for row in comparison.rows), *(_cpu(row) for row in comparison.cpu)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, *comparison.disorder, verdict(comparison)])


def verdict(comparison: Comparison) -> str:
    if comparison.agrees:
        return f"reality agrees: nothing is further apart than {furthest(comparison):.1f} s"
    problems = len(comparison.problems) + len(comparison.disorder)
    return f"reality DIFFERS in {problems} of {len(comparison.rows) + len(comparison.cpu)}"


def furthest(comparison: Comparison) -> float:
    """How far apart what happened in both is at most."""
    apart = [
        abs(row.predicted - row.real) for row in comparison.rows if row.predicted is not None and row.real is not None
    ]
    return max(apart, default=0.0)


_HEAD: Sequence[str] = ("WHAT", "WHO", "PREDICTED", "REAL", "APART", "")


def _happening(row: Row) -> Sequence[str]:
    what = f"{row.kind} {row.detail}".strip()
    apart = f"{row.real - row.predicted:+.1f} s" if row.predicted is not None and row.real is not None else ""
    return what, row.who, _seconds(row.predicted), _seconds(row.real), apart, row.problem


def _cpu(row: CpuRow) -> Sequence[str]:
    apart = f"{row.real - row.predicted:+.1f} s"
    return "cpu used", row.who, _seconds(row.predicted), _seconds(row.real), apart, row.problem


def _seconds(at: float | None) -> str:
    return "-" if at is None else f"{at:.1f} s"


def agreement_table(found: Sequence[Verified]) -> str:
    """As docs/fidelity.md has it, with the machine that it was measured on."""
    system = platform.uname()
    rows = [
        f"Linux {system.release}, {system.machine}, {os.cpu_count()} CPUs, {time.strftime('%Y-%m-%d')}",
        "",
        "| workload | what happened | furthest apart | agrees |",
        "|---|---|---|---|",
    ]
    for each in found:
        comparison = each.comparison
        agrees = "yes" if comparison.agrees else "**no**"
        happened = ", ".join(f"{count} {kind}" for kind, count in Counter(row.kind for row in comparison.rows).items())
        rows.append(f"| {each.workload} | {happened or 'nothing'} | {furthest(comparison):.1f} s | {agrees} |")
    return "\n".join(rows)
