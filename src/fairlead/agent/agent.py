"""The agent of this machine: a node of a cluster, whose pods run here.

    plan (limits, allocatable) ─▶ adopt what runs ─▶ pods of files, QoS cgroups, eviction, pods of the API server
                                        └▶ register ─▶ lease, status

A runtime that is away is waited for: the node is there meanwhile, and not ready. Stopping it stops nothing that it
started.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from fairlead.agent.cgroups.daemons import DaemonCgroups
from fairlead.agent.cgroups.hierarchies import hierarchies, own_cgroup
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.probes import least_oom_score_adj
from fairlead.agent.cgroups.usage import CgroupUsage, usage_of
from fairlead.agent.claims import claim
from fairlead.agent.csi.drivers import CSI, CsiDrivers
from fairlead.agent.csi.volumes import CsiVolumes
from fairlead.agent.device_plugins.manager import DEVICE_PLUGIN, DevicePlugins
from fairlead.agent.devices.claims import ClaimManager
from fairlead.agent.devices.drivers import DRA, DeviceDrivers
from fairlead.agent.eviction import Evictions
from fairlead.agent.health_port import serve_health
from fairlead.agent.image_collector import ImageCollector
from fairlead.agent.kernel_flags import kernel_problem
from fairlead.agent.kubelet_api.serving import serving_kubelet
from fairlead.agent.kubelet_port import Serving, serving_of
from fairlead.agent.lease import Lease
from fairlead.agent.local_path.provisioner import LocalPathProvisioner
from fairlead.agent.machine import is_swap_on, machine, swap_bytes
from fairlead.agent.measuring.machine import ROOT, memory_bytes, usable_cpus
from fairlead.agent.measuring.measurer import Measurer
from fairlead.agent.memory_notices import MemoryNotices
from fairlead.agent.network_choice import Networking
from fairlead.agent.network_seam import NetworkFailed
from fairlead.agent.node_object import NodeIdentity, NodeObject
from fairlead.agent.plugins.sockets import PluginHandler, PluginSockets
from fairlead.agent.pod_resources.lister import PodResourcesLister
from fairlead.agent.pods import apparmor, selinux
from fairlead.agent.pods.events import PodEvents
from fairlead.agent.pods.log_rotation import LogRotation
from fairlead.agent.pods.node_pods import NodePods
from fairlead.agent.pods.place import PODS as POD_FOLDERS
from fairlead.agent.pods.place import Place
from fairlead.agent.pods.pod_metrics import PodMetrics
from fairlead.agent.pods.pull_records import PullRecords
from fairlead.agent.pods.pulls import Pulls
from fairlead.agent.pods.service_links import with_api_server_at
from fairlead.agent.pods.sources import Sources
from fairlead.agent.pods.streams import RealPodStreams
from fairlead.agent.pods.user_ranges import UserRanges
from fairlead.agent.pods.worker import PodWorker
from fairlead.agent.reclaiming import Reclaimer
from fairlead.agent.runtime_choice import Ground, Runtimes
from fairlead.agent.runtimes.base import RuntimeFailure, State
from fairlead.agent.settings_table import idle_settings
from fairlead.agent.shutdown.shutdown import Shutdown
from fairlead.agent.static_pods.manifests import Normalise
from fairlead.agent.static_pods.mirrors import Mirrors
from fairlead.agent.static_pods.static_pods import FOLDER, StaticPods
from fairlead.agent.system_oom import watch_system_oom
from fairlead.agent.topology.machine_topology import memory_of_machine, numa_nodes_of_machine, topology_of_machine
from fairlead.agent.topology.manager import TopologyManager
from fairlead.agent.volumes.claimed import Claims
from fairlead.api.builtin import NODES, PODS, SERVICES
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.services import Service
from fairlead.api.verbs import Api
from fairlead.client.events import EventRecorder
from fairlead.client.informer import Informer
from fairlead.node.allocatable import all_pods
from fairlead.node.cgroups.containers import ContainerHost
from fairlead.node.cgroups.files import files
from fairlead.node.cgroups.names import CgroupDriver, CgroupName, kubepods, path_of
from fairlead.node.cgroups.qos_tree import class_requests, spared
from fairlead.node.cgroups.values import CgroupValues
from fairlead.node.conditions import NodeHealth
from fairlead.node.configuration.document import document as whole_document
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.load import Configured, configure
from fairlead.node.declared_features import declared_features
from fairlead.node.eviction.manager import MONITORING_SECONDS
from fairlead.node.eviction.settings import EvictionSettings, eviction_settings
from fairlead.node.eviction.signals import Signal
from fairlead.node.image_collection import COLLECTION_SECONDS, ImagePolicy
from fairlead.node.log_rotation import LogPolicy
from fairlead.node.oom import EXEMPT
from fairlead.node.plan import NodeEvent, class_cgroups, node_plan, pods_limit_event
from fairlead.node.shutdown import REFUSAL, SHUTTING_DOWN, periods_of
from fairlead.node.startup import start_settings
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.node.sysctls import pattern_problem
from fairlead.node.user_ids import ids_per_pod
from fairlead.runtime.clock import monotonic

if TYPE_CHECKING:
    from fairlead.agent.certificates.kept import KeptCertificate

#: How often the cgroups of QoS classes are corrected without a cause.
CORRECTION_SECONDS: Final = 60.0
#: How often a runtime that is away at the start is tried.
ADOPT_AGAIN_SECONDS: Final = 1.0
KEEPERS: Final = "fairlead-conmon"
_NETWORK_NOT_READY: Final = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:"
)
#: Whether the kernel counts swap; it can be built or told not to.
_SWAP_FILES: Final = {1: "memory.memsw.limit_in_bytes", 2: "memory.swap.max"}
_STARTING: Final = NodeEvent("Normal", "Starting", "Starting kubelet.")
_CGROUP_V1: Final = NodeEvent(
    "Warning", "CgroupV1", "cgroup v1 support is unsupported and will be removed in a future release"
)

log = logging.getLogger(__name__)


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    identity: NodeIdentity
    root: Path
    #: A KubeletConfiguration, and a kubelet's flags, which win over it.
    document: Obj = msgspec.field(default_factory=dict)
    flags: Sequence[str] = ()
    #: The cgroup that is the machine: with a memory limit of its own, a node that leaves the rest of the machine alone.
    within: str = ROOT
    #: How manifests of static pods are brought into normal form.
    normalise_pod: Normalise
    #: Where pods find the API server if its service leads nowhere, as in the network of the machine: a URL.
    api_server: str = ""
    #: How often the node measures what it uses; a kubelet leaves no choice, tests are in a hurry.
    measure_seconds: float = MONITORING_SECONDS


class NodeAgent:
    """Use `run`; StartupError for what a kubelet would not start with."""

    def __init__(
        self,
        api: Api,
        settings: AgentSettings,
        runtimes: Runtimes,
        networking: Networking,
        storage: Api | None = None,
        cgroups: Cgroups | None = None,
    ) -> None:
        """`storage` is as whom folders become the volumes of claims; None: somebody else sees to claims. `cgroups` are
        the machine's, unless something else stands for them."""
        identity, root = settings.identity, settings.root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._api = api
        self._cgroups = cgroups if cgroups is not None else Cgroups(hierarchies())
        self._normalise_pod, self._api_server = settings.normalise_pod, settings.api_server
        self._within, self._measure_seconds = settings.within, settings.measure_seconds
        self._machine = replace(
            machine(root),
            cpus=len(usable := usable_cpus(self._cgroups, settings.within)),
            memory_bytes=memory_bytes(self._cgroups, settings.within),
        )
        self._configured = _configured(settings, self._cgroups.hierarchies.version)
        config = self._configured.configuration
        self._identity = replace(
            identity,
            provider_id=config.provider_id,
            is_attached_to=config.enable_controller_attach_detach,
            is_registering=identity.is_registering and config.register_node,
            taints=identity.taints or config.register_with_taints,
        )
        self._plan = node_plan(
            self._configured,
            self._machine,
            self._missing_cgroups(),
            self._memory_used(self._kubepods),
            topology := topology_of_machine(usable),
            memory_of_machine(nodes := numa_nodes_of_machine(topology), self._machine),
        )
        self._topology = TopologyManager(root, self._configured, self._plan, nodes)
        least = least_oom_score_adj()
        keepers = path_of((*kubepods(config.cgroup_root)[:-1], KEEPERS), CgroupDriver.CGROUPFS)
        ground = Ground(root, self._cgroups, keepers, least, config.container_runtime_endpoint)
        self._runtime, self._images = runtimes(ground)
        self._log_rotation = LogRotation(self._runtime, LogPolicy.of(config))
        self._recorder = EventRecorder(api, "kubelet", host=identity.name)
        self._provisioner = LocalPathProvisioner(storage, identity.name, identity.hostname, root) if storage else None
        self._network, self._root = networking(config), root
        self._drivers, self._csi_drivers = DeviceDrivers(api, identity.name), CsiDrivers(api, identity.name)
        self._device_plugins = DevicePlugins(root)
        self._shutdown = Shutdown(periods_of(self._configured), root)
        kinds: dict[str, PluginHandler] = {DRA: self._drivers, CSI: self._csi_drivers}
        if self._runtime.has_users:  # a user may give nobody a device
            kinds[DEVICE_PLUGIN] = self._device_plugins
        self._sockets = PluginSockets(root, kinds)
        self._network_failure = self._adopting_failure = ""
        self._least_oom_score_adj = least
        self._keepers = keepers
        named = config.kubelet_cgroups, config.system_cgroups
        self._daemons = DaemonCgroups(self._cgroups, settings.within, root, *named)
        self._serving = serving_of(config, identity.ip)
        self._look = asyncio.Event()
        self._pressures: Callable[[], Sequence[str]] = tuple
        self._measured: Callable[[], NodeMeasurements | None] = lambda: None
        #: Set once the cluster knows of the node.
        self.registered = asyncio.Event()

    def be_spared(self) -> None:
        """This process gets the oom_score_adj of the configuration, or the least that the machine gives."""
        score = max(self._configured.configuration.oom_score_adj, self._least_oom_score_adj)
        Path("/proc/self/oom_score_adj").write_text(str(score))

    async def run(self) -> None:
        """Be this node until cancelled."""
        claim(self._root, self._cgroups, [self._keepers, self._kubepods])
        self._topology.restore()
        await asyncio.to_thread(self._enforce)
        config = self._configured.configuration
        nodes = Informer(self._api, NODES, Node, fields=f"metadata.name={self._identity.name}")
        csi = CsiVolumes(
            self._root,
            self._root / POD_FOLDERS,
            sources := Sources(self._api),
            self._identity.name,
            self._csi_drivers,
            lambda: nodes.get(self._identity.name),
            lambda: node.look_again(),
        )
        nodes.subscribe(lambda old, new: csi.node_changed())
        node = NodeObject(
            self._api,
            self._recorder,
            self._identity,
            self._plan.capacity,
            self._plan.allocatable,
            self._runtime,
            self._health,
            lambda: nodes.get(self._identity.name),
            config.port if self._serving is not None else 0,
            declared_features(self._configured),
            self._images.listed,
            config.node_status_max_images,
            lambda: csi.in_use,
            self._device_plugins.amounts,
        )
        self._device_plugins.subscribe(node.look_again)
        services = Informer(self._api, SERVICES, Service)
        pods = Informer(self._api, PODS, Pod, fields=f"spec.nodeName={self._identity.name}")
        place = self._place(services, csi, sources)
        statics = self._static_pods()
        worker = PodWorker(
            place,
            NodePods(self._api, pods, statics),
            lambda: nodes.get(self._identity.name) or node.initial(),
            lambda: self._pressures(),
            self._look.set,
            lambda: REFUSAL if self._shutdown.has_begun else None,
        )
        measurer = self._measurer(place, worker)
        self._measured = lambda: measurer.last
        settings, reclaimer = eviction_settings(config), Reclaimer(place, worker)
        notices = self._memory_notices(settings)
        evictions = Evictions(settings, worker, measurer, reclaimer, notices, node.look_again, node.tell)
        images = ImageCollector(ImagePolicy.of(config), measurer, reclaimer, node.tell)
        self._pressures = lambda: evictions.pressures
        mirrors = Mirrors(self._api, self._identity.name, lambda: node.uid, statics)
        await statics.look()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._recorder.run(), name="events")
                group.create_task(serve_health(config), name="health")
                group.create_task(watch_system_oom(self._within, node.tell), name="the kernel's log")
                is_adopted = await self._adopt()
                known = group.create_task(self._be_known(group, node, nodes), name="registration")
                while not is_adopted:
                    await asyncio.sleep(ADOPT_AGAIN_SECONDS)
                    is_adopted = await self._adopt()
                node.look_again()
                group.create_task(self._connect(node), name="network")
                group.create_task(statics.run(), name="static pods")
                group.create_task(services.run(), name="services")
                group.create_task(self._runtime.run(), name="runtime")
                group.create_task(worker.run(), name="pods")
                group.create_task(self._log_rotation.run(), name="log rotation")
                group.create_task(self._correct(worker, node), name="QoS cgroups")
                group.create_task(self._shutdown.run(worker, node.look_again, node.tell), name="shutdown")
                group.create_task(measurer.run(), name="folders")
                group.create_task(evictions.run(self._measure_seconds), name="evictions")
                rare = self._measure_seconds * COLLECTION_SECONDS / MONITORING_SECONDS
                group.create_task(images.run(rare), name="unused images")
                await known
                group.create_task(self._drivers.run(), name="drivers")
                group.create_task(self._sockets.run(), name="plugins")
                group.create_task(csi.stats.run(config.volume_stats_agg_period), name="volumes of drivers")
                resources = PodResourcesLister(
                    self._root, place.devices, self._device_plugins, self._topology, lambda: worker.real_pods
                )
                if self._runtime.has_users:
                    group.create_task(self._device_plugins.run(), name="device plugins")
                    group.create_task(resources.run(), name="pod resources")
                if self._serving is not None:
                    shown = whole_document(self._configured.configuration)
                    families = *resources.families, *self._shutdown.families
                    streams = RealPodStreams(worker, place, shown, self._measured, evictions.counts, families)
                    group.create_task(self._serve(self._serving, streams))
                await nodes.synced()
                await services.synced()
                if self._provisioner is not None:
                    group.create_task(self._provisioner.run(), name="volumes of claims")
                group.create_task(pods.run(), name="own pods")
                group.create_task(mirrors.run(pods), name="mirrors of static pods")
        finally:
            await worker.close()
            self._csi_drivers.close()
            self._runtime.close()

    async def _adopt(self) -> bool:
        """Take up what runs; False: the runtime does not do what it takes, which the node's condition tells."""
        before = self._adopting_failure
        try:
            await self._runtime.adopt()
        except RuntimeFailure as failure:
            self._adopting_failure = f"container runtime is down: {failure}"
            if self._adopting_failure != before:
                log.warning("%s; waiting for it", self._adopting_failure)
            return False
        self._adopting_failure = ""
        return True

    async def _be_known(self, group: asyncio.TaskGroup, node: NodeObject, nodes: Informer[Node]) -> None:
        """Register the node; from then on its lease and its status are kept up to date."""
        await node.register()
        self.registered.set()
        is_old = self._configured.cgroup_version == 1
        node.tell(_STARTING, *([_CGROUP_V1] if is_old else []), *self._plan.events)
        group.create_task(nodes.run(), name="own node")
        config = self._configured.configuration
        lease = Lease(self._api, self._identity.name, node.uid, config.node_lease_duration_seconds)
        group.create_task(lease.run(), name="lease")
        frequencies = config.node_status_update_frequency, config.node_status_report_frequency
        group.create_task(node.run(*frequencies), name="node status")

    def _static_pods(self) -> StaticPods:
        config = self._configured.configuration
        path = Path(config.static_pod_path) if config.static_pod_path else None
        kept, name = self._root / FOLDER, self._identity.name
        return StaticPods(path, kept, name, self._normalise_pod, config.file_check_frequency)

    async def _connect(self, node: NodeObject) -> None:
        """The network of pods, until cancelled. A node without is not ready, and goes on with what runs."""
        try:
            await self._network.run()
        except NetworkFailed as failure:
            self._network_failure = f"{_NETWORK_NOT_READY}{failure}"
            log.warning("%s", self._network_failure)
            node.look_again()

    async def _serve(self, serving: Serving, streams: RealPodStreams) -> None:
        """The kubelet's API, until cancelled."""
        identity, kept = serving.identity, None
        if identity is None:
            kept = self._kept_certificate()
            identity = await kept.first()
        async with serving_kubelet(
            serving.sock, self._identity.name, streams, self._api, identity, serving.client_ca, serving.rules
        ) as show:
            if kept is not None:
                await kept.renew(identity, show)
            await asyncio.get_running_loop().create_future()

    def _kept_certificate(self) -> KeptCertificate:
        from fairlead.agent.certificates.kept import KeptCertificate  # with what reads certificates: 8 MB

        name, ip = self._identity.name, self._identity.ip
        return KeptCertificate.serving(self._api, name, [name, ip], self._root / "pki" / "kubelet-server.pem")

    @property
    def running_containers(self) -> int:
        return sum(status.state is State.RUNNING for status in self._runtime.containers())

    @property
    def is_empty(self) -> bool:
        """There is nothing of any pod."""
        return not self._runtime.sandboxes() and not self._runtime.containers()

    @property
    def measured(self) -> NodeMeasurements | None:
        """What was measured last; None: nothing yet."""
        return self._measured()

    @property
    def _kubepods(self) -> str:
        config = self._configured.configuration
        return path_of(kubepods(config.cgroup_root, per_qos=config.cgroups_per_qos), CgroupDriver.CGROUPFS)

    def _measurer(self, place: Place, worker: PodWorker) -> Measurer:
        config = self._configured.configuration
        own = config.kubelet_cgroups or own_cgroup(self._cgroups.hierarchies.version)
        system = {"kubelet": own, "runtime": config.runtime_cgroups or self._keepers, "pods": self._kubepods}
        if config.system_cgroups:
            system["misc"] = config.system_cgroups
        every = config.volume_stats_agg_period
        return Measurer(place, self._within, system, lambda: worker.real_pods, self._measure_seconds, every)

    def _memory_notices(self, settings: EvictionSettings) -> MemoryNotices:
        """The kernel tells, if the configuration wants it to; on version 2 it cannot, which was said at the start."""
        is_told = self._configured.configuration.kernel_memcg_notification and self._configured.cgroup_version == 1
        watched = {Signal.MEMORY: self._within, Signal.ALLOCATABLE_MEMORY: self._kubepods}
        return MemoryNotices(self._cgroups, watched, settings.thresholds if is_told else ())

    def _place(self, services: Iterable[Service], csi: CsiVolumes, sources: Sources) -> Place:
        config = self._configured.configuration
        return Place(
            node_name=self._identity.name,
            node_ip=self._identity.ip,
            root=self._root,
            runtime=self._runtime,
            images=self._images,
            pulls=Pulls(self._images, PullRecords.of(self._root / "pulls", config), config),
            network=self._network,
            cgroups=self._cgroups,
            sources=sources,
            claims=Claims(self._api, self._identity.name, csi),
            devices=ClaimManager(self._root, self._api, self._drivers),
            topology=self._topology,
            device_plugins=self._device_plugins,
            services=lambda: with_api_server_at(services, self._api_server) if self._api_server else services,
            users=UserRanges(self._root / POD_FOLDERS, config.max_pods, ids_per_pod(config)),
            events=PodEvents(self._recorder, config.event_record_qps, config.event_burst),
            metrics=PodMetrics(),
            configured=self._configured,
            host=self._container_host(),
            has_apparmor=apparmor.is_enabled(),
            has_selinux=selinux.is_enabled(),
            allocatable=self._plan.allocatable,
        )

    def _container_host(self) -> ContainerHost:
        config, version = self._configured.configuration, self._configured.cgroup_version
        reservations = start_settings(config, self._machine.cpus).reservations
        return ContainerHost(
            self._machine.memory_bytes,
            version,
            has_swap_controller=self._cgroups.read(self._kubepods, _SWAP_FILES[version]) is not None,
            swap_capacity=swap_bytes(),
            is_single_process_oom_kill=config.is_single_process_oom_kill(version),
            allocatable_memory=all_pods(self._machine, config, reservations, in_full=False)["memory"].units,
        )

    def _health(self) -> NodeHealth:
        warnings = [*self._runtime.limits, *self._network.problems]
        if (least := self._least_oom_score_adj) > EXEMPT:
            warnings.append(f"this machine refuses an oom_score_adj below {least}; containers get that instead")
        if self._shutdown.problem:
            warnings.append(self._shutdown.problem)
        shutdown = SHUTTING_DOWN if self._shutdown.has_begun else ""
        problems = self._adopting_failure or self._runtime.problem, self._network_failure, shutdown
        errors = [problem for problem in problems if problem]
        return NodeHealth(self._pressures(), errors=errors, warnings=warnings)

    def _enforce(self) -> None:
        if self._plan.problem:
            raise StartupError(Stage.START, self._plan.problem)
        self._ensure(self._plan.cgroups)
        self._daemons.ensure()

    async def _correct(self, worker: PodWorker, node: NodeObject) -> None:
        """What the classes weigh depends on their pods; and somebody may have written to our cgroups."""
        is_limited = all(event.type == "Normal" for event in self._plan.events)
        due = monotonic() + CORRECTION_SECONDS
        while True:
            specs = [pod["spec"] for pod in worker.admitted]
            classes = class_cgroups(self._configured, self._machine, class_requests(specs))
            await asyncio.to_thread(self._ensure, classes)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._look.wait()
            self._look.clear()
            if monotonic() < due:  # with pods that come and go all the time it is due, too
                continue
            await asyncio.to_thread(self._enforce)
            due = monotonic() + CORRECTION_SECONDS
            if not is_limited:
                node.tell(event := self._limit_of_pods())
                is_limited = event.type == "Normal"

    def _ensure(self, wanted: Mapping[CgroupName, CgroupValues]) -> None:
        """No memory limit is set that somebody would be killed for: version 2 takes such a limit, and kills."""
        version = self._configured.cgroup_version
        for name, values in wanted.items():
            path = path_of(name, CgroupDriver.CGROUPFS)
            kept = spared(values, self._memory_used(path))
            if path == self._kubepods and kept != values:  # S1-23: not set at all, but tried again
                kept = replace(values, memory_limit=None)
            self._cgroups.ensure(path, files(kept, version))

    def _memory_used(self, path: str) -> int:
        """What a limit must not be below. Version 1 refuses what would kill, and takes back what files have first."""
        usage = usage_of(self._cgroups, path) or CgroupUsage()
        return usage.memory_usage_bytes if self._cgroups.hierarchies.version == 2 else usage.working_set_bytes

    def _limit_of_pods(self) -> NodeEvent:
        """What is told of the memory limit of all pods."""
        root = kubepods(self._configured.configuration.cgroup_root)
        limit = self._plan.cgroups[root].memory_limit
        return pods_limit_event(root, self._configured, limit, self._memory_used(self._kubepods))

    def _missing_cgroups(self) -> list[str]:
        """Those of daemons that the configuration names and the machine does not have."""
        config = self._configured.configuration
        named = (config.system_reserved_cgroup, config.kube_reserved_cgroup)
        return [path for path in named if path and not self._cgroups.exists(path)]


