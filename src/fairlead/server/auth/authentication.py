"""How clients log in: what an operator chose, put together in kube-apiserver's order.

Source: pkg/kubeapiserver/authenticator/config.go (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.api.users import ADMIN, User
from fairlead.server.account_tokens import AccountTokens, Finder, TokenVerifier
from fairlead.server.auth.authenticator import Authenticator, anonymous, shown_first
from fairlead.server.auth.bootstrap_tokens import bootstrap_tokens
from fairlead.server.auth.certificates import CertificateAuthenticator
from fairlead.server.auth.tokens import KnownTokens, TokenAuthenticator


@dataclass(frozen=True, slots=True)
class AnonymousAccess:
    """Whoever shows nothing comes in: to these paths, or to all if none is named."""

    paths: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """The ways to log in beside client certificates, the administrator's token and those of service accounts."""

    known_tokens: Mapping[str, User] = field(default_factory=dict)
    has_bootstrap_tokens: bool = False
    anonymous: AnonymousAccess | None = None


#: None but those.
NO_FURTHER: Final = AuthenticationSettings()


def bearer_tokens(
    settings: AuthenticationSettings, admin_token: str, accounts: AccountTokens, finder: Finder
) -> TokenAuthenticator:
    """What tells whose a bearer token is."""
    verifiers: list[TokenVerifier] = [KnownTokens({**settings.known_tokens, admin_token: ADMIN}), accounts]
    if settings.has_bootstrap_tokens:
        verifiers.append(bootstrap_tokens(finder))
    return TokenAuthenticator(*verifiers)


def authenticator(settings: AuthenticationSettings, bearer: TokenAuthenticator) -> Authenticator:
    """What tells who a client is."""
    others: list[Authenticator] = [CertificateAuthenticator()]
    if settings.anonymous is not None:
        others.append(anonymous(settings.anonymous.paths))
    return shown_first(bearer, *others)
