"""Tells when tokens that lie in Secrets were last used, so that those which nobody needs can be removed.

Source: pkg/serviceaccount/legacy.go, pkg/controlplane/controller/legacytokentracking (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from fairlead.api.builtin import CONFIG_MAPS, SECRETS
from fairlead.api.errors import AlreadyExists, ApiError, NotFound
from fairlead.api.objects import Obj
from fairlead.caches import LruCache
from fairlead.runtime.clock import timestamp
from fairlead.server.context import INTERNAL
from fairlead.server.registry.registry import Registry

log = logging.getLogger(__name__)

NAMESPACE: Final = "kube-system"
NAME: Final = "kube-apiserver-legacy-service-account-token-tracking"
LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
#: Of so many Secrets it is remembered that today is written on them.
_MOST_REMEMBERED: Final = 1024
_RETRY_SECONDS: Final = 60.0


class LegacyTokens:
    """Labels Secrets with the day on which their token was used. Make it before clients come in, then run it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._noted: LruCache[tuple[str, str], str] = LruCache(_MOST_REMEMBERED)
        self._used: dict[tuple[str, str], str] = {}
        self._arrived = asyncio.Event()
        registry.account_tokens.on_secret_used = self._note

    def _note(self, namespace: str, name: str) -> None:
        secret, today = (namespace, name), _today()
        if self._noted.get(secret) != today:
            self._noted.put(secret, today)
            self._used[secret] = today
            self._arrived.set()

    async def run(self) -> None:
        """Write what has been noted, until cancelled."""
        while True:
            try:
                await self._begin()
                await self._write()
            except ApiError as error:
                log.warning("the use of tokens in secrets: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._arrived.clear()
            await self._arrived.wait()

    async def _begin(self) -> None:
        """The day since which it is told."""
        if self._registry.find(CONFIG_MAPS.qualified, NAME, NAMESPACE) is None:
            obj: Obj = {"metadata": {"name": NAME}, "data": {"since": _today()}}
            try:
                await self._registry.create(INTERNAL, CONFIG_MAPS, obj, NAMESPACE)
            except AlreadyExists:
                return

    async def _write(self) -> None:
        while self._used:
            secret, day = self._used.popitem()
            namespace, name = secret
            try:
                await self._registry.guaranteed_update(SECRETS.qualified, name, namespace, partial(_labelled, day))
            except NotFound:  # the secret is gone, and its token with it
                continue
            except ApiError:
                self._used.setdefault(secret, day)
                raise


def _labelled(day: str, secret: Obj) -> Obj:
    metadata = secret["metadata"]
    return secret | {"metadata": metadata | {"labels": (metadata.get("labels") or {}) | {LAST_USED: day}}}


def _today() -> str:
    return timestamp()[:10]
