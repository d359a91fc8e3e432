"""The kubelets of simulated machines, as an API server reaches them (`server/nodes/agents.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.node.configuration.document import document
from fairlead.node.stats import endpoints
from fairlead.node.stats.endpoints import NodeAnswer
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.runtime.clock import now
from fairlead.sim.machine.machines import Machines
from fairlead.sim.machine.measurements import node_measurements


class SimulatedAgents:
    """Measures when asked: a node that nobody asks about costs nothing."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    async def measure(self, node: str) -> NodeMeasurements | None:
        found, machine = self._machines.node(node), self._machines.machine(node)
        if found is None or machine is None:
            return None
        return node_measurements(found, machine, self._machines.cpu_account(node), now(), self._machines.claim_capacity)

    async def get(self, node: str, path: str, query: Mapping[str, str]) -> NodeAnswer | None:
        measured, machine = await self.measure(node), self._machines.machine(node)
        if measured is None or machine is None:
            return None
        return endpoints.answer(path, query, measured, document(machine.configured.configuration))
