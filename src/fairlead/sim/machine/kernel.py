"""Whom the kernel kills on a simulated machine when a cgroup, or the whole machine, has no memory left.

Where memory ends decides who may die: the kernel looks among the processes of that cgroup alone (S4-08, S4-12).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import NamedTuple

from fairlead.node.evidence import MOST_KEPT, OomScores, ScoredProcess
from fairlead.node.oom import Process, oom_victim
from fairlead.sim.machine.hardware import Hardware
from fairlead.sim.machine.load import Read
from fairlead.sim.machine.machine_pod import MachinePod
from fairlead.sim.usage.measures import Measure


class OomKill(NamedTuple):
    """A container that the kernel ends, or the children of its first process alone."""

    pod: MachinePod
    container: str
    is_child: bool
    scores: OomScores


class _Owner(NamedTuple):
    """Whose process it is."""

    pod: MachinePod
    container: str
    is_child: bool


class MemoryDomain(NamedTuple):
    """A cgroup that has a limit: so many bytes for these pods, or for everything on the machine."""

    limit: int
    pods: Iterable[MachinePod]
    #: How it is called in an event; none: the whole machine.
    cgroup: str = ""


def victim(domain: MemoryDomain, read: Read, hardware: Hardware, *, is_single: bool) -> OomKill | None:
    """None if no pod there has a process."""
    owners: list[_Owner] = []
    processes: list[Process] = []
    for pod in domain.pods:
        if not pod.started:
            continue
        adjustments = pod.oom_score_adjustments(hardware.machine.memory_bytes)
        for container in pod.started:
            for measure in (Measure.MEMORY, Measure.CHILD_MEMORY):
                memory = pod.amount(container, measure, read)
                if memory or measure is Measure.MEMORY:
                    owners.append(_Owner(pod, container, measure is Measure.CHILD_MEMORY))
                    processes.append(Process(memory, max(adjustments[container], hardware.least_oom_score_adj)))
    worst = oom_victim(processes, domain.limit)
    if worst is None:
        return None
    scores = _scores(owners, processes, domain)
    pod, container, is_child = owners[processes.index(worst)]
    return OomKill(pod, container, is_child and is_single, scores)


def _scores(owners: Sequence[_Owner], processes: Sequence[Process], domain: MemoryDomain) -> OomScores:
    """The worst of them, with what the kernel thought of each."""
    total = max(domain.limit, 1)
    order = nlargest(MOST_KEPT, range(len(processes)), key=lambda index: processes[index].badness(total))
    kept = tuple(
        ScoredProcess(
            owners[index].pod.key,
            owners[index].container,
            processes[index].memory_bytes,
            processes[index].oom_score_adj,
            processes[index].oom_score(total),
        )
        for index in order
    )
    return OomScores(kept, len(processes) - len(kept), domain.cgroup)
