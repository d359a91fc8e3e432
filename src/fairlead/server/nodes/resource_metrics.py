"""The kinds of `metrics.k8s.io`: nothing is stored, each object is made of a pod or node and what was measured of it.

A list selects and pages pods (or nodes) and leaves out those without measurements, so a page may be short. As with
metrics-server, a container that has run for less than ten seconds has no rate yet, and its pod no metrics.

Source: kubernetes-sigs/metrics-server `pkg/api` and `pkg/storage`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, TypeAlias

from fairlead.api import selector_text
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
from fairlead.node.stats.measurements import ContainerUse
from fairlead.runtime.clock import now, timestamp
from fairlead.server.nodes.agents import ClusterAgents
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.entries import Entry
from fairlead.server.storage.label_index import LabelIndex
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
        self._by_labels = LabelIndex(measured.cache)

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
        candidates = self._by_labels.candidates(namespace, selector_text.parse(query.labels))
        page = await list_page(self._measured.cache, query, selection, revision, lambda entry: entry, candidates)
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
                usage = _usage(node.cpu.usage_nano_cores, node.memory.working_set)
                found.append(_encoded(NODE_METRICS, entry, node.measured_at, node.window_seconds, {"usage": usage}))
        return found


class PodMetricsKind(MeasuredKind):
    resource, measured, noun = POD_METRICS, PODS, "podmetrics"

    async def _shown(self, entries: Sequence[Entry]) -> _Shown:
        on_nodes: dict[str, dict[str, int]] = {}  # the places of pods, by node and uid
        for place, entry in enumerate(entries):
            if place % _TURN_OBJECTS == _TURN_OBJECTS - 1:
                await asyncio.sleep(0)
            pod = entry.view(_Pod)
            if pod.spec.node_name:
                on_nodes.setdefault(pod.spec.node_name, {})[pod.metadata.uid] = place
        shown: dict[int, Encoded] = {}
        for node, places in on_nodes.items():
            use = await self._agents.pods_use(node, places.keys())
            await asyncio.sleep(0)
            if use is None:
                continue
            for uid, place in places.items():
                if _has_rates(containers := use.pods.get(uid, ()), use.measured_at):
                    fields = {"containers": [_container(container) for container in containers]}
                    entry = entries[place]
                    shown[place] = _encoded(POD_METRICS, entry, use.measured_at, use.window_seconds, fields)
        return [shown[place] for place in sorted(shown)]


def _has_rates(containers: Sequence[ContainerUse], at: float) -> bool:
    return bool(containers) and all(at - container.started_at >= MIN_WINDOW_SECONDS for container in containers)


def _container(use: ContainerUse) -> Obj:
    return {"name": use.name, "usage": _usage(use.nano_cores, use.working_set)}


def _usage(nano_cores: int, working_set: int) -> dict[str, str]:
    """Both resources; zero cpu is `0`, as a Quantity shows it."""
    return {"cpu": str(Quantity(nano_cores)), "memory": str(Quantity.of_units(working_set, Format.BINARY_SI))}


def _encoded(resource: Resource, entry: Entry, measured_at: float, window_seconds: float, fields: Obj) -> Encoded:
    metadata: Obj = {"name": entry.name}
    if entry.namespace:
        metadata["namespace"] = entry.namespace
    metadata["creationTimestamp"] = timestamp(now())
    if entry.labels:
        metadata["labels"] = entry.labels
    measured = {"timestamp": timestamp(measured_at), "window": format_seconds(window_seconds)}
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return Encoded(encode(head | measured | fields))
