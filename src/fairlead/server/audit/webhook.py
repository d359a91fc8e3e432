"""Audit events for a service (`--audit-webhook-config-file`): in batches beside requests, or each before they go on.

Sources: k8s.io/apiserver, plugin/pkg/audit/{webhook,buffered} and pkg/server/options/audit.go (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from fairlead.client.calls import CallError
from fairlead.client.kubeconfig_service import KubeconfigService, back_off
from fairlead.runtime.clock import monotonic
from fairlead.runtime.token_bucket import TokenBucket
from fairlead.server.audit.truncation import Truncation

#: What waits or is under way may take so much.
_MOST_BYTES: Final = 64 << 20
#: How large an answer may be, of which nothing is read.
_MOST_ANSWERED: Final = 64 << 10
#: How long the end waits for what is not delivered yet.
_END_SECONDS: Final = 5.0
#: The shortest time between two complaints.
_REPORT_SECONDS: Final = 10.0

_LIST: Final = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":['
#: How a line of the log begins; an item of a list has its type from there.
_TYPE: Final = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1",'

#: An event as a line of JSON, which is empty if it is lost already, None if it is not to be told; and who waits until
#: it is delivered.
Line: TypeAlias = "tuple[bytes | None, asyncio.Future[bool] | None]"

log = logging.getLogger(__name__)


class Mode(StrEnum):
    """Whether requests wait for the service, and whether they may go on without it."""

    BATCH = "batch"
    BLOCKING = "blocking"
    BLOCKING_STRICT = "blocking-strict"


class AuditWebhookSettings(msgspec.Struct, frozen=True):
    """Which service, and how it is told; the defaults are kube-apiserver's. Sizes and rates are those of batches."""

    kubeconfig: Path
    mode: Mode = Mode.BATCH
    initial_backoff_seconds: float = 10.0
    most_waiting: int = 10_000
    most_at_once: int = 400
    most_wait_seconds: float = 30.0
    #: Batches a second, and how many at once if there were none before; None: as many as there are.
    throttle: tuple[float, int] | None = (10.0, 15)
    truncation: Truncation | None = None


class AuditWebhook:
    """One service. Whoever has made it closes it. ValueError or OSError: the kubeconfig cannot be used."""

    def __init__(self, settings: AuditWebhookSettings) -> None:
        self._settings, self._service = settings, KubeconfigService(settings.kubeconfig)
        #: How large a batch is, unless it is one event.
        self._most_bytes_at_once = (settings.truncation or Truncation()).most_of_batch
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._came = asyncio.Event()
        #: What is neither delivered nor lost.
        self._count = self._bytes = 0
        #: Events that are lost: without room, and not delivered.
        self.dropped = self.failed = 0
        self._sending = set[asyncio.Task[None]]()
        self._batches = asyncio.create_task(self._send_batches(), name="audit webhook")
        self._is_ending = False
        self._complaints = TokenBucket(1 / _REPORT_SECONDS, 1, monotonic())

    @property
    def blocks(self) -> bool:
        return self._settings.mode is not Mode.BATCH

    @property
    def is_strict(self) -> bool:
        return self._settings.mode is Mode.BLOCKING_STRICT

    def take(self, lines: Iterable[Line]) -> None:
        """Deliver these, one by one if somebody waits for them; what there is no room for is lost."""
        for line, waiter in lines:
            if not line:
                _answer(waiter, is_delivered=line is None)
                continue
            if self._count >= self._settings.most_waiting or self._bytes + len(line) > _MOST_BYTES:
                self.dropped += 1
                self._tell(f"audit buffer queue blocked: {self.dropped} events lost so far")
                _answer(waiter, is_delivered=False)
                continue
            self._count += 1
            self._bytes += len(line)
            if waiter is not None:
                self._begin(self._deliver([line], waiter))
            else:
                self._waiting.append(line)
                self._waiting_bytes += len(line)
        self._came.set()

    async def close(self) -> None:
        """Deliver what there is, if that takes no longer than it may."""
        self._is_ending = True
        self._came.set()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._batches
                while self._sending:
                    await asyncio.wait(self._sending)
        except TimeoutError:
            log.error("audit webhook: %d events could not be delivered in time", self._count)
        ending = [self._batches, *self._sending]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self._service.close()

    # -- batches

    async def _send_batches(self) -> None:
        throttle = self._settings.throttle
        pace = TokenBucket(*throttle, monotonic()) if throttle else None
        while await self._until_one_waits():
            await self._until_full(monotonic() + self._settings.most_wait_seconds)
            if pace is not None:
                await asyncio.sleep(pace.borrow(monotonic()))
            self._begin(self._deliver(self._taken()))

    async def _until_one_waits(self) -> bool:
        """Whether there is something to send, when that is so, or will never be."""
        while not (self._waiting or self._is_ending):
            self._came.clear()
            await self._came.wait()
        return bool(self._waiting)

    async def _until_full(self, until: float) -> None:
        """Until there are enough for a batch, or that time has come, or there will be no more."""
        while not self._is_ending and not self._is_full():
            self._came.clear()
            try:
                async with asyncio.timeout(until - monotonic()):
                    await self._came.wait()
            except TimeoutError:
                return

    def _is_full(self) -> bool:
        return len(self._waiting) >= self._settings.most_at_once or self._waiting_bytes >= self._most_bytes_at_once

    def _taken(self) -> list[bytes]:
        batch, size = list[bytes](), 0
        while self._waiting and len(batch) < self._settings.most_at_once:
            size += len(self._waiting[0])
            if batch and size > self._most_bytes_at_once:
                break
            batch.append(self._waiting.popleft())
        self._waiting_bytes -= sum(map(len, batch))
        return batch

    # -- delivery

    def _begin(self, delivery: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(delivery)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _deliver(self, lines: Sequence[bytes], waiter: asyncio.Future[bool] | None = None) -> None:
        is_delivered = False
        try:
            is_delivered = await self._sent(_LIST + b",".join(map(_item, lines)) + b"]}")
        finally:
            if not is_delivered:
                self.failed += len(lines)
            self._count -= len(lines)
            self._bytes -= sum(map(len, lines))
            _answer(waiter, is_delivered=is_delivered)

    async def _sent(self, body: bytes) -> bool:
        """Whether the service has taken it; whatever fails is tried again."""
        waits = back_off(self._settings.initial_backoff_seconds)
        while True:
            try:
                await self._service.post(body, most=_MOST_ANSWERED, allows_empty=True)
            except (CallError, OSError, ValueError) as error:
                self._tell(f"{error}: {self.failed} events lost so far")
                if (wait := next(waits, None)) is None:
                    return False
                await asyncio.sleep(wait)
            else:
                return True

    def _tell(self, why: str) -> None:
        if self._complaints.take(monotonic()):
            log.error("audit webhook: %s", why)


def _item(line: bytes) -> bytes:
    return b"{" + line.removeprefix(_TYPE)


def _answer(waiter: asyncio.Future[bool] | None, *, is_delivered: bool) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(is_delivered)
