"""The audit of a server: what its policy wants told of each request, on its way to a file, a service, or both.

Events are made and the file is written by a thread (`runtime/background_writer.py`). kube-apiserver's log makes
requests wait for the disk unless it is told otherwise (`--audit-log-mode=batch`); this one never does, and what there
is no room for is lost and counted. For a service (`webhook.py`) requests wait if the operator wants it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from fairlead.runtime.background_writer import GATHER_SECONDS, BackgroundWriter
from fairlead.runtime.rotating_file import RotatingFile
from fairlead.server.access import AccessRequest
from fairlead.server.audit.event import LEVEL_NAMES
from fairlead.server.audit.policy import Decision, Policy
from fairlead.server.audit.request_audit import Told
from fairlead.server.audit.truncation import Truncating, Truncation
from fairlead.server.audit.webhook import AuditWebhook, AuditWebhookSettings
from fairlead.server.metrics.audit import AuditMetrics

#: The path that means standard output.
STDOUT: Final = "-"
#: kube-apiserver's --audit-log-batch-buffer-size; and what these lines may take.
_MOST_WAITING: Final = 10_000
_MOST_WAITING_BYTES: Final = 64 << 20

log = logging.getLogger(__name__)

#: What is told, and who waits until the service has it.
_Item: TypeAlias = "tuple[Told, asyncio.Future[bool] | None]"


class AuditSettings(msgspec.Struct, frozen=True):
    """What `fairlead up` is told of its audit; the defaults are kube-apiserver's. Without a path there is no file."""

    policy: Policy
    path: str = ""
    max_age_days: int = 366
    max_backups: int = 100
    max_megabytes: int = 100
    webhook: AuditWebhookSettings | None = None
    #: Of what is written into the file.
    truncation: Truncation | None = None


class Auditor:
    """Tells of requests what its policy says."""

    def __init__(
        self, policy: Policy, writer: BackgroundWriter[_Item], metrics: AuditMetrics, webhook: AuditWebhook | None
    ) -> None:
        self._policy, self._writer, self._metrics = policy, writer, metrics
        self.blocks = webhook is not None and webhook.blocks
        self._is_strict = webhook is not None and webhook.is_strict

    def decide(self, asked: AccessRequest) -> Decision:
        """How much is told of a request."""
        decision = self._policy.decide(asked)
        counts, level = self._metrics.levels, LEVEL_NAMES[decision.level]
        counts[level] = counts.get(level, 0) + 1
        return decision

    def put(self, told: Told, size: int) -> asyncio.Future[bool] | None:
        """Take an event of about so many bytes; what comes back is done when the service has it, if requests wait."""
        waiter = asyncio.get_running_loop().create_future() if self.blocks else None
        if not self._writer.put((told, waiter), size) and waiter is not None:
            waiter.set_result(False)
        return waiter

    def may_go_on(self, *, is_told: bool) -> bool:
        """Whether a request may go on of which this was told, or could not be."""
        if is_told or not self._is_strict:
            return True
        self._metrics.rejected += 1
        return False


@asynccontextmanager
async def auditing(settings: AuditSettings | None, metrics: AuditMetrics) -> AsyncIterator[Auditor | None]:
    """The audit, while the block runs; None if there is to be none. OSError: the file cannot be written.

    ValueError: the service cannot be called.
    """
    if settings is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        webhook = None
        if settings.webhook is not None:
            webhook = AuditWebhook(settings.webhook)
            stack.push_async_callback(webhook.close)
        file = _file(settings)
        of_log = Truncating(settings.truncation)
        of_webhook = Truncating(settings.webhook.truncation if settings.webhook else None)
        append = file.write if file else _to_stdout if settings.path else None
        writer = _writer(append, of_log, webhook, of_webhook)
        metrics.watch(writer, webhook, (of_log, of_webhook))
        try:
            yield Auditor(settings.policy, writer, metrics, webhook)
        finally:
            if await writer.close() and file:
                file.close()


def _file(settings: AuditSettings) -> RotatingFile | None:
    if settings.path in ("", STDOUT):
        return None
    return RotatingFile(
        Path(settings.path),
        max_megabytes=settings.max_megabytes,
        max_backups=settings.max_backups,
        max_age_days=settings.max_age_days,
    )


def _writer(
    append: Callable[[bytes], None] | None, of_log: Truncating, webhook: AuditWebhook | None, of_webhook: Truncating
) -> BackgroundWriter[_Item]:
    encode = msgspec.json.Encoder().encode
    loop = asyncio.get_running_loop()

    def lines_of(told: Told) -> tuple[bytes | None, bytes | None]:
        """Its lines for the file and for the service; b"" if it is lost."""
        audit, stage, moment = told
        try:
            event = audit.event(stage, moment)
            line = encode(event)
            return of_log.line_of(event, line) if append else None, of_webhook.line_of(event, line) if webhook else None
        except Exception:  # a bug, which costs no other event, and nobody waits for this one
            writer.failed += 1
            log.exception("audit: an event cannot be told")
            return b"", b""

    def write(items: Sequence[_Item]) -> None:
        lines = [lines_of(told) for told, _ in items]
        if webhook is not None:
            told = [(line, waiter) for (_, line), (_, waiter) in zip(lines, items, strict=True)]
            loop.call_soon_threadsafe(webhook.take, told)
        if append is not None:
            append(b"".join(line + b"\n" for line, _ in lines if line))

    gather_seconds = 0.0 if webhook is not None and webhook.blocks else GATHER_SECONDS
    writer = BackgroundWriter[_Item](
        "audit log", write, max_items=_MOST_WAITING, max_bytes=_MOST_WAITING_BYTES, gather_seconds=gather_seconds
    )
    return writer


def _to_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
