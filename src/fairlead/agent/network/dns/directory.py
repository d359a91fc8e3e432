"""Services and endpoints as they are looked up by name or address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from fairlead.agent.network.views import EndpointSlice, Service
from fairlead.api.builtin import ENDPOINT_SLICES, NAMESPACES, SERVICES
from fairlead.api.meta import Object
from fairlead.client.informer import Informer, Informers


class Directory(Protocol):
    def has_namespace(self, name: str) -> bool: ...

    def service(self, namespace: str, name: str) -> Service | None: ...

    def slices(self, service: Service) -> Sequence[EndpointSlice]: ...

    def services_at(self, address: str) -> Sequence[Service]:
        """Those with this virtual address."""
        ...

    def slices_at(self, address: str) -> Sequence[EndpointSlice]:
        """Those with an endpoint at this address."""
        ...


class InformedDirectory:
    """Make it before the informers run."""

    def __init__(self, informers: Informers) -> None:
        self._services: Informer[Service] = informers.of(SERVICES, Service)
        self._slices: Informer[EndpointSlice] = informers.of(ENDPOINT_SLICES, EndpointSlice)
        self._namespaces: Informer[Object] = informers.of(NAMESPACES, Object)
        self._services_at = self._services.index("address", lambda service: service.addresses)
        self._slices_of = self._slices.index("service", lambda piece: [piece.service_key])
        self._slices_at = self._slices.index("address", _addresses)

    async def synced(self) -> None:
        for informer in (self._services, self._slices, self._namespaces):
            await informer.synced()

    def has_namespace(self, name: str) -> bool:
        return self._namespaces.get(name) is not None

    def service(self, namespace: str, name: str) -> Service | None:
        return self._services.get(f"{namespace}/{name}")

    def slices(self, service: Service) -> Sequence[EndpointSlice]:
        return self._slices_of[service.metadata.key]

    def services_at(self, address: str) -> Sequence[Service]:
        return self._services_at[address]

    def slices_at(self, address: str) -> Sequence[EndpointSlice]:
        return self._slices_at[address]


def _addresses(piece: EndpointSlice) -> Iterable[str]:
    return {address for endpoint in piece.endpoints or () for address in endpoint.addresses}
