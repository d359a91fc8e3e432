"""Calls webhooks: one POST of JSON to whatever a `clientConfig` names, and its answer, or why there is none.

Each webhook has its own connections: nobody else waits for one that is slow.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from posixpath import normpath
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fairlead.api.objects import Obj
from fairlead.caches import LruCache
from fairlead.client.calls import CallError, Connections
from fairlead.client.tls import show, trusting
from fairlead.client.webhook_credentials import Credential, WebhookCredentials
from fairlead.golang.quoting import go_quote
from fairlead.runtime.loops import VirtualLoop

if TYPE_CHECKING:
    from yarl import URL

#: Where a service listens: its namespace, name and port become an address and a port. ServiceError: nowhere.
Route = Callable[[str, str, int], tuple[str, int]]

_MOST_CONTEXTS: Final = 200
_PORT: Final = 443


class ServiceError(Exception):
    """A service leads nowhere."""


class WebhookClient:
    """All webhooks of a server. Whoever has made one closes it."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._contexts: LruCache[tuple[str, Credential | None], ssl.SSLContext] = LruCache(_MOST_CONTEXTS)
        self._connections = Connections("kube-apiserver-admission")
        #: Whether the server serves: what it writes itself before that must not wait for those that may run on it.
        self.has_begun = False

    @contextmanager
    def silent(self) -> Iterator[None]:
        """While the block runs nobody is asked: they may run in the cluster that is only begun."""
        before, self.has_begun = self.has_begun, False
        try:
            yield
        finally:
            self.has_begun = before

    async def close(self) -> None:
        await self._connections.close()

    async def post(
        self,
        config: Obj,
        body: bytes,
        *,
        seconds: float,
        most: int,
        credentials: WebhookCredentials | None = None,
    ) -> bytes:
        """The answer, which has at most so many bytes. Raises CallError."""
        location = _location(config)
        shown = credentials.find(*_target_of(location)) if credentials is not None else None
        context = self._context(config.get("caBundle") or "", shown)
        url = f"{location}?timeout={ceil(seconds)}s"
        server_name, headers = None, await _headers(shown)
        if config.get("service"):
            host = url.split("/", 3)[2]
            server_name, headers["Host"] = host.rpartition(":")[0], host
        try:
            return await self._connections.ask(
                "POST",
                url,
                body,
                context=context,
                seconds=seconds,
                most=most,
                headers=headers,
                server_name=server_name,
                place=partial(self._target, config),
            )
        except ServiceError as error:
            raise CallError(f"Post {go_quote(url)}: {error}") from error

    def _target(self, config: Obj, url: URL) -> URL:
        """The URL of the place where a service listens now."""
        service = config.get("service")
        if service is None:
            return url
        host, port = self._route(service["namespace"], service["name"], service.get("port", _PORT))
        return url.with_host(host).with_port(port)

    def _context(self, bundle: str, shown: Credential | None) -> ssl.SSLContext:
        """Trusts the authorities of a bundle (base64), or of the system if there is none."""
        found = self._contexts.get((bundle, shown))
        if found is None:
            try:
                found = trusting(b64decode(bundle))
                if shown is not None and shown.access.client_certificate and shown.access.client_key:
                    show(found, shown.access.client_certificate, shown.access.client_key)
            except ValueError as error:
                raise CallError(f"could not get REST client: {error}") from None
            self._contexts.put((bundle, shown), found)
        return found


async def _headers(shown: Credential | None) -> dict[str, str]:
    try:
        return await shown.headers() if shown is not None else {}
    except OSError as error:
        raise CallError(f"could not get REST client: {error}") from None


def _target_of(location: str) -> tuple[str, int]:
    """Host and port of a URL, by which the users of a kubeconfig are named."""
    try:
        parts = urlsplit(location)
        return parts.hostname or "", parts.port or _PORT
    except ValueError as error:
        raise CallError(f"could not get REST client: {error}") from None


def is_callable() -> bool:
    """Whether webhooks can be called: in virtual time they would be given no time to answer."""
    return not isinstance(asyncio.get_running_loop(), VirtualLoop)


def _location(config: Obj) -> str:
    """The URL of a webhook."""
    service = config.get("service")
    if service is None:
        scheme, _, rest = config["url"].partition("://")
        host, _, path = rest.partition("/")
        return f"{scheme}://{host}{_clean(path)}"
    host = f"{service['name']}.{service['namespace']}.svc:{service.get('port', _PORT)}"
    return f"https://{host}{_clean(service.get('path') or '')}"


def _clean(path: str) -> str:
    """A path as Go's path.Join leaves it: servers send those who ask for one with two slashes elsewhere."""
    return "/" + normpath(f"/{path}").lstrip("/")
