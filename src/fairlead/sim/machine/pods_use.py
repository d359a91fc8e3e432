"""What some pods of a simulated machine use: the part of its measurements (`measurements.py`) that autoscalers ask for.

Hundreds of them ask four times a minute, each about pods of its own: what is not asked for is not worked out.
"""

from __future__ import annotations

from collections.abc import Collection

from fairlead.node.stats.measurements import ContainerUse, PodsUse
from fairlead.sim.machine.cpu import CpuAccount
from fairlead.sim.machine.load import read_at
from fairlead.sim.machine.machine import SimulatedMachine
from fairlead.sim.machine.measurements import WINDOW_SECONDS
from fairlead.sim.usage.measures import Measure


def pods_use(machine: SimulatedMachine, account: CpuAccount, now: float, uids: Collection[str]) -> PodsUse:
    """Of pods by uid; those of which nothing runs are left out."""
    read = read_at(now)
    rates, _ = account.rates(machine, now, WINDOW_SECONDS)
    room: int | None = None  # for files in memory, which few declare
    found: dict[str, list[ContainerUse]] = {}
    for uid in uids:
        pod = machine.pods.get(uid)
        if pod is None or not pod.started:
            continue
        found[uid] = []
        for name, since in pod.started.items():
            files = pod.amount(name, Measure.ACTIVE_FILE, read)
            if files and room is None:
                room = max(machine.hardware.machine.memory_bytes - machine.figures(read).anonymous, 0)
            memory = pod.anonymous(name, read) + pod.in_memory_volumes(name, read) + min(files, room or 0)
            found[uid].append(ContainerUse(name, since, round(rates.get((uid, name), 0.0) * 1e6), memory))
    return PodsUse(now, WINDOW_SECONDS, found)
