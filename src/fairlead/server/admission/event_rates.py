"""EventRateLimit: nobody floods the server with events. Off by default.

Every limit that the configuration names is a bucket of tokens: one for all, or one for each namespace, user, or source
and object, of which those used last are remembered. Source: plugin/pkg/admission/eventratelimit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final

from fairlead.api.errors import TooManyRequests
from fairlead.api.objects import Obj
from fairlead.caches import LONGEST, LruCache
from fairlead.runtime import clock
from fairlead.runtime.token_bucket import TokenBucket
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies
from fairlead.server.admission.configuration import EventLimit

_DEFAULT_CACHE_SIZE: Final = 4096
_OBJECT_FIELDS: Final = ("kind", "namespace", "name", "uid", "apiVersion")


class EventRateLimit(AdmissionPlugin):
    name = "EventRateLimit"
    resources = frozenset({"events"})

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._limiters = [_Limiter(limit) for limit in dependencies.configuration.event_limits]

    async def validate(self, attributes: Attributes) -> None:
        """Every limit counts every event; a dry run writes nothing and is not counted."""
        if attributes.dry_run:
            return
        refusals = [refusal for limiter in self._limiters if (refusal := limiter.refusal(attributes))]
        if refusals:
            raise TooManyRequests(f"Too many requests: {refusals[-1]}")


class _Limiter:
    """The buckets of one limit."""

    def __init__(self, limit: EventLimit) -> None:
        self._limit, self._key_of = limit, _KEYS[limit.type]
        self._buckets: LruCache[str, TokenBucket] = LruCache(limit.cache_size or _DEFAULT_CACHE_SIZE)

    def refusal(self, attributes: Attributes) -> str:
        """Takes a token; says which limit is reached if there is none."""
        key, now = self._key_of(attributes), clock.monotonic()
        place = key if len(key) <= LONGEST else sha256(key.encode()).hexdigest()
        bucket = self._buckets.get(place)
        if bucket is None:
            bucket = TokenBucket(self._limit.qps, self._limit.burst, now)
            self._buckets.put(place, bucket)
        return "" if bucket.take(now) else f"limit reached on type {self._limit.type} for key {key}"


def _source_and_object(attributes: Attributes) -> str:
    source: Obj = attributes.obj.get("source") or {}
    involved: Obj = attributes.obj.get("involvedObject") or {}
    parts = (source.get("component"), source.get("host"), *(involved.get(field) for field in _OBJECT_FIELDS))
    return "".join(part or "" for part in parts)


_KEYS: Final[Mapping[str, Callable[[Attributes], str]]] = {
    "Server": lambda attributes: "",
    "Namespace": lambda attributes: attributes.namespace,
    "User": lambda attributes: attributes.user.name,
    "SourceAndObject": _source_and_object,
}
