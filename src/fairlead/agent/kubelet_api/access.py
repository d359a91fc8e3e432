"""Who may ask a kubelet, and what: whoever shows a client certificate of the cluster's authority, or a token that the
API server knows, and may then do what its authorization says of the node's `proxy`, `stats`, `metrics`, `pods`, ….

The API server is asked in the agent's name, and its answers are kept for a while.
Source: pkg/kubelet/server/auth.go, cmd/kubelet/app/auth.go (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from fairlead.agent.kubelet_api.rules import AccessRules
from fairlead.api.builtin import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from fairlead.api.errors import ApiError
from fairlead.api.meta import View
from fairlead.api.users import ANONYMOUS_USER, User
from fairlead.api.verbs import Api
from fairlead.caches import LruCache
from fairlead.runtime.clock import monotonic
from fairlead.runtime.http.replies import Failed
from fairlead.runtime.tls_peers import TlsPeers

_MOST_REMEMBERED: Final = 1024
_LONGEST_TOKEN: Final = 64 << 10

_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: A path or what is below it, and the subresources of the node of which one has to be allowed.
_SUBRESOURCES: Final[Mapping[str, Sequence[str]]] = {
    "pods": ("pods", "proxy"),
    "runningpods": ("pods", "proxy"),
    "healthz": ("healthz", "proxy"),
    "configz": ("configz", "proxy"),
    "stats": ("stats",),
    "metrics": ("metrics",),
    "logs": ("log",),
}


class _User(View):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = ()
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(View):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(View):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(View):
    allowed: bool = False


class _AccessReview(View):
    status: _AccessStatus = _AccessStatus()


class _Kept(msgspec.Struct, frozen=True):
    user: User | None
    is_allowed: bool
    until: float


class KubeletAccess:
    """Asks the API server who somebody is and what they may."""

    def __init__(self, api: Api, node: str, rules: AccessRules) -> None:
        self._api, self._node, self._rules = api, node, rules
        self._peers = TlsPeers()
        self._tokens: LruCache[bytes, _Kept] = LruCache(_MOST_REMEMBERED)
        self._verdicts: LruCache[tuple[User, str, str], _Kept] = LruCache(_MOST_REMEMBERED)

    async def user(self, transport: asyncio.BaseTransport, authorization: bytes) -> User:
        """Who asks. Failed: nobody whom we know."""
        if (user := self._peers.user(transport)) is not None:
            return user
        scheme, _, token = authorization.partition(b" ")
        if self._rules.takes_tokens and scheme.lower() == b"bearer" and 0 < len(token) <= _LONGEST_TOKEN:
            user = await self._user_of(token.strip())
        elif self._rules.knows_anonymous:
            user = ANONYMOUS_USER
        if user is None:
            raise Failed(401, "Unauthorized")
        return user

    async def check(self, user: User, method: str, path: str) -> None:
        """Failed unless the user may do that."""
        if not self._rules.asks_what_is_allowed:
            return
        verb = _VERBS.get(method, "")
        subresources = _SUBRESOURCES.get(path.strip("/").partition("/")[0], ("proxy",))
        for subresource in subresources:
            if await self._is_allowed(user, verb, subresource):
                return
        listed = f"[{' '.join(subresources)}]"
        text = f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource(s)={listed})\n"
        raise Failed(403, text)

    async def _user_of(self, token: bytes) -> User | None:
        key = sha256(token).digest()
        kept = self._tokens.get(key)
        if kept is not None and monotonic() < kept.until:
            return kept.user
        review = {"spec": {"token": token.decode("latin-1")}}
        try:
            status = (await self._api.create(TOKEN_REVIEWS, review)).view(_TokenReview).status
        except (ApiError, OSError) as error:
            raise Failed(401, "Unauthorized") from error
        user = _as_user(status.user) if status.authenticated else None
        self._tokens.put(key, _Kept(user, False, monotonic() + self._rules.token_seconds))
        return user

    async def _is_allowed(self, user: User, verb: str, subresource: str) -> bool:
        key = user, verb, subresource
        kept = self._verdicts.get(key)
        if kept is not None and monotonic() < kept.until:
            return kept.is_allowed
        attributes = {
            "verb": verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": subresource,
            "name": self._node,
        }
        spec = {"user": user.name, "groups": list(user.groups), "uid": user.uid, "resourceAttributes": attributes}
        review = {"spec": spec | {"extra": {name: list(values) for name, values in user.extra}}}
        try:
            is_allowed = (await self._api.create(SUBJECT_ACCESS_REVIEWS, review)).view(_AccessReview).status.allowed
        except (ApiError, OSError) as error:
            text = f"Authorization error (user={user.name}, verb={verb}, resource=nodes, subresource={subresource})"
            raise Failed(500, text) from error
        seconds = self._rules.allowed_seconds if is_allowed else self._rules.denied_seconds
        self._verdicts.put(key, _Kept(None, is_allowed, monotonic() + seconds))
        return is_allowed


def _as_user(found: _User) -> User:
    extra = tuple(sorted((found.extra or {}).items()))
    return User(found.username, tuple(found.groups or ()), found.uid, extra)
