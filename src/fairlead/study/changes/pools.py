"""A node pool that grows when pods wait for it and shrinks when nodes idle, as a cluster autoscaler would have it.

pods wait, and would fit on an empty node ──▶ as many nodes as they fill are ordered ──delay──▶ there
a node has nothing but daemons for a while ──▶ removed, but never below `min`
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable, Mapping
from typing import ClassVar, Final

import msgspec

from fairlead.api.node_affinity import meets_required
from fairlead.api.pods import Pod
from fairlead.api.quantity import is_integer
from fairlead.api.taints import EFFECTS, Taint, first_untolerated, written
from fairlead.node.allocation import amounts
from fairlead.runtime.clock import monotonic
from fairlead.sim.durations import seconds_of
from fairlead.sim.nodes import NodeShape, default_labels, node_manifest
from fairlead.study.changes import nodes
from fairlead.study.changes.actions import Action
from fairlead.study.changes.changed_cluster import ChangedCluster, natural
from fairlead.study.changes.pool_room import PoolDevices, Room, Template

_LOOK_SECONDS: Final = 10.0
#: The label of the nodes of a pool.
POOL_LABEL: Final = "sim.fairlead.dev/pool"
_selector = msgspec.json.Decoder(dict[str, str]).decode


class NodePool(Action):
    short: ClassVar[str] = "name"
    is_long: ClassVar[bool] = True
    is_endless: ClassVar[bool] = True
    name: str
    cpu: str = "4"
    memory: str = "16Gi"
    min: int = 0
    max: int = 100
    scale_up_delay: str = "2m"
    scale_down_after: str = "10m"
    price_per_hour: float = 0.0
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    #: What else its nodes have: extended resources.
    resources: dict[str, str] = {}
    devices: tuple[PoolDevices, ...] = ()

    @property
    def text(self) -> str:
        return f"node pool {self.name}, {self.min} to {self.max} nodes of {self.cpu} cpu, {self.memory}"

    def __post_init__(self) -> None:
        NodeShape(self.cpu, self.memory)
        for name, amount in self.resources.items():
            if "/" not in name or not is_integer(amount):
                raise ValueError(f"resources: {name}: {amount} is no whole number of an extended resource")
        for taint in self.taints:
            if not taint.key or taint.effect not in EFFECTS:
                raise ValueError(f"taints: {written(taint)} is no taint: write key, value and effect")
        if not 0 <= self.min <= self.max <= 100_000:
            raise ValueError(f"min: {self.min}, max: {self.max} are no bounds of a pool")
        if not 0 <= self.price_per_hour < 1e9:
            raise ValueError(f"pricePerHour: {self.price_per_hour} is no price")
        _ = seconds_of(self.scale_up_delay), seconds_of(self.scale_down_after)

    async def run(self, cluster: ChangedCluster) -> None:
        await _Autoscaler(self, cluster).run()


class _Autoscaler:
    def __init__(self, pool: NodePool, cluster: ChangedCluster) -> None:
        self._pool, self._world = pool, cluster
        shape = NodeShape(pool.cpu, pool.memory).amounts() | pool.resources
        self._labels = {**pool.labels, POOL_LABEL: pool.name}
        self._shape, self._size = shape, amounts(shape)
        self._template = Template(self._size, self._labels, pool.devices, cluster.informers)
        self._ordered: dict[str, Room] = {}  # by name: what is free of a node that is on its way
        self._idle_since: dict[str, float] = {}
        self._count = 0
        #: What each pod wants that waits and would fit on an empty node.
        self._waiting: dict[str, Pod] = {}
        self._busy: dict[str, set[str]] = {}  # by node: its pods that are no daemons
        cluster.pods.subscribe(self._pod)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        key, node, owner = pod.metadata.key, pod.spec.node_name, pod.metadata.controller
        if new is not None and not node and not new.is_finished and _is_refused(new) and self._suits(new):
            self._waiting[key] = new
        else:
            self._waiting.pop(key, None)
        if node and not (owner is not None and owner.kind == "DaemonSet"):
            pods = self._busy.setdefault(node, set())
            if new is None or new.is_finished:
                pods.discard(key)
            else:
                pods.add(key)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                for _ in range(self._missing()):
                    self._order(group)
                await self._shrink()
                await asyncio.sleep(_LOOK_SECONDS)

    def _members(self) -> list[str]:
        return [n.metadata.name for n in self._world.nodes if n.metadata.labels.get(POOL_LABEL) == self._pool.name]

    def _missing(self) -> int:
        """How many more nodes the pods that wait would fill, on top of those that are on their way."""
        there = len({*self._members(), *self._ordered})
        new: list[Room] = []
        rooms = [room.copy() for room in self._ordered.values()]
        if not rooms and there >= self._pool.max:
            return 0  # where most wait there is most often nothing to give
        too_much: set[Hashable] = set()  # what fits no more: it does not for whoever wants the same
        for key in sorted(self._waiting):
            wanted = self._template.wanted(self._waiting[key])
            if wanted is None or (kind := wanted.kind) in too_much:
                continue
            if any(room.take(wanted) for room in (*rooms, *new)):
                continue
            empty = Room(self._template)
            if there + len(new) < self._pool.max and empty.take(wanted):
                new.append(empty)
            else:
                too_much.add(kind)
        return max(len(new), self._pool.min - there)

    def _suits(self, pod: Pod) -> bool:
        """Whether a node of the pool would do for it, by what does not change."""
        raw, affinity = pod.spec.raw_node_selector, pod.spec.affinity
        selector: Mapping[str, str] = (_selector(raw) or {}) if raw else {}
        labels = default_labels("") | self._labels
        if first_untolerated(self._pool.taints, pod.spec.tolerations) is not None:
            return False
        return meets_required(selector, affinity.node_affinity if affinity is not None else None, labels, "")

    def _order(self, group: asyncio.TaskGroup) -> None:
        self._count += 1
        name = f"{self._pool.name}-{self._count}"
        self._ordered[name] = Room(self._template)
        group.create_task(self._deliver(name))

    async def _deliver(self, name: str) -> None:
        await asyncio.sleep(seconds_of(self._pool.scale_up_delay))
        self._world.prices[name] = self._pool.price_per_hour
        manifest = node_manifest(name, self._shape, self._labels)
        manifest["spec"]["taints"] = [{"key": t.key, "value": t.value, "effect": t.effect} for t in self._pool.taints]
        await self._world.apply(manifest)
        await self._world.ready(name)  # before everybody has seen it nothing else is ordered in its place
        for devices in self._pool.devices:
            await self._world.apply(devices.published(name, self._world.node(name).metadata.uid))
        self._ordered.pop(name)

    async def _shrink(self) -> None:
        members = sorted(self._members(), key=natural)
        for name in members:
            if self._busy.get(name):
                self._idle_since.pop(name, None)
            else:
                self._idle_since.setdefault(name, monotonic())
        patience = seconds_of(self._pool.scale_down_after)
        idle = [name for name in members if monotonic() - self._idle_since.get(name, math.inf) >= patience]
        for name in idle[: max(len(members) - self._pool.min, 0)]:
            self._idle_since.pop(name)
            await nodes.remove_node(name, self._world)


def _is_refused(pod: Pod) -> bool:
    """The scheduler has looked, and found no room."""
    condition = pod.condition("PodScheduled")
    return condition is not None and condition.reason == "Unschedulable"
