"""The kinds of `metrics.k8s.io`: nothing is stored, each object is made of a pod or node and what was measured of it.

A list selects and pages pods (or nodes) and leaves out those without measurements, so a page may be short. As with
metrics-server, a container that has run for less than ten seconds has no rate yet, and its pod no metrics.

Source: kubernetes-sigs/metrics-server `pkg/api` and `pkg/storage`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from fairlead.api.builtin import NODES, PODS
from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import NotFound
from fairlead.api.meta import View
from fairlead.api.metrics import NODE_METRICS, POD_METRICS
from fairlead.api.objects import Obj
from fairlead.api.quantity import Format, Quantity
from fairlead.api.resources import Resource
from fairlead.api.verbs import Listing, ListQuery
from fairlead.golang.durations import format_seconds
from fairlead.node.stats.measurements import CpuMeasurements, MemoryMeasurements, NodeMeasurements, PodMeasurements
from fairlead.runtime.clock import now, timestamp
from fairlead.server.nodes.agents import ClusterAgents
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.entries import Entry
from fairlead.server.storage.listing import list_page
from fairlead.server.storage.selection import select

#: A rate over less than this says little.
MIN_WINDOW_SECONDS: Final = 10.0
#: So many objects are made before other tasks get a turn.
_TURN_OBJECTS: Final = 500


_Shown: TypeAlias = list[Encoded]


class _Spec(View):
    node_name: str = ""


class _Metadata(View):
    uid: str = ""


class _Pod(View):
    metadata: _Metadata
    spec: _Spec = _Spec()


class MeasuredKind(ABC):
    """A kind that shows the measurements of another."""

    resource: Resource
    #: The kind that is measured, and what texts call the measurements of one.
    measured: Resource
    noun: str

    def __init__(self, agents: ClusterAgents, measured: Served) -> None:
        self._agents, self._measured = agents, measured

    async def get(self, name: str, namespace: str) -> Encoded:
        entry = self._measured.cache.get(namespace, name)
        if entry is None:
            raise NotFound.of(self.measured.plural, name)
        shown = await self._shown([entry])
        if not shown:
            raise NotFound.of(self.noun, f"{namespace}/{name}" if namespace else name, self.resource.group)
        return shown[0]

    async def list(self, namespace: str, query: ListQuery, revision: int) -> Listing:
        version = self._measured.stored_version
        selection = select(self._measured, version, namespace, query.labels, query.fields)
        page = await list_page(self._measured.cache, query, selection, revision, lambda entry: entry)
        entries = [item for item in page.items if isinstance(item, Entry)]
        return Listing(await self._shown(entries), "", page.continue_token)

    @abstractmethod
    async def _shown(self, entries: Sequence[Entry]) -> _Shown:
        """The metrics of those that have some."""


class NodeMetricsKind(MeasuredKind):
    resource, measured, noun = NODE_METRICS, NODES, "nodemetrics"

    async def _shown(self, entries: Sequence[Entry]) -> _Shown:
        found: _Shown = []
        for entry in entries:
            node = await self._agents.measure(entry.name)
            await asyncio.sleep(0)  # measuring a node may take a while, and there are many
            if node is not None and node.measured_at - node.started_at >= MIN_WINDOW_SECONDS:
                found.append(_encoded(NODE_METRICS, entry, node, {"usage": _usage(node.cpu, node.memory)}))
        return found


class PodMetricsKind(MeasuredKind):
    resource, measured, noun = POD_METRICS, PODS, "podmetrics"

    async def _shown(self, entries: Sequence[Entry]) -> _Shown:
        nodes: dict[str, _MeasuredPods] = {}
        found: _Shown = []
        for number, entry in enumerate(entries, 1):
            if number % _TURN_OBJECTS == 0:
                await asyncio.sleep(0)
            pod = entry.view(_Pod)
            name = pod.spec.node_name
            if not name:
                continue
            if name not in nodes:
                nodes[name] = _MeasuredPods(await self._agents.measure(name))
                await asyncio.sleep(0)
            node, measured = nodes[name].node, nodes[name].pods.get(pod.metadata.uid)
            if node is not None and measured is not None and _has_rates(measured, node.measured_at):
                found.append(_encoded(POD_METRICS, entry, node, {"containers": _containers(measured)}))
        return found


class _MeasuredPods:
    """The pods of a node by their uids."""

    def __init__(self, node: NodeMeasurements | None) -> None:
        self.node = node
        self.pods: Mapping[str, PodMeasurements] = {pod.uid: pod for pod in node.pods} if node else {}


def _has_rates(pod: PodMeasurements, at: float) -> bool:
    return bool(pod.containers) and all(at - container.started_at >= MIN_WINDOW_SECONDS for container in pod.containers)


def _containers(pod: PodMeasurements) -> list[Obj]:
    return [{"name": container.name, "usage": _usage(container.cpu, container.memory)} for container in pod.containers]


def _usage(cpu: CpuMeasurements, memory: MemoryMeasurements) -> dict[str, str]:
    """Both resources; zero cpu is `0`, as a Quantity shows it."""
    working_set = Quantity.of_units(memory.working_set, Format.BINARY_SI)
    return {"cpu": str(Quantity(cpu.usage_nano_cores)), "memory": str(working_set)}


def _encoded(resource: Resource, entry: Entry, node: NodeMeasurements, fields: Obj) -> Encoded:
    metadata: Obj = {"name": entry.name}
    if entry.namespace:
        metadata["namespace"] = entry.namespace
    metadata["creationTimestamp"] = timestamp(now())
    if entry.labels:
        metadata["labels"] = entry.labels
    measured = {"timestamp": timestamp(node.measured_at), "window": format_seconds(node.window_seconds)}
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return Encoded(encode(head | measured | fields))
