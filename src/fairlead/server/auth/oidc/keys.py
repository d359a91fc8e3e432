"""The public keys of an issuer: found by OpenID discovery, fetched beside the loop, kept.

A token whose key nobody knows makes them be fetched anew, as a key may just have been made; but only one fetch is under
way at a time, and none begins soon after another: who makes up tokens makes no more calls than time allows.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any, Final

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from fairlead.client.calls import CallError, Connections
from fairlead.golang.json import UNREADABLE
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import monotonic
from fairlead.runtime.offload import offload

WELL_KNOWN: Final = "/.well-known/openid-configuration"
#: How long discovery or the keys may take to come, how large they may be, and how many keys are looked at.
_SECONDS: Final = 10.0
_MOST_BYTES: Final = 1 << 20
_MOST_KEYS: Final = 64
#: The largest RSA key: to verify a signature takes longer than in proportion.
_MOST_BITS: Final = 8192
#: How many keys are tried where a token does not say which.
_MOST_TRIED: Final = 8
#: No fetch begins sooner after the last; keys that are older are fetched anew although they are known.
_BETWEEN_SECONDS: Final = 10.0
_FRESH_SECONDS: Final = 3600.0

_RSA: Final = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))
_CURVES: Final = {
    "secp256r1": frozenset(("ES256",)),
    "secp384r1": frozenset(("ES384",)),
    "secp521r1": frozenset(("ES512",)),
}
#: Signatures that are made with one key and verified with another: the key that everybody knows must not make any.
ALGORITHMS: Final = tuple(sorted(_RSA.union(*_CURVES.values())))

log = logging.getLogger(__name__)
_jws = jwt.PyJWS()


class BadSignature(Exception):
    """No key of the issuer has made this signature."""


class Key(msgspec.Struct, frozen=True):
    """A public key, and what may be signed with it."""

    id: str
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey
    algorithms: frozenset[str]


class _Discovered(msgspec.Struct):
    issuer: str = ""
    jwks_uri: str = ""


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]] = []


class KeySource:
    """The keys of one issuer."""

    def __init__(self, issuer: str, discovery_url: str, context: ssl.SSLContext) -> None:
        self._issuer, self._context, self._connections = issuer, context, Connections()
        self._discovery_url = discovery_url or issuer.rstrip("/") + WELL_KNOWN
        self._keys: tuple[Key, ...] | None = None
        self._problem = "authenticator not initialized"
        self._fetch: asyncio.Task[None] | None = None
        self._fetched_at = float("-inf")

    async def close(self) -> None:
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.gather(self._fetch, return_exceptions=True)
        await self._connections.close()

    async def verify(self, token: str, key_id: str, algorithm: str) -> None:
        """Return if the signature of a token is the issuer's; raises BadSignature."""
        if any(_has_signed(key, token, algorithm) for key in self._fitting(key_id, algorithm)):
            if monotonic() - self._fetched_at >= _FRESH_SECONDS:
                self._fetching()
            return
        if not (key_id and self._fitting(key_id, algorithm)) and self._may_fetch():
            await asyncio.wait([self._fetching()])
            if any(_has_signed(key, token, algorithm) for key in self._fitting(key_id, algorithm)):
                return
        raise BadSignature(self._problem if self._keys is None else "failed to verify id token signature")

    def _fitting(self, key_id: str, algorithm: str) -> list[Key]:
        fitting = [key for key in self._keys or () if algorithm in key.algorithms and key_id in ("", key.id)]
        return fitting[:_MOST_TRIED]

    def _may_fetch(self) -> bool:
        return self._fetch is not None or monotonic() - self._fetched_at >= _BETWEEN_SECONDS

    def _fetching(self) -> asyncio.Task[None]:
        """The fetch that is under way; begins one if there is none."""
        if self._fetch is None:
            self._fetched_at = monotonic()
            self._fetch = asyncio.get_running_loop().create_task(self._update(), name="keys of an issuer")
            self._fetch.add_done_callback(self._done)
        return self._fetch

    def _done(self, fetch: asyncio.Task[None]) -> None:
        self._fetch, self._fetched_at = None, monotonic()

    async def _update(self) -> None:
        try:
            found = await self._read(self._discovery_url, _Discovered)
            if found.issuer != self._issuer:
                text = "oidc: issuer did not match the issuer returned by provider, expected"
                raise CallError(f"{text} {go_quote(self._issuer)} got {go_quote(found.issuer)}")
            if not found.jwks_uri.startswith("https://"):
                raise CallError(f"the keys are at {go_quote(found.jwks_uri)}, which is no https URL")
            listed = await self._read(found.jwks_uri, _KeySet)
            self._keys = await offload(lambda: tuple(_keys(listed.keys)), is_long=True)
        except CallError as error:
            self._problem = f"oidc: authenticator for issuer {go_quote(self._issuer)} is not initialized: {error}"
            log.warning("keys of the issuer %s: %s", self._issuer, error)

    async def _read(self, url: str, type_: type[Any]) -> Any:
        body = await self._connections.ask("GET", url, context=self._context, seconds=_SECONDS, most=_MOST_BYTES)
        try:
            return await offload(lambda: msgspec.json.decode(body, type=type_), is_long=True)
        except UNREADABLE as error:
            raise CallError(f'Get "{url}": {error}') from None


def _has_signed(key: Key, token: str, algorithm: str) -> bool:
    try:
        _jws.decode(token, key.key, [algorithm])
    except jwt.InvalidTokenError:
        return False
    return True


def _keys(listed: list[dict[str, Any]]) -> list[Key]:
    """Those of the keys with which signatures can be verified."""
    found = []
    for entry in listed[:_MOST_KEYS]:
        if entry.get("kty") not in ("RSA", "EC") or entry.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(entry).key
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if algorithms := _algorithms(key):
            found.append(Key(str(entry.get("kid") or ""), key, algorithms))
    return found


def _algorithms(key: Any) -> frozenset[str]:
    if isinstance(key, rsa.RSAPublicKey):
        return _RSA if key.key_size <= _MOST_BITS else frozenset()
    return _CURVES.get(key.curve.name, frozenset()) if isinstance(key, ec.EllipticCurvePublicKey) else frozenset()
