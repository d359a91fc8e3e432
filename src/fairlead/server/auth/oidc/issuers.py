"""Tells whose a token is, by the issuer that it names."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import jwt
import msgspec

from fairlead.api.users import User
from fairlead.caches import LruCache
from fairlead.client.kubeconfig import Access
from fairlead.client.tls import tls_of
from fairlead.golang.json import UNREADABLE
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import now
from fairlead.server.account_tokens import InvalidToken, Verified
from fairlead.server.auth.oidc import claims
from fairlead.server.auth.oidc.configuration import JwtIssuer
from fairlead.server.auth.oidc.keys import ALGORITHMS, BadSignature, KeySource
from fairlead.server.auth.tokens import for_any_audience

#: How long a token counts as good that was, as kube-apiserver's `TokenSuccessCacheTTL`; and how many are remembered.
_REMEMBERED_SECONDS: Final = 10.0
_MOST_REMEMBERED: Final = 1024
#: By how much clocks may differ where a token says from when on it is good.
_LEEWAY_SECONDS: Final = 300.0
_GOOGLE: Final = "accounts.google.com"


class _Standard(msgspec.Struct):
    """What every token says."""

    iss: str = ""
    aud: str | list[str] | None = None
    exp: float | None = None
    nbf: float | None = None


class _Known(msgspec.Struct, frozen=True):
    user: User
    until: float


class Issuers:
    """The issuers whose tokens let somebody in; they can be exchanged while the server runs."""

    def __init__(self, issuers: Iterable[JwtIssuer] = (), algorithms: Sequence[str] = ALGORITHMS) -> None:
        self._algorithms = frozenset(algorithms)
        self._closing = set[asyncio.Task[None]]()
        self._verifiers: dict[str, _Verifier] = {}
        self.replace(issuers)

    def replace(self, issuers: Iterable[JwtIssuer]) -> None:
        """From now on trust these."""
        old = self._verifiers.values()
        self._verifiers = {issuer.configuration.issuer.url: _Verifier(issuer, self._algorithms) for issuer in issuers}
        for verifier in old:
            task = asyncio.get_running_loop().create_task(verifier.keys.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for verifier in self._verifiers.values():
            await verifier.keys.close()
        await asyncio.gather(*self._closing)

    async def __call__(self, token: str, audiences: Sequence[str]) -> Verified | None:
        payload = _payload(token)
        said = _standard(payload) if payload is not None else None
        verifier = self._verifiers.get(said.iss) if said is not None else None
        if payload is None or said is None or verifier is None:
            return None
        return for_any_audience(await verifier.user_of(token, payload, said), audiences)


class _Verifier:
    """One issuer."""

    def __init__(self, issuer: JwtIssuer, algorithms: frozenset[str]) -> None:
        self._issuer, self._algorithms = issuer, algorithms
        named = issuer.configuration.issuer
        context = tls_of(Access("", ca=named.certificate_authority.encode() or None))
        self.keys = KeySource(named.url, named.discovery_url, context)
        self._known: LruCache[bytes, _Known] = LruCache(_MOST_REMEMBERED)

    async def user_of(self, token: str, payload: bytes, said: _Standard) -> User:
        digest = hashlib.sha256(token.encode()).digest()
        known = self._known.get(digest)
        if known is not None and now() < known.until:
            return known.user
        try:
            self._check(said)
            await self.keys.verify(token, *self._header(token))
        except BadSignature as error:
            raise InvalidToken(f"oidc: verify token: failed to verify signature: {error}") from None
        user = claims.user_of(self._issuer, claims.read(payload))
        assert said.exp is not None
        self._known.put(digest, _Known(user, min(now() + _REMEMBERED_SECONDS, said.exp)))
        return user

    def _check(self, said: _Standard) -> None:
        """What a token says must be for us and for now; looked at before its signature, as upstream does."""
        meant = [said.aud] if isinstance(said.aud, str) else said.aud or []
        audiences = self._issuer.configuration.issuer.audiences
        if not set(meant) & set(audiences):
            wanted = go_quote(audiences[0]) if len(audiences) == 1 else _listed(sorted(audiences))
            raise InvalidToken(f"oidc: verify token: oidc: expected audience in {wanted} got {_listed(meant)}")
        if (said.exp or 0) <= now():
            raise InvalidToken(f"oidc: verify token: oidc: token is expired (Token Expiry: {_shown(said.exp or 0)})")
        if said.nbf is not None and now() + _LEEWAY_SECONDS < said.nbf:
            told = f"oidc: current time {_shown(now())} before the nbf (not before) time: {_shown(said.nbf)}"
            raise InvalidToken(f"oidc: verify token: {told}")

    def _header(self, token: str) -> tuple[str, str]:
        """The name of the key, and the algorithm."""
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.InvalidTokenError, RecursionError):
            raise InvalidToken("oidc: verify token: oidc: malformed jwt: invalid header") from None
        if "crit" in header:  # what must be understood is not
            raise InvalidToken("oidc: verify token: oidc: malformed jwt: unsupported crit header")
        key_id, algorithm = header.get("kid") or "", header.get("alg")
        if algorithm not in self._algorithms:
            told = f"expected {_listed(sorted(self._algorithms))} got {go_quote(str(algorithm))}"
            raise InvalidToken(f"oidc: verify token: oidc: id token signed with unsupported algorithm, {told}")
        return str(key_id), str(algorithm)


def _payload(token: str) -> bytes | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        return base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


_standard_of = msgspec.json.Decoder(_Standard, strict=True).decode


def _standard(payload: bytes) -> _Standard | None:
    try:
        said = _standard_of(payload)
    except UNREADABLE:
        return None
    if said.iss == _GOOGLE:  # as Google's old tokens name it
        said.iss = f"https://{_GOOGLE}"
    return said


def _listed(values: Iterable[str]) -> str:
    return f"[{' '.join(map(go_quote, values))}]"


def _shown(at: float) -> str:
    """A time as Go prints it."""
    try:
        return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
    except (OverflowError, ValueError, OSError):
        return f"{at:g}"
