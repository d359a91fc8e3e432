"""The claims of pods of this node: prepared by their drivers before a pod starts, given back before it is over.

Which claims those are survives a restart of the agent: else nobody would give back what is prepared. Claims that
several pods share are prepared once. Source: pkg/kubelet/cm/dra/manager.go (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import msgspec

from fairlead.agent.devices.drivers import DeviceDrivers, NoDriver
from fairlead.agent.devices.messages import Claim, Device
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.state_file import StateFile
from fairlead.api.builtin import RESOURCE_CLAIMS
from fairlead.api.devices import DeviceId, ResourceClaim
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.quantity import parse
from fairlead.api.resource_claims import NotMadeYet, PodClaimNames, pod_claims
from fairlead.api.verbs import Api
from fairlead.node.resource_claims import NeededClaim, claims_problem, needed_claims
from fairlead.runtime.clock import monotonic
from fairlead.runtime.metrics import Family

if TYPE_CHECKING:
    from fairlead.agent.devices.plugin import Plugin

STATE: Final = "dra_manager_state"
#: How often claims are given back of pods that are not there any more.
_RECONCILE_SECONDS: Final = 60.0

log = logging.getLogger(__name__)


class PreparedDevice(msgspec.Struct, frozen=True):
    requests: tuple[str, ...]
    cdi: tuple[str, ...]
    pool: str = ""
    name: str = ""
    share: str = ""

    def is_for(self, request: str) -> bool:
        """`""` stands for all requests; a device that names none is for all of them, too."""
        return not request or not self.requests or request in self.requests


class _Held(msgspec.Struct):
    """A claim that pods of this node have, or are about to have."""

    namespace: str
    name: str
    uid: str
    pods: set[str]
    #: By driver.
    devices: dict[str, tuple[PreparedDevice, ...]]
    is_prepared: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def claim(self) -> Claim:
        return Claim(namespace=self.namespace, uid=self.uid, name=self.name)


class _State(msgspec.Struct):
    claims: list[_Held]


class ClaimManager:
    def __init__(self, root: Path, api: Api, drivers: DeviceDrivers) -> None:
        self._api, self._drivers, self._healths = api, drivers, drivers.healths
        self._file = StateFile(root / STATE, _State)
        state = self._file.read()  # of what cannot be read the devices stay prepared, and its pods go on
        self._held: dict[str, _Held] = {held.key: held for held in (state.claims if state is not None else ())}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # those that somebody has or wants

    async def run(self, is_active: Callable[[str], bool]) -> None:
        """Until cancelled: give back what pods have left that are not there any more."""
        while True:
            left = {pod for held in self._held.values() for pod in held.pods if not is_active(pod)}
            for uid in sorted(left):
                try:
                    problem = await self.unprepare(uid)
                except OSError as error:  # the disk takes nothing
                    problem = str(error)
                if problem:
                    log.info("claims of pod %s cannot be given back yet: %s", uid, problem)
            await asyncio.sleep(_RECONCILE_SECONDS)

    def is_held(self, pod_uid: str) -> bool:
        """Whether there is anything to give back of the pod."""
        return any(pod_uid in held.pods for held in self._held.values())

    @property
    def families(self) -> Iterable[Family]:
        """What is counted."""
        return self._drivers.metrics.families(held.devices for held in self._held.values())

    async def prepare(self, pod: Pod) -> str:
        """Why the pod cannot have its devices; nothing once they are prepared."""
        try:
            needed = needed_claims(pod)
        except NotMadeYet as not_yet:
            return str(not_yet)
        if not needed:
            return ""
        began = monotonic()
        problem = await self._prepare_needed(pod, needed)
        self._drivers.metrics.operation("PrepareResources", monotonic() - began, problem)
        return problem

    async def _prepare_needed(self, pod: Pod, needed: Sequence[NeededClaim]) -> str:
        found: dict[str, ResourceClaim] = {}
        for name in dict.fromkeys(one.name for one in needed):
            try:
                found[name] = (await self._api.get(RESOURCE_CLAIMS, name, pod.metadata.namespace)).view(ResourceClaim)
            except NotFound:
                break
            except (ApiError, OSError) as error:
                return f"fetch ResourceClaim {name}: {error}"
        if problem := claims_problem(pod, found):
            return problem
        try:  # also of what is prepared already: without its driver something is wrong
            plugins = {driver: self._drivers.plugin(driver) for claim in found.values() for driver in _drivers(claim)}
        except NoDriver as problem_:
            return str(problem_)
        async with self._locked(claim.metadata.key for claim in found.values()):
            return await self._prepare(pod.metadata.uid, list(found.values()), plugins)

    async def _prepare(self, uid: str, claims: Sequence[ResourceClaim], plugins: Mapping[str, Plugin]) -> str:
        from fairlead.agent.devices.plugin import PluginFailure  # with what speaks gRPC

        for claim in claims:
            known = self._held.get(claim.metadata.key)
            if known is not None and known.uid != claim.metadata.uid:
                old = f"old ResourceClaim with same name {known.name} and different UID {known.uid} still exists"
                return f"{old} (previous pod force-deleted?!)"
        batches: dict[str, list[_Held]] = defaultdict(list)
        for claim in claims:
            meta = claim.metadata
            held = self._held.setdefault(
                meta.key,
                _Held(meta.namespace, meta.name, meta.uid, set(), dict.fromkeys(_drivers(claim), ())),
            )
            held.pods.add(uid)
            if not held.is_prepared:
                for driver in held.devices:
                    batches[driver].append(held)
        await self._keep()  # whatever comes now is given back after a crash
        for driver, batch in batches.items():
            try:
                devices = await plugins[driver].prepare([held.claim for held in batch])
            except PluginFailure as failure:
                return str(failure)
            for held in batch:
                held.devices[driver] = tuple(map(_prepared, devices[held.uid]))
        for held in {held.key: held for batch in batches.values() for held in batch}.values():
            held.is_prepared = True
        await self._keep()
        return ""

    async def unprepare(self, pod_uid: str) -> str:
        """Why the devices of the pod cannot be given back; nothing once they are."""
        keys = [held.key for held in self._held.values() if pod_uid in held.pods]
        if not keys:
            return ""
        began = monotonic()
        problem = await self._unprepare_held(pod_uid, keys)
        self._drivers.metrics.operation("UnprepareResources", monotonic() - began, problem)
        return problem

    async def _unprepare_held(self, pod_uid: str, keys: Iterable[str]) -> str:
        async with self._locked(keys):
            mine = [held for held in self._held.values() if pod_uid in held.pods]
            if problem := await self._unprepare([held for held in mine if len(held.pods) == 1]):
                return problem
            for held in mine:
                held.pods.discard(pod_uid)
                if not held.pods:
                    del self._held[held.key]
            await self._keep()
        return ""

    async def _unprepare(self, last: Sequence[_Held]) -> str:
        from fairlead.agent.devices.plugin import PluginFailure  # with what speaks gRPC

        batches: dict[str, list[_Held]] = defaultdict(list)
        for held in last:
            held.is_prepared = False
            for driver in held.devices:
                batches[driver].append(held)
        for driver, batch in batches.items():
            try:
                await self._drivers.plugin(driver).unprepare([held.claim for held in batch])
            except (NoDriver, PluginFailure) as failure:
                return str(failure)
        return ""

    async def given(self, pod: Pod, manifest: Obj, container: Obj) -> list[str]:
        """What a container gets that is about to start. What is not known to be prepared is prepared anew: the file may
        have been damaged while the pod ran. RuntimeFailure where that cannot be.
        """
        claims = (
            self._held.get(f"{pod.metadata.namespace}/{name}") for name, _ in self._wanted(pod, manifest, container)
        )
        if not all(held is not None and held.is_prepared for held in claims) and (problem := await self.prepare(pod)):
            raise RuntimeFailure(problem)
        return self.cdi_devices(pod, manifest, container)

    def cdi_devices(self, pod: Pod, manifest: Obj, container: Obj) -> list[str]:
        """What the runtime is to add to a container, as CDI names it."""
        wanted = self._wanted(pod, manifest, container)
        found = [device for name, request in wanted for device in self._devices(pod.metadata.namespace, name, request)]
        return list(dict.fromkeys(found))

    def claimed(
        self, pod: Pod, manifest: Obj, container: Obj
    ) -> Mapping[tuple[str, str], Mapping[str, Sequence[PreparedDevice]]]:
        """All that is prepared of the claims of a container, by namespace and name of the claim, and by driver."""
        try:
            wanted = self._wanted(pod, manifest, container)
        except NotMadeYet:
            return {}
        found = {name: self._held.get(f"{pod.metadata.namespace}/{name}") for name, _ in wanted}
        return {(held.namespace, held.name): held.devices for held in found.values() if held is not None}

    def _wanted(self, pod: Pod, manifest: Obj, container: Obj) -> list[tuple[str, str]]:
        """Claims, and of each a request, or nothing for all of them. NotMadeYet."""
        asked: dict[str, list[str]] = defaultdict(list)  # by the name in the pod
        for claim in (container.get("resources") or {}).get("claims") or ():
            asked[claim["name"]].append(claim.get("request") or "")
        names, wanted = PodClaimNames(pod), list[tuple[str, str]]()
        for entry in pod_claims(pod) if asked else ():
            if entry.name in asked and (name := names.of(entry)):
                wanted += [(name, request) for request in asked[entry.name]]
        return [*wanted, *_extended(manifest, container)]

    def subscribe_health(self, changed: Callable[[str], None]) -> None:
        """Call that with the uid of each pod that has a device whose health has changed."""

        def told(devices: Collection[DeviceId]) -> None:
            users = {
                uid
                for held in self._held.values()
                for driver, prepared in held.devices.items()
                if any((driver, device.pool, device.name) in devices for device in prepared)
                for uid in held.pods
            }
            for uid in sorted(users):
                changed(uid)

        self._healths.subscribe(told)

    def shown_health(self, pod: Pod, container: Obj) -> list[Obj]:
        """`allocatedResourcesStatus` of a container, of the claims that it names."""
        names, entries = PodClaimNames(pod), {entry.name: entry for entry in pod_claims(pod)}
        found = []
        for claim in (container.get("resources") or {}).get("claims") or ():
            request, entry = claim.get("request") or "", entries.get(claim["name"])
            try:
                name = names.of(entry) if entry is not None else None
            except NotMadeYet:
                continue
            held = self._held.get(f"{pod.metadata.namespace}/{name}")
            devices = held.devices.items() if held is not None else ()
            shown: dict[str, Obj] = {}
            for driver, prepared in devices:
                for device in prepared:
                    if device.is_for(request.partition("/")[0]):
                        id_ = driver, device.pool, device.name
                        resource = device.cdi[0] if device.cdi else "/".join(id_)
                        shown.setdefault(resource, {"resourceID": resource} | self._healths.of(id_))
            if shown:
                full = f"claim:{claim['name']}/{request}" if request else f"claim:{claim['name']}"
                found.append({"name": full, "resources": list(shown.values())})
        return found

    def _devices(self, namespace: str, name: str, request: str) -> Iterable[str]:
        held = self._held.get(f"{namespace}/{name}")
        for devices in held.devices.values() if held is not None else ():
            for device in devices:
                if device.is_for(request):
                    yield from device.cdi

    @asynccontextmanager
    async def _locked(self, keys: Iterable[str]) -> AsyncIterator[None]:
        """One pod at a time has to do with a claim, however slow its driver is; others go on."""
        async with AsyncExitStack() as stack:
            for key in sorted(keys):
                await stack.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
            yield

    async def _keep(self) -> None:
        """OSError where the disk takes it not."""
        await self._file.keep(_State(list(self._held.values())))


def _drivers(claim: ResourceClaim) -> list[str]:
    allocation = claim.status.allocation
    return list(dict.fromkeys(result.driver for result in allocation.results)) if allocation is not None else []


def _prepared(device: Device) -> PreparedDevice:
    requests, cdi = tuple(device.request_names), tuple(device.cdi_device_ids)
    return PreparedDevice(requests, cdi, device.pool_name, device.device_name, device.share_id or "")


def _extended(manifest: Obj, container: Obj) -> Iterable[tuple[str, str]]:
    """The requests that stand for extended resources of a container, in the claim that the scheduler made of them."""
    status = (manifest.get("status") or {}).get("extendedResourceClaimStatus") or {}
    requests = (container.get("resources") or {}).get("requests") or {}
    for mapping in status.get("requestMappings") or ():
        amount = requests.get(mapping["resourceName"])
        if mapping["containerName"] == container["name"] and amount is not None and parse(amount):
            yield status["resourceClaimName"], mapping["requestName"]
