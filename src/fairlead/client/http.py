"""`Api` over HTTP: any API server that a kubeconfig names, a real Kubernetes included.

Components cannot tell it from the in-process registry. Connections are pooled and kept; a request that never reached
the server raises OSError, and whatever the server refuses raises the `ApiError` that it means.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec.structs import replace

from fairlead import __version__
from fairlead.api import errors
from fairlead.api.encoded import Encoded, beginning, encode, with_beginning
from fairlead.api.errors import ApiError, Cause
from fairlead.api.meta import View
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.verbs import (
    DELETE,
    LIST,
    WATCH,
    WRITE,
    DeleteOptions,
    EventType,
    Listing,
    ListQuery,
    PatchType,
    WatchEvent,
    WatchQuery,
    WriteOptions,
)
from fairlead.client.credential_plugin import Given, PluginCredentials
from fairlead.client.kubeconfig import Access, authorization_header, read_token
from fairlead.client.metrics import RestClientMetrics
from fairlead.client.proxies import proxy_of
from fairlead.client.tls import show, tls_of
from fairlead.client.unreachable import BadAnswer, Unreachable, UnusableKubeconfig
from fairlead.golang.json import UNREADABLE
from fairlead.runtime import rng
from fairlead.runtime.clock import monotonic, stopwatch
from fairlead.runtime.identity import Identity

#: How many objects one page of a list has; client-go's reflector asks for as many.
PAGE: Final = 500
#: A watch is asked anew after this long, and up to twice that, as client-go does, so that not all come at once.
WATCH_SECONDS: Final = 300.0
#: A watch that is silent for longer may be half dead, and is asked anew: a server need not send bookmarks at rest.
SILENCE_SECONDS: Final = 120.0
CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 60.0
#: How long a token is used before its file is read again, as client-go does.
TOKEN_SECONDS: Final = 60.0
MOST_CONNECTIONS: Final = 64
#: The longest line of a watch stream.
LONGEST_EVENT: Final = 16 << 20

_JSON: Final = "application/json"
T = TypeVar("T")
_UNAUTHORIZED: Final = 401


class _ListMeta(View):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _Typed(View):
    """What every object says of itself."""

    kind: str
    api_version: str


class _List(View):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(View):
    type: str
    object: msgspec.Raw


class _Details(View):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[Obj] | None = None
    retry_after_seconds: int = 0


class _Status(View):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None
    metadata: _ListMeta = _ListMeta()


#: What client-go makes of a 404 that is no Status.
_NO_SUCH_PATH: Final = "the server could not find the requested resource"

_typed = msgspec.json.Decoder(_Typed).decode
_list_of = msgspec.json.Decoder(_List).decode
_event_of = msgspec.json.Decoder(_Event).decode
_status_of = msgspec.json.Decoder(_Status).decode


class HttpApi:
    """The API server of one kubeconfig context. Use it as a context manager: it holds connections."""

    def __init__(
        self,
        access: Access,
        *,
        user_agent: str = f"fairlead/{__version__}",
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        """Raises UnusableKubeconfig if what it says of the server, its certificates or its proxy cannot be used."""
        self._access = access
        self._server = _server_of(access)
        self._tls = tls_of(access) if self._server.startswith("https") else None
        self._proxy = proxy_of(self._server, access.proxy)
        self._user_agent, self._connect_seconds = user_agent, connect_seconds
        self._token, self._token_at = access.token, 0.0
        self._plugin = PluginCredentials(access.plugin) if access.plugin is not None else None
        self._given: Given | None = None
        self._session: aiohttp.ClientSession
        self.metrics = RestClientMetrics(urlsplit(self._server).netloc)

    async def __aenter__(self) -> Self:
        given = await self._given_now()
        # who shows a certificate of a plugin shows it when a connection is made, and is to show the next one in time
        is_anew = given is not None and bool(given.certificate)
        connector = aiohttp.TCPConnector(
            limit=0, limit_per_host=MOST_CONNECTIONS + 32, ssl=self._tls or True, force_close=is_anew
        )
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=self._connect_seconds)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._user_agent},
            timeout=timeout,
            read_bufsize=1 << 20,
            max_line_size=1 << 16,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def show(self, identity: Identity) -> None:
        """Be who shows this certificate, on connections that are opened from now on."""
        if self._tls is not None:
            show(self._tls, identity.certificate, identity.key)

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Encoded:
        read = Encoded if subresource.startswith("proxy") else _object  # behind which somebody says what he likes
        return await self._answer(read, "GET", resource.path(name, namespace, subresource))

    async def list(self, resource: Resource, namespace: str = "", query: ListQuery = LIST) -> Listing:
        """All pages, unless the query asks for one.

        A limit would make a version exact, so a list as of a version comes in one piece, as client-go's reflector asks
        for it.
        """
        items: list[Encoded] = []
        path = resource.path(namespace=namespace)
        if not query.limit and query.resource_version in ("", "0"):
            query, is_whole = replace(query, limit=PAGE), True
        else:
            is_whole = False
        while True:
            page = await self._answer(partial(_listing, resource), "GET", path, _list_params(query))
            items += page.items
            if not (is_whole and page.continue_token):
                return replace(page, items=items)
            query = replace(  # the token says as of which version
                query, continue_token=page.continue_token, resource_version="", resource_version_match=""
            )

    async def watch(
        self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH
    ) -> AsyncIterator[WatchEvent]:
        """Ends when the server ends it, or is silent for long: ask again from the version of the last event."""
        seconds = query.timeout_seconds or WATCH_SECONDS * (1 + rng.source().random())
        params = _selected(query) | _without_empty(
            watch="1", timeoutSeconds=int(seconds), allowWatchBookmarks="true" if query.bookmarks else ""
        )
        if query.send_initial_events is not None:
            params["sendInitialEvents"] = str(query.send_initial_events).lower()
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        path = resource.path(namespace=namespace)
        try:
            async with self._sent("GET", path, params, limits=limits) as response:
                if response.status >= 400:
                    raise error_of(response.status, await response.read())
                try:
                    async for line in _lines(response.content):
                        yield self._understood(line, _read_event)
                except aiohttp.SocketTimeoutError:  # which is a ClientError too
                    return
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error)) from error

    async def create(
        self,
        resource: Resource,
        obj: Obj,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Encoded:
        namespace = namespace or metadata(obj).get("namespace", "")
        obj = {"apiVersion": resource.api_version, "kind": resource.kind} | obj
        path = resource.path(name if subresource else "", namespace, subresource)
        return await self._ask("POST", path, _write_params(options), encode(obj))

    async def update(
        self, resource: Resource, obj: Obj, *, subresource: str = "", options: WriteOptions = WRITE
    ) -> Encoded:
        meta = metadata(obj)
        obj = {"apiVersion": resource.api_version, "kind": resource.kind} | obj
        path = resource.path(meta["name"], meta.get("namespace", ""), subresource)
        return await self._ask("PUT", path, _write_params(options), encode(obj))

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        type_: PatchType = PatchType.MERGE,
        *,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Encoded:
        params = _write_params(options) | _without_empty(force="true" if options.force else "")
        path = resource.path(name, namespace, subresource)
        return await self._ask("PATCH", path, params, encode(patch), type_)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DELETE
    ) -> Encoded:
        return await self._ask("DELETE", resource.path(name, namespace), {}, encode(options.body()))

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        query: ListQuery = LIST,
        options: DeleteOptions = DELETE,
    ) -> Listing:
        path = resource.path(namespace=namespace)
        params, body = _list_params(query), encode(options.body())
        return await self._answer(partial(_listing, resource), "DELETE", path, params, body)

    async def _ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
    ) -> Encoded:
        """The object that it answers with."""
        return await self._answer(_object, method, path, params, body, content_type)

    async def _answer(
        self,
        read: Callable[[bytes], T],
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
    ) -> T:
        began, code = stopwatch(), None
        try:
            async with self._sent(method, path, params, body, content_type) as response:
                answer, code = await response.read(), response.status
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(self._server, _why(error)) from error
        finally:
            self.metrics.asked(method, code, stopwatch() - began)
        if response.status >= 400:
            raise error_of(response.status, answer)
        return self._understood(answer, read)

    def _understood(self, answer: bytes, read: Callable[[bytes], T]) -> T:
        """What stands before an API server may answer in its place, with a page to log in for example."""
        try:
            return read(answer)
        except (ValueError, RecursionError) as error:
            raise BadAnswer(self._server, str(error)) from None

    @asynccontextmanager
    async def _sent(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None = None,
        content_type: str = _JSON,
        limits: aiohttp.ClientTimeout | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        given = await self._given_now()
        token = given.token if given is not None else self._token_now()
        headers = {"Content-Type": str(content_type), "Accept": _JSON} | authorization_header(token, self._access)
        async with self._session.request(
            method,
            self._server + path,
            params=params,
            data=body,
            headers=[*headers.items(), *self._access.impersonation],
            timeout=limits or self._session.timeout,
            proxy=self._proxy,
            server_hostname=self._access.server_name or None,
        ) as response:
            if response.status == _UNAUTHORIZED and given is not None and self._plugin is not None:
                self._plugin.forget(given)
            yield response

    async def _given_now(self) -> Given | None:
        """What the plugin gives, if there is one. Raises NoCredentials."""
        if self._plugin is None:
            return None
        given = await self._plugin.current()
        if given is not self._given and given.certificate and self._tls is not None:
            show(self._tls, given.certificate, given.key)
        self._given = given
        return given

    def _token_now(self) -> str:
        file = self._access.token_file
        if file is not None and monotonic() >= self._token_at + TOKEN_SECONDS:
            self._token, self._token_at = read_token(file), monotonic()
        return self._token


# --- what is sent ---------------------------------------------------------------------------------------------------


def _server_of(access: Access) -> str:
    """Its URL: as for client-go, one without a scheme is of TLS if anything is said of certificates."""
    server = access.server.rstrip("/")
    if server and "://" not in server:
        has_tls = access.ca or access.client_certificate or access.insecure
        server = f"{'https' if has_tls else 'http'}://{server}"
    try:
        is_one = urlsplit(server).scheme in ("http", "https") and bool(urlsplit(server).hostname)
    except ValueError:
        is_one = False
    if not is_one:
        raise UnusableKubeconfig(f"the server of the kubeconfig is no URL: {access.server!r}")
    return server


def _why(error: Exception) -> str:
    """Why there is no answer, for people."""
    if isinstance(error, aiohttp.TooManyRedirects):
        return f"stopped after {len(error.history)} redirects"
    return str(error) or "it does not answer in time"


def _without_empty(**params: Any) -> dict[str, str]:
    return {name: str(value) for name, value in params.items() if value}


def _selected(query: ListQuery | WatchQuery) -> dict[str, str]:
    return _without_empty(
        labelSelector=query.labels,
        fieldSelector=query.fields,
        resourceVersion=query.resource_version,
        resourceVersionMatch=query.resource_version_match,
    )


def _list_params(query: ListQuery) -> dict[str, str]:
    return _selected(query) | _without_empty(limit=query.limit, **{"continue": query.continue_token})


def _write_params(options: WriteOptions) -> dict[str, str]:
    return _without_empty(
        dryRun="All" if options.dry_run else "",
        fieldManager=options.field_manager,
        fieldValidation=options.field_validation,
    )


# --- what comes back ------------------------------------------------------------------------------------------------


def _object(body: bytes) -> Encoded:
    """ValueError if it is none."""
    _typed(body)
    return Encoded(body)


def _listing(resource: Resource, body: bytes) -> Listing:
    """A page of a collection; its items do not say of what kind they are."""
    page, start = _list_of(body), beginning(resource.kind, resource.api_version)
    items = [Encoded(with_beginning(bytes(item), start)) for item in page.items or ()]
    meta = page.metadata
    return Listing(items, meta.resource_version, meta.continue_, meta.remaining_item_count)


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a stream, however long (StreamReader.readline has a limit)."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST_EVENT:
            raise ConnectionError("a watch event is longer than any object can be")
        for line in lines:
            if line:
                yield line


def _read_event(line: bytes) -> WatchEvent:
    event = _event_of(line)
    if event.type == EventType.ERROR:
        status = _status_of(event.object)
        raise error_of(status.code, bytes(event.object))
    return WatchEvent(EventType(event.type), Encoded(bytes(event.object)))


def error_of(code: int, body: bytes) -> ApiError:
    """The refusal that an answer means; one that is no `Status` keeps its code and its text."""
    try:
        status = _status_of(body)
    except UNREADABLE:  # paths that nobody serves are answered in plain text
        status = _Status(message=_NO_SUCH_PATH if code == 404 else body.decode(errors="replace")[:1024])
    kind = errors.class_of(code, status.reason)
    details = status.details or _Details()
    causes = [
        Cause(cause.get("reason", ""), cause.get("message", ""), cause.get("field", ""))
        for cause in details.causes or ()
    ]
    error = kind(
        status.message or f"the server answered {code}",
        name=details.name,
        group=details.group,
        kind=details.kind,
        uid=details.uid,
        causes=causes,
        retry_after_seconds=details.retry_after_seconds,
        shows_details=status.details is not None,
    )
    if isinstance(error, errors.Expired):
        error.continue_token = status.metadata.continue_
    return error
