"""The node as the API shows it: registered at the start, its status kept up to date.

A label that a node may not give itself (NodeRestriction) is refused by the API server, and its sentence is passed on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.agent.device_plugins.manager import DeviceAmounts
from fairlead.agent.images_seam import ListedImage
from fairlead.agent.machine import architecture, node_info
from fairlead.agent.runtimes.base import HandlerFeatures, Runtime
from fairlead.api.builtin import NODES
from fairlead.api.encoded import encoded
from fairlead.api.errors import AlreadyExists, ApiError, NotFound
from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.meta import Object, Versioned
from fairlead.api.nodes import ATTACHED_BY_CONTROLLER, Node
from fairlead.api.objects import Obj
from fairlead.api.podresources import Amounts
from fairlead.api.references import Reference
from fairlead.api.verbs import Api
from fairlead.client.events import EventRecorder
from fairlead.node.allocatable import extended_changes
from fairlead.node.conditions import NodeHealth, node_conditions
from fairlead.node.csi_node import make_csi_node
from fairlead.node.plan import NodeEvent
from fairlead.runtime.clock import monotonic, timestamp

_HOSTNAME: Final = "kubernetes.io/hostname"
RETRY_SECONDS: Final = 5.0
#: Of one image.
_MOST_NAMES: Final = 5
#: What a kubelet writes for the version of a runtime that does not answer.
_UNKNOWN: Final = "Unknown"

log = logging.getLogger(__name__)


class NodeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is registered as."""

    name: str
    ip: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: Sequence[Obj] = ()
    #: Without this, somebody else makes the node, and this agent waits for it.
    is_registering: bool = True
    provider_id: str = ""
    #: Whether volumes that have to be attached are, by a controller.
    is_attached_to: bool = True

    @property
    def hostname(self) -> str:
        """As its label says."""
        return self.labels.get(_HOSTNAME, self.name)


