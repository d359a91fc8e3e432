"""Puts the API server together: the built-in kinds over a store, their behaviour, and their admission chain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence

from fairlead.api.builtin import COMPONENT_STATUSES, IP_ADDRESSES, RESOURCES, SERVICE_CIDRS
from fairlead.api.encoded import beginning
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.users import INTERNAL_USER
from fairlead.kinds.strategy import Strategy
from fairlead.kinds.table import CONVERSIONS, STORED_AS, STRATEGIES
from fairlead.runtime.process_metrics import process_families
from fairlead.server.access import Authorizer
from fairlead.server.admission import chain
from fairlead.server.admission.base import AdmissionPlugin, Dependencies
from fairlead.server.admission.claim_access import ClaimAccess
from fairlead.server.admission.configuration import UNCONFIGURED, AdmissionConfiguration
from fairlead.server.admission.service_addresses import ServiceAddresses
from fairlead.server.admission.service_networks import ServiceNetworks
from fairlead.server.aggregation.aggregator import Aggregator
from fairlead.server.auth.authorization import Authorization, AuthorizationSettings
from fairlead.server.auth.authorizer import Authorizers
from fairlead.server.auth.node.authorizer import NodeAuthorizer
from fairlead.server.auth.rbac.authorizer import RbacAuthorizer
from fairlead.server.auth.rbac.grants import GrantCheck
from fairlead.server.codec import schemas
from fairlead.server.codec.body_types import body_type_of
from fairlead.server.codec.normalise import zero_object
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.crds.definition import STRATEGY as CRD_STRATEGY
from fairlead.server.fairness.fairness import DEFAULT_SEATS, Fairness
from fairlead.server.http.discovery import build_info
from fairlead.server.metrics import ServerMetrics
from fairlead.server.nodes.agents import NodeAgents
from fairlead.server.nodes.resource_metrics import NodeMetricsKind, PodMetricsKind
from fairlead.server.registry import flow_control
from fairlead.server.registry.bootstrap import bootstrap
from fairlead.server.registry.cluster_addresses import ClusterAddresses
from fairlead.server.registry.component_statuses import ComponentStatuses
from fairlead.server.registry.custom_kinds import CustomKinds
from fairlead.server.registry.default_policy import reconcile
from fairlead.server.registry.expiry import EventExpiry
from fairlead.server.registry.own_endpoints import publish
from fairlead.server.registry.policy_types import PolicyTypes
from fairlead.server.registry.registry import Registry
from fairlead.server.registry.system_namespaces import SystemNamespaces
from fairlead.server.storage.cache import Cache
from fairlead.server.storage.catalogue import Catalogue, Served
from fairlead.server.storage.families import storage_families
from fairlead.server.subresources.table import ACTIONS, ENDPOINTS
from fairlead.store.base import Store

log = logging.getLogger(__name__)


class Server:
    """The API server of one process, without its listeners."""

    def __init__(self, store: Store, seats: int = DEFAULT_SEATS) -> None:
        #: Who may do what, as with `--authorization-mode=Node,RBAC`.
        self.metrics = ServerMetrics()
        self.metrics.served.add(*process_families(), build_info())
        self._nodes, self._rbac = NodeAuthorizer(), RbacAuthorizer()
        self._modes: dict[str, Authorizer] = {"Node": self._nodes, "RBAC": self._rbac}
        self.authorizers = Authorizers(self._modes.items(), self.metrics.access.decided)
        self.registry = Registry(store, builtin_catalogue(), ENDPOINTS, ACTIONS, self.authorizers, self.metrics)
        self.registry.component_authorizer = Authorizers(self._modes.items(), self.metrics.access.decided)
        #: The way in of this process itself, for whatever has no name of its own.
        self.api = self.registry.as_user(INTERNAL_USER)
        networks = ServiceNetworks()
        self._addresses = ServiceAddresses(networks)
        self.registry.observers["services"] = self._addresses.observe
        self.registry.observers[IP_ADDRESSES.qualified] = self._addresses.observe_address
        self.registry.observers[SERVICE_CIDRS.qualified] = networks.observe
        self.registry.observers.update(self._rbac.observers)
        self.registry.observers.update(self._nodes.observers)
        #: Who waits when much is asked over HTTP.
        self.fairness = Fairness(seats, self.metrics.fairness)
        self.registry.observers.update(self.fairness.observers)
        self._expiry = EventExpiry(self.registry)
        self._namespaces = SystemNamespaces(self.registry)
        self._cluster_addresses = ClusterAddresses(self.registry, networks)
        #: Which other servers answer for versions of groups.
        self.aggregator = Aggregator(self.registry)
        statuses = self.registry.catalogue.stored(COMPONENT_STATUSES.qualified)
        assert statuses is not None
        self.component_statuses = ComponentStatuses(store, statuses)
        self.registry.unstored[COMPONENT_STATUSES.qualified] = self.component_statuses
        self._custom_kinds = CustomKinds(self.registry)
        self._policy_types = PolicyTypes(self.registry)
        self.metrics.served.add(*storage_families(self.registry.catalogue, store))
        #: Whether the store was empty when it was opened: nobody has decided anything yet.
        self.is_new = False

    async def open(
        self,
        disabled_admission: Iterable[str] = (),
        further_admission: Iterable[AdmissionPlugin] = (),
        enabled_admission: Iterable[str] = (),
        admission_configuration: AdmissionConfiguration = UNCONFIGURED,
        further_policy: Sequence[Obj] = (),
    ) -> None:
        """Load what the store holds, and create what every cluster has. ValueError: an unknown admission plugin.

        `further_admission` and `further_policy` are those of parts which run beside the server.
        """
        schemas.definitions()  # a copy that lacks them says so before it serves anybody
        registry = self.registry
        dependencies = Dependencies(
            registry,
            registry,
            self.authorizers,
            self.api,
            registry.webhooks,
            admission_configuration,
            self.metrics.admission.webhooks,
        )
        further = [
            *further_admission,
            self._addresses,
            GrantCheck(self._rbac.index, self.authorizers),
            ClaimAccess(dependencies),
        ]
        self._admission = chain.build(
            dependencies, disabled_admission, further, enabled_admission, self.metrics.admission
        )
        await registry.open(self._admission)
        self.is_new = registry.revision == 0
        await self._custom_kinds.load_definitions()
        registry.recall()
        await bootstrap(registry)
        await self._cluster_addresses.begin()
        await asyncio.gather(
            _if_allowed(reconcile(registry, further_policy), "default roles"),
            _if_allowed(flow_control.settle(registry, self.fairness), "flow control"),
        )
        await _if_allowed(self.aggregator.settle(), "API services")
        if self.is_new:  # nobody has seen anything yet that they could go on from
            registry.compact(registry.revision)
        registry.webhooks.has_begun = True

    def authorization(self, settings: AuthorizationSettings) -> Authorization:
        """Decide as the settings say; what comes back keeps up with them. Raises ValueError or OSError."""
        return Authorization(settings, self.authorizers, self._modes)

    async def advertise(self, address: str, port: int) -> None:
        """Show in the cluster where it is: at an address of this machine, on which it listens from now on."""
        await _if_allowed(publish(self.registry, address, port), "the endpoints of the API server")

    def serve_nodes(self, simulated: NodeAgents | None = None) -> None:
        """From now on show what kubelets measure (`metrics.k8s.io`), those of simulated nodes among them."""
        catalogue, agents = self.registry.catalogue, self.registry.agents
        agents.simulated = simulated
        for kind in (PodMetricsKind, NodeMetricsKind):
            row = kind.resource
            measured = catalogue.stored(kind.measured.qualified)
            assert measured is not None
            self.registry.unstored[row.qualified] = kind(agents, measured)
            served = Served(row, _ORDINARY, Cache(row.qualified))
            prefix = beginning(row.kind, row.api_version)
            served.versions = {row.api_version: ServedVersion(row, lambda obj: [], prefix=prefix)}
            catalogue.add(served)

    async def run(self) -> None:
        """What the server does by itself, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._custom_kinds.run(), name="custom kinds")
                group.create_task(self.aggregator.run(), name="aggregation")
                group.create_task(self._expiry.run(), name="event expiry")
                group.create_task(self._policy_types.run(), name="policy types")
                group.create_task(self._namespaces.run(), name="system namespaces")
                group.create_task(self._cluster_addresses.run(), name="cluster addresses")
                group.create_task(flow_control.keep(self.registry, self.fairness), name="flow control")
        finally:
            await self._admission.close()
            await self.registry.webhooks.close()
            await self.registry.agents.kubelets.close()


