"""What is used over a run, looked at now and then: a run may take a minute or a year, so the looks become rarer.

Nodes on which nobody declares usage count with the share of requests that is everybody's default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fairlead.runtime.clock import now
from fairlead.sim.machine.load import read_at
from fairlead.sim.machine.machines import Machines

#: How many looks are kept; then every second one is dropped, and they become half as frequent.
_MOST_LOOKS: Final = 48
_FIRST_SECONDS: Final = 10.0
#: `DEFAULT_SHARE` of what is declared (`sim/usage/resolving.py`), as a number.
_DEFAULT: Final = 0.5


class UsedAt(NamedTuple):
    moment: float
    #: By resource: milli-cores, bytes.
    used: Mapping[str, float]


class UsageRecord:
    def __init__(self, machines: Machines, requested: Callable[[], Mapping[str, Mapping[str, int]]]) -> None:
        """`requested`: by node that is there, what its pods request."""
        self._machines, self._requested = machines, requested
        self._interval = _FIRST_SECONDS
        self.looks: list[UsedAt] = []
        #: Whether anybody has declared any usage.
        self.is_declared = False

    @property
    def throttled_seconds(self) -> float:
        return self._machines.throttled_seconds()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            if len(self.looks) > _MOST_LOOKS:
                del self.looks[1::2]
                self._interval *= 2
            await asyncio.sleep(self._interval)

    def look(self) -> None:
        moment, declared = now(), self._machines.declared()
        self.is_declared |= bool(declared)
        cpu = memory = 0.0
        for name, amounts in self._requested().items():
            machine = declared.get(name)
            if machine is None:
                cpu += _DEFAULT * amounts.get("cpu", 0)
                memory += _DEFAULT * amounts.get("memory", 0)
            else:
                cpu += self._machines.cpu_account(name).given(machine, moment)
                memory += machine.figures(read_at(moment)).working_set
        self.looks.append(UsedAt(moment, {"cpu": cpu, "memory": memory}))
