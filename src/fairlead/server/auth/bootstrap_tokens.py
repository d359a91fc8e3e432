"""Bootstrap tokens let in who shows them (`--enable-bootstrap-token-auth`).

Source: plugin/pkg/auth/authenticator/token/bootstrap (1.36).
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from fairlead.api.bootstrap_tokens import NAME_PREFIX, NAMESPACE, SECRET_TYPE, TOKEN, USER_PREFIX, BootstrapSecret
from fairlead.api.users import User
from fairlead.runtime.clock import now
from fairlead.server.account_tokens import Finder, TokenVerifier, Verified
from fairlead.server.auth.tokens import for_any_audience


def bootstrap_tokens(finder: Finder) -> TokenVerifier:
    """Tells tokens by the Secrets of kube-system."""

    async def verify(token: str, audiences: Sequence[str]) -> Verified | None:
        return for_any_audience(_user_of(finder, token), audiences)

    return verify


def _user_of(finder: Finder, token: str) -> User | None:
    shown = TOKEN.fullmatch(token)
    entry = finder.find("secrets", f"{NAME_PREFIX}{shown[1]}", NAMESPACE) if shown else None
    if shown is None or entry is None:
        return None
    secret = entry.view(BootstrapSecret)
    if secret.metadata.is_terminating or secret.type != SECRET_TYPE:
        return None
    if not hmac.compare_digest(secret.value("token-secret").encode("utf-8", "surrogateescape"), shown[2].encode()):
        return None
    if secret.value("token-id") != shown[1] or secret.value("usage-bootstrap-authentication") != "true":
        return None
    if secret.expires is not None and secret.expires <= now():
        return None
    groups = secret.groups
    return User(USER_PREFIX + shown[1], groups) if groups is not None else None
