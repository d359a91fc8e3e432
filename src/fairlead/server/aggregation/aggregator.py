"""The aggregation layer: which server answers for a version of a group, and what the others serve."""

from __future__ import annotations

import asyncio

from fairlead.api.builtin import API_SERVICES
from fairlead.client.webhooks import is_callable
from fairlead.runtime.identity import Identity
from fairlead.server.aggregation.availability import Availability
from fairlead.server.aggregation.backends import Backends
from fairlead.server.aggregation.descriptions import Description, Descriptions
from fairlead.server.aggregation.registration import Registration
from fairlead.server.aggregation.services import RemoteService, RemoteServices
from fairlead.server.aggregation.trust import publish
from fairlead.server.auth.front_proxy import FrontProxySettings
from fairlead.server.nodes.resource_metrics import MeasuredKind
from fairlead.server.registry.registry import Registry
from fairlead.server.service_routes import routes


class Aggregator:
    """All of it. Make it before the registry is opened, settle it after that, then run it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.services = RemoteServices()
        registry.observe(API_SERVICES.qualified, self.services.observe)
        self.backends = Backends(routes(registry, registry.agents.is_simulated))
        self.descriptions = Descriptions(self.backends)
        self._registration = Registration(registry)
        self._availability = Availability(registry, self.services, self.backends, self.descriptions)

    async def settle(self) -> None:
        """Make the APIServices of what this server serves itself."""
        await self._registration.settle()

    async def identify(
        self,
        identity: Identity,
        name: str,
        authority: bytes,
        client_authority: bytes,
        front_proxies: FrontProxySettings | None = None,
    ) -> None:
        """From now on show this certificate, which has that common name, and tell everybody whom to believe."""
        self.backends.identity = identity
        await publish(self._registry, client_authority, authority, name, front_proxies)

    async def run(self) -> None:
        """Keep them, and look at the others, until cancelled. In virtual time those have no time to answer."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._registration.run(), name="API services")
                if is_callable():
                    group.create_task(self._availability.run(), name="availability of API services")
        finally:
            await self.backends.close()

    @property
    def generation(self) -> tuple[int, int]:
        """Another one whenever others serve something else."""
        return self.services.generation, self.descriptions.generation

    def remote_versions(self) -> list[tuple[RemoteService, Description]]:
        """The versions for which others answer, and what they say of them."""
        serving = (self.serving(service.group, service.version) for service in self.services)
        return [(service, self.descriptions.of(service)) for service in serving if service is not None]

    def serving(self, group: str, version: str) -> RemoteService | None:
        """The other server that answers for that version; None: this one does, or nobody.

        What this server measures itself it goes on telling while the other cannot be reached.
        """
        service = self.services.find(group, version)
        if service is None or service.is_available:
            return service
        return None if self._is_measured(group, version) else service

    def _is_measured(self, group: str, version: str) -> bool:
        kinds = self._registry.unstored.values()
        rows = (kind.resource for kind in kinds if isinstance(kind, MeasuredKind))
        return any((row.group, row.version) == (group, version) for row in rows)
