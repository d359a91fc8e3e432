"""Calls over HTTPS: one request to a service that is no API server, and its answer, or why there is none.

A service may be slow, wrong, enormous or dead. Connections are kept and bounded; a call has one deadline, into which
waiting for a connection counts; an answer may only be so large; nothing is followed to where it leads on. The texts are
those that Go's HTTP client and client-go would find (client-go/rest/request.go, 1.36).
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fairlead.client.tls import adopt, trusting_anybody
from fairlead.golang.json import UNREADABLE
from fairlead.golang.quoting import go_quote
from fairlead.runtime.offload import offload

if TYPE_CHECKING:
    import aiohttp  # slow to import, and most servers call nobody
    from multidict import CIMultiDict
    from yarl import URL

#: To each service.
MOST_CONNECTIONS: Final = 64
_MOST_QUOTED: Final = 2048
_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "Accept-Encoding": "identity",  # an answer is no larger than it says
}
#: What client-go makes of an answer that is no success (apimachinery, `NewGenericServerResponse`).
_REFUSALS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_PASSWORD: Final = re.compile(r"^([^/?#]*//[^/?#:@]*:)[^/?#]*@")
_SIGNED_BY_ITSELF: Final = 18
_UNKNOWN_AUTHORITY: Final = frozenset(
    {2, _SIGNED_BY_ITSELF, 19, 20, 21}
)  # X509_V_ERR_*: no way from the certificate to a root
_WRONG_NAMES: Final = frozenset({62, 64})
_EXPIRED: Final = frozenset({9, 10})


#: What aiohttp would say of itself.
_NOT_MADE_UP: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


#: What is sent: all of it, or piece by piece as it comes.
Body = bytes | AsyncIterator[bytes] | None


class CallError(Exception):
    """A service could not be called, or its answer is none; the message is Go's."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        #: With which it answered; 0: with none.
        self.code = code


class _Status(msgspec.Struct):
    status: str = ""
    message: str = ""


