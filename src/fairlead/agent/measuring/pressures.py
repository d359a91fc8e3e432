"""How long processes of a cgroup have waited for cpu, memory and disks, as the kernel tells of cgroups of version 2."""

from __future__ import annotations

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.node.stats.measurements import Pressure, PressureMeasurements, Waiting


def pressures(cgroups: Cgroups, path: str) -> PressureMeasurements | None:
    """None where the kernel does not tell, or not of all three."""
    if cgroups.hierarchies.version == 1:
        return None
    texts = [cgroups.read(path, f"{resource}.pressure") for resource in ("cpu", "memory", "io")]
    cpu, memory, io = (None if text is None else _pressure(text) for text in texts)
    return None if cpu is None or memory is None or io is None else PressureMeasurements(cpu, memory, io)


def _pressure(text: str) -> Pressure:
    """Of cpu an older kernel tells nothing of all processes, which then is zero."""
    lines = {kind: _waiting(figures) for kind, *figures in map(str.split, text.splitlines())}
    return Pressure(some=lines.get("some", Waiting()), full=lines.get("full", Waiting()))


def _waiting(figures: list[str]) -> Waiting:
    found = dict(figure.partition("=")[::2] for figure in figures)
    averages = (float(found.get(name, 0)) for name in ("avg10", "avg60", "avg300"))
    return Waiting(int(found.get("total", 0)), *averages)
