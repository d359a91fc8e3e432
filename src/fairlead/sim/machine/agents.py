"""The kubelets of simulated machines, as an API server reaches them (`server/nodes/agents.py`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from fairlead.api.builtin import PODS
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api, ListQuery
from fairlead.node.configuration.document import document
from fairlead.node.stats import endpoints
from fairlead.node.stats.endpoints import KubeletState
from fairlead.node.stats.measurements import NodeMeasurements, PodsUse
from fairlead.runtime.clock import now
from fairlead.runtime.http.replies import Reply
from fairlead.sim.machine.machines import Machines
from fairlead.sim.machine.measurements import node_measurements
from fairlead.sim.machine.pods_use import pods_use


class SimulatedAgents:
    """Measures when asked: a node that nobody asks about costs nothing."""

    def __init__(self, machines: Machines, as_node: Callable[[str], Api]) -> None:
        self._machines, self._as_node = machines, as_node

    def has(self, node: str) -> bool:
        return self._machines.machine(node) is not None

    async def measure(self, node: str) -> NodeMeasurements | None:
        found, machine = self._machines.node(node), self._machines.machine(node)
        if found is None or machine is None:
            return None
        return node_measurements(found, machine, self._machines.cpu_account(node), now(), self._machines.claim_capacity)

    async def pods_use(self, node: str, uids: Collection[str]) -> PodsUse | None:
        machine = self._machines.machine(node)
        return None if machine is None else pods_use(machine, self._machines.cpu_account(node), now(), uids)

    async def get(self, node: str, path: str, query: Mapping[str, str]) -> Reply | None:
        measured, machine = await self.measure(node), self._machines.machine(node)
        if measured is None or machine is None:
            return None
        pods = await self._pods(node) if path.rstrip("/") == "pods" else []
        state = KubeletState(self._machines.evictions(node), pods)
        return endpoints.answer(path, query, measured, document(machine.configured.configuration), state)

    async def _pods(self, node: str) -> list[Obj]:
        listed = await self._as_node(node).list(PODS, "", ListQuery(fields=f"spec.nodeName={node}"))
        return [pod.obj() for pod in listed.items]
