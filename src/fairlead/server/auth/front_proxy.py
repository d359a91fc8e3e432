"""A front proxy says in headers in whose name a request is made, and is believed for its client certificate.

Only who shows a certificate of the authority for front proxies is believed; such a certificate is no user's itself, and
the headers of everybody else say nothing.
Source: apiserver, pkg/authentication/request/headerrequest (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import msgspec
from cryptography import x509

from fairlead.api.users import ANONYMOUS, UNAUTHENTICATED, User, authenticated
from fairlead.runtime.tls_peers import TlsPeers
from fairlead.server.auth.authenticator import Credentials


class FrontProxySettings(msgspec.Struct, frozen=True):
    """Who may say it, and in which headers. Names of headers are as clients may write them, in any case."""

    #: PEM.
    authorities: bytes
    username_headers: tuple[str, ...]
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()
    #: Common names of certificates; any, if none is named.
    allowed_names: tuple[str, ...] = ()

    @property
    def issuers(self) -> list[x509.Certificate]:
        """ValueError: it is no PEM."""
        return x509.load_pem_x509_certificates(self.authorities)


class FrontProxy:
    """Tells users by what a front proxy says of them."""

    def __init__(self, settings: FrontProxySettings) -> None:
        self._peers, self._allowed = TlsPeers(settings.issuers), frozenset(settings.allowed_names)
        self._names = _lower(settings.username_headers)
        self._uids, self._groups = _lower(settings.uid_headers), _lower(settings.group_headers)
        self._extra = _lower(settings.extra_prefixes)

    async def __call__(self, credentials: Credentials) -> User | None:
        peer = self._peers.user(credentials.transport)
        if peer is None or (self._allowed and peer.name not in self._allowed):
            return None
        headers = credentials.every_header
        name = _first(headers, self._names)
        if not name:
            return None
        groups = tuple(value for wanted in self._groups for key, value in _texts(headers) if key == wanted)
        user = User(name, groups, _first(headers, self._uids), self._extra_values(headers))
        known = {*self._names, *self._uids, *self._groups}
        credentials.used.update(key for key, _ in headers if key in known or key.startswith(self._extra))
        is_known = name != ANONYMOUS and UNAUTHENTICATED not in groups
        return authenticated(user) if is_known else user

    def _extra_values(self, headers: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        extra: dict[str, list[str]] = {}
        for key, value in _texts(headers):
            for prefix in self._extra:
                if key.startswith(prefix):
                    name = unquote(key.removeprefix(prefix).decode("utf-8", "replace"))
                    extra.setdefault(name, []).append(value)
        return tuple(sorted((name, tuple(values)) for name, values in extra.items()))


def _lower(names: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(name.lower().encode() for name in names)


def _first(headers: Sequence[tuple[bytes, bytes]], names: Sequence[bytes]) -> str:
    """The value of the first of these that is not empty; of one that comes more than once only the first counts."""
    values: dict[bytes, str] = {}
    for key, value in _texts(headers):
        values.setdefault(key, value)
    return next((values[name] for name in names if values.get(name)), "")


def _texts(headers: Sequence[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, str]]:
    return ((key, value.decode("utf-8", "replace")) for key, value in headers)
