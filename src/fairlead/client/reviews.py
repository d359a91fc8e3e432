"""A service that answers reviews: an object is sent, and comes back with its status.

Source: k8s.io/apiserver, pkg/util/webhook (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.meta import View
from fairlead.client.calls import CallError
from fairlead.client.kubeconfig_service import FIRST_WAIT_SECONDS, SECONDS, KubeconfigService, back_off
from fairlead.golang.json import UNREADABLE
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import monotonic

T = TypeVar("T")

#: How large an answer may be.
_MOST_BYTES: Final = 64 << 10
#: So many calls are under way or wait for a connection; who comes then is told at once that there are too many.
_MOST_CALLS: Final = 512
#: What is tried again.
_PASSING: Final = frozenset((429, 500, 504))
#: A service that fails is told of once in so many seconds.
_SILENCE_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class _Review(View):
    api_version: str = ""
    kind: str = ""
    status: msgspec.Raw = msgspec.Raw(b"{}")


class ReviewService:
    """One service. Whoever has made it closes it. ValueError or OSError: the kubeconfig cannot be used."""

    def __init__(self, file: Path, seconds: float = SECONDS, first_wait_seconds: float = FIRST_WAIT_SECONDS) -> None:
        self._service, self._seconds = KubeconfigService(file, seconds), seconds
        self._waits = partial(back_off, first_wait_seconds)
        self._calls, self._told_at = 0, float("-inf")

    async def close(self) -> None:
        await self._service.close()

    async def review(self, kind: str, api_version: str, spec: Mapping[str, Any], empty: Any, type_: type[T]) -> T:
        """The status of a review with that spec. Raises CallError."""
        review = {"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": spec, "status": empty}
        if self._calls >= _MOST_CALLS:
            raise CallError(f"Post {go_quote(self._service.url)}: too many calls are under way")
        self._calls += 1
        try:
            return _status_in(await self._patiently(encode(review)), kind, api_version, type_)
        except CallError as error:
            self._tell(error)
            raise
        finally:
            self._calls -= 1

    def _tell(self, error: CallError) -> None:
        if monotonic() >= self._told_at + _SILENCE_SECONDS:
            self._told_at = monotonic()
            log.error("Failed to make webhook request: %s", error)

    async def _patiently(self, body: bytes) -> bytes:
        """The answer; what fails for the moment is tried again while there is time."""
        try:
            async with asyncio.timeout(self._seconds):
                for wait in self._waits():
                    try:
                        return await self._service.post(body, most=_MOST_BYTES)
                    except CallError as error:
                        if error.code not in _PASSING:
                            raise
                    await asyncio.sleep(wait)
                return await self._service.post(body, most=_MOST_BYTES)
        except TimeoutError:
            raise CallError(f"Post {go_quote(self._service.url)}: context deadline exceeded") from None


def _status_in(answer: bytes, kind: str, api_version: str, type_: type[T]) -> T:
    try:
        found = msgspec.json.decode(answer, type=_Review)
        if (found.kind or kind, found.api_version or api_version) != (kind, api_version):
            raise CallError(f"the answer is no {kind} of {api_version}, but {found.kind} of {found.api_version}")
        return msgspec.json.decode(found.status, type=type_)
    except UNREADABLE as error:
        raise CallError(f"the answer cannot be read: {error}") from None
