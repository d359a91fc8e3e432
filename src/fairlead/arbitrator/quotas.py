"""What the ResourceQuotas of a namespace allow altogether."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.quantity import parse
from fairlead.api.quota_scopes import ResourceQuota
from fairlead.arbitrator.amounts import LIMITS, REQUESTS


def allowed_by(quotas: Iterable[ResourceQuota]) -> dict[str, dict[str, str]]:
    """The least of each amount, by namespace; quotas with scopes count some pods only and are left out."""
    found: dict[str, dict[str, str]] = {}
    for quota in quotas:
        if quota.spec.selectors:
            continue
        least = found.setdefault(quota.metadata.namespace, {})
        for name, text in quota.spec.hard.items():
            resource = f"{REQUESTS}{name}" if name in ("cpu", "memory") else name
            if not resource.startswith((REQUESTS, LIMITS)):
                continue
            if resource not in least or parse(text) < parse(least[resource]):
                least[resource] = text
    return found