class Connections:
    """The connections to services. Whoever has made them closes them."""

    def __init__(self, user_agent: str = "kube-apiserver", most: int = MOST_CONNECTIONS) -> None:
        self._headers = _HEADERS | {"User-Agent": user_agent}
        self._most = most  # to each service; 0: as many as there are calls
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
        *,
        context: ssl.SSLContext,
        seconds: float,
        most: int,
        headers: Mapping[str, str] | None = None,
        server_name: str | None = None,
        place: Callable[[URL], URL] | None = None,
        allows_empty: bool = False,
    ) -> bytes:
        """The answer, which has at most so many bytes, and some unless it may have none. Raises CallError.

        `place` says where the host of the URL is to be found now, `server_name` whose certificate it must show.
        """
        await import_library()
        import aiohttp
        from yarl import URL

        asked, told = URL(url, encoded=True), f"{method.capitalize()} {go_quote(without_password(url))}"
        whole = {**self._headers, **(headers or {})}.items()
        try:
            async with (
                asyncio.timeout(seconds),
                self.opened(
                    method, asked, body, context=context, headers=whole, server_name=server_name, place=place
                ) as response,
            ):
                return await _answer(response, most, allows_empty=allows_empty)
        except TimeoutError:
            raise CallError(f"{told}: context deadline exceeded") from None
        except aiohttp.ClientError as error:
            raise CallError(f"{told}: {why(error, asked.host)}") from error

    @asynccontextmanager
    async def opened(
        self,
        method: str,
        url: URL,
        body: Body = None,
        *,
        context: ssl.SSLContext | None,
        headers: Iterable[tuple[str, str]],
        server_name: str | None = None,
        place: Callable[[URL], URL] | None = None,
        is_repeatable: bool = True,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer as far as its head, to be read on; closed at the end of the block. Raises what aiohttp raises.

        Where a kept connection turns out to be closed, the request is sent again if it is repeatable. A body that comes
        piece by piece is not.
        """
        await import_library()
        import aiohttp

        attempt = _Attempt()
        while True:
            try:
                response = await self._open().request(
                    method,
                    place(url) if place is not None else url,
                    data=body,
                    headers=_joined(headers),
                    skip_auto_headers=_NOT_MADE_UP,
                    ssl=context or True,
                    server_hostname=server_name,
                    allow_redirects=False,
                    trace_request_ctx=attempt,
                )
                break
            except aiohttp.ClientConnectorCertificateError as error:
                if context is None or not await attempt.introduces(error, context, server_name or url.host):
                    raise
            except aiohttp.ClientConnectionError as error:
                if not (is_repeatable and attempt.is_stale(error)):
                    raise
        try:
            yield response
        finally:
            response.close() if not response.content.at_eof() else response.release()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=self._most),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                trace_configs=[trace],
            )
        return self._session


async def import_library() -> None:
    """Have aiohttp imported beside the loop, which it would hold up for some tenths of a second.

    Whoever is the first waits here, and so does whoever comes meanwhile.
    """
    await offload(_library, is_long=not _library.cache_info().currsize)


@cache
def _library() -> ModuleType:
    return import_module("aiohttp")


class _Attempt:
    """One call, which is tried again if a kept connection turned out to be closed, or OpenSSL judged too soon."""

    def __init__(self) -> None:
        self.is_reused = False
        self._has_introduced = False

    async def introduces(
        self, error: aiohttp.ClientConnectorCertificateError, context: ssl.SSLContext, server_name: str | None
    ) -> bool:
        """Whether the one with this certificate is believed now: it only seemed to have signed it itself."""
        if self._has_introduced or getattr(error.certificate_error, "verify_code", 0) != _SIGNED_BY_ITSELF:
            return False
        self._has_introduced = True
        try:
            _, writer = await asyncio.open_connection(
                error.host, error.port, ssl=trusting_anybody(), server_hostname=server_name
            )
            certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.transport.abort()
        except OSError:
            return False
        return await offload(lambda: adopt(context, certificate), is_long=True)  # there may be thousands of authorities

    def is_stale(self, error: aiohttp.ClientConnectionError) -> bool:
        import aiohttp

        was_reused, self.is_reused = self.is_reused, False
        return was_reused and isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)


def _joined(headers: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    from multidict import CIMultiDict

    return CIMultiDict(headers)


async def _note_reuse(session: object, context: Any, params: object) -> None:
    context.trace_request_ctx.is_reused = True


async def _answer(response: aiohttp.ClientResponse, most: int, *, allows_empty: bool) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > most:
            response.close()
            raise CallError(f"the answer has more than {most} bytes")
        chunks.append(chunk)
    body = b"".join(chunks)
    if not 200 <= response.status <= 206:
        raise CallError(_refusal(response.status, response.content_type, body), response.status)
    if not body and not allows_empty:
        text = f"0-length response with status code: {response.status} and content type: "
        raise CallError(text + response.headers.get("Content-Type", ""))
    return body


def _refusal(code: int, media_type: str, body: bytes) -> str:
    """What an answer without success says; that of a `Status` is its own message."""
    try:
        status = msgspec.json.decode(body, type=_Status)
        if status.status == "Failure":
            return status.message
    except UNREADABLE:
        pass
    text = body[:_MOST_QUOTED].decode(errors="replace").strip() if media_type.startswith("text/") else "unknown"
    if code == 403:
        return text
    if code in _REFUSALS:
        return _REFUSALS[code]
    if code >= 500:
        return f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def without_password(url: str) -> str:
    """As Go tells of a URL in an error."""
    return _PASSWORD.sub(r"\1***@", url, count=1)


def why(error: Exception, host: str | None) -> str:
    """Why nothing came back, in Go's words."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _distrust(error.certificate_error, host)
        case aiohttp.ClientConnectorDNSError():
            return f"dial tcp: lookup {host}: no such host"
        case aiohttp.ClientConnectorSSLError():
            is_plain = "WRONG_VERSION_NUMBER" in str(error)
            return "http: server gave HTTP response to HTTPS client" if is_plain else f"remote error: tls: {error}"
        case aiohttp.ClientConnectorError():
            reason = (error.os_error.strerror or str(error.os_error)).lower()
            is_refused = isinstance(error.os_error, ConnectionRefusedError) or "connect call failed" in reason
            return f"dial tcp {error.host}:{error.port}: connect: {'connection refused' if is_refused else reason}"
        case aiohttp.ServerDisconnectedError():
            return "EOF"
        case aiohttp.ClientPayloadError():
            return "unexpected EOF"
        case aiohttp.ClientResponseError():
            return "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
    return str(error) or type(error).__name__


def _distrust(error: Exception, host: str | None) -> str:
    code = getattr(error, "verify_code", 0)
    if code in _UNKNOWN_AUTHORITY:
        why = "certificate signed by unknown authority"
    elif code in _WRONG_NAMES:
        why = f"certificate is not valid for any names, but wanted to match {host}"
    elif code in _EXPIRED:
        why = "certificate has expired or is not yet valid"
    else:
        why = getattr(error, "verify_message", "") or str(error)
    return f"tls: failed to verify certificate: x509: {why}"
