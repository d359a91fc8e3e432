"""Bearer tokens: the administrator's, which only its owner can read, and whatever else tells whose a token is."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairlead.api.users import MASTERS, User, authenticated
from fairlead.runtime.authority import key_pem, new_key
from fairlead.server.account_tokens import ISSUER, MOST_BYTES, UNKNOWN, InvalidToken, TokenVerifier, Verified
from fairlead.server.auth.authenticator import Credentials
from fairlead.server.auth.certificates import Pki, write_private

#: Whoever comes in through the plain loopback listener, which asks for nothing.
ANYBODY = authenticated(User("system:admin", (MASTERS,)))

log = logging.getLogger(__name__)


def ensure_token(folder: Path) -> str:
    """The administrator's token in that folder, made now if there is none."""
    path = Pki(folder).admin_token
    token = path.read_text().strip() if path.exists() else ""
    if not token:
        if path.exists():
            log.warning("%s held no token: there is a new one in it, and in the kubeconfig", path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        token = secrets.token_urlsafe(32)
        write_private(path, token.encode())
    return token


def ensure_account_key(folder: Path) -> ec.EllipticCurvePrivateKey:
    """The key in that folder by which service account tokens are signed, made now if there is none.

    ValueError: what is there is no such key.
    """
    path = folder / "sa.key"
    if not path.exists():
        write_private(path, key_pem(new_key()))
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path}: the key of service account tokens must be an ECDSA key on P-256")
    return key


class KnownTokens:
    """Tokens that stay what they are, each with its user. They are compared by digests that nobody else can compute:
    how long it takes to look for one tells nothing of those that are there."""

    def __init__(self, users: Mapping[str, User]) -> None:
        if not all(token.strip() for token in users):
            raise ValueError("an empty token would let everybody in")
        self._key = secrets.token_bytes(32)
        self._users = {self._digest(token): authenticated(user) for token, user in users.items()}

    def _digest(self, token: str) -> bytes:
        return hashlib.blake2b(token.encode("utf-8", "replace"), key=self._key, digest_size=32).digest()

    async def __call__(self, token: str, audiences: Sequence[str]) -> Verified | None:
        return for_any_audience(self._users.get(self._digest(token)), audiences)


def for_any_audience(user: User | None, audiences: Sequence[str]) -> Verified | None:
    """The user of a token that says nothing of whom it is for: it is for this server."""
    meant = tuple(audience for audience in audiences if audience == ISSUER)
    return Verified(user, meant) if user is not None and meant else None


class TokenAuthenticator:
    """Lets in whoever shows a token that one of these ways to tell tokens knows. They are asked in order."""

    def __init__(self, *verifiers: TokenVerifier) -> None:
        self._verifiers = verifiers

    async def __call__(self, credentials: Credentials) -> User | None:
        token = credentials.bearer_token
        if not token:
            return None
        try:
            return authenticated((await self.verify(token)).user)
        except InvalidToken:
            return None

    async def verify(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> Verified:
        """Whose token it is; `InvalidToken` with all reasons if nobody's."""
        if len(token) > MOST_BYTES:
            raise InvalidToken(UNKNOWN)
        reasons = dict[str, None]()
        for verify in self._verifiers:
            try:
                found = await verify(token, audiences)
            except InvalidToken as error:
                reasons[str(error)] = None
                continue
            if found is not None:
                return found
        reasons.pop(UNKNOWN, None)
        raise InvalidToken(", ".join(reasons) or UNKNOWN)


async def anybody(credentials: Credentials) -> User | None:
    """The authenticator of the plain loopback listener: every program on this machine is the administrator.

    A browser is such a program, and runs the scripts of strangers. It says which page a request comes from: none may
    but our own. A page of another port is another origin, and one whose name leads here (DNS rebinding) names another
    host. What a browser says about a page cannot be forged by the page.
    """
    headers = credentials.headers
    host = headers.get(b"host", b"")
    if not _is_loopback(host):
        return None
    if headers.get(b"origin", b"http://" + host).lower() != b"http://" + host.lower():
        return None
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        return None
    return ANYBODY


def _is_loopback(authority: bytes) -> bool:
    host = authority.rpartition(b":")[0] if authority.rpartition(b":")[2].isdigit() else authority
    return host.lower() in (b"127.0.0.1", b"localhost", b"[::1]")
