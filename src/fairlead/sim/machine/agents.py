"""The kubelets of simulated machines, as an API server reaches them (`server/nodes/agents.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api.nodes import Node
from fairlead.node.configuration.document import document
from fairlead.node.stats import endpoints
from fairlead.node.stats.endpoints import NodeAnswer
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.runtime.clock import now
from fairlead.sim.machine.cpu import CpuAccount
from fairlead.sim.machine.machine import SimulatedMachine
from fairlead.sim.machine.machines import Machines
from fairlead.sim.machine.measurements import node_measurements


class SimulatedAgents:
    """Measures when asked: a node that nobody asks about costs nothing."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._accounts: dict[str, tuple[str, CpuAccount]] = {}  # by name, with the uid of the node

    async def measure(self, node: str) -> NodeMeasurements | None:
        found, machine = self._machines.node(node), self._machines.machine(node)
        if found is None or machine is None:
            self._accounts.pop(node, None)
            return None
        moment = now()
        return node_measurements(found, machine, self._account(found, machine, moment), moment)

    async def get(self, node: str, path: str, query: Mapping[str, str]) -> NodeAnswer | None:
        measured, machine = await self.measure(node), self._machines.machine(node)
        if measured is None or machine is None:
            return None
        return endpoints.answer(path, query, measured, document(machine.configured.configuration))

    def _account(self, node: Node, machine: SimulatedMachine, moment: float) -> CpuAccount:
        """A node that was deleted and made again begins anew."""
        name, uid = node.metadata.name, node.metadata.uid
        known = self._accounts.get(name)
        if known is None or known[0] != uid:
            starts = [since for pod in machine.pods.values() for since in pod.started.values()]
            known = self._accounts[name] = uid, CpuAccount(min(starts, default=moment))
        return known[1]
