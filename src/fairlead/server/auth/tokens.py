"""Bearer tokens: the one credential that `fairlead up` gives out, in a kubeconfig that only its owner can read."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path

from fairlead.server.admission.base import User
from fairlead.server.auth.certificates import write_private

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
#: Whoever comes in through the plain loopback listener, which asks for nothing.
ANYBODY = User("system:admin", ("system:masters", "system:authenticated"))

_SCHEME = b"bearer "


def ensure_token(folder: Path) -> str:
    """The administrator's token in that folder, made now if there is none."""
    path = folder / "admin.token"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, secrets.token_urlsafe(32).encode())
    return path.read_text()


class TokenAuthenticator:
    """Lets in whoever shows the administrator's token, and nobody else."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def __call__(self, headers: Mapping[bytes, bytes]) -> User | None:
        shown = headers.get(b"authorization", b"")
        if shown[: len(_SCHEME)].lower() != _SCHEME:
            return None
        return ADMIN if hmac.compare_digest(shown[len(_SCHEME) :].strip(), self._token) else None


def anybody(headers: Mapping[bytes, bytes]) -> User | None:
    """The authenticator of the plain loopback listener: every program on this machine is the administrator.

    A browser is such a program, and runs the scripts of strangers: a request that names another host (DNS rebinding) or
    comes from another origin than this machine is refused.
    """
    if not _is_loopback(headers.get(b"host", b"")):
        return None
    origin = headers.get(b"origin")
    if origin is not None and not _is_loopback(origin.partition(b"://")[2]):
        return None
    return ANYBODY


def _is_loopback(authority: bytes) -> bool:
    host = authority.rpartition(b":")[0] if authority.rpartition(b":")[2].isdigit() else authority
    return host in (b"127.0.0.1", b"localhost", b"[::1]")
