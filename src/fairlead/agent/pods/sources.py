"""ConfigMaps, Secrets and tokens, read in the node's own name: it may read those that its pods refer to."""

from __future__ import annotations

import base64
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from fairlead.agent.pods.pulls import PullSecret
from fairlead.api.builtin import CONFIG_MAPS, RUNTIME_CLASSES, SECRETS, SERVICE_ACCOUNTS
from fairlead.api.errors import NotFound
from fairlead.api.meta import Object, ObjectMeta, View
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.caches import LruCache
from fairlead.node.start_requirements import ConfigSource, Found
from fairlead.runtime.clock import monotonic

_RESOURCES: Final = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}
_TOKEN_SECONDS: Final = 3600
#: Of its time, as a kubelet renews it.
_RENEWED_AFTER: Final = 0.8
_MOST_TOKENS: Final = 1024


class _RuntimeClass(View):
    handler: str = ""


class _Content(View):
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


class _Secret(Object):
    data: dict[str, str] | None = None


class Token(NamedTuple):
    text: str
    #: As the API server says it.
    expires: str
    #: On the loop's clock.
    renew_at: float


class Sources(msgspec.Struct, frozen=True):
    api: Api
    _tokens: LruCache[Hashable, Token] = msgspec.field(default_factory=lambda: LruCache(_MOST_TOKENS))
    #: What a round has read; None outside of one.
    _known: dict[Hashable, Mapping[str, bytes] | None] | None = None

    def for_a_round(self) -> Sources:
        """The same for one round through many pods: what several of them refer to is read once."""
        return replace(self, _known={})

    async def read(self, kind: str, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """By key; None if there is none of that name."""
        if self._known is None:
            return await self._read(kind, namespace, name)
        key = kind, namespace, name
        if key not in self._known:
            self._known[key] = await self._read(kind, namespace, name)
        return self._known[key]

    async def _read(self, kind: str, namespace: str, name: str) -> Mapping[str, bytes] | None:
        try:
            content = (await self.api.get(_RESOURCES[kind], name, namespace)).view(_Content)
        except NotFound:
            return None
        encoded, plain = (content.data, {}) if kind == "Secret" else (content.binary_data, content.data)
        found = {key: base64.b64decode(value) for key, value in (encoded or {}).items()}
        return found | {key: value.encode() for key, value in (plain or {}).items()}

    async def pull_secret(self, namespace: str, name: str) -> PullSecret | None:
        """None if there is none of that name."""
        try:
            found = (await self.api.get(SECRETS, name, namespace)).view(_Secret)
        except NotFound:
            return None
        data = {key: base64.b64decode(value) for key, value in (found.data or {}).items()}
        return PullSecret(namespace, name, found.metadata.uid, data)

    async def found(self, namespace: str, wanted: Iterable[ConfigSource]) -> Found:
        """Which of these are there, with which keys."""
        contents = {source: await self.read(source.kind, namespace, source.name) for source in wanted}
        return {source: None if content is None else frozenset(content) for source, content in contents.items()}

    async def runtime_handler(self, runtime_class: str) -> str:
        """What a RuntimeClass names; empty is empty. NotFound if there is none of that name."""
        return (await self.api.get(RUNTIME_CLASSES, runtime_class)).view(_RuntimeClass).handler if runtime_class else ""

    async def token(self, pod: ObjectMeta, account: str, projection: Obj) -> Token:
        """A token of the pod's service account, which ends with the pod; the same for most of its time."""
        seconds, audience = projection.get("expirationSeconds") or _TOKEN_SECONDS, projection.get("audience")
        key = (pod.uid, account, audience, seconds)
        known = self._tokens.get(key)
        if known is None or monotonic() >= known.renew_at:
            status = await self._asked(pod, account, audience, seconds)
            renew_at = monotonic() + _RENEWED_AFTER * seconds
            known = Token(str(status["token"]), str(status["expirationTimestamp"]), renew_at)
            self._tokens.put(key, known)
        return known

    async def _asked(self, pod: ObjectMeta, account: str, audience: str | None, seconds: int) -> Obj:
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod.name, "uid": pod.uid}
        spec: Obj = {"expirationSeconds": seconds, "boundObjectRef": bound}
        if audience:
            spec["audiences"] = [audience]
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self.api.create(SERVICE_ACCOUNTS, request, pod.namespace, name=account, subresource="token")
        status: Obj = answer.obj()["status"]
        return status