class NodeObject:
    """`health` is asked at every heartbeat."""

    def __init__(
        self,
        api: Api,
        recorder: EventRecorder,
        identity: NodeIdentity,
        capacity: Amounts,
        allocatable: Amounts,
        runtime: Runtime,
        health: Callable[[], NodeHealth],
        registered: Callable[[], Node | None] = lambda: None,
        port: int = 0,
        features: Sequence[str] = (),
        images: Callable[[], Sequence[ListedImage]] = tuple,
        most_images: int = -1,
        volumes_in_use: Callable[[], Sequence[str]] = tuple,
        devices: Callable[[Mapping[str, str]], DeviceAmounts] = lambda _: DeviceAmounts({}, {}),
    ) -> None:
        """`registered`: how the node was last seen; `port`: where it answers as a kubelet does, 0: nowhere; `features`:
        those that it declares; `images`: those that are here, of which it tells of so many (all, if negative);
        `volumes_in_use`: of those that are attached to it; `devices`: what it has by plugins, for a node whose status
        shows that capacity.
        """
        self._list_images, self._most_images = images, most_images
        self._images: list[Obj] = []
        self._volumes_in_use = volumes_in_use
        self._api, self._recorder, self._identity, self._health = api, recorder, identity, health
        self._capacity = {name: str(amount) for name, amount in capacity.items()}
        self._allocatable = {name: str(amount) for name, amount in allocatable.items()}
        self._devices = devices
        self._told: Obj = {}  # the last status that was written, without what follows from amounts that others have set
        self._runtime, self._info = runtime, node_info()
        self._conditions: list[Obj] = []
        self._written = 0  # the node's resourceVersion after our last status
        self._registered, self._port, self._features = registered, port, list(features)
        self._look = asyncio.Event()
        self.uid = ""

    async def register(self) -> None:
        """Create the node, or bring the one that is there up to date; waits for an API server that is away."""
        await self._look_at_images()
        while True:
            try:
                await self._register()
                await self._make_csi_node()
                return
            except OSError as error:
                log.warning("the API server cannot be reached, trying again: %s", error)
            except NotFound:  # who makes the node has not come to it yet
                log.warning("there is no node %s yet, waiting for whoever makes it", self._identity.name)
            await asyncio.sleep(RETRY_SECONDS)

    def initial(self) -> Node:
        """As it registers itself: what static pods are admitted by while no API server can be asked."""
        amounts = {"capacity": self._capacity, "allocatable": self._allocatable}
        status = {**amounts, **self._of_runtime()}
        return encoded({**self._described(), "status": status}).view(Node)

    async def run(self, update_seconds: float, report_seconds: float) -> None:
        """Write the status whenever it has changed, and now and then when it has not. Until cancelled."""
        reported_at, shown = monotonic(), _news(self._told)
        while True:
            try:
                async with asyncio.timeout(update_seconds):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
            if self._take_conditions():
                shown = _news({**self._told, "conditions": self._conditions})
            await self._look_at_images()
            status = self._status(self._health())
            news = _news(self._with_extended(status))
            if news == shown and monotonic() - reported_at < report_seconds:
                continue
            try:
                await self._write(status)
                reported_at, shown = monotonic(), news
            except (ApiError, OSError) as error:
                log.warning("the status of this node cannot be written, trying again: %s", error)

    async def _look_at_images(self) -> None:
        """The largest first, as scheduler plugins and people look for them."""
        try:
            found = await asyncio.to_thread(self._list_images)
        except OSError as error:
            log.warning("the images of this node cannot be listed, trying again: %s", error)
            return
        largest = sorted(found, key=lambda image: -image.size_bytes)
        told = largest if self._most_images < 0 else largest[: self._most_images]
        self._images = [{"names": list(image.names[:_MOST_NAMES]), "sizeBytes": image.size_bytes} for image in told]

    async def _write(self, status: Obj) -> None:
        name = self._identity.name
        patch = {"status": self._with_extended(status)}
        written = await self._api.patch(NODES, name, "", patch, subresource="status")
        self._told, self._written = status, int(written.view(Versioned).metadata.resource_version)

    def _take_conditions(self) -> bool:
        """Go on from the conditions that others have written since, as a node controller that takes the node for lost;
        whether any have.
        """
        node = self._registered()
        if node is None or int(node.metadata.resource_version) <= self._written:
            return False
        found: list[Obj] = msgspec.to_builtins(node.status.conditions)
        self._conditions = [{key: said for key, said in each.items() if said is not None} for each in found]
        return True

    def look_again(self) -> None:
        """Its health may be another."""
        self._look.set()

    def tell(self, *events: NodeEvent) -> None:
        about = Reference(kind="Node", name=self._identity.name, uid=self._identity.name)
        for event in events:
            self._recorder.event(about, event.type, event.reason, event.message)

    async def _register(self) -> None:
        name = self._identity.name
        if self._identity.is_registering:
            try:
                status = self._status(self._health())
                made = await self._api.create(NODES, {**self._described(), "status": status})
                self._told = status
                self.uid = made.view(Object).metadata.uid
                return
            except AlreadyExists:
                metadata = {"labels": self._labels(), "annotations": self._annotations()}
                await self._api.patch(NODES, name, "", {"metadata": metadata})
        found = await self._api.get(NODES, name)
        self.uid = found.view(Object).metadata.uid
        status = found.obj().get("status") or {}
        self._conditions = status.get("conditions") or []
        before, boot = (status.get("nodeInfo") or {}).get("bootID"), self._info["bootID"]
        await self._write(self._status(self._health()))
        if before and before != boot:
            self.tell(NodeEvent(WARNING, "Rebooted", f"Node {name} has been rebooted, boot id: {boot}"))

    async def _make_csi_node(self) -> None:
        """Pods of volumes that no CSI driver attaches need none."""
        try:
            await make_csi_node(self._api, self._identity.name, self.uid)
        except ApiError as error:
            log.warning("the CSINode of this node cannot be made: %s", error)

    def _described(self) -> Obj:
        identity = self._identity
        spec: Obj = {"taints": list(identity.taints)} if identity.taints else {}
        if identity.provider_id:
            spec["providerID"] = identity.provider_id
        annotations = {name: said for name, said in self._annotations().items() if said is not None}
        return {"metadata": {"name": identity.name, "labels": self._labels(), "annotations": annotations}, "spec": spec}

    def _annotations(self) -> dict[str, str | None]:
        return {ATTACHED_BY_CONTROLLER: "true" if self._identity.is_attached_to else None}

    def _labels(self) -> dict[str, str]:
        processor = architecture()
        return {
            "beta.kubernetes.io/arch": processor,
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": processor,
            _HOSTNAME: self._identity.name,
            "kubernetes.io/os": "linux",
            **self._identity.labels,
        }

    def _status(self, health: NodeHealth) -> Obj:
        node = self._registered()
        devices = self._devices(node.status.capacity if node is not None else {})
        found = node_conditions(self._conditions, health, timestamp())
        self._conditions = found.conditions
        self.tell(*(NodeEvent(NORMAL, reason, self._message(reason)) for reason in found.events))
        return {
            "capacity": {**self._capacity, **devices.capacity},
            "allocatable": {**self._allocatable, **devices.allocatable},
            "conditions": found.conditions,
            "addresses": [
                {"type": "InternalIP", "address": self._identity.ip},
                {"type": "Hostname", "address": self._identity.name},
            ],
            "images": self._images,
            "declaredFeatures": self._features,
            "volumesInUse": list(self._volumes_in_use()),
            **self._of_runtime(),
            **({"daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}}} if self._port else {}),
        }

    def _of_runtime(self) -> Obj:
        """It may have been restarted, as another version, and may never have been there."""
        runtime = self._runtime
        version = runtime.version or _UNKNOWN
        return {
            "nodeInfo": {**self._info, "containerRuntimeVersion": f"{runtime.name}://{version}"},
            "features": {"supplementalGroupsPolicy": runtime.has_strict_groups},
            "runtimeHandlers": [_shown(*each) for each in runtime.handlers.items()],
        }

    def _with_extended(self, status: Obj) -> Obj:
        """With what is to change because others have set amounts of extended resources."""
        node = self._registered()
        changes = extended_changes(node.status.capacity, node.status.allocatable) if node is not None else {}
        return {**status, "allocatable": {**changes, **status["allocatable"]}}

    def _message(self, reason: str) -> str:
        return f"Node {self._identity.name} status is now: {reason}"


def _shown(handler: str, features: HandlerFeatures) -> Obj:
    shown = {
        "recursiveReadOnlyMounts": features.has_recursive_read_only_mounts,
        "userNamespaces": features.has_user_namespaces,
    }
    return {"name": handler, "features": shown}


def _news(status: Obj) -> Obj:
    """What of a status is worth to be written at once: not the time of the heartbeat."""
    conditions = [(each["type"], each["status"], each["reason"], each["message"]) for each in status["conditions"]]
    return {**status, "conditions": conditions}
