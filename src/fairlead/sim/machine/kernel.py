"""Whom the kernel kills on a simulated machine when a cgroup, or the whole machine, has no memory left.

Where memory ends decides who may die: the kernel looks among the processes of that cgroup alone (S4-08, S4-12).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Final, NamedTuple

from fairlead.node.evidence import MOST_KEPT, OomScores, ScoredProcess
from fairlead.node.oom import Process, oom_victim
from fairlead.sim.machine.hardware import Hardware
from fairlead.sim.machine.load import read_at
from fairlead.sim.machine.machine_pod import MachinePod
from fairlead.sim.usage.measures import Measure

#: The kernel's moment is found to a twentieth of a second.
_MOMENT_SECONDS: Final = 0.1


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

    def memory(self, at: float) -> int:
        measure = Measure.CHILD_MEMORY if self.is_child else Measure.MEMORY
        return self.pod.amount(self.container, measure, read_at(at))

    def memory_before(self, now: float) -> int:
        """What it had a moment ago; nothing, if it was not there yet."""
        at = now - _MOMENT_SECONDS
        return self.memory(at) if self.pod.started[self.container] <= at else 0


class MemoryDomain(NamedTuple):
    """A cgroup that has a limit: so many bytes for these pods, or for everything on the machine."""

    limit: int
    #: What is wanted of it; the kernel never gives more than the limit.
    wanted: int
    pods: Iterable[MachinePod]
    #: How it is called in an event; none: the whole machine.
    cgroup: str = ""


def victim(domain: MemoryDomain, now: float, hardware: Hardware, *, is_single: bool) -> OomKill | None:
    """None if no pod there has a process."""
    owners: list[_Owner] = []
    adjustments: list[int] = []
    for pod in domain.pods:
        if not pod.started:
            continue
        of_pod = pod.oom_score_adjustments(hardware.machine.memory_bytes)
        for container in pod.started:
            for measure in (Measure.MEMORY, Measure.CHILD_MEMORY):
                if measure is Measure.MEMORY or pod.amount(container, measure, read_at(now)):
                    owners.append(_Owner(pod, container, measure is Measure.CHILD_MEMORY))
                    adjustments.append(max(of_pod[container], hardware.least_oom_score_adj))
    amounts = _resident(owners, domain, now)
    processes = [Process(*each) for each in zip(amounts, adjustments, strict=True)]
    worst = oom_victim(processes, domain.limit)
    if worst is None:
        return None
    scores = _scores(owners, processes, domain)
    pod, container, is_child = owners[processes.index(worst)]
    return OomKill(pod, container, is_child and is_single, scores)


def _resident(owners: Sequence[_Owner], domain: MemoryDomain, now: float) -> list[int]:
    """What each has at the moment when there is no more: whoever has just begun to want much has not got it yet.

    Others may have the greater score until then, and die for it.
    """
    wanted = [owner.memory(now) for owner in owners]
    before = [min(owner.memory_before(now), amount) for owner, amount in zip(owners, wanted, strict=True)]
    growth = sum(wanted) - sum(before)
    got = max(growth - max(domain.wanted - domain.limit, 0), 0)
    if not growth:
        return wanted
    return [earlier + (amount - earlier) * got // growth for earlier, amount in zip(before, wanted, strict=True)]


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
