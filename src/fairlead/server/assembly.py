"""Puts a registry together: the built-in kinds over a store, with their behaviour and their admission chain."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.builtin import RESOURCES
from fairlead.api.resources import Resource
from fairlead.server.admission import chain
from fairlead.server.cache import Cache
from fairlead.server.kinds import CONVERSIONS, STORED_AS, STRATEGIES
from fairlead.server.kinds.service_addresses import ServiceAddresses
from fairlead.server.normalise import zero_object
from fairlead.server.registry import Registry
from fairlead.server.served import Catalogue, Served, Version, prefix_of
from fairlead.server.strategies import Strategy
from fairlead.server.subresources import ACTIONS, VIEWS
from fairlead.server.targets import target_of
from fairlead.store.base import Store


async def open_registry(store: Store, disabled_admission: Iterable[str] = ()) -> Registry:
    """The registry of all built-in kinds, loaded. Raises ValueError for an unknown admission plugin."""
    registry = Registry(store, builtin_catalogue(), VIEWS, ACTIONS)
    addresses = ServiceAddresses()
    registry.observers["services"] = addresses.observe
    await registry.open(chain.build(registry, registry, disabled_admission, [addresses]))
    return registry


_ORDINARY = Strategy()


def builtin_catalogue() -> Catalogue:
    """Every built-in kind; kinds that are shown in several groups or versions share one stored form."""
    catalogue = Catalogue()
    grouped: dict[str, list[Resource]] = {}
    for row in RESOURCES:
        grouped.setdefault(STORED_AS.get(row.qualified, row.qualified), []).append(row)
    for qualified, rows in grouped.items():
        stored = next(row for row in rows if row.qualified == qualified and row.version == row.storage_version)
        served = Served(stored, STRATEGIES.get(qualified, _ORDINARY), Cache(qualified))
        served.zero_status = zero_object(stored.definition).get("status")
        served.versions = {row.api_version: _version(row, stored) for row in rows}
        catalogue.add(served)
    return catalogue


def _version(row: Resource, stored: Resource) -> Version:
    to_stored = from_stored = None
    if row is not stored:
        to_stored, from_stored = CONVERSIONS[(row.qualified, row.version)]
    return Version(row, target_of(row).normalise, to_stored, from_stored, prefix=prefix_of(row))
