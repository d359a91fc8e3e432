"""Whether evictions helped the pods they were made for, and back-off where they did not.

A pod for which others were evicted is on trial until it (or a pod of its namespace in its place) has started and
stayed. If room has to be made for it again, pods that do not ask the arbitrator took the room. Then nothing is
reclaimed for its namespace for a while, longer each time, and after that for one pod at a time; every success doubles
that number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.accounting import RequestVector
from fairlead.arbitrator.objects import BackOffStatus
from fairlead.runtime import clock

FIRST_DELAY_SECONDS: Final = 10.0
LONGEST_DELAY_SECONDS: Final = 1800.0
#: A namespace that may have so many at once has no limit any more.
_WIDEST: Final = 64
#: A pod that is still there so long after its start has been helped.
_SETTLED_SECONDS: Final = 30.0
HELPED, FUTILE = "helped", "futile"


class ReclaimBackOff(msgspec.Struct):
    """How far reclaiming for a namespace is held back because it did not help."""

    #: Failures in a row; and the pod, `namespace/name`, that was not helped last.
    failures: int = 0
    beneficiary: str = ""
    #: Until then nothing is taken back for it; afterwards for so many pods at once.
    until: float = 0.0
    max_pods: int = 1

    @property
    def order(self) -> tuple[int, int, str]:
        """Of two, the greater holds; in whole seconds, as Allocations show it."""
        return int(self.until), self.failures, self.beneficiary

    def encode(self) -> dict[str, str | int]:
        return {"failures": self.failures, "until": clock.timestamp(self.until), "beneficiary": self.beneficiary}


class _Trial(msgspec.Struct):
    namespace: str
    vector: RequestVector
    #: How many pods were to go for it, and how many have gone.
    planned: int
    evicted: int = 0
    #: The pod itself is gone; another of the namespace may come in its place.
    is_orphan: bool = False
    #: When it started.
    started: float | None = None


class Trials:
    """The pods that evictions were made for, and whether these helped."""

    def __init__(self, vector_of: Callable[[Pod], RequestVector], count: Callable[[str, str], None]) -> None:
        """`count` is called with the namespace and `helped` or `futile` when a trial ends."""
        self._vector_of, self._count = vector_of, count
        self._open: dict[str, _Trial] = {}  # by uid, the oldest first
        self._back_offs: dict[str, ReclaimBackOff] = {}

    # --- what happens -----------------------------------------------------------------------------------------------

    def recall(self, namespace: str, known: BackOffStatus) -> None:
        """Take over the back-off that another arbitrator published, if it holds for longer than our own."""
        until = min(clock.parse_timestamp(known.until), clock.now() + LONGEST_DELAY_SECONDS)
        remote, own = ReclaimBackOff(known.failures, known.beneficiary, until), self._back_offs.get(namespace)
        if own is None or own.order < remote.order:
            self._back_offs[namespace] = remote

    def evicted(self, pod: Pod, planned: int) -> None:
        """One of the `planned` victims of this pod was evicted."""
        uid = pod.metadata.uid
        if uid not in self._open:
            self._open[uid] = _Trial(pod.metadata.namespace, self._vector_of(pod), planned)
        self._open[uid].evicted += 1

    def pod_event(self, old: Pod | None, new: Pod | None) -> None:
        """A pod that starts ends its own trial, or that of a pod of its namespace that needs no more than it."""
        pod = new or old
        if pod is None or not self._open:
            return
        if new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
            self._started(new)
        if new is None or new.is_finished or new.metadata.is_terminating:
            self._ended(pod)

    def _started(self, pod: Pod) -> None:
        trial = self._open.pop(pod.metadata.uid, None) or self._in_whose_place(pod)
        if trial is not None:
            trial.started, trial.is_orphan = clock.now(), False
            self._open[pod.metadata.uid] = trial

    def _in_whose_place(self, pod: Pod) -> _Trial | None:
        have = dict(self._vector_of(pod))
        alike = [
            (not trial.is_orphan, uid)
            for uid, trial in self._open.items()
            if trial.namespace == pod.metadata.namespace
            and trial.started is None
            and all(have.get(name, 0) >= amount for name, amount in trial.vector)
        ]
        return self._open.pop(min(alike, key=lambda entry: entry[0])[1]) if alike else None

    def _ended(self, pod: Pod) -> None:
        """A pod that has finished was helped; one that was deleted was not."""
        trial = self._open.get(pod.metadata.uid)
        if trial is not None and trial.started is not None and pod.is_finished:
            self._succeeded(pod.metadata.uid)
        elif trial is not None:
            trial.started, trial.is_orphan = None, True

    def _succeeded(self, uid: str) -> None:
        namespace = self._open.pop(uid).namespace
        self._count(namespace, HELPED)
        back_off = self._back_offs.get(namespace)
        if back_off is None:
            return
        back_off.failures, back_off.until, back_off.max_pods = 0, 0.0, 2 * back_off.max_pods
        if back_off.max_pods >= _WIDEST:
            del self._back_offs[namespace]

    def failed(self, namespace: str, beneficiary: str, lost: Iterable[str]) -> ReclaimBackOff:
        """The beneficiary was not helped, and neither were the `lost` (uids): back off."""
        for uid in lost:
            if self._open.pop(uid, None) is not None:
                self._count(namespace, FUTILE)
        back_off = self._back_offs.setdefault(namespace, ReclaimBackOff())
        back_off.failures, back_off.max_pods, back_off.beneficiary = back_off.failures + 1, 1, beneficiary
        delay = FIRST_DELAY_SECONDS * 2.0 ** min(back_off.failures - 1, 20)
        back_off.until = clock.now() + min(delay, LONGEST_DELAY_SECONDS)
        return back_off

    def tidy(self, is_waiting: Callable[[str], bool]) -> None:
        """End the trials of pods that stayed; forget old back-offs, and orphans where no pod waits any more."""
        now = clock.now()
        for uid in [uid for uid, trial in self._open.items() if trial.started is not None]:
            if now >= (self._open[uid].started or 0.0) + _SETTLED_SECONDS:
                self._succeeded(uid)
        for name in [
            name for name, back_off in self._back_offs.items() if now >= back_off.until + LONGEST_DELAY_SECONDS
        ]:
            del self._back_offs[name]
        for uid in [uid for uid, trial in self._open.items() if trial.is_orphan and not is_waiting(trial.namespace)]:
            del self._open[uid]

    # --- what is to be known of it ----------------------------------------------------------------------------------

    def back_off(self, namespace: str) -> ReclaimBackOff | None:
        return self._back_offs.get(namespace)

    def is_on_trial(self, pod: Pod) -> bool:
        return pod.metadata.uid in self._open

    def is_lost(self, pod: Pod, more: int, found: int) -> bool:
        """Whether the room that was made is lost, if `more` evictions are needed for this pod. `found`: how many pods
        of its namespace have room that was not made for them; it may have been made for pods that are gone.
        """
        trial = self._open.get(pod.metadata.uid)
        if trial is not None:
            return trial.evicted + more > trial.planned
        orphans = sum(trial.is_orphan for trial in self._open.values() if trial.namespace == pod.metadata.namespace)
        return orphans > found

    def of(self, namespace: str) -> list[str]:
        """The uids of the namespace's pods on trial that have not started."""
        return [uid for uid, trial in self._open.items() if trial.namespace == namespace and trial.started is None]

    def next_change(self) -> float:
        """When time alone changes something."""
        now = clock.now()
        times = [
            at
            for back_off in self._back_offs.values()
            for at in (back_off.until, back_off.until + LONGEST_DELAY_SECONDS)
        ]
        times += [trial.started + _SETTLED_SECONDS for trial in self._open.values() if trial.started is not None]
        return min((at for at in times if at > now), default=float("inf"))
