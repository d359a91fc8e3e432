"""A service says whose a token is (`--authentication-token-webhook-config-file`): TokenReviews, remembered for a while.

Who makes up tokens makes one call for each at most: a token that is asked about is not asked about again meanwhile, nor
until it is forgotten; what is known of bad tokens takes no place of what is known of good ones.
Sources: k8s.io/apiserver, plugin/pkg/authenticator/token/webhook and authentication/token/cache (1.36).
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.api.meta import View
from fairlead.api.users import User
from fairlead.caches import LruCache
from fairlead.client.calls import CallError
from fairlead.client.reviews import ReviewService
from fairlead.runtime.clock import monotonic
from fairlead.server.account_tokens import ISSUER, InvalidToken, Verified

_MOST_GOOD: Final = 1024
_MOST_BAD: Final = 8192
#: Of why a token is bad.
_LONGEST_REASON: Final = 1024


class _User(View):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...] | None] | None = None


class _Status(View):
    authenticated: bool = False
    user: _User = _User()
    audiences: tuple[str, ...] | None = None
    error: str = ""


class _Outcome(msgspec.Struct, frozen=True):
    """Whose token it is; or why nobody's, if the service says why."""

    verified: Verified | None
    error: str = ""
    until: float = 0.0


class TokenWebhook:
    """Tells tokens by a service. Whoever has made it closes it."""

    def __init__(self, service: ReviewService, version: str, ttl: float) -> None:
        self._service, self._api_version, self._ttl = service, f"authentication.k8s.io/{version}", ttl
        self._key = secrets.token_bytes(32)
        self._good: LruCache[bytes, _Outcome] = LruCache(_MOST_GOOD)
        self._bad: LruCache[bytes, _Outcome] = LruCache(_MOST_BAD)
        self._asking: dict[bytes, asyncio.Task[_Outcome]] = {}

    async def close(self) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._service.close()

    async def __call__(self, token: str, audiences: Sequence[str]) -> Verified | None:
        digest = hmac.digest(self._key, "\0".join((token, *audiences)).encode("utf-8", "replace"), "sha256")
        outcome = self._good.get(digest) or self._bad.get(digest)
        if outcome is None or monotonic() >= outcome.until:
            outcome = await self._asked(digest, token, audiences)
        if outcome.error:
            raise InvalidToken(outcome.error)
        return outcome.verified

    async def _asked(self, digest: bytes, token: str, audiences: Sequence[str]) -> _Outcome:
        """What the service says; all who ask about a token at once share one call."""
        task = self._asking.get(digest)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(token, audiences), name="token review")
            self._asking[digest] = task
            task.add_done_callback(lambda done: self._keep(digest, done))
        await asyncio.wait([task])
        if task.cancelled():
            raise InvalidToken("the server stops")
        try:
            return task.result()
        except CallError as error:
            raise InvalidToken(str(error)) from None

    def _keep(self, digest: bytes, done: asyncio.Task[_Outcome]) -> None:
        del self._asking[digest]
        if self._ttl > 0 and not done.cancelled() and done.exception() is None:
            outcome = done.result()
            (self._bad if outcome.verified is None else self._good).put(digest, outcome)

    async def _ask(self, token: str, audiences: Sequence[str]) -> _Outcome:
        spec = {"token": token, "audiences": list(audiences)}
        status = await self._service.review("TokenReview", self._api_version, spec, {"user": {}}, _Status)
        until = monotonic() + self._ttl
        meant = tuple(audience for audience in audiences if audience in (status.audiences or (ISSUER,)))
        if not status.authenticated or not meant:
            return _Outcome(None, status.error[:_LONGEST_REASON] if meant else "", until)
        user = status.user
        extra = tuple(sorted((key, values or ()) for key, values in (user.extra or {}).items()))
        return _Outcome(Verified(User(user.username, user.groups or (), user.uid, extra), meant), "", until)
