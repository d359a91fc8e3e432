"""Asks other API servers: in whose name, over which connection, and how each knows that it is this server which asks.

The name of the user goes along in headers. Who they are from is shown by a client certificate of the authority for
request headers, whose name and headers are published in kube-system/extension-apiserver-authentication.
Source: client-go/transport/round_trippers.go (`SetAuthProxyHeaders`), kube-aggregator `BuildTransportConfig` (1.36).
"""

from __future__ import annotations

import ssl
from base64 import b64decode
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from fairlead.api.users import MASTERS, User
from fairlead.caches import LruCache
from fairlead.client.calls import Body, Connections
from fairlead.client.tls import show, trusting, trusting_anybody
from fairlead.client.webhooks import Route
from fairlead.runtime.identity import Identity
from fairlead.server.aggregation.services import RemoteService

if TYPE_CHECKING:
    import aiohttp

#: As whom this server asks for itself.
AGGREGATOR: Final = User("system:kube-aggregator", (MASTERS,))
USER_HEADER: Final = "X-Remote-User"
UID_HEADER: Final = "X-Remote-Uid"
GROUP_HEADER: Final = "X-Remote-Group"
EXTRA_PREFIX: Final = "X-Remote-Extra-"

_MOST_CONTEXTS: Final = 200
_IN_HEADER_NAMES: Final = "!#$&'*+-.^_`|~"
_REPEATABLE: Final = ("GET", "HEAD", "OPTIONS")


class Backends:
    """The connections to other API servers. Whoever has made them closes them."""

    def __init__(self, route: Route) -> None:
        self._route = route
        #: What this server shows; None: nothing.
        self.identity: Identity | None = None
        self._connections = Connections(most=0)  # each watch of a client is one
        self._contexts: LruCache[tuple[str, bool], ssl.SSLContext] = LruCache(_MOST_CONTEXTS)

    async def close(self) -> None:
        await self._connections.close()

    def place(self, service: RemoteService) -> tuple[str, int]:
        """Where it listens now: host and port. ServiceError: nowhere."""
        return self._route(service.namespace, service.service, service.port)

    def address(self, service: RemoteService) -> str:
        """The same, as it stands in a URL."""
        host, port = self.place(service)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def context(self, service: RemoteService) -> ssl.SSLContext:
        """Whom to believe that it is the one. ValueError: what the APIService says of that makes no sense."""
        key = service.ca_bundle, service.is_insecure
        found = self._contexts.get(key)
        if found is None:
            found = trusting_anybody() if service.is_insecure else trusting(b64decode(service.ca_bundle))
            if self.identity is not None:
                show(found, self.identity.certificate, self.identity.key)
            self._contexts.put(key, found)
        return found

    def opened(
        self,
        service: RemoteService,
        address: str,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        body: Body = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """The answer to a request for this path and query, as far as its head."""
        from yarl import URL

        return self._connections.opened(
            method,
            URL(f"https://{address}{target}", encoded=True),
            body,
            context=self.context(service),
            headers=headers,
            server_name=service.host,
            is_repeatable=method in _REPEATABLE,
        )

    def opened_at(
        self, url: str, method: str, headers: Iterable[tuple[str, str]], body: Body = None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """The same of whoever listens there; nobody asks who that is."""
        from yarl import URL

        return self._connections.opened(
            method,
            URL(url, encoded=True),
            body,
            context=self.anybody if url.startswith("https:") else None,
            headers=headers,
            is_repeatable=method in _REPEATABLE,
        )

    @cached_property
    def anybody(self) -> ssl.SSLContext:
        """How whoever answers is believed."""
        return trusting_anybody()


def identifying(user: User) -> Iterator[tuple[str, str]]:
    """The headers that tell another server who asks."""
    yield USER_HEADER, user.name
    if user.uid:
        yield UID_HEADER, user.uid
    for group in user.groups:
        yield GROUP_HEADER, group
    for key, values in user.extra:
        for value in values:
            yield EXTRA_PREFIX + quote(key, safe=_IN_HEADER_NAMES), value
