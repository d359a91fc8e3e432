"""Calls of services that are no API servers: issuers of tokens, and webhooks that kubeconfigs name.

A service may be slow, wrong, enormous or dead. A call has one deadline, into which waiting for a connection counts; an
answer may only be so large; nothing is followed to where it leads on.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import aiohttp  # slow to import, and most servers call nobody

MOST_CONNECTIONS: Final = 64
_HEADERS: Final = {"Accept": "application/json, */*", "Accept-Encoding": "identity", "User-Agent": "kube-apiserver"}


class CallError(Exception):
    """There is no answer, or it is none; says why."""


class Refused(CallError):
    """The service answers, and not with success."""

    def __init__(self, code: int, body: bytes) -> None:
        super().__init__(f"the server answered {code}")
        self.code, self.body = code, body


class Service:
    """The connections to one service, which are kept and bounded. Whoever has made one closes it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float,
        most: int,
    ) -> bytes:
        """The answer, which has at most so many bytes. Raises CallError."""
        import aiohttp

        try:
            async with asyncio.timeout(seconds):
                try:
                    return await self._ask(method, url, body, headers or {}, most)
                except aiohttp.ServerDisconnectedError:  # a kept connection may be closed by now
                    return await self._ask(method, url, body, headers or {}, most)
        except TimeoutError:
            raise CallError(f'{method.capitalize()} "{url}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallError(f'{method.capitalize()} "{url}": {error or type(error).__name__}') from error

    async def _ask(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], most: int) -> bytes:
        async with self._open().request(
            method, url, data=body, headers={**_HEADERS, **headers}, ssl=self._context, allow_redirects=False
        ) as response:
            answer = await _bounded(response, most)
        if not 200 <= response.status < 300:
            raise Refused(response.status, answer)
        return answer

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session


async def _bounded(response: aiohttp.ClientResponse, most: int) -> bytes:
    answer = bytearray()
    async for chunk in response.content.iter_any():
        answer += chunk
        if len(answer) > most:
            response.close()
            raise CallError(f"the answer has more than {most} bytes")
    return bytes(answer)
