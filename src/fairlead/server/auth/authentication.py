"""How clients log in: what an operator chose, put together in kube-apiserver's order.

Source: pkg/kubeapiserver/authenticator/config.go (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509

from fairlead.api.users import ADMIN, User
from fairlead.client.reviews import ReviewService
from fairlead.server.account_tokens import ISSUER, AccountTokens, Finder, TokenVerifier
from fairlead.server.auth.authenticator import Authenticator, anonymous, first_of, shown_first
from fairlead.server.auth.bootstrap_tokens import bootstrap_tokens
from fairlead.server.auth.certificates import CertificateAuthenticator
from fairlead.server.auth.front_proxy import FrontProxy, FrontProxySettings
from fairlead.server.auth.oidc.configuration import AuthenticationConfiguration, JwtIssuer, parsed
from fairlead.server.auth.oidc.issuers import Issuers
from fairlead.server.auth.oidc.keys import ALGORITHMS
from fairlead.server.auth.reloading import follow
from fairlead.server.auth.tokens import KnownTokens, TokenAuthenticator
from fairlead.server.auth.webhooks.tokens import TokenWebhook


class AnonymousAccess(msgspec.Struct, frozen=True):
    """Whoever shows nothing comes in: to these paths, or to all if none is named."""

    paths: frozenset[str] = frozenset()


class AuthenticationFile(msgspec.Struct, frozen=True):
    """An AuthenticationConfiguration, and what it said at the start; its issuers are those of the file at any time."""

    path: Path
    data: bytes


class TokenWebhookSettings(msgspec.Struct, frozen=True):
    """A service that tells whose a token is."""

    kubeconfig: Path
    version: str = "v1beta1"
    cache_seconds: float = 120.0


class AuthenticationSettings(msgspec.Struct, frozen=True):
    """The ways to log in beside client certificates, the administrator's token and those of service accounts."""

    known_tokens: Mapping[str, User] = msgspec.field(default_factory=dict)
    has_bootstrap_tokens: bool = False
    anonymous: AnonymousAccess | None = None
    issuers: tuple[JwtIssuer, ...] = ()
    #: What their tokens may be signed with.
    algorithms: tuple[str, ...] = ALGORITHMS
    file: AuthenticationFile | None = None
    webhook: TokenWebhookSettings | None = None
    front_proxy: FrontProxySettings | None = None


#: None but those.
NO_FURTHER: Final = AuthenticationSettings()


def read_configuration(data: bytes) -> AuthenticationConfiguration:
    """What an AuthenticationConfiguration says; ValueError."""
    return parsed(data, {ISSUER})


class Authentication:
    """What tells who a client is."""

    def __init__(
        self,
        settings: AuthenticationSettings,
        admin_token: str,
        accounts: AccountTokens,
        finder: Finder,
        client_authority: Sequence[x509.Certificate] = (),
    ) -> None:
        """`client_authority` signs the certificates of users, where front proxies have an authority of their own."""
        self._file = settings.file
        self._issuers = Issuers(settings.issuers, settings.algorithms)
        verifiers: list[TokenVerifier] = [KnownTokens({**settings.known_tokens, admin_token: ADMIN}), accounts]
        if settings.has_bootstrap_tokens:
            verifiers.append(bootstrap_tokens(finder))
        if settings.issuers or settings.file:
            verifiers.append(self._issuers)
        self._webhook: TokenWebhook | None = None
        if (webhook := settings.webhook) is not None:
            self._webhook = TokenWebhook(ReviewService(webhook.kubeconfig), webhook.version, webhook.cache_seconds)
            verifiers.append(self._webhook)
        bearer = TokenAuthenticator(*verifiers)
        front_proxy = settings.front_proxy
        if front_proxy is not None and not client_authority:
            raise ValueError("whose certificates are users' must be known beside front proxies")
        others: list[Authenticator] = [CertificateAuthenticator(client_authority if front_proxy else ())]
        if settings.anonymous is not None:
            others.append(anonymous(settings.anonymous.paths))
        self.verify_token: TokenVerifier = bearer.verify
        self.authenticate: Authenticator = shown_first(bearer, *others)
        if front_proxy is not None:
            self.authenticate = first_of(FrontProxy(front_proxy), self.authenticate)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep up with the file while the block runs, and end what is under way after it."""
        file = self._file
        following = asyncio.create_task(follow(file.path, file.data, self._apply)) if file is not None else None
        try:
            yield
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            await self._issuers.close()
            if self._webhook is not None:
                await self._webhook.close()

    def _apply(self, data: bytes) -> None:
        self._issuers.replace(read_configuration(data).issuers)
