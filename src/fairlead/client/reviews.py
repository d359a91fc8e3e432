"""A service that answers reviews: an object is sent, and comes back with its status.

Source: k8s.io/apiserver, pkg/util/webhook (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.meta import View
from fairlead.client import kubeconfig
from fairlead.client.calls import CallError, Connections
from fairlead.client.tls import tls_of
from fairlead.golang.quoting import go_quote
from fairlead.runtime import rng
from fairlead.runtime.clock import monotonic

T = TypeVar("T")

#: How long an answer may take, unless something else is said, and how large it may be.
SECONDS: Final = 30.0
_MOST_BYTES: Final = 64 << 10
#: So many calls are under way or wait for a connection; who comes then is told at once that there are too many.
_MOST_CALLS: Final = 512
#: What is tried again, how often, and how long is waited before: that and half as much more each time.
_PASSING: Final = frozenset((429, 500, 504))
_MOST_TRIES: Final = 5
_FIRST_WAIT_SECONDS: Final = 0.5
#: A service that fails is told of once in so many seconds.
_SILENCE_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class _Review(View):
    api_version: str = ""
    kind: str = ""
    status: msgspec.Raw = msgspec.Raw(b"{}")


class ReviewService:
    """One service. Whoever has made it closes it. ValueError or OSError: the kubeconfig cannot be used."""

    def __init__(self, file: Path, seconds: float = SECONDS, first_wait_seconds: float = _FIRST_WAIT_SECONDS) -> None:
        self._access = kubeconfig.load(file)
        if not self._access.server:
            raise ValueError(f"{file}: the current context has no server")
        self._context, self._seconds, self._first_wait = tls_of(self._access), seconds, first_wait_seconds
        self._connections = Connections()
        self._calls, self._told_at = 0, float("-inf")

    async def close(self) -> None:
        await self._connections.close()

    async def review(self, kind: str, api_version: str, spec: Mapping[str, Any], empty: Any, type_: type[T]) -> T:
        """The status of a review with that spec. Raises CallError."""
        review = {"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": spec, "status": empty}
        if self._calls >= _MOST_CALLS:
            raise CallError(f"Post {go_quote(self._access.server)}: too many calls are under way")
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
        wait = self._first_wait
        try:
            async with asyncio.timeout(self._seconds):
                for _ in range(_MOST_TRIES - 1):
                    try:
                        return await self._post(body)
                    except CallError as error:
                        if error.code not in _PASSING:
                            raise
                    await asyncio.sleep(wait * (1 + 0.2 * rng.source().random()))
                    wait *= 1.5
                return await self._post(body)
        except TimeoutError:
            raise CallError(f"Post {go_quote(self._access.server)}: context deadline exceeded") from None

    async def _post(self, body: bytes) -> bytes:
        access, headers = self._access, dict[str, str]()
        token = access.token
        if access.token_file is not None:
            token = await asyncio.to_thread(kubeconfig.read_token, access.token_file)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return await self._connections.ask(
            "POST",
            access.server,
            body,
            context=self._context,
            seconds=self._seconds,
            most=_MOST_BYTES,
            headers=headers,
        )


def _status_in(answer: bytes, kind: str, api_version: str, type_: type[T]) -> T:
    try:
        found = msgspec.json.decode(answer, type=_Review)
        if (found.kind or kind, found.api_version or api_version) != (kind, api_version):
            raise CallError(f"the answer is no {kind} of {api_version}, but {found.kind} of {found.api_version}")
        return msgspec.json.decode(found.status, type=type_)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CallError(f"the answer cannot be read: {error}") from None
