"""The audit log of a server: what its policy wants told of each request, on its way to the file.

The file is written by a thread (`runtime/background_writer.py`). kube-apiserver's log makes requests wait for the disk
unless it is told otherwise (`--audit-log-mode=batch`); this one never does, and what there is no room for is lost and
counted.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from fairlead.runtime.background_writer import BackgroundWriter
from fairlead.runtime.rotating_file import RotatingFile
from fairlead.server.access import AccessRequest
from fairlead.server.audit.event import LEVEL_NAMES
from fairlead.server.audit.policy import Decision, Policy
from fairlead.server.audit.request_audit import Put, Told
from fairlead.server.metrics.audit import AuditMetrics

#: The path that means standard output.
STDOUT: Final = "-"
#: kube-apiserver's --audit-log-batch-buffer-size; and what these lines may take.
_MOST_WAITING: Final = 10_000
_MOST_WAITING_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """What `fairlead up` is told of its audit log; the defaults are kube-apiserver's."""

    policy: Policy
    path: str
    max_age_days: int = 366
    max_backups: int = 100
    max_megabytes: int = 100


class Auditor:
    """Writes of requests what its policy says."""

    def __init__(self, policy: Policy, put: Put, metrics: AuditMetrics) -> None:
        self.put = put
        self._policy, self._counts = policy, metrics.levels

    def decide(self, asked: AccessRequest) -> Decision:
        """How much is told of a request."""
        decision = self._policy.decide(asked)
        level = LEVEL_NAMES[decision.level]
        self._counts[level] = self._counts.get(level, 0) + 1
        return decision


@asynccontextmanager
async def auditing(settings: AuditSettings | None, metrics: AuditMetrics) -> AsyncIterator[Auditor | None]:
    """The audit log, while the block runs; None if there is to be none. OSError: it cannot be written."""
    if settings is None:
        yield None
        return
    file = None
    if settings.path != STDOUT:
        file = RotatingFile(
            Path(settings.path),
            max_megabytes=settings.max_megabytes,
            max_backups=settings.max_backups,
            max_age_days=settings.max_age_days,
        )
    append = file.write if file else _to_stdout
    encode = msgspec.json.Encoder().encode

    def write(told: Sequence[Told]) -> None:
        lines = [encode(audit.event(stage, moment)) for audit, stage, moment in told]
        append(b"\n".join([*lines, b""]))

    writer = BackgroundWriter("audit log", write, max_items=_MOST_WAITING, max_bytes=_MOST_WAITING_BYTES)
    metrics.watch_writer(writer)
    try:
        yield Auditor(settings.policy, writer.put, metrics)
    finally:
        if await writer.close() and file:
            file.close()


def _to_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
