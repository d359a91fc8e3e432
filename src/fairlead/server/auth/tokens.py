"""Bearer tokens: the administrator's, in a kubeconfig that only its owner can read, and those of service accounts."""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairlead.api.users import ADMIN, MASTERS, User, authenticated
from fairlead.runtime.authority import key_pem, new_key
from fairlead.server.account_tokens import ISSUER, AccountTokens, InvalidToken, Verified
from fairlead.server.auth.authenticator import Credentials
from fairlead.server.auth.certificates import Pki, write_private

#: Whoever comes in through the plain loopback listener, which asks for nothing.
ANYBODY = authenticated(User("system:admin", (MASTERS,)))

_SCHEME = b"bearer "

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


class TokenAuthenticator:
    """Lets in whoever shows the administrator's token, or one of a service account."""

    def __init__(self, token: str, accounts: AccountTokens) -> None:
        if not token.strip():
            raise ValueError("an empty token would let everybody in")
        self._token, self._accounts = token.encode(), accounts

    async def __call__(self, credentials: Credentials) -> User | None:
        shown = credentials.headers.get(b"authorization", b"")
        if shown[: len(_SCHEME)].lower() != _SCHEME:
            return None
        try:
            return authenticated(self.verify(shown[len(_SCHEME) :].strip().decode("latin-1")).user)
        except InvalidToken:
            return None

    def verify(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> Verified:
        """Whose token it is; `InvalidToken` if nobody's."""
        if hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            return Verified(ADMIN, tuple(audiences))
        return self._accounts.verify(token, audiences)


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
