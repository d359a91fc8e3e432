"""Keeps the rules of services current: what changed is made anew, a turn of the loop for some dozens of services."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Network
from typing import Final

from fairlead.agent.network.nftables.table import NOTHING, Fragment
from fairlead.agent.network.nftables.writer import TableWriter
from fairlead.agent.network.services.endpoints import Place
from fairlead.agent.network.services.flows import Flow, Flows
from fairlead.agent.network.services.rules import service_rules
from fairlead.agent.network.settings import NetworkSettings
from fairlead.agent.network.views import EndpointSlice, Node, Service
from fairlead.api.builtin import ENDPOINT_SLICES, NODES, SERVICES
from fairlead.client.informer import Informer, Informers

_ZONE: Final = "topology.kubernetes.io/zone"
#: So many services are made into rules before others have a turn.
_AT_ONCE: Final = 50
#: What happens within this time is written together.
SETTLE_SECONDS: Final = 0.05

#: A service with one of these labels is for another proxy, or for none.
_OF_OTHERS: Final = frozenset({"service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"})


def _is_ours(service: Service) -> bool:
    return _OF_OTHERS.isdisjoint(service.metadata.labels)


class ServiceProxy:
    """Make it before the informers run."""

    def __init__(self, settings: NetworkSettings, informers: Informers, writer: TableWriter) -> None:
        self._settings, self._writer = settings, writer
        self._pods: IPv4Network = settings.pod_network
        self._services: Informer[Service] = informers.of(SERVICES, Service)
        self._slices: Informer[EndpointSlice] = informers.of(ENDPOINT_SLICES, EndpointSlice)
        self._nodes: Informer[Node] = informers.of(NODES, Node)
        self._slices_of = self._slices.index("service", lambda piece: [piece.service_key])
        self._place = Place(settings.node_name)
        self._dirty: set[str] = set()
        self._flows = Flows()
        self._wake = asyncio.Event()
        self._services.subscribe(self._on_service)
        self._slices.subscribe(self._on_slice)
        self._nodes.subscribe(self._on_node)

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        changed = new if new is not None else old
        is_other = old is None or new is None or old.spec != new.spec or _is_ours(old) != _is_ours(new)
        if changed is not None and is_other:
            self._mark(changed.metadata.key)

    def _on_slice(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for piece in (old, new):
            if piece is not None:
                self._mark(piece.service_key)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None and new.metadata.name == self._settings.node_name:
            zone = new.metadata.labels.get(_ZONE, "")
            if zone != self._place.zone:
                self._place = Place(self._settings.node_name, zone)
                for service in self._services:
                    self._mark(service.metadata.key)

    def _mark(self, key: str) -> None:
        self._dirty.add(key)
        self._wake.set()

    async def first(self) -> None:
        """Submit the rules of everything that is there."""
        for informer in (self._services, self._slices, self._nodes):
            await informer.synced()
        await self._submit()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            if outdated := await self._submit():
                await self._writer.written()
                await self._flows.forget(outdated)

    async def _submit(self) -> set[Flow]:
        """Submit what changed; the flows that the new rules would lead elsewhere."""
        self._wake.clear()
        dirty, self._dirty = sorted(self._dirty), set()
        outdated: set[Flow] = set()
        for start in range(0, len(dirty), _AT_ONCE):
            keys = dirty[start : start + _AT_ONCE]
            self._writer.submit({f"service {key}": self._rules(key) for key in keys})
            outdated |= {flow for key in keys for flow in self._outdated(key)}
            await asyncio.sleep(0)
        return outdated

    def _outdated(self, key: str) -> set[Flow]:
        return self._flows.outdated(key, self._services.get(key), self._slices_of[key], self._place)

    def _rules(self, key: str) -> Fragment:
        service = self._services.get(key)
        if service is None or not _is_ours(service):
            return NOTHING
        slices = self._slices_of[key]
        return service_rules(service, slices, self._place, self._pods, self._settings.dns_address)
