"""Calls webhooks: one POST of JSON to whatever a `clientConfig` names, and its answer, or why there is none.

A webhook may be slow, wrong, enormous or dead. Each has its own connections, which are kept and bounded; a call has one
deadline, into which waiting for a connection counts; an answer may only be so large. So nobody else waits for it.
The texts are those that Go's HTTP client and client-go would find (client-go/rest/request.go, 1.36).
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.caches import LruCache
from fairlead.golang.quoting import go_quote
from fairlead.runtime.loops import VirtualLoop

if TYPE_CHECKING:
    import aiohttp  # slow to import, and most servers have no webhooks
    from yarl import URL

#: Where a service listens: its namespace, name and port become an address and a port. ServiceError: nowhere.
Route = Callable[[str, str, int], tuple[str, int]]

MOST_CONNECTIONS: Final = 64
_MOST_CONTEXTS: Final = 200
_MOST_QUOTED: Final = 2048
_PORT: Final = 443
_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "Accept-Encoding": "identity",  # an answer is no larger than it says
    "User-Agent": "kube-apiserver-admission",
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
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})  # X509_V_ERR_*: no way from the certificate to a root
_WRONG_NAMES: Final = frozenset({62, 64})
_EXPIRED: Final = frozenset({9, 10})


class CallError(Exception):
    """A webhook could not be called, or its answer is none; the message is Go's."""


class ServiceError(Exception):
    """A service leads nowhere."""


class _Status(msgspec.Struct):
    status: str = ""
    message: str = ""


class WebhookClient:
    """All webhooks of a server. Whoever has made one closes it."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._contexts: LruCache[str, ssl.SSLContext] = LruCache(_MOST_CONTEXTS)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, config: Obj, body: bytes, *, seconds: float, most: int) -> bytes:
        """The answer, which has at most so many bytes. Raises CallError."""
        context = self._context(config.get("caBundle") or "")
        url = f"{_location(config)}?timeout={ceil(seconds)}s"
        try:
            async with asyncio.timeout(seconds):
                return await self._post(config, url, context, body, most)
        except TimeoutError:
            raise CallError(f"Post {go_quote(url)}: context deadline exceeded") from None

    async def _post(self, config: Obj, url: str, context: ssl.SSLContext, body: bytes, most: int) -> bytes:
        import aiohttp
        from yarl import URL

        session, attempt, asked = self._open(), _Attempt(), URL(url, encoded=True)
        server_name, headers = None, _HEADERS
        if config.get("service"):
            server_name, headers = asked.host, _HEADERS | {"Host": url.split("/", 3)[2]}
        while True:
            try:
                async with session.post(
                    self._target(config, asked),
                    data=body,
                    headers=headers,
                    ssl=context,
                    server_hostname=server_name,
                    allow_redirects=False,
                    trace_request_ctx=attempt,
                ) as response:
                    return await _answer(response, most)
            except aiohttp.ClientConnectionError as error:
                if attempt.is_stale(error):
                    continue
                raise CallError(f"Post {go_quote(url)}: {_why(error, asked.host)}") from error
            except (aiohttp.ClientError, ServiceError) as error:
                raise CallError(f"Post {go_quote(url)}: {_why(error, asked.host)}") from error

    def _target(self, config: Obj, url: URL) -> URL:
        """The URL of the place where a service listens now."""
        service = config.get("service")
        if service is None:
            return url
        host, port = self._route(service["namespace"], service["name"], service.get("port", _PORT))
        return url.with_host(host).with_port(port)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=MOST_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                trace_configs=[trace],
            )
        return self._session

    def _context(self, bundle: str) -> ssl.SSLContext:
        """Trusts the authorities of a bundle (base64), or of the system if there is none."""
        found = self._contexts.get(bundle)
        if found is None:
            found = _context(b64decode(bundle).decode("latin-1").strip())
            self._contexts.put(bundle, found)
        return found


def is_callable() -> bool:
    """Whether webhooks can be called: in virtual time they would be given no time to answer."""
    return not isinstance(asyncio.get_running_loop(), VirtualLoop)


class _Attempt:
    """One call, which is tried again if a kept connection turned out to be closed."""

    def __init__(self) -> None:
        self.is_reused = False

    def is_stale(self, error: aiohttp.ClientConnectionError) -> bool:
        import aiohttp

        was_reused, self.is_reused = self.is_reused, False
        return was_reused and isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)


async def _note_reuse(session: object, context: Any, params: object) -> None:
    context.trace_request_ctx.is_reused = True


def _location(config: Obj) -> str:
    """The URL of a webhook."""
    service = config.get("service")
    if service is None:
        found: str = config["url"]
        return found
    path = (service.get("path") or "").removeprefix("/")
    return f"https://{service['name']}.{service['namespace']}.svc:{service.get('port', _PORT)}/{path}"


def _context(authorities: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # Go trusts any certificate of a bundle, no roots alone
    if not authorities:
        context.load_default_certs()
        return context
    try:
        context.load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError):
        text = "unable to load root certificates: unable to parse bytes as PEM block"
        raise CallError(f"could not get REST client: {text}") from None
    return context


async def _answer(response: aiohttp.ClientResponse, most: int) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > most:
            response.close()
            raise CallError(f"the answer has more than {most} bytes")
        chunks.append(chunk)
    body = b"".join(chunks)
    if not 200 <= response.status <= 206:
        raise CallError(_refusal(response.status, response.content_type, body))
    if not body:
        text = f"0-length response with status code: {response.status} and content type: "
        raise CallError(text + response.headers.get("Content-Type", ""))
    return body


def _refusal(code: int, media_type: str, body: bytes) -> str:
    """What an answer without success says; that of a `Status` is its own message."""
    try:
        status = msgspec.json.decode(body, type=_Status)
        if status.status == "Failure":
            return status.message
    except msgspec.DecodeError:
        pass
    text = body[:_MOST_QUOTED].decode(errors="replace").strip() if media_type.startswith("text/") else "unknown"
    if code == 403:
        return text
    if code in _REFUSALS:
        return _REFUSALS[code]
    if code >= 500:
        return f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def _why(error: Exception, host: str | None) -> str:
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
