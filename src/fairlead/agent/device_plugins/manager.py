"""Devices that plugins offer as extended resources: who has registered, what the node has, and what containers get.

    kubelet.sock ─┐
                  ├▶ registered ─▶ lists its devices ─▶ the node's capacity ─▶ (scheduler) ─▶ admitted ─▶ Allocate
    plugins_registry              └▶ gone: allocatable 0, after five minutes capacity 0

Source: pkg/kubelet/cm/devicemanager/manager.go (1.36).
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from fairlead.agent.device_plugins.errors import DevicePluginError
from fairlead.agent.device_plugins.given import DevicesGiven, given
from fairlead.agent.device_plugins.hints import PluginHints, by_affinity
from fairlead.agent.device_plugins.holdings import CHECKPOINT, Holding, Holdings
from fairlead.agent.device_plugins.inventory import EMPTY, Inventory
from fairlead.agent.device_plugins.messages import REGISTER, VERSION, RegisterRequest
from fairlead.agent.device_plugins.metrics import DevicePluginMetrics
from fairlead.agent.grpc.listening import Refused, Served, serve
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.plugins.messages import PluginInfo
from fairlead.api.objects import Obj
from fairlead.api.podresources import is_sidecar
from fairlead.api.quantity import parse
from fairlead.golang.quoting import go_quote
from fairlead.kinds.resource_names import is_extended
from fairlead.runtime.clock import monotonic
from fairlead.runtime.metrics import Family

if TYPE_CHECKING:
    from fairlead.agent.device_plugins.plugin import DevicePlugin

#: What plugins call themselves at the other sockets.
DEVICE_PLUGIN: Final = "DevicePlugin"
#: In the folder of the agent, as a kubelet has it.
FOLDER: Final = "device-plugins"
SOCKET: Final = "kubelet.sock"
#: For so long a plugin may be away before the node has none of its devices any more.
GRACE_SECONDS: Final = 300.0
#: How often devices are taken back of pods that are not there any more.
_RECONCILE_SECONDS: Final = 60.0
#: The status of a node names each.
_MOST_RESOURCES: Final = 1000
#: The most devices that a plugin is asked about which of them it would rather give.
_MOST_OFFERED: Final = 8192

#: By container, of which NUMA nodes it is to have devices; None: it does not matter.
Affinity: TypeAlias = Mapping[str, frozenset[int] | None]
_ANYWHERE: Final[Affinity] = {}

log = logging.getLogger(__name__)


class DeviceAmounts(NamedTuple):
    """What the node has by its plugins, as its status shows it."""

    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]


@dataclass(slots=True)
class _Resource:
    """What a plugin has registered."""

    #: None: it has gone, at that time.
    plugin: DevicePlugin | None = None
    gone_at: float = 0.0
    #: As it was listed last, by a plugin that may have gone.
    inventory: Inventory = EMPTY
    is_listed: bool = False
    #: One pod after the other chooses: a plugin that hangs holds up those alone who want its devices.
    choosing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def offered(self) -> Inventory:
        """Nothing of a plugin that has gone, until one has come back and listed what there is."""
        return self.inventory if self.is_listed else EMPTY


class DevicePlugins:
    def __init__(self, root: Path, grace_seconds: float = GRACE_SECONDS) -> None:
        self._folder, self._grace_seconds = root / FOLDER, grace_seconds
        self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._holdings, self._metrics = Holdings(self._folder), DevicePluginMetrics()
        now = monotonic()
        self._resources = {name: _Resource(gone_at=now) for name in self._holdings.registered_before}
        self._removed = set[str]()  # of which the node is yet to say that it has none
        self._is_to_be_kept = False
        self._changed: list[Callable[[], None]] = []
        self._health_changed: list[Callable[[str], None]] = []

    async def run(self) -> None:
        """Until cancelled: plugins register at our socket, which they look for to know that there is a new agent."""
        try:
            await asyncio.to_thread(_remove_sockets, self._folder)
            await serve(self._folder / SOCKET, [Served(REGISTER, self._asked_to_register)])
        finally:
            for resource in self._resources.values():
                if resource.plugin is not None:
                    resource.plugin.close()

    async def reconcile(self, active: Callable[[], Collection[str]]) -> None:
        """Until cancelled: take back what pods have that are not there any more."""
        while True:
            for uid in set(self._holdings.pods) - set(active()):
                self.release(uid)
            if self._is_to_be_kept:
                await self._try_to_keep()
            await asyncio.sleep(_RECONCILE_SECONDS)

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call that when the node has other devices."""
        self._changed.append(changed)

    def subscribe_health(self, changed: Callable[[str], None]) -> None:
        """Call that with the uid of each pod that has a device whose health has changed."""
        self._health_changed.append(changed)

    # -- who registers

    async def register(self, info: PluginInfo, endpoint: str) -> str:
        """Why it cannot be, or nothing. As at the sockets of other plugins, where the name is that of the resource."""
        if VERSION not in info.supported_versions:
            said = " ".join(info.supported_versions)
            why = f"manager version, {VERSION}, is not among plugin supported versions [{said}]"
            return f"plugin validation failed with err: {why}"
        if not is_extended(info.name):
            return f"plugin validation failed with err: invalid name of device plugin socket: {_invalid(info.name)}"
        try:
            await self._connect(info.name, endpoint)
        except DevicePluginError as problem:
            return f"plugin registration failed with err: {problem}"
        return ""

    def deregister(self, name: str, endpoint: str) -> None:
        resource = self._resources.get(name)
        if resource is not None and resource.plugin is not None and resource.plugin.endpoint == endpoint:
            resource.plugin.close()
            self._has_gone(resource.plugin)

    async def _asked_to_register(self, asked: RegisterRequest) -> Nothing:
        self._metrics.registers(asked.resource_name)
        if asked.version != VERSION:
            asked_for = f"requested API version {go_quote(asked.version)} is not supported by kubelet"
            raise Refused(f'{asked_for}. Supported version is ["{VERSION}"]')
        if not is_extended(asked.resource_name):
            raise Refused(_invalid(asked.resource_name))
        try:
            await self._connect(asked.resource_name, str(self._folder / asked.endpoint))
        except DevicePluginError as problem:
            raise Refused(str(problem)) from None
        return Nothing()

    async def _connect(self, name: str, endpoint: str) -> None:
        """A newer plugin takes the place of an older one. DevicePluginError."""
        from fairlead.agent.device_plugins.plugin import DevicePlugin  # with what speaks gRPC

        if name not in self._resources and len(self._resources) >= _MOST_RESOURCES:
            raise DevicePluginError(f"this node has {_MOST_RESOURCES} resources of device plugins, and takes no more")
        plugin = DevicePlugin(name, endpoint)
        await plugin.connect()
        is_new = name not in self._resources
        resource = self._resources.setdefault(name, _Resource())
        if resource.plugin is not None:
            resource.plugin.close()
        resource.plugin = plugin
        self._removed.discard(name)
        log.info("the device plugin of %s at %s has registered", name, endpoint)
        plugin.watch(lambda inventory: self._listed(plugin, inventory), lambda: self._has_gone(plugin))
        if is_new:
            await self._try_to_keep()  # the next agent offers nothing of it until it registers again

    def _listed(self, plugin: DevicePlugin, inventory: Inventory) -> None:
        resource = self._resources[plugin.resource]
        if resource.plugin is plugin:
            before, offered = resource.inventory, resource.offered
            resource.inventory, resource.is_listed = inventory, True
            self._tell(plugin.resource, before, inventory)
            if _size(offered) != _size(inventory):
                self._tell_node()

    def _has_gone(self, plugin: DevicePlugin) -> None:
        """How its devices are is not known any more, and shown as it was; nobody gets one."""
        resource = self._resources[plugin.resource]
        if resource.plugin is plugin:
            resource.plugin, resource.gone_at, resource.is_listed = None, monotonic(), False
            self._tell_node()

    def _tell_node(self) -> None:
        for changed in self._changed:
            changed()

    def _tell(self, name: str, before: Inventory, now: Inventory) -> None:
        """Those who have devices that are better or worse than before."""
        users = {
            holding.pod
            for holding in self._holdings.all_of(name)
            if any(before.is_healthy(device) != now.is_healthy(device) for device in holding.devices)
        }
        for uid in sorted(users):
            for changed in self._health_changed:
                changed(uid)

    # -- what the node has

    def amounts(self, shown: Mapping[str, str]) -> DeviceAmounts:
        """`shown` is the capacity of the node as it was last seen: a resource that has gone is 0 there, and stays."""
        for name in [name for name, resource in self._resources.items() if self._is_expired(resource)]:
            del self._resources[name]
            self._removed.add(name)
            self._is_to_be_kept = True
        self._removed = {name for name in self._removed if shown.get(name) != "0"}
        none = dict.fromkeys(self._removed, "0")
        every = self._resources.items()
        capacity = {name: str(len(resource.inventory.nodes)) for name, resource in every}
        healthy = {name: str(resource.offered.healthy_count) for name, resource in every}
        return DeviceAmounts(none | capacity, none | healthy)

    def _is_expired(self, resource: _Resource) -> bool:
        return resource.plugin is None and monotonic() - resource.gone_at > self._grace_seconds

    @property
    def families(self) -> Iterable[Family]:
        """What is counted."""
        return self._metrics.families

    def healthy(self) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """Each device that may be given away, with its resource and its NUMA nodes."""
        for name, inventory in [(name, resource.offered) for name, resource in self._resources.items()]:
            yield from ((name, id_, inventory.nodes[id_]) for id_ in inventory.healthy_but(()))

    # -- what pods have

    def concern(self, manifest: Obj) -> bool:
        """Whether any container of the pod wants devices of plugins."""
        spec = manifest["spec"]
        every = (*(spec.get("initContainers") or ()), *spec["containers"])
        return any(True for container in every for _ in self._wanted(manifest, container))

    def hints(self, manifest: Obj, nodes: frozenset[int]) -> PluginHints:
        """Where the pod could have what it wants, on a machine of these NUMA nodes."""
        offered = {name: resource.offered for name, resource in self._resources.items()}
        return PluginHints(manifest, nodes, offered, self._holdings, lambda each: dict(self._wanted(manifest, each)))

    async def allocate(self, manifest: Obj, affinity: Affinity = _ANYWHERE) -> str:
        """Why the pod cannot have the devices of its containers; nothing once it has them.

        `affinity`: of which NUMA nodes they are to be, by container, as far as there are enough.
        """
        spec, uid = manifest["spec"], manifest["metadata"]["uid"]
        reusable = defaultdict[str, dict[str, None]](dict)  # devices by resource, in their order
        try:
            for container in spec.get("initContainers") or ():
                await self._allocate(manifest, container, reusable, affinity)
                self._reuse(uid, container, reusable, is_again=not is_sidecar(container))
            for container in spec["containers"]:
                await self._allocate(manifest, container, reusable, affinity)
                self._reuse(uid, container, reusable, is_again=False)
        except DevicePluginError as problem:
            self.release(uid)
            return f"Allocate failed due to {problem}, which is unexpected"
        return ""

    def release(self, uid: str) -> None:
        """The pod has ended. Should that not be written before the agent ends, the next one finds the pod gone."""
        if self._holdings.release(uid):
            self._is_to_be_kept = True

    def has(self, uid: str) -> bool:
        return self._holdings.has(uid)

    def taken(self) -> Mapping[str, int]:
        """How many devices of each resource pods have."""
        return self._holdings.counts()

    def of(self, uid: str, container: str) -> list[Holding]:
        """The devices of a container, by resource."""
        return self._holdings.of(uid, container)

    async def given(self, manifest: Obj, container: Obj) -> DevicesGiven:
        """What a container gets that is about to start. DevicePluginError where its plugin does not make that ready."""
        uid, name = manifest["metadata"]["uid"], container["name"]
        for resource, _ in self._wanted(manifest, container):
            if (known := self._resources.get(resource)) is None:
                raise DevicePluginError(f"endpoint not found in cache for a registered resource: {resource}")
            holding = self._holdings.find(uid, name, resource)
            if holding is None:  # nobody had registered when the pod was admitted
                await self._allocate(manifest, container, defaultdict(dict))
                holding = self._holdings.find(uid, name, resource)
            if known.plugin is not None and holding is not None:
                await known.plugin.pre_start(list(holding.devices))
        return given(self._holdings.of(uid, name))

    def shown_health(self, uid: str, container: str) -> list[Obj]:
        """`allocatedResourcesStatus` of a container."""
        return [
            {"name": holding.resource, "resources": [self._shown(holding.resource, id_) for id_ in holding.devices]}
            for holding in self._holdings.of(uid, container)
        ]

    def _shown(self, resource: str, id_: str) -> Obj:
        known = self._resources.get(resource)
        is_healthy = known is None or known.inventory.is_healthy(id_)
        return {"resourceID": id_, "health": "Healthy" if is_healthy else "Unhealthy"}

    def _wanted(self, manifest: Obj, container: Obj) -> Iterator[tuple[str, int]]:
        """The resources of plugins that it wants, and how many of each; what is claimed from a driver is none."""
        claimed = (manifest.get("status") or {}).get("extendedResourceClaimStatus") or {}
        mappings = [each for each in claimed.get("requestMappings") or () if each["containerName"] == container["name"]]
        of_drivers = {each["resourceName"] for each in mappings}
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if not is_extended(name) or name in of_drivers or not (count := parse(amount).units):
                continue
            if name in self._resources or any(True for _ in self._holdings.all_of(name)):
                yield name, count

    async def _allocate(
        self,
        manifest: Obj,
        container: Obj,
        reusable: Mapping[str, Mapping[str, None]],
        affinity: Affinity = _ANYWHERE,
    ) -> None:
        """DevicePluginError."""
        uid, name, has_changed = manifest["metadata"]["uid"], container["name"], False
        for resource, count in self._wanted(manifest, container):
            if (known := self._holdings.find(uid, name, resource)) is None:
                again, nodes = reusable.get(resource) or {}, affinity.get(name)
                self._holdings.add(await self._chosen(uid, name, resource, count, again, nodes))
                has_changed = True
            elif len(known.devices) != count:
                about = f'pod "{uid}" container "{name}" changed request for resource "{resource}"'
                raise DevicePluginError(f"{about} from {len(known.devices)} to {count}")
        if has_changed:
            try:
                await self._keep()
            except OSError as problem:
                raise DevicePluginError(f'failed to write checkpoint file "{CHECKPOINT}": {problem}') from None

    async def _chosen(
        self, uid: str, container: str, name: str, count: int, reusable: Iterable[str], nodes: frozenset[int] | None
    ) -> Holding:
        """DevicePluginError."""
        if (resource := self._resources.get(name)) is None:
            raise DevicePluginError(f"cannot allocate unregistered device {name}")
        async with resource.choosing:
            plugin, inventory = resource.plugin, resource.offered
            if plugin is None or not inventory.healthy_count:
                raise DevicePluginError(f"no healthy devices present; cannot allocate unhealthy devices {name}")
            chosen = dict.fromkeys(list(reusable)[:count])
            if (missing := count - len(chosen)) > 0:
                taken = self._holdings.taken(name)
                if (count_free := inventory.healthy_count - inventory.healthy_among(taken)) < missing:
                    what = f"requested number of devices unavailable for {name}"
                    raise DevicePluginError(f"{what}. Requested: {missing}, Available: {count_free}")
                near, far = by_affinity(inventory, inventory.healthy_but(taken), nodes)
                if len(near) < missing:  # all of them, and what is missing of the others
                    chosen |= dict.fromkeys(near)
                    missing, near = missing - len(near), far
                free = dict.fromkeys(islice(near, max(missing, _MOST_OFFERED)))
                preferred = await plugin.preferred([*chosen, *free], list(chosen), count)
                first = dict.fromkeys([*(id_ for id_ in preferred if id_ in free), *free])
                chosen |= dict.fromkeys(islice(first, missing))
            began = monotonic()
            try:
                got = await plugin.allocate(list(chosen))
            finally:
                self._metrics.allocated(name, monotonic() - began)
            return Holding(uid, container, name, {id_: inventory.nodes.get(id_, ()) for id_ in chosen}, got)

    def _reuse(self, uid: str, container: Obj, reusable: defaultdict[str, dict[str, None]], *, is_again: bool) -> None:
        """What an init container had others of the pod have after it; what runs beside them nobody else has."""
        for holding in self._holdings.of(uid, container["name"]):
            for id_ in holding.devices:
                if is_again:
                    reusable[holding.resource][id_] = None
                else:
                    reusable[holding.resource].pop(id_, None)

    async def _try_to_keep(self) -> None:
        try:
            await self._keep()
        except OSError as problem:
            log.warning("which pods have devices cannot be written: %s", problem)

    async def _keep(self) -> None:
        self._is_to_be_kept = False
        try:
            await self._holdings.keep(self._resources)
        except OSError:
            self._is_to_be_kept = True
            raise


def _size(inventory: Inventory) -> tuple[int, int]:
    return inventory.healthy_count, len(inventory.nodes)


def _invalid(name: str) -> str:
    return f"the ResourceName {go_quote(name)} is invalid"


def _remove_sockets(folder: Path) -> None:
    """Of earlier plugins, which register again when they see that."""
    for path in folder.iterdir():
        try:
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
        except OSError as problem:  # it has gone, or cannot be removed: the others can
            log.info("the socket of an earlier device plugin stays: %s", problem)
