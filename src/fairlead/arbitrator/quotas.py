"""What the ResourceQuotas of a namespace allow altogether."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairlead.api.quantity import parse
from fairlead.api.quota_scopes import ResourceQuota
from fairlead.arbitrator.amounts import LIMITS, REQUESTS
from fairlead.client.informer import Informer


class QuotaBounds:
    """By namespace, worked out again where a quota changes and nowhere else: one may name tens of thousands."""

    def __init__(self, quotas: Informer[ResourceQuota]) -> None:
        self._by_namespace = quotas.index("namespace", lambda quota: (quota.metadata.namespace,))
        self._known: dict[str, Mapping[str, str]] = {}
        quotas.subscribe(self._changed)

    def _changed(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if old is None or new is None or old.spec != new.spec:  # its status changes with every pod
            for quota in (old, new):
                if quota is not None:
                    self._known.pop(quota.metadata.namespace, None)

    def all(self) -> dict[str, Mapping[str, str]]:
        for namespace in self._by_namespace:
            if namespace not in self._known:
                self._known[namespace] = allowed_by(self._by_namespace[namespace])
        return dict(self._known)


def allowed_by(quotas: Iterable[ResourceQuota]) -> dict[str, str]:
    """The least of each amount; quotas with scopes count some pods only and are left out."""
    least: dict[str, str] = {}
    for quota in quotas:
        if quota.spec.selectors:
            continue
        for name, text in quota.spec.hard.items():
            resource = f"{REQUESTS}{name}" if name in ("cpu", "memory") else name
            if not resource.startswith((REQUESTS, LIMITS)):
                continue
            if resource not in least or parse(text) < parse(least[resource]):
                least[resource] = text
    return least
