"""The PodResources API: which devices, CPUs and memory the containers of this node have, at a socket of the machine.

A request too many is refused, as by a kubelet. Source: pkg/kubelet/apis/podresources (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from fairlead.agent.device_plugins.manager import DevicePlugins
from fairlead.agent.device_plugins.messages import CdiName, NumaNode, Topology
from fairlead.agent.devices.claims import ClaimManager, PreparedDevice
from fairlead.agent.grpc.listening import Refused, Served, serve
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.grpc.protobuf import Message
from fairlead.agent.pod_resources.messages import (
    GET,
    GET_ALLOCATABLE,
    LIST,
    LIST_V1ALPHA1,
    Allocatable,
    ClaimResource,
    ContainerDevices,
    ContainerMemory,
    ContainerResources,
    DynamicResource,
    GetRequest,
    Got,
    Listed,
    PodResources,
)
from fairlead.agent.pod_resources.metrics import PodResourcesMetrics
from fairlead.agent.pods.real_pod import RealPod
from fairlead.agent.topology.manager import TopologyManager
from fairlead.api.objects import Obj
from fairlead.api.podresources import is_sidecar
from fairlead.node.numa_memory.state import Block
from fairlead.runtime.clock import monotonic
from fairlead.runtime.metrics import Family
from fairlead.runtime.token_bucket import TokenBucket
from fairlead.runtime.turns import in_turns

#: In the folder of the agent, as a kubelet has it.
FOLDER: Final = "pod-resources"
_SOCKET: Final = "kubelet.sock"
_PER_SECOND: Final = 100.0
_BURST: Final = 10.0


class PodResourcesLister:
    """`pods` are those that are looked after."""

    def __init__(
        self,
        root: Path,
        claims: ClaimManager,
        plugins: DevicePlugins,
        topology: TopologyManager,
        pods: Callable[[], Sequence[RealPod]],
    ) -> None:
        self._folder, self._pods = root / FOLDER, pods
        self._claims, self._plugins, self._topology = claims, plugins, topology
        self._metrics, self._limit = PodResourcesMetrics(), TokenBucket(_PER_SECOND, _BURST, monotonic())

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.to_thread(self._folder.mkdir, mode=0o750, parents=True, exist_ok=True)
        served = [
            Served(LIST, self._list),
            Served(LIST_V1ALPHA1, self._list_v1alpha1),
            Served(GET_ALLOCATABLE, self._get_allocatable),
            Served(GET, self._get),
        ]
        await serve(self._folder / _SOCKET, served)

    @property
    def families(self) -> Iterable[Family]:
        """What is counted."""
        return self._metrics.families

    async def _list(self, _: Nothing) -> Message:
        self._asked("list")
        return await self._listed()

    async def _list_v1alpha1(self, _: Nothing) -> Message:
        self._asked("")
        return await self._listed()

    async def _get_allocatable(self, _: Nothing) -> Message:
        self._asked("get_allocatable")
        every = self._plugins.healthy()
        devices = [entry async for device in in_turns(every) for entry in _entries(*device)]
        memory = list(map(_memory, self._topology.allocatable_memory))
        return Allocatable(devices=devices, cpu_ids=self._topology.allocatable_cpus, memory=memory)

    async def _get(self, asked: GetRequest) -> Message:
        self._asked("get")
        key = f"{asked.pod_namespace}/{asked.pod_name}"
        real = next((real for real in self._pods() if real.pod.metadata.key == key), None)
        if real is None:
            self._metrics.failed("get")
            raise Refused(f"pod {asked.pod_name} in namespace {asked.pod_namespace} not found")
        return Got(pod_resources=self._of(real))

    def _asked(self, what: str) -> None:
        """Nothing: something of the older version."""
        if not self._limit.take(monotonic()):
            raise Refused("rejected by rate limit", "RESOURCE_EXHAUSTED")
        self._metrics.asked(what)

    async def _listed(self) -> Listed:
        active = [real for real in self._pods() if not real.is_finished]
        return Listed(pod_resources=[self._of(real) async for real in in_turns(active)])

    def _of(self, real: RealPod) -> PodResources:
        meta, spec = real.pod.metadata, real.manifest["spec"]
        sidecars = [each for each in spec.get("initContainers") or () if is_sidecar(each)]
        containers = [self._container(real, each) for each in (*sidecars, *spec["containers"])]
        return PodResources(name=meta.name, namespace=meta.namespace, containers=containers)

    def _container(self, real: RealPod, container: Obj) -> ContainerResources:
        holdings = self._plugins.of(real.pod.metadata.uid, container["name"])
        devices = [
            entry
            for holding in holdings
            for id_, nodes in holding.devices.items()
            for entry in _entries(holding.resource, id_, nodes)
        ]
        claimed = self._claims.claimed(real.pod, real.manifest, container)
        dynamic = [_claim(namespace, name, found) for (namespace, name), found in claimed.items()]
        uid, name = real.pod.metadata.uid, container["name"]
        cpus, memory = self._topology.own_cpus(uid, name), list(map(_memory, self._topology.own_memory(uid, name)))
        return ContainerResources(name=name, devices=devices, cpu_ids=cpus, memory=memory, dynamic_resources=dynamic)


def _entries(resource: str, id_: str, nodes: Sequence[int]) -> Iterator[ContainerDevices]:
    """A device is told once for each NUMA node that it belongs to."""
    if not nodes:
        yield ContainerDevices(resource_name=resource, device_ids=[id_])
    for node in nodes:
        topology = Topology(nodes=[NumaNode(id=node)])
        yield ContainerDevices(resource_name=resource, device_ids=[id_], topology=topology)


def _memory(block: Block) -> ContainerMemory:
    topology = Topology(nodes=[NumaNode(id=node) for node in block.numa_affinity])
    return ContainerMemory(memory_type=block.type, size=block.size, topology=topology)


def _claim(namespace: str, name: str, devices: Mapping[str, Sequence[PreparedDevice]]) -> DynamicResource:
    resources = [
        ClaimResource(
            cdi_devices=[CdiName(name=each) for each in device.cdi],
            driver_name=driver,
            pool_name=device.pool,
            device_name=device.name,
            share_id=device.share or None,
        )
        for driver, prepared in devices.items()
        for device in prepared
    ]
    return DynamicResource(claim_name=name, claim_namespace=namespace, claim_resources=resources)
