"""Who may start now: what was granted in the last cycle, beside what is held this very moment.

Whoever places pods asks here, in the process or over HTTP, and says what came of it. What one cycle grants never adds
up to more than is free, and what starts is counted at once, so nothing is given away twice between two cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.amounts import REQUESTS
from fairlead.arbitrator.books import Books, total
from fairlead.runtime import clock

#: A pod that was let start over HTTP and is not seen on a node for so long is thought to have been given up.
FORGOTTEN_SECONDS: Final = 60.0
NOT_DIVIDED: Final = "the arbitrator has not divided the cluster yet"


class Ledger:
    """The answers to pods that want to start."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self._prefix = REQUESTS
        self._granted: Mapping[str, Mapping[str, int]] | None = None
        self._unlimited: frozenset[str] = frozenset()
        self._until: dict[str, float] = {}  # uid -> when it is thought to have been given up
        #: Keys, by uid, of pods that a scheduler of another process was told to let wait.
        self.refused: dict[str, str] = {}
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call it whenever somebody may be granted more."""
        self._listeners.append(listener)

    def publish(
        self, granted: Mapping[str, Mapping[str, int]], unlimited: frozenset[str], prefix: str = REQUESTS
    ) -> None:
        """What a cycle has found, by namespace and resource; the unlimited are never held back (S2-28). `prefix`: how
        quotas call what is divided.
        """
        self._granted, self._unlimited, self._prefix = granted, unlimited, prefix
        for listener in self._listeners:
            listener()

    def refusal(self, pod: Pod) -> str:
        """Why the pod may not start now; empty if it may. The text names no figures: it would change all the time."""
        namespace, kind = pod.metadata.namespace, self.books.kind(pod)
        if not kind or namespace in self._unlimited or self.books.is_held(pod):
            return ""
        if self._granted is None:
            return NOT_DIVIDED
        granted = self._granted.get(namespace)
        if granted is None:
            return f"Allocation {namespace}: not looked at yet"
        held = total(self.books.account(namespace).held)
        lacking = [name for name, amount in kind if name in granted and held.get(name, 0) + amount > granted[name]]
        if not lacking:
            return ""
        wanted = ", ".join(f"{self._prefix}{name}" for name in lacking)
        return f"Allocation {namespace}: not enough {wanted} is granted to this namespace now"

    def assume(self, pod: Pod, node: str) -> None:
        """The pod is given a node."""
        self.books.assume(pod, node)

    def release(self, pod: Pod) -> None:
        """Nothing came of it."""
        self.books.release(pod.metadata.uid)

    def ask(self, pod: Pod) -> str:
        """Empty if the pod may start now: then it is counted as started, until it is seen on a node or a while has
        passed; asking again changes nothing. Otherwise why not.
        """
        why = self.refusal(pod)
        if not why:
            self.books.assume(pod)
            self._until[pod.metadata.uid] = clock.monotonic() + FORGOTTEN_SECONDS
        return why

    def ask_from_afar(self, pod: Pod) -> str:
        """The same, for a scheduler that does not hear when more is granted: who is refused is to be woken."""
        why = self.ask(pod)
        if why:
            self.refused[pod.metadata.uid] = pod.metadata.key
        else:
            self.refused.pop(pod.metadata.uid, None)
        return why

    def keep(self, pod: Pod) -> None:
        """The pod was let go for good: it may start at any time, however long it takes."""
        self._until.pop(pod.metadata.uid, None)

    def expire(self) -> None:
        """Forget those that nothing was heard of again."""
        now = clock.monotonic()
        for uid in [uid for uid, until in self._until.items() if until <= now]:
            del self._until[uid]
            self.books.release(uid)
