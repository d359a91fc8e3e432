"""Whether it helped: where the room that was made goes to others, less and less is taken back.

A pod for which somebody was evicted is on trial until it has started, or another of its namespace in its place, and was
not driven away at once. If room has to be made for it once more, others were faster: nobody holds them back. Then
nothing is taken back for its namespace for a while, longer each time, and after that for one pod at first; every pod
that is helped doubles that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.books import Kind
from fairlead.arbitrator.objects import BackOff
from fairlead.runtime import clock

FIRST_DELAY_SECONDS: Final = 10.0
LONGEST_DELAY_SECONDS: Final = 1800.0
#: From so many on, as many as want it are made room for at once.
_WIDEST: Final = 64
#: Who is still there so long after its start was helped.
_SETTLED_SECONDS: Final = 30.0
HELPED, FUTILE = "helped", "futile"


@dataclass(slots=True)
class Caution:
    """What is remembered of a namespace that was not helped."""

    #: In a row; and the pod, `namespace/name`, that was not helped last.
    failures: int = 0
    beneficiary: str = ""
    #: Until then nothing is taken back for it; afterwards for so many pods at once.
    until: float = 0.0
    width: int = 1

    @property
    def order(self) -> tuple[int, int, str]:
        """The greater holds for longer, in whole seconds as others read it."""
        return int(self.until), self.failures, self.beneficiary

    def encode(self) -> dict[str, str | int]:
        return {"failures": self.failures, "until": clock.timestamp(self.until), "beneficiary": self.beneficiary}


@dataclass(slots=True)
class _Trial:
    namespace: str
    kind: Kind
    #: How many pods were to go for it, and how many have gone.
    planned: int
    evicted: int = 0
    #: The pod itself is gone; another may come in its place.
    is_orphan: bool = False
    #: When it started.
    started: float | None = None


class Trials:
    """Who was made room for, and what came of it."""

    def __init__(self, kind_of: Callable[[Pod], Kind], count: Callable[[str, str], None]) -> None:
        """`count` is told a namespace and `helped` or `futile` whenever a trial ends."""
        self._kind_of, self._count = kind_of, count
        self._open: dict[str, _Trial] = {}  # by uid, the oldest first
        self._cautions: dict[str, Caution] = {}

    # --- what happens -----------------------------------------------------------------------------------------------

    def recall(self, namespace: str, known: BackOff) -> None:
        """What another arbitrator has learned; of what both know, that which holds for longer counts."""
        until = min(clock.parse_timestamp(known.until), clock.now() + LONGEST_DELAY_SECONDS)
        theirs, own = Caution(known.failures, known.beneficiary, until), self._cautions.get(namespace)
        if own is None or own.order < theirs.order:
            self._cautions[namespace] = theirs

    def evicted(self, pod: Pod, planned: int) -> None:
        """One of so many pods that are to go for this one has gone."""
        uid = pod.metadata.uid
        if uid not in self._open:
            self._open[uid] = _Trial(pod.metadata.namespace, self._kind_of(pod), planned)
        self._open[uid].evicted += 1

    def pod_event(self, old: Pod | None, new: Pod | None) -> None:
        """A pod that starts stands for itself, or for one of its namespace that needs no more than it."""
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
        have = dict(self._kind_of(pod))
        alike = [
            (not trial.is_orphan, uid)
            for uid, trial in self._open.items()
            if trial.namespace == pod.metadata.namespace
            and trial.started is None
            and all(have.get(name, 0) >= amount for name, amount in trial.kind)
        ]
        return self._open.pop(min(alike, key=lambda it: it[0])[1]) if alike else None

    def _ended(self, pod: Pod) -> None:
        """Who was driven away has not been helped; who has finished has."""
        trial = self._open.get(pod.metadata.uid)
        if trial is not None and trial.started is not None and pod.is_finished:
            self._succeeded(pod.metadata.uid)
        elif trial is not None:
            trial.started, trial.is_orphan = None, True

    def _succeeded(self, uid: str) -> None:
        namespace = self._open.pop(uid).namespace
        self._count(namespace, HELPED)
        caution = self._cautions.get(namespace)
        if caution is None:
            return
        caution.failures, caution.until, caution.width = 0, 0.0, 2 * caution.width
        if caution.width >= _WIDEST:
            del self._cautions[namespace]

    def failed(self, namespace: str, beneficiary: str, lost: Iterable[str]) -> Caution:
        """That pod was not helped, nor were those whose room is lost as well."""
        for uid in lost:
            if self._open.pop(uid, None) is not None:
                self._count(namespace, FUTILE)
        caution = self._cautions.setdefault(namespace, Caution())
        caution.failures, caution.width, caution.beneficiary = caution.failures + 1, 1, beneficiary
        delay = FIRST_DELAY_SECONDS * 2.0 ** min(caution.failures - 1, 20)
        caution.until = clock.now() + min(delay, LONGEST_DELAY_SECONDS)
        return caution

    def tidy(self, is_waiting: Callable[[str], bool]) -> None:
        """See who has come to stay; forget what is long ago, and places for which nobody waits any more."""
        now = clock.now()
        for uid in [uid for uid, trial in self._open.items() if trial.started is not None]:
            if now >= (self._open[uid].started or 0.0) + _SETTLED_SECONDS:
                self._succeeded(uid)
        for name in [name for name, caution in self._cautions.items() if now >= caution.until + LONGEST_DELAY_SECONDS]:
            del self._cautions[name]
        for uid in [uid for uid, trial in self._open.items() if trial.is_orphan and not is_waiting(trial.namespace)]:
            del self._open[uid]

    # --- what is to be known of it ----------------------------------------------------------------------------------

    def caution(self, namespace: str) -> Caution | None:
        return self._cautions.get(namespace)

    def is_on_trial(self, pod: Pod) -> bool:
        return pod.metadata.uid in self._open

    def is_lost(self, pod: Pod, more: int, found: int) -> bool:
        """Whether room was made in vain, if so many more have to go for this pod. `found`: for how many pods of its
        namespace there is room that was not made for them: it may be that of pods that are gone.
        """
        trial = self._open.get(pod.metadata.uid)
        if trial is not None:
            return trial.evicted + more > trial.planned
        orphans = sum(trial.is_orphan for trial in self._open.values() if trial.namespace == pod.metadata.namespace)
        return orphans > found

    def of(self, namespace: str) -> list[str]:
        """The uids of those on trial there that have not started."""
        return [uid for uid, trial in self._open.items() if trial.namespace == namespace and trial.started is None]

    def next_change(self) -> float:
        """When time alone changes something."""
        now = clock.now()
        times = [
            at for caution in self._cautions.values() for at in (caution.until, caution.until + LONGEST_DELAY_SECONDS)
        ]
        times += [trial.started + _SETTLED_SECONDS for trial in self._open.values() if trial.started is not None]
        return min((at for at in times if at > now), default=float("inf"))
