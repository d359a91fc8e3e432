"""What nodes did to pods in a run: kills, evictions, refusals; and how long nodes were short of something."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.node.eviction.messages import EVICTED
from fairlead.node.eviction.signals import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE
from fairlead.sim.oom_kills import OomKills

_PRESSURES: Final = (MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE)
_LOW_ON: Final = re.compile(r"The node was low on resource: ([a-z-]+)\.")
_REJECTED: Final = "Pod was rejected: "
#: The cause of an eviction that no shortage of the node explains.
_LOCAL_STORAGE: Final = "local storage limit"


class NodeTroubles:
    """Counts as pods and nodes change."""

    def __init__(self) -> None:
        self._oom_kills = 0
        self._kills = OomKills()
        self._evictions: Counter[str] = Counter()  # by cause
        self._refused: Counter[str] = Counter()  # by reason
        self._since: dict[tuple[str, str], float] = {}  # by pressure and node: since when it is shown
        self._nodes: dict[str, set[str]] = {}  # by pressure: nodes that ever showed it
        self._seconds: dict[str, float] = {}  # by pressure

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            assert old is not None
            self._kills.forget(old)
            return
        killed = self._kills.news(new)
        if old is None:
            return  # what a pod brings along from before the run does not count
        self._oom_kills += len(killed)
        if new.status.phase == "Failed" and not old.is_finished:
            self._count_end(new)

    def node(self, old: Node | None, new: Node | None, moment: float) -> None:
        for pressure in _PRESSURES:
            before, after = _shows(old, pressure), _shows(new, pressure)
            node = new or old
            if before == after or node is None:
                continue
            key = (pressure, node.metadata.name)
            if after:
                self._since[key] = moment
                self._nodes.setdefault(pressure, set()).add(node.metadata.name)
            elif key in self._since:
                self._seconds[pressure] = self._seconds.get(pressure, 0.0) + moment - self._since.pop(key)

    def summary(self, end: float) -> Obj:
        seconds = dict(self._seconds)
        for (pressure, _), since in self._since.items():
            seconds[pressure] = seconds.get(pressure, 0.0) + end - since
        return {
            "oomKills": self._oom_kills,
            "evictions": dict(sorted(self._evictions.items())),
            "refused": dict(sorted(self._refused.items())),
            "pressures": {
                pressure: {"nodes": len(nodes), "seconds": round(seconds[pressure], 3)}
                for pressure, nodes in sorted(self._nodes.items())
            },
        }

    def _count_end(self, pod: Pod) -> None:
        reason, message = pod.status.reason, pod.status.message
        if message.startswith(_REJECTED):
            self._refused[reason] += 1
        elif reason == EVICTED:
            low = _LOW_ON.match(message)
            self._evictions[low[1] if low else _LOCAL_STORAGE] += 1


def _shows(node: Node | None, pressure: str) -> bool:
    condition = node.condition(pressure) if node is not None else None
    return condition is not None and condition.status == "True"
