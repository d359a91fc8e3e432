"""How simulated nodes come into the cluster: those that the fleet is told of, and those that others create."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from fairlead.api.builtin import NODES
from fairlead.api.errors import AlreadyExists, ApiError, NotFound
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.runtime.clock import timestamp
from fairlead.runtime.watchdog import working_on
from fairlead.runtime.workqueue import WorkQueue
from fairlead.sim.leases import Leases
from fairlead.sim.nodes import address_of, adopted, default_labels, registered

#: How many nodes are registered at once: each write waits for the disk.
REGISTERING = 64

log = logging.getLogger(__name__)


class Registration:
    """Registers nodes as their kubelets would."""

    def __init__(self, api: Api, nodes: Iterable[Obj], leases: Leases | None) -> None:
        self._api, self._leases = api, leases
        self.manifests: Mapping[str, Obj] = {node["metadata"]["name"]: node for node in nodes}
        self._numbers: dict[str, int] = {}  # by node: its address is derived from this
        self._adoptions: WorkQueue[str] = WorkQueue()  # names of nodes that others created

    def number(self, name: str) -> None:
        """The node gets an address of its own, and keeps it."""
        self._numbers.setdefault(name, len(self._numbers) + 1)

    def address(self, name: str) -> str:
        return address_of(self._numbers[name])

    def adopt(self, name: str) -> None:
        """Act from now on for a node that somebody else created."""
        self._adoptions.add(name)

    async def register_all(self) -> None:
        """Register all nodes, several at a time: one after the other, each write would wait for the disk."""
        names = iter(self.manifests)

        async def register() -> None:
            for name in names:
                await self._register(registered(self.manifests[name], self._numbers[name], timestamp()))
                if self._leases:
                    await self._leases.start(name)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(REGISTERING, len(self.manifests))):
                group.create_task(register(), name="node registration")

    async def run(self) -> None:
        """Do for nodes that others created what their kubelet would do."""
        while True:
            name = await self._adoptions.get()
            working_on("node", name)
            try:
                await self._adopt(name)
            except NotFound:
                pass  # the node is gone already
            except (ApiError, OSError) as error:
                log.warning("node %s: %s", name, error)
                self._adoptions.retry(name)
            else:
                self._adoptions.forget(name)
            finally:
                self._adoptions.done(name)

    async def _register(self, manifest: Obj) -> None:
        """Create the node, or update the existing one of that name."""
        try:
            await self._api.create(NODES, manifest)
        except AlreadyExists:
            name = manifest["metadata"]["name"]
            labels = {"metadata": {"labels": manifest["metadata"]["labels"]}}
            await self._api.patch(NODES, name, "", labels)
            await self._api.patch(NODES, name, "", {"status": manifest["status"]}, subresource="status")

    async def _adopt(self, name: str) -> None:
        """Fill in labels and status that the node lacks, and start its lease."""
        found = await self._api.get(NODES, name)
        manifest, node = found.obj(), found.view(Node)
        status = adopted(manifest, self._numbers[name], timestamp(), is_ready=node.is_ready)
        if labels := {key: value for key, value in default_labels(name).items() if key not in node.metadata.labels}:
            await self._api.patch(NODES, name, "", {"metadata": {"labels": labels}})
        await self._api.patch(NODES, name, "", {"status": status}, subresource="status")
        if self._leases:
            await self._leases.start(name)