def _configured(settings: AgentSettings, cgroup_version: int) -> Configured:
    """With cgroupfs names: nobody here makes slices of systemd."""
    document = {"cgroupDriver": str(CgroupDriver.CGROUPFS), **settings.document}
    configured = configure(document, settings.flags, cgroup_version=cgroup_version)
    if configured.configuration.cgroup_driver != CgroupDriver.CGROUPFS:
        raise StartupError(Stage.START, "cgroupDriver systemd is not supported by this agent; say cgroupfs")
    if configured.configuration.fail_swap_on and is_swap_on():
        problem = "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"
        raise StartupError(Stage.START, problem)
    if configured.configuration.static_pod_url:
        raise StartupError(Stage.START, "staticPodURL is not supported by this agent; say staticPodPath")
    if configured.configuration.protect_kernel_defaults and (problem := kernel_problem()):
        raise StartupError(Stage.START, problem)
    if problem := pattern_problem(configured.configuration.allowed_unsafe_sysctls):
        raise StartupError(Stage.START, problem)
    if not configured.configuration.cgroups_per_qos:
        raise StartupError(Stage.START, "cgroupsPerQOS false is not supported by this agent; leave it out")
    for warning in (*configured.warnings, *idle_settings(configured.configuration)):
        log.warning("%s", warning)
    return configured
