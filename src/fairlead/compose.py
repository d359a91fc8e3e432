"""The composition root: which parts run in this process, over which store, in which kind of time.

`fairlead up`, `fairlead simulate` and the pytest fixture are different settings of the same parts; nothing below this
module knows which of them it is part of.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.agent.local_path.storage_class import DEFAULT_CLASS as LOCAL_CLASS
from fairlead.agent.local_path.storage_class import RULES as LOCAL_PATH_RULES
from fairlead.agent.network.permissions import RULES as NETWORK_RULES
from fairlead.api.builtin import NODES, SERVICE_ACCOUNTS
from fairlead.api.encoded import copied
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.resources import Resource
from fairlead.api.scheduling import DEFAULT_SCHEDULER
from fairlead.api.users import (
    ARBITRATOR_USER,
    FLEET_USER,
    LOCAL_PATH_USER,
    NETWORK_USER,
    SCHEDULER_USER,
    controller_user,
    node_user,
)
from fairlead.api.verbs import Api, EventType, WatchQuery
from fairlead.arbitrator import permissions
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.definitions import definitions
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.installing import install
from fairlead.arbitrator.metrics import ArbitratorMetrics
from fairlead.arbitrator_wiring.admission import ArbitratorAdmission
from fairlead.arbitrator_wiring.component import ArbitratorComponent
from fairlead.client.events import SeriesRecorder
from fairlead.client.informer import Informers
from fairlead.client.kubeconfig import Access, load, read, render
from fairlead.controllers.bootstraptokens import ExpiredBootstrapTokens, SignedClusterInfo
from fairlead.controllers.certificates.signer import CertificateSigner
from fairlead.controllers.metrics import ControllerMetrics
from fairlead.controllers.nodes.taints import NOT_READY
from fairlead.controllers.rootca import RootCertificates
from fairlead.controllers.table import CONTROLLERS, ControllerManager, of_simulation
from fairlead.runtime.authority import Authority
from fairlead.runtime.clock import monotonic
from fairlead.runtime.host_address import host_address
from fairlead.runtime.http.listener import LOOPBACK_ADDRESS, bind, serving
from fairlead.runtime.memory import keeping_loaded, loading
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.configuration import Configuration
from fairlead.scheduler.loop import Scheduler
from fairlead.scheduler.metrics import Metrics as SchedulerMetrics
from fairlead.server.admission.base import AdmissionPlugin
from fairlead.server.admission.configuration import UNCONFIGURED, AdmissionConfiguration
from fairlead.server.assembly import Server
from fairlead.server.audit.auditor import AuditSettings, auditing
from fairlead.server.auth import certificates, tokens
from fairlead.server.auth.authentication import NO_FURTHER, Authentication, AuthenticationSettings
from fairlead.server.auth.authorization import NODE_AND_RBAC, AuthorizationSettings
from fairlead.server.auth.certificates import write_private
from fairlead.server.auth.rbac.defaults import component_policy
from fairlead.server.fairness.fairness import DEFAULT_SEATS
from fairlead.server.http.app import Application
from fairlead.server.http.documents import Documents
from fairlead.server.http.health import Progress
from fairlead.server.http.tracing_configuration import TracingSettings
from fairlead.server.registry.component_statuses import CONTROLLER_MANAGER, SCHEDULER
from fairlead.server.registry.legacy_tokens import LegacyTokens
from fairlead.server.registry.registry import Registry, UserApi
from fairlead.server.registry.restore import Restored, restore
from fairlead.server.registry.server_identity import ServerIdentity, lease_name
from fairlead.sim.config_sources import AssumedSources
from fairlead.sim.fleet import Fleet, OveruseHooks
from fairlead.sim.machine.agents import SimulatedAgents
from fairlead.sim.machine.machines import Machines
from fairlead.sim.node_settings import NodeConfigurations
from fairlead.sim.nodes import DEFAULT_ANNOTATIONS, has_failed
from fairlead.sim.permissions import RULES as FLEET_RULES
from fairlead.sim.usage.objects import definition as usage_profile_definition
from fairlead.sim.volumes import DEFAULT_CLASS as SIMULATED_CLASS
from fairlead.sim.volumes import STORAGE, with_simulated_drivers
from fairlead.store import directory
from fairlead.store.base import Store, StoreUnavailable
from fairlead.store.memory import MemoryStore
from fairlead.store.sqlite import SQLiteStore

if TYPE_CHECKING:
    from fairlead.server.http.tracing import Tracing

COMPONENTS = ("api", "controllers", "scheduler", "nodes")
#: How componentstatuses call them.
STATUS_NAMES = {"controllers": CONTROLLER_MANAGER, "scheduler": SCHEDULER}
#: What simulated nodes may do to pods of namespaces that use more than they deserve.
REFUSE, EVICT_FIRST = "refuse", "evict-first"
#: Where the parts of this process say that they run; the same on every machine, so that simulations are.
HOST = "fairlead"
#: How often it is looked whether the store can write while a cluster starts, and how long it may be unable to.
_LOOK_SECONDS = 0.25
#: Of how many nodes the way in is kept once it was asked for.
_NODES_KEPT = 1 << 14
_PATIENCE_SECONDS = 2.0

log = logging.getLogger(__name__)


class Settings(msgspec.Struct, frozen=True):
    """What `fairlead up` can be told."""

    data_dir: Path | None = None  # None: keep everything in memory
    port: int = 6443
    http_port: int | None = None
    kubeconfig: Path | None = None  # beside the one in the data directory
    context: str = "fairlead"  # how it is called in both
    nodes: tuple[Obj, ...] = ()
    imported: Sequence[Obj] = ()  # looked at once
    on_restored: Callable[[Restored], None] | None = None  # told what came of what is imported
    on_machines: Callable[[Machines], None] | None = None  # told of the machines of simulated nodes
    components: frozenset[str] = frozenset(COMPONENTS)
    enabled_admission: tuple[str, ...] = ()  # beyond those that are on by default
    disabled_admission: tuple[str, ...] = ()
    admission_configuration: AdmissionConfiguration = UNCONFIGURED
    authentication: AuthenticationSettings = NO_FURTHER
    seats: int = DEFAULT_SEATS  # how many requests over HTTP are carried out at once
    audit: AuditSettings | None = None  # none: there is no audit log
    tracing: TracingSettings | None = None  # none: nothing is traced
    authorization: AuthorizationSettings = NODE_AND_RBAC
    further_policy: tuple[Obj, ...] = ()  # the roles of what is put beside the cluster
    scheduling: Configuration | None = None  # None: the default profile
    arbitrator: bool = False
    overused_namespaces: frozenset[str] = frozenset()  # what nodes do to their pods; takes an arbitrator
    has_local_storage: bool = False  # claims that name no class get folders of real nodes, not simulated volumes
    assumed_sources: AssumedSources = AssumedSources()  # ConfigMaps and Secrets that pods need
    configurations: NodeConfigurations = msgspec.field(default_factory=NodeConfigurations)  # of the simulated nodes
    pod_network: IPv4Network | None = None  # from there the server is reached at the machine's address, too


class Cluster(msgspec.Struct):
    """A running cluster."""

    server: Server
    address: str = ""
    http_address: str = ""
    kubeconfig: Path | None = None
    progress: Progress = msgspec.field(default_factory=lambda: Progress(is_ready=False))
    authority: Authority | None = None  # none where nobody listens
    failure: asyncio.Future[None] = msgspec.field(default_factory=asyncio.Future)

    @property
    def registry(self) -> Registry:
        return self.server.registry

    @property
    def api(self) -> UserApi:
        """The way in of this process itself."""
        return self.server.api

    def ended(self, task: asyncio.Task[None]) -> None:
        """A part ended: by cancellation all is well, by an exception the cluster has failed."""
        if not task.cancelled() and (error := task.exception()) and not self.failure.done():
            self.failure.set_exception(error)
            self.failure.exception()  # nobody has to ask for it: what fails before all is ready is raised there

    def count(self, qualified: str) -> int:
        served = self.registry.catalogue.stored(qualified)
        return served.cache.count if served else 0


@asynccontextmanager
async def cluster(settings: Settings) -> AsyncIterator[Cluster]:
    """A whole cluster while the block runs; leaving it stops every part and closes the store."""
    async with AsyncExitStack() as stack:
        unless_ready = ExitStack()
        store = await stack.enter_async_context(_store(settings.data_dir, unless_ready))
        keeping = _keeping_imported(settings)
        running = await opened(store, settings)
        stack.enter_context(keeping)
        await _listen(settings, running, stack)
        await stack.enter_async_context(components(running, settings))
        running.progress.is_ready = True
        unless_ready.pop_all()
        yield running


async def opened(store: Store, settings: Settings) -> Cluster:
    """The server over that store, with what this cluster is to begin with."""
    server = Server(store, settings.seats)
    further = _further_admission(server.registry, settings)
    await server.open(
        settings.disabled_admission,
        further,
        settings.enabled_admission,
        settings.admission_configuration,
        _policy(settings),
    )
    own = definitions() if settings.arbitrator else []  # what is imported may be of them
    if "nodes" in settings.components:
        own = [*own, usage_profile_definition()]
        if server.is_new:
            own += _default_classes(settings)
        own += _nodes_of_imported(settings)
    imported = settings.imported
    if "nodes" in settings.components:
        imported = tuple(with_simulated_drivers(imported))
    with loading():
        restored = await restore(server.registry, imported, own)
    if settings.arbitrator:
        await install(server.api)  # those of an older version are brought up to date
    if settings.on_restored:
        settings.on_restored(restored)
    return Cluster(server)


def _keeping_imported(settings: Settings) -> AbstractContextManager[None]:
    """Collections leave out what was imported; whoever begins with nothing has nothing that is worth it."""
    return keeping_loaded() if settings.imported else nullcontext()


def _nodes_of_imported(settings: Settings) -> list[Obj]:
    """Those that nobody has imported: pods that are there from the start must not wait until their nodes are."""
    if not settings.imported:
        return []
    there = {name_of(obj) for obj in settings.imported if obj.get("kind") == NODES.kind}
    nodes = [copied(node) for node in settings.nodes if name_of(node) not in there]
    for node in nodes:
        meta = metadata(node)
        meta["annotations"] = {**DEFAULT_ANNOTATIONS, **(meta.get("annotations") or {})}
    return nodes


def _default_classes(settings: Settings) -> list[Obj]:
    """Of a new cluster; none if what is imported has classes of its own."""
    if any(obj.get("kind") == "StorageClass" for obj in settings.imported):
        return []
    return [copied(LOCAL_CLASS if settings.has_local_storage else SIMULATED_CLASS)]


def _policy(settings: Settings) -> list[Obj]:
    """The roles of the parts that Kubernetes does not know; those of real nodes always, for these may join any time."""
    found = [*settings.further_policy]
    found += component_policy(NETWORK_USER.name, NETWORK_RULES)
    found += component_policy(LOCAL_PATH_USER.name, LOCAL_PATH_RULES)
    if settings.arbitrator:
        rules = [permission.rule() for permission in permissions.CLUSTER]
        found += component_policy(ARBITRATOR_USER.name, rules)
    if "nodes" in settings.components:
        found += component_policy(FLEET_USER.name, FLEET_RULES)
    return found


def _further_admission(registry: Registry, settings: Settings) -> list[AdmissionPlugin]:
    if not settings.arbitrator:
        return []
    return [ArbitratorAdmission(registry, counts_quotas="ResourceQuota" not in settings.disabled_admission)]


@asynccontextmanager
async def simulation(settings: Settings) -> AsyncIterator[tuple[UserApi, Informers]]:
    """The same cluster without listeners, in memory, for a virtual loop.

    Nodes renew no leases and nobody watches for them: years of silence would have to be filled with heartbeats.
    """
    running = await opened(MemoryStore(), settings)
    with _keeping_imported(settings):
        async with components(running, settings, heartbeats=False) as informers:
            yield running.api, informers
    if running.failure.done():
        running.failure.result()


@asynccontextmanager
async def restored(objects: Sequence[Obj]) -> AsyncIterator[Api]:
    """What a dump says, as an API server shows it; nothing acts on it."""
    running = await opened(MemoryStore(), Settings(imported=tuple(objects), components=frozenset()))
    serving_ = asyncio.create_task(running.server.run())
    try:
        yield running.api
    finally:
        serving_.cancel()
        await asyncio.gather(serving_, return_exceptions=True)


@asynccontextmanager
async def components(running: Cluster, settings: Settings, *, heartbeats: bool = True) -> AsyncIterator[Informers]:
    """The controllers, the scheduler and the simulated nodes that were asked for, while the block runs.

    The first of them that fails is told through `running.failure`.
    """
    api, wanted = running.api, settings.components
    as_user, informers = running.registry.as_user, Informers(api)

    def as_account(account: str) -> Api:
        return as_user(controller_user(account))

    @lru_cache(_NODES_KEPT)
    def as_node(name: str) -> Api:
        return as_user(node_user(name))

    metrics = ControllerMetrics()
    families = [*metrics.families]
    grants = GrantTable(Accounting()) if settings.arbitrator else None
    fleet: Fleet | None = None
    if "nodes" in wanted:
        fleet = Fleet(
            as_user(FLEET_USER),
            as_node,
            informers,
            settings.nodes,
            settings.configurations,
            overuse=_overuse_hooks(settings.overused_namespaces, grants),
            assumed_sources=settings.assumed_sources,
            heartbeats=heartbeats,
        )
    parts: list[Coroutine[Any, Any, None]] = []
    ready: list[Coroutine[Any, Any, None]] = []
    if running.authority is not None:
        parts += [ServerIdentity(running.registry, gethostname()).run(), LegacyTokens(running.registry).run()]
    if "controllers" in wanted:
        ready.append(_exists(api, SERVICE_ACCOUNTS, "default", "default"))
        controllers = CONTROLLERS if heartbeats else of_simulation(has_failed, fleet.machines if fleet else None)
        if running.authority is not None:
            ca = running.authority.certificate_pem.decode()
            signer = partial(CertificateSigner, running.authority)
            controllers = (partial(RootCertificates, ca), signer, *controllers)
        if settings.authentication.has_bootstrap_tokens:
            controllers = (*controllers, ExpiredBootstrapTokens, SignedClusterInfo)
        manager = ControllerManager(as_account, informers, controllers, metrics)
        families += manager.families
        parts.append(manager.run())
    model: ClusterModel | None = None
    if "scheduler" in wanted:
        scheduling = as_user(SCHEDULER_USER)
        recorder = SeriesRecorder(scheduling, DEFAULT_SCHEDULER, host=HOST)
        model = ClusterModel(informers, settings.scheduling)
        scheduler = Scheduler(scheduling, model, recorder=recorder, quota_gate=grants)
        scheduling_metrics = SchedulerMetrics(scheduler.queue, model.snapshot, scheduler.device_metrics)
        scheduler.measure(scheduling_metrics)
        families += scheduling_metrics.families
        parts += [scheduler.run(), recorder.run()]
    if grants is not None:
        arbitrator_metrics = ArbitratorMetrics()
        families += arbitrator_metrics.families
        arbitrating = as_user(ARBITRATOR_USER)
        parts.append(ArbitratorComponent(arbitrating, informers, grants, model, observer=arbitrator_metrics).run())
    if fleet is not None:
        if settings.on_machines:
            settings.on_machines(fleet.machines)
        running.server.serve_nodes(SimulatedAgents(fleet.machines, as_node))
        parts += [fleet.run(), ControllerManager(as_account, informers, STORAGE, metrics).run()]
        ready.append(fleet.ready())
    if {"controllers", "nodes"} <= wanted:
        ready.append(_opened_to_pods(api, {node["metadata"]["name"] for node in settings.nodes}))
    running.server.metrics.served.add(*families)
    statuses = running.server.component_statuses
    statuses.running = frozenset(STATUS_NAMES[name] for name in wanted & STATUS_NAMES.keys())
    tasks = [asyncio.create_task(part) for part in (running.server.run(), informers.run(), *parts)]
    for task in tasks:
        task.add_done_callback(running.ended)
    readying: asyncio.Future[Any] = asyncio.gather(*ready)
    writable = [asyncio.create_task(_writable(running.registry.store))] if settings.data_dir else []
    try:
        ended, _ = await asyncio.wait([readying, *writable, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for first in ended:
            first.result()  # whatever ended before everything was ready has failed
        for task in writable:
            task.cancel()
        yield informers
    finally:
        readying.cancel()
        for task in (*writable, *tasks):
            task.cancel()
        await asyncio.gather(readying, *writable, *tasks, return_exceptions=True)
        running.server.metrics.served.remove(*families)


def _overuse_hooks(strategies: Collection[str], grants: GrantTable | None) -> OveruseHooks:
    """How nodes learn from the arbitrator which namespaces are overused, as far as they are to care."""
    if grants is None:
        return OveruseHooks()
    return OveruseHooks(
        grants.overuse if REFUSE in strategies else None, grants.overuse if EVICT_FIRST in strategies else None
    )


async def _exists(api: Api, resource: Resource, name: str, namespace: str) -> None:
    """Return once the object is there: without the default service account no pod can be created."""
    query = WatchQuery(fields=f"metadata.name={name}")
    async for _ in api.watch(resource, namespace, query):
        return


async def _writable(store: Store) -> None:
    """Raise if the store cannot write for a while: components would try again for ever, and nothing become ready."""
    since = None
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if not store.trouble:
            since = None
        elif since is None:
            since = monotonic()
        elif monotonic() - since > _PATIENCE_SECONDS:
            raise StoreUnavailable(store.trouble)


async def _opened_to_pods(api: Api, nodes: set[str]) -> None:
    """Return once the taint with which nodes are born is off all of these: until then no pod may go there."""
    if not nodes:
        return
    async for event in api.watch(NODES, "", WatchQuery()):
        node = event.object.view(Node)
        if event.type is EventType.DELETED or not any(taint.key == NOT_READY for taint in node.spec.taints):
            nodes.discard(node.metadata.name)
        if not nodes:
            return


@asynccontextmanager
async def _store(data_dir: Path | None, unless_ready: ExitStack) -> AsyncIterator[Store]:
    """The store of a cluster. A data directory that begins with it goes again if the cluster is never ready."""
    if data_dir is None:
        yield MemoryStore()
        return
    with directory.held(data_dir), unless_ready:
        if directory.is_unused(data_dir):
            unless_ready.callback(directory.discard, data_dir)
        store = SQLiteStore(directory.database_in(data_dir), expects_data=directory.has_been_used(data_dir))
        try:
            yield store
        finally:
            await store.close()


def _give_access(path: Path, context: str, access: Access, token: str) -> None:
    """Add the way in to the kubeconfig and make it the current one; what else is in the file stays as it is.

    A file that leads here already, by the certificate or the token, is not touched. Raises ValueError for a file that
    is no kubeconfig.
    """
    try:
        known = load(path)
        is_admin = known.token == token or known.client_certificate == access.client_certificate
        if (known.server, known.ca) == (access.server, access.ca) and is_admin:
            return
    except (OSError, ValueError):
        pass  # there is none, or it leads nowhere yet
    existing = read(path) if path.exists() else None
    write_private(path.resolve(), render(access, existing, context).encode())


async def _listen_to_pods(
    pods: IPv4Network,
    address: str,
    port: int,
    application: Application,
    context: ssl.SSLContext,
    stack: AsyncExitStack,
) -> None:
    """Listen where the endpoints of the service `kubernetes` say, to pods and to the machine itself: their clients
    find the server by that service. Nobody else on the network of the machine is heard.
    """
    try:
        sock = bind(port, address)
    except OSError as error:
        log.warning("pods cannot reach the API server at %s:%d: %s", address, port, error.strerror)
        return
    await stack.enter_async_context(
        serving(application, sock, context, admits=lambda peer: peer == address or IPv4Address(peer) in pods)
    )


@asynccontextmanager
async def _traces(settings: TracingSettings | None) -> AsyncIterator[Tracing | None]:
    """What traces requests, if anything does. Its library is loaded for those who ask for it."""
    if settings is None:
        yield None
        return
    from fairlead.server.http.tracing import tracing

    async with tracing(settings, lease_name(gethostname())) as traces:
        yield traces


async def _listen(settings: Settings, running: Cluster, stack: AsyncExitStack) -> None:
    """Open the listeners and write the kubeconfig that lets its owner in."""
    folder = settings.data_dir or Path(stack.enter_context(TemporaryDirectory(prefix="fairlead-")))
    credentials, own_kubeconfig = directory.credentials_in(folder), directory.kubeconfig_in(folder)
    pki, token = certificates.ensure(credentials), tokens.ensure_token(credentials)
    running.authority = pki.authority
    sock = bind(settings.port)
    port: int = sock.getsockname()[1]
    running.address = f"https://{LOOPBACK_ADDRESS}:{port}"
    advertised = host_address()
    await running.server.advertise(advertised, port)
    running.kubeconfig = settings.kubeconfig or own_kubeconfig
    ca = pki.ca_certificate.read_bytes()
    admin = pki.admin
    access = Access(running.address, ca, client_certificate=admin.certificate, client_key=admin.key)
    for path in {own_kubeconfig, running.kubeconfig}:
        _give_access(path, settings.context, access, token)
    accounts = running.registry.account_tokens
    accounts.sign_with(tokens.ensure_account_key(credentials))
    documents = Documents(running.registry, running.address.removeprefix("https://"), running.server.aggregator)
    await stack.enter_async_context(running.server.authorization(settings.authorization).running())
    front_proxies, client_authority = settings.authentication.front_proxy, [running.authority.certificate]
    login = Authentication(settings.authentication, token, accounts, running.registry, client_authority)
    await stack.enter_async_context(login.running())
    running.registry.verify_token = login.verify_token
    authenticate = login.authenticate
    fairness = running.server.fairness
    auditor = await stack.enter_async_context(auditing(settings.audit, running.registry.metrics.audit))
    aggregator = running.server.aggregator
    front_proxy_ca = pki.front_proxy_ca.read_bytes()
    await aggregator.identify(pki.front_proxy, certificates.FRONT_PROXY, front_proxy_ca, ca, front_proxies)
    traces = await stack.enter_async_context(_traces(settings.tracing))
    running.registry.agents.kubelets.identify(pki.kubelet_client, ca)
    application = Application(
        running.registry, documents, authenticate, running.progress, fairness, auditor, aggregator, traces
    )
    context = pki.context(front_proxies.authorities if front_proxies is not None else b"")
    await stack.enter_async_context(serving(application, sock, context))
    if settings.pod_network is not None and advertised != LOOPBACK_ADDRESS:
        await _listen_to_pods(settings.pod_network, advertised, port, application, context, stack)
    if settings.http_port is not None:
        plain = bind(settings.http_port)
        running.http_address = f"http://{LOOPBACK_ADDRESS}:{plain.getsockname()[1]}"
        application = Application(
            running.registry, documents, tokens.anybody, running.progress, fairness, auditor, aggregator, traces
        )
        await stack.enter_async_context(serving(application, plain))
