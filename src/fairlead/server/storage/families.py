"""What is kept, as metrics: read off the catalogue and the store when somebody asks.

Source: apiserver `storage/etcd3/metrics/metrics.go`, `storage/cacher/metrics/metrics.go` (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from fairlead.runtime.metrics import COUNTER, GAUGE, Computed, Family, Labels
from fairlead.server.storage.cache import HISTORY_EVENTS, Cache
from fairlead.server.storage.catalogue import Catalogue
from fairlead.store.base import Store

_KIND: Final = ("group", "resource")
#: How many digits of a version a metric shows: a float has no more.
_DIGITS: Final = 10**15


def storage_families(catalogue: Catalogue, store: Store) -> list[Family]:
    """Of all kinds that are stored."""

    def of_kinds(kind: str, name: str, text: str, value: Callable[[Cache], float]) -> Family:
        def read() -> Iterable[tuple[Labels, float]]:
            return [((each.resource.group, each.resource.plural), value(each.cache)) for each in catalogue]

        return Computed(kind, name, text, _KIND, read)

    return [
        of_kinds(GAUGE, "apiserver_resource_objects", "[ALPHA] How many objects there are.", lambda cache: cache.count),
        Computed(
            GAUGE,
            "apiserver_storage_objects",
            "[STABLE] (Deprecated since 1.34.0) The same, by the qualified name of the kind.",
            ("resource",),
            lambda: [((each.resource.qualified,), each.cache.count) for each in catalogue],
        ),
        Computed(
            GAUGE,
            "apiserver_storage_size_bytes",
            "[STABLE] How large the store's files are.",
            ("storage_cluster_id",),
            lambda: [(("local",), store.size_bytes)],
        ),
        of_kinds(
            COUNTER,
            "apiserver_storage_events_received_total",
            "[BETA] Changes that the store has told of.",
            lambda cache: cache.changes,
        ),
        of_kinds(
            COUNTER,
            "apiserver_watch_cache_events_received_total",
            "[ALPHA] Changes that came into the watch cache.",
            lambda cache: cache.changes,
        ),
        of_kinds(
            GAUGE,
            "apiserver_watch_cache_resource_version",
            "[ALPHA] The version of the newest change of the kind, its last 15 digits.",
            lambda cache: cache.revision % _DIGITS,
        ),
        of_kinds(GAUGE, "watch_cache_capacity", "[ALPHA] How many changes may be kept.", lambda cache: HISTORY_EVENTS),
    ]
