"""Which pods may start now: what the last cycle granted, compared with what is held at this moment.

Schedulers ask here, in this process or over HTTP, and report the outcome. The grants of a cycle never add up to more
than is free, and a pod that starts is counted at once, so nothing is given away twice between two cycles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.amounts import REQUESTS
from fairlead.arbitrator.outcomes import Division
from fairlead.runtime import clock

#: A pod that was allowed to start over HTTP, and is not seen on a node for so long, is counted as waiting again.
FORGOTTEN_SECONDS: Final = 60.0
NOT_DIVIDED: Final = "the arbitrator has not divided the cluster yet"


class GrantTable:
    """What each namespace is granted, and which pods were allowed to start since."""

    def __init__(self, accounting: Accounting) -> None:
        self.accounting = accounting
        self._prefix = REQUESTS
        self._division: Division | None = None
        self._unlimited: frozenset[str] = frozenset()
        self._until: dict[str, float] = {}  # uid -> when its start is given up
        #: Keys, by uid, of pods that an external scheduler was refused.
        self.refused: dict[str, str] = {}
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call the listener whenever grants may have grown."""
        self._listeners.append(listener)

    def publish(self, division: Division, unlimited: frozenset[str], prefix: str = REQUESTS) -> None:
        """The outcome of a cycle. Pods of `unlimited` namespaces always start (S2-28).
        `prefix`: the quota prefix of what is divided (`requests.` or `limits.`).
        """
        self._division, self._unlimited, self._prefix = division, unlimited, prefix
        for listener in self._listeners:
            listener()

    def refusal(self, pod: Pod) -> str:
        """Why the pod may not start now; empty if it may. The text has no figures, or it would change all the time."""
        namespace, vector = pod.metadata.namespace, self.accounting.vector(pod)
        if not vector or namespace in self._unlimited or self.accounting.is_held(pod):
            return ""
        if self._division is None:
            return NOT_DIVIDED
        outcome = self._division.namespaces.get(namespace)
        if outcome is None:
            return f"Allocation {namespace}: not looked at yet"
        granted = outcome.granted
        held = self.accounting.account(namespace).held.amounts
        lacking = [name for name, amount in vector if name in granted and held.get(name, 0) + amount > granted[name]]
        if not lacking:
            return ""
        wanted = ", ".join(f"{self._prefix}{name}" for name in lacking)
        return f"Allocation {namespace}: not enough {wanted} is granted to this namespace now"

    def overuse(self, namespace: str) -> float:
        """How far the namespace was above what it deserves in the last cycle; 0 where it was not (S2-51)."""
        if self._division is None or namespace in self._unlimited:
            return 0.0
        return float(self._division.overuse(namespace))

    def assume(self, pod: Pod, node: str) -> None:
        """The scheduler places the pod on this node."""
        self.accounting.assume(pod, node)

    def release(self, pod: Pod) -> None:
        """The placement failed."""
        self.accounting.release(pod.metadata.uid)

    def ask(self, pod: Pod) -> str:
        """Empty if the pod may start now: then it is counted as started, until it is seen on a node or a while has
        passed; asking again changes nothing. Otherwise why not.
        """
        why = self.refusal(pod)
        if not why:
            self.accounting.assume(pod)
            self._until[pod.metadata.uid] = clock.monotonic() + FORGOTTEN_SECONDS
        return why

    def ask_remotely(self, pod: Pod) -> str:
        """The same for an external scheduler, which does not see grants change: refused pods are retriggered later."""
        why = self.ask(pod)
        if why:
            self.refused[pod.metadata.uid] = pod.metadata.key
        else:
            self.refused.pop(pod.metadata.uid, None)
        return why

    def keep(self, pod: Pod) -> None:
        """The pod's gate is lifted: it counts as started however long it takes."""
        self._until.pop(pod.metadata.uid, None)

    def expire(self) -> None:
        """Release the pods that were allowed to start and did not in time."""
        now = clock.monotonic()
        for uid in [uid for uid, until in self._until.items() if until <= now]:
            del self._until[uid]
            self.accounting.release(uid)