async def _if_allowed(work: Awaitable[None], what: str) -> None:
    """What a start puts right. A policy of a user may refuse that, and could not be changed if nothing started."""
    try:
        await work
    except ApiError as error:
        log.error("what is wrong with %s stays so: %s", what, error)


_ORDINARY = Strategy()
_BEHAVIOUR = {**STRATEGIES, "customresourcedefinitions.apiextensions.k8s.io": CRD_STRATEGY}
#: Kinds that are still served but better left alone, and what a client is told of it.
DEPRECATED: Mapping[str, str] = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}


def builtin_catalogue() -> Catalogue:
    """Every built-in kind; kinds that are shown in several groups or versions share one stored form."""
    catalogue = Catalogue()
    grouped: dict[str, list[Resource]] = {}
    for row in RESOURCES:
        grouped.setdefault(STORED_AS.get(row.qualified, row.qualified), []).append(row)
    for qualified, rows in grouped.items():
        stored = next(row for row in rows if row.qualified == qualified and row.version == row.storage_version)
        served = Served(stored, _BEHAVIOUR.get(qualified, _ORDINARY), Cache(qualified))
        served.zero_status = zero_object(stored.definition).get("status")
        served.versions = {row.api_version: _version(row, stored) for row in rows}
        catalogue.add(served)
    return catalogue


def _version(row: Resource, stored: Resource) -> ServedVersion:
    to_stored = from_stored = None
    if row is not stored:
        to_stored, from_stored = CONVERSIONS[(row.qualified, row.version)]
    deprecation = DEPRECATED.get(row.qualified, "")
    return ServedVersion(
        row, body_type_of(row).normalise, to_stored, from_stored, beginning(row.kind, row.api_version), deprecation
    )
