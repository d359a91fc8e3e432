"""Steps about nodes, as a file writes them."""

from __future__ import annotations

import asyncio
import math
from typing import ClassVar

from fairlead.sim.durations import seconds_of
from fairlead.sim.nodes import NodeShape, node_manifest
from fairlead.study.changes import nodes
from fairlead.study.changes.actions import Action
from fairlead.study.changes.changed_cluster import ChangedCluster, NothingThere
from fairlead.wording import counted


class OfNodes(Action):
    """One node by name, or all with certain labels."""

    short: ClassVar[str] = "node"
    node: str = ""
    selector: str = ""

    verb: ClassVar[str] = ""

    @property
    def text(self) -> str:
        return f"{self.verb} {self.node or self.selector}"

    @property
    def named_node(self) -> str:
        return self.node

    def __post_init__(self) -> None:
        if bool(self.node) == bool(self.selector):
            raise ValueError("name one node, or a selector of labels")

    def names(self, cluster: ChangedCluster) -> list[str]:
        if self.node:
            return [cluster.node(self.node).metadata.name]
        return [node.metadata.name for node in cluster.nodes_of(self.selector)]

    async def run(self, cluster: ChangedCluster) -> None:
        async with asyncio.TaskGroup() as group:
            for name in self.names(cluster):
                group.create_task(self.run_on(name, cluster))

    async def run_on(self, name: str, cluster: ChangedCluster) -> None:
        raise NotImplementedError


class Cordon(OfNodes):
    verb: ClassVar[str] = "cordon"

    async def run_on(self, name: str, cluster: ChangedCluster) -> None:
        await nodes.cordon(name, cluster)


class Uncordon(OfNodes):
    verb: ClassVar[str] = "uncordon"

    async def run_on(self, name: str, cluster: ChangedCluster) -> None:
        await nodes.cordon(name, cluster, is_unschedulable=False)


class Drain(OfNodes):
    verb: ClassVar[str] = "drain"
    is_long: ClassVar[bool] = True
    timeout: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.timeout:
            seconds_of(self.timeout)

    async def run_on(self, name: str, cluster: ChangedCluster) -> None:
        await nodes.drain(name, cluster, seconds_of(self.timeout) if self.timeout else math.inf)


class FailNode(OfNodes):
    verb: ClassVar[str] = "fail node"

    async def run_on(self, name: str, cluster: ChangedCluster) -> None:
        await nodes.fail(name, cluster)


class ShutDownNode(OfNodes):
    verb: ClassVar[str] = "shut down node"

    async def run_on(self, name: str, cluster: ChangedCluster) -> None:
        await nodes.shut_down(name, cluster)


class OutOfService(OfNodes):
    verb: ClassVar[str] = "declare out of service"

    async def run_on(self, name: str, cluster: ChangedCluster) -> None:
        await nodes.declare_out_of_service(name, cluster)


class RecoverNode(OfNodes):
    verb: ClassVar[str] = "recover node"

    async def run_on(self, name: str, cluster: ChangedCluster) -> None:
        await nodes.fail(name, cluster, recovers=True)


class RemoveNode(OfNodes):
    verb: ClassVar[str] = "remove node"

    async def run_on(self, name: str, cluster: ChangedCluster) -> None:
        await nodes.remove_node(name, cluster)


class AddNodes(Action):
    """Like one that is there, or of a size."""

    count: int
    like: str = ""
    cpu: str = ""
    memory: str = ""
    prefix: str = ""
    labels: dict[str, str] = {}

    @property
    def text(self) -> str:
        return f"add {counted(self.count, 'node')}" + (
            f" like {self.like}" if self.like else f" of {self.cpu} cpu, {self.memory}"
        )

    def __post_init__(self) -> None:
        if self.count < 1 or self.count > 100_000:
            raise ValueError(f"count: {self.count} is not between 1 and 100000")
        if bool(self.cpu) != bool(self.memory) or bool(self.like) == bool(self.cpu):
            raise ValueError("say like: NODE, or cpu and memory")
        if not self.like:
            NodeShape(self.cpu, self.memory)

    async def run(self, cluster: ChangedCluster) -> None:
        if self.like:
            like = cluster.node(self.like).metadata.name
            await nodes.add_nodes(self.count, like, cluster, prefix=self.prefix, labels=self.labels)
            return
        shape = NodeShape(self.cpu, self.memory)
        prefix = self.prefix or "added"
        for number in range(1, self.count + 1):
            name = f"{prefix}-{number}"
            if cluster.nodes.get(name) is not None:
                raise NothingThere(f"there is a node {name!r} already: choose another prefix")
            await cluster.apply(node_manifest(name, shape.amounts(), self.labels))


class Upgrade(Action):
    """Replace nodes batch by batch: drained, gone for a while, back empty."""

    is_long: ClassVar[bool] = True
    selector: str
    by: str = "10%"
    takes: str = "2m"

    @property
    def text(self) -> str:
        return f"upgrade {self.selector} {self.by} at a time"

    @property
    def share(self) -> float:
        number = self.by.removesuffix("%")
        if not self.by.endswith("%") or not number.isdecimal() or not 0 < int(number) <= 100:
            raise ValueError(f"by: {self.by!r} is no percentage: write 10%")
        return int(number) / 100

    def __post_init__(self) -> None:
        _ = self.share, seconds_of(self.takes)

    async def run(self, cluster: ChangedCluster) -> None:
        await nodes.upgrade(self.selector, self.share, seconds_of(self.takes), cluster)
