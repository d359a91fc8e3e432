"""Tokens of service accounts: signed statements of who somebody is, until when, and for whom.

A token is good as long as its account, and what it is bound to, exist as they were when it was made. Sources:
pkg/serviceaccount/{claims,jwt}.go, KEP-1205, KEP-4193 (1.36). The signature is ECDSA on P-256 (ES256).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from fairlead.api.encoded import Encoded
from fairlead.api.meta import Object, View
from fairlead.api.users import CREDENTIAL_ID, NODE_OF_ACCOUNT, AccountName, User
from fairlead.caches import LruCache
from fairlead.golang.quoting import go_quote
from fairlead.runtime import rng
from fairlead.runtime.clock import now, parse_timestamp

ISSUER: Final = "https://kubernetes.default.svc"
#: The longest text that is looked at as a token; ours have about 1,000 bytes.
MOST_BYTES: Final = 16 << 10
#: What is deleted counts as there for so long, as an agent has to clean up (jwt.go, `invalidAfterDeletion`).
_GRACE_SECONDS: Final = 60.0
_ALGORITHM: Final = "ES256"
_CLAIMS: Final = "kubernetes.io"
#: How many tokens are remembered of which the signature is good.
_MOST_REMEMBERED: Final = 1024


#: What is said of a text that is nobody's token.
UNKNOWN: Final = "invalid bearer token"


class InvalidToken(Exception):
    """A text that lets nobody in; says why."""


class Issued(NamedTuple):
    """A token that was made."""

    text: str
    #: How logs call it.
    credential_id: str
    #: Seconds since 1970.
    expires: float


class Subject(View):
    """An account or another object, as a token names it."""

    name: str = ""
    uid: str = ""


class AccountClaims(View, rename=None):
    """What a token says of the account and of what it is bound to."""

    namespace: str = ""
    serviceaccount: Subject = Subject()
    pod: Subject | None = None
    secret: Subject | None = None
    node: Subject | None = None


class Claims(View, rename={"account": _CLAIMS}):
    aud: tuple[str, ...] = ()
    exp: float = 0
    jti: str = ""
    sub: str = ""
    account: AccountClaims = AccountClaims()


class Finder(Protocol):
    """Reads committed objects by resource, name and namespace."""

    def find(self, resource: str, name: str, namespace: str = "") -> Encoded | None: ...


class Verified(msgspec.Struct, frozen=True):
    """Whose token it is, and for whom it is, of those who were asked for."""

    user: User
    audiences: tuple[str, ...]


#: Tells whose token a text is, for these audiences. None: nobody's whom it knows; `InvalidToken`: it knows why not.
TokenVerifier = Callable[[str, Sequence[str]], Awaitable[Verified | None]]


class AccountTokens:
    """Makes tokens with one key, and tells good ones from others."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._given: ec.EllipticCurvePrivateKey | None = None
        self._good: LruCache[str, Claims] = LruCache(_MOST_REMEMBERED)
        #: Told of each use of a token that lies in a Secret: namespace and name.
        self.on_secret_used: Callable[[str, str], None] | None = None

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        """The key; without one, a key of this process: what it signed is worth nothing to the next one."""
        return self._given or ec.generate_private_key(ec.SECP256R1())

    def sign_with(self, key: ec.EllipticCurvePrivateKey) -> None:
        """Use this key, which outlives the process. Nothing has been signed yet."""
        self._given = key

    @cached_property
    def _public(self) -> ec.EllipticCurvePublicKey:
        return self._key.public_key()

    def issue(
        self, account: AccountName, uid: str, audiences: Sequence[str], seconds: int, bound: Mapping[str, Subject]
    ) -> Issued:
        """A token of the account."""
        begin, id_ = int(now()), rng.uid()
        claims: dict[str, Any] = {
            "aud": list(audiences),
            "exp": begin + seconds,
            "iat": begin,
            "iss": ISSUER,
            "jti": id_,
            "nbf": begin,
            "sub": account.user_name,
        }
        claims[_CLAIMS] = {"namespace": account.namespace, "serviceaccount": {"name": account.name, "uid": uid}}
        claims[_CLAIMS] |= {kind: {"name": subject.name, "uid": subject.uid} for kind, subject in bound.items()}
        text = jwt.encode(claims, self._key, _ALGORITHM, headers={"kid": self.key_id})
        return Issued(text, f"JTI={id_}", begin + seconds)

    async def __call__(self, token: str, audiences: Sequence[str]) -> Verified:
        """`verify`, as one of several ways to tell tokens."""
        return self.verify(token, audiences)

    def verify(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> Verified:
        """Whose token it is; raises `InvalidToken`."""
        claims = self._signed(token)
        if claims.exp <= now():
            raise InvalidToken("service account token has expired")
        meant = tuple(audience for audience in audiences if audience in claims.aud)
        if not meant:
            told = f"token audiences {_listed(claims.aud)} is invalid for the target audiences {_listed(audiences)}"
            raise InvalidToken(told)
        return Verified(self._user(claims), meant)

    def _signed(self, token: str) -> Claims:
        """What a token says whose signature is ours."""
        found = self._good.get(token)
        if found is None:
            if len(token) > MOST_BYTES:
                raise InvalidToken(UNKNOWN)
            options: Any = {"verify_exp": False, "verify_aud": False, "require": ["exp", "sub", "iss"]}
            try:
                claims = jwt.decode(token, self._public, [_ALGORITHM], options, issuer=ISSUER, leeway=60)
                found = msgspec.convert(claims, Claims)
            except (jwt.InvalidTokenError, ValueError, RecursionError):
                raise InvalidToken(UNKNOWN) from None
            self._good.put(token, found)
        return found

    def _user(self, claims: Claims) -> User:
        """The user, if everything is there that the token is bound to."""
        account = claims.account
        name = AccountName(account.namespace, account.serviceaccount.name)
        if claims.sub != name.user_name:
            raise InvalidToken(UNKNOWN)
        self._check("serviceaccounts", account.serviceaccount, account.namespace)
        extra = {CREDENTIAL_ID: (f"JTI={claims.jti}",)}
        if account.secret is not None:
            self._check("secrets", account.secret, account.namespace)
            if self.on_secret_used is not None:
                self.on_secret_used(account.namespace, account.secret.name)
        if account.pod is not None:
            self._check("pods", account.pod, account.namespace)
            extra["authentication.kubernetes.io/pod-name"] = (account.pod.name,)
            extra["authentication.kubernetes.io/pod-uid"] = (account.pod.uid,)
        if account.node is not None:
            if account.pod is None:  # a pod outlives no node for long, and its own end is what counts
                self._check("nodes", account.node, "")
            extra[NODE_OF_ACCOUNT] = (account.node.name,)
            extra["authentication.kubernetes.io/node-uid"] = (account.node.uid,)
        return User(name.user_name, name.groups, account.serviceaccount.uid, tuple(sorted(extra.items())))

    def _check(self, resource: str, subject: Subject, namespace: str) -> None:
        entry = self._finder.find(resource, subject.name, namespace)
        meta = entry.view(Object).metadata if entry is not None else None
        if meta is None or meta.uid != subject.uid or _is_gone(meta.deletion_timestamp):
            raise InvalidToken("service account token has been invalidated")

    # -- what others need to verify them

    @cached_property
    def key_id(self) -> str:
        """The name of the key."""
        return _thumbprint(self._jwk)

    @cached_property
    def _jwk(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._public))
        return found

    def key_set(self) -> dict[str, Any]:
        """The public key as a JSON Web Key Set (RFC 7517)."""
        return {"keys": [{"use": "sig", "kid": self.key_id, "alg": _ALGORITHM, **self._jwk}]}

    @staticmethod
    def discovery(address: str) -> dict[str, Any]:
        """The OpenID configuration of the issuer. The keys are where the server can be reached: the
        name of the issuer leads there from within a cluster alone."""
        return {
            "issuer": ISSUER,
            "jwks_uri": f"https://{address}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [_ALGORITHM],
        }


def _thumbprint(key: Mapping[str, str]) -> str:
    """RFC 7638: the same key has the same name everywhere."""
    canonical = json.dumps({part: key[part] for part in ("crv", "kty", "x", "y")}, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(canonical.encode()).digest()).rstrip(b"=").decode()


def _is_gone(deletion_timestamp: str | None) -> bool:
    return deletion_timestamp is not None and parse_timestamp(deletion_timestamp) + _GRACE_SECONDS < now()


def _listed(values: Sequence[str]) -> str:
    """Go's `%q` of a slice."""
    return f"[{' '.join(map(go_quote, values))}]"
