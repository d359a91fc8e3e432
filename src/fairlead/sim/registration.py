"""How simulated nodes come into the cluster: those that the fleet is told of, and those that others create."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from fairlead.api.builtin import NODES
from fairlead.api.errors import AlreadyExists
from fairlead.api.meta import Object, ObjectMeta
from fairlead.api.node_labels import restricted_labels
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.client.worker import work_off
from fairlead.node.csi_node import make_csi_node
from fairlead.runtime.clock import timestamp
from fairlead.runtime.turns import Turn
from fairlead.runtime.workqueue import WorkQueue
from fairlead.sim.kubelets import Kubelets
from fairlead.sim.leases import Leases
from fairlead.sim.nodes import DEFAULT_ANNOTATIONS, address_of, adopted, default_labels, registered

#: How many nodes are registered at once: each write waits for the disk.
REGISTERING = 64

log = logging.getLogger(__name__)


class Registration:
    """Registers nodes as their kubelets would."""

    def __init__(
        self,
        api: Api,
        as_node: Callable[[str], Api],
        nodes: Iterable[Obj],
        leases: Leases | None,
        kubelets: Kubelets,
    ) -> None:
        self._api, self._as_node, self._leases, self._kubelets = api, as_node, leases, kubelets
        self.manifests: Mapping[str, Obj] = {node["metadata"]["name"]: kubelets.completed(node) for node in nodes}
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
        names, turn = iter(self.manifests), Turn()

        async def register() -> None:
            nonlocal turn
            for name in names:
                await self._register(self.manifests[name])
                if self._leases:
                    await self._leases.start(name)
                if turn.is_over:  # in memory nothing waits
                    await asyncio.sleep(0)
                    turn = Turn()

        async with asyncio.TaskGroup() as group:
            for _ in range(min(REGISTERING, len(self.manifests))):
                group.create_task(register(), name="node registration")

    async def run(self) -> None:
        """Do for nodes that others created what their kubelet would do."""
        await work_off(self._adoptions, "node", self._adopt)

    async def _register(self, manifest: Obj) -> None:
        """Create the node, or update the existing one of that name."""
        name = manifest["metadata"]["name"]
        number, moment = self._numbers[name], timestamp()
        node, own = registered(manifest, number, moment), self._as_node(name)
        # with labels that no node may give itself it is made by whoever sets up the machine
        api = self._api if restricted_labels(node["metadata"]["labels"]) else own
        try:
            uid = (await api.create(NODES, node)).view(Object).metadata.uid
        except AlreadyExists:
            existing = (await own.get(NODES, name)).view(Node).metadata
            node = registered(self._annotated(manifest, existing.annotations), number, moment)
            if parts := _changes(existing, node["metadata"]):
                await api.patch(NODES, name, "", {"metadata": parts})
            await own.patch(NODES, name, "", {"status": node["status"]}, subresource="status")
            uid = existing.uid
        await make_csi_node(own, name, uid)

    def _annotated(self, manifest: Obj, existing: Mapping[str, str]) -> Obj:
        """With the annotations of the existing node, of which its kubelet's configuration may be one."""
        meta = manifest["metadata"]
        annotations = {**existing, **(meta.get("annotations") or {})}
        return self._kubelets.completed({**manifest, "metadata": {**meta, "annotations": annotations}})

    async def _adopt(self, name: str) -> None:
        """Fill in labels and status that the node lacks, and start its lease; also when its kubelet starts again."""
        api = self._as_node(name)
        found = await api.get(NODES, name)
        node, manifest = found.view(Node), self._kubelets.completed(found.obj())
        status = adopted(manifest, self._numbers[name], timestamp(), is_ready=node.is_ready)
        known = node.metadata
        lacking = {
            "labels": {key: value for key, value in default_labels(name).items() if key not in known.labels},
            "annotations": {
                key: value
                for key, value in {**DEFAULT_ANNOTATIONS, **(manifest["metadata"].get("annotations") or {})}.items()
                if key not in known.annotations
            },
        }
        if parts := {part: values for part, values in lacking.items() if values}:
            await api.patch(NODES, name, "", {"metadata": parts})
        await api.patch(NODES, name, "", {"status": status}, subresource="status")
        await make_csi_node(api, name, known.uid)
        if self._leases:
            await self._leases.start(name)


def _changes(existing: ObjectMeta, wanted: Obj) -> Obj:
    """The labels and annotations that an existing node lacks or has otherwise."""
    known = {"labels": existing.labels, "annotations": existing.annotations}
    changes = {
        part: {key: value for key, value in wanted[part].items() if values.get(key) != value}
        for part, values in known.items()
    }
    return {part: values for part, values in changes.items() if values}
