"""The pods that wait: who is tried next, who is tried later, and who only when something has changed.

                     ┌─────────────── update, or an event that helps ───────────────┐
                     ▼                                     │ backing off            │
    add ──▶ ACTIVE ──pop──▶ (tried) ──refused──▶ UNSCHEDULABLE ──────▶ BACKOFF ─────┘(timer, or nothing else to do)
     │                          └──error──▶ ERROR ──(timer)──▶ ACTIVE
     └─gated─▶ GATED ──gates gone──▶ ACTIVE

Active pods go by priority, then by the time since which they wait (S3-15). A pod that was refused waits for a change
that may help with what refused it, at most five minutes; and it backs off one second, doubling to ten (S3-11). Back-off
ends on whole seconds, and a pod that backs off is taken early when nothing else waits (pkg/scheduler/backend/queue
with queueing hints and SchedulerPopFromBackoffQ). Refused pods are kept by shape: a hint is asked once for a kind.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from fairlead.api.scheduling import Pod
from fairlead.scheduler.company import Company, Task
from fairlead.scheduler.framework import EXTENDER, Change, Event, Profile
from fairlead.scheduler.shape import Shape

FIRST_BACKOFF_SECONDS: Final = 1.0
LONGEST_BACKOFF_SECONDS: Final = 10.0
LONGEST_UNSCHEDULABLE_SECONDS: Final = 300.0
FLUSH_SECONDS: Final = 30.0
#: Shape, company, profile and who refused: what a hint depends on.
_Kind = tuple[Shape, Company, str, frozenset[str]]
#: So many void entries more than others may a heap have before they are dropped.
_MOST_VOID: Final = 16
#: The clock may be this early when a timer fires.
_TICK = 1e-3


class Place(Enum):
    ACTIVE = auto()
    BACKOFF = auto()
    ERROR = auto()
    UNSCHEDULABLE = auto()
    GATED = auto()
    NOWHERE = auto()


@dataclass(slots=True, eq=False)
class Waiting:
    """A pod in the queue."""

    pod: Pod
    task: Task
    profile: Profile
    key: str
    #: Since when it waits (its creation, or its last refusal); on the loop's clock, as all times here.
    since: float
    number: int
    place: Place = Place.NOWHERE
    refused_by: frozenset[str] = frozenset()
    #: When it first came.
    came_at: float = 0.0
    attempts: int = 0
    tried_at: float = 0.0
    refusals: int = 0
    errors_in_a_row: int = 0
    backoff_until: float = -math.inf
    #: When a refused pod is tried again although nothing helped.
    overdue_at: float = 0.0
    #: Its victims are being driven away: it must not be tried, or it would look for more.
    is_preempting: bool = False
    #: Something helped it meanwhile.
    was_called: bool = False
    #: Grows whenever the pod is put somewhere: heap entries with an older one are void.
    ticket: int = 0

    @property
    def rank(self) -> tuple[tuple[float, ...], int]:
        return self.profile.rank(self.pod, self.since), self.number


@dataclass(slots=True)
class Away:
    """A pod that somebody else is asked about, and what happened meanwhile."""

    waiting: Waiting
    changes: list[Change] = field(default_factory=list)


#: When it is due, its rank, its ticket and the pod.
_Entry = tuple[float, tuple[tuple[float, ...], int], int, Waiting]


class SchedulingQueue:
    """Waiting pods by key. Every method is told the time; nothing here waits."""

    def __init__(
        self,
        events: Event,
        *,
        first_backoff: float = FIRST_BACKOFF_SECONDS,
        longest_backoff: float = LONGEST_BACKOFF_SECONDS,
    ) -> None:
        """`events` are those that any plugin of any profile wants to hear of."""
        self._waiting: dict[str, Waiting] = {}
        self._heaps: dict[Place, list[_Entry]] = {
            Place.ACTIVE: [],
            Place.BACKOFF: [],
            Place.ERROR: [],
            Place.UNSCHEDULABLE: [],
        }
        self._unschedulable: dict[_Kind, dict[str, Waiting]] = {}
        self._away: dict[str, Away] = {}
        self._number = 0
        self._counts = dict.fromkeys(Place, 0)
        self._of_interest = events
        self._first_backoff, self._longest_backoff = first_backoff, longest_backoff

    def __len__(self) -> int:
        return len(self._waiting)

    def count(self, place: Place) -> int:
        """How many pods are there (`scheduler_pending_pods`)."""
        return self._counts[place]

    @property
    def has_next(self) -> bool:
        """Whether `pop` has somebody."""
        return bool(self._counts[Place.ACTIVE] or self._counts[Place.BACKOFF])

    def get(self, key: str) -> Waiting | None:
        """The pod, if it waits or is away."""
        away = self._away.get(key)
        return self._waiting.get(key) if away is None else away.waiting

    # --- pods come and go -------------------------------------------------------------------------------------------

    def add(self, pod: Pod, task: Task, profile: Profile, now: float) -> None:
        """A pod that has never been tried."""
        self._number += 1
        one = Waiting(pod, task, profile, pod.metadata.key, now, self._number)
        one.came_at = now
        self._waiting[one.key] = one
        self._activate(one)

    def remove(self, key: str) -> None:
        """The pod is gone, or no longer ours to place."""
        self._away.pop(key, None)
        one = self._waiting.pop(key, None)
        if one is not None:
            self._put(one, Place.NOWHERE)

    def update(self, pod: Pod, task: Task, events: Event, now: float) -> None:
        """A pod that waits has changed; `events` says in which of the ways that could help it."""
        away = self._away.get(pod.metadata.key)
        one = away.waiting if away is not None else self._waiting[pod.metadata.key]
        place, before = one.place, one.task
        change = Change(
            events,
            old_shape=before.shape,
            new_shape=task.shape,
            old_company=before.company,
            new_company=task.company,
        )
        if away is not None:
            away.changes.append(change)
        if place is Place.UNSCHEDULABLE:
            self._put(one, Place.NOWHERE)
        one.pod, one.task = pod, task
        if place is Place.GATED:
            self._activate(one)  # whoever holds it back is asked again
        elif place is Place.UNSCHEDULABLE:
            if _is_helped(change, one):
                self._try_again(one, now)
            else:
                self._put(one, Place.UNSCHEDULABLE)

    # --- trying -----------------------------------------------------------------------------------------------------

    def pop(self) -> Waiting | None:
        """The next pod to try. It is out of the queue until the caller gives it back: `refused` or `failed`."""
        for place in (Place.ACTIVE, Place.BACKOFF):
            one = self._first(place)
            if one is not None:
                heapq.heappop(self._heaps[place])
                self._put(one, Place.NOWHERE)
                del self._waiting[one.key]
                one.attempts += 1
                return one
        return None

    def is_ready(self, key: str) -> bool:
        """Whether a pod of that name waits that may be tried."""
        one = self._waiting.get(key)
        if one is None or one.is_preempting or one.pod.metadata.is_terminating:
            return False
        return one.place not in (Place.GATED, Place.NOWHERE)

    def take(self, key: str) -> Waiting | None:
        """Take a certain pod out, wherever it waits; None if nobody of that name may be tried."""
        if not self.is_ready(key):
            return None
        one = self._waiting[key]
        self._put(one, Place.NOWHERE)
        del self._waiting[key]
        one.attempts += 1
        return one

    def leave(self, one: Waiting) -> None:
        """Somebody else is asked about the popped pod, and that takes time: remember what happens until it is back."""
        self._away[one.key] = Away(one)

    def refused(self, one: Waiting, plugins: frozenset[str], now: float, *, backs_off: bool = True) -> None:
        """No node would do, by the word of these plugins. Who was not even tried does not back off."""
        away = self._away.pop(one.key, None)
        one.refused_by = plugins
        one.errors_in_a_row = 0
        if backs_off:
            one.refusals += 1
            self._back_off(one, one.refusals, now)
        one.overdue_at = _next_flush(max(one.since + LONGEST_UNSCHEDULABLE_SECONDS, now))
        self._waiting[one.key] = one
        self._put(one, Place.UNSCHEDULABLE)
        if away is not None and any(_is_helped(change, one) for change in away.changes):
            self._try_again(one, now)

    def failed(self, one: Waiting, now: float) -> None:
        """Trying it went wrong, by nobody's word; it is tried again after its back-off and not before."""
        self._away.pop(one.key, None)
        one.refused_by = frozenset()
        one.errors_in_a_row += 1
        self._back_off(one, one.errors_in_a_row, now)
        self._waiting[one.key] = one
        self._put(one, Place.ERROR)

    # --- changes ----------------------------------------------------------------------------------------------------

    def moved(self, change: Change, now: float, most_important: int | None = None) -> None:
        """Something happened: try again whom it may help, but nobody of a higher priority than `most_important`."""
        if not change.events & self._of_interest:
            return
        for away in self._away.values():
            if most_important is None or away.waiting.pod.priority <= most_important:
                away.changes.append(change)
        for pods in list(self._unschedulable.values()):
            if _is_helped(change, next(iter(pods.values()))):
                for one in list(pods.values()):
                    if most_important is None or one.pod.priority <= most_important:
                        self._try_again(one, now)

    def activate(self, key: str, now: float) -> None:
        """Something that no plugin speaks of may have helped this pod."""
        one = self._waiting.get(key)
        if one is not None and one.place is Place.UNSCHEDULABLE:
            self._try_again(one, now)

    def tick(self, now: float) -> None:
        """Let those go on whose time has come."""
        for place in (Place.BACKOFF, Place.ERROR):
            while (one := self._first(place)) is not None and not _is_backing_off(one, now):
                heapq.heappop(self._heaps[place])
                self._put(one, Place.ACTIVE)
        while (one := self._first(Place.UNSCHEDULABLE)) is not None and one.overdue_at <= now:
            heapq.heappop(self._heaps[Place.UNSCHEDULABLE])
            self._try_again(one, now)

    def next_tick(self, now: float) -> float | None:
        """When `tick` has something to do again; None while nothing waits for time to pass."""
        firsts = (self._first(place) for place in (Place.BACKOFF, Place.ERROR))
        times = [one.backoff_until + 1.0 for one in firsts if one is not None]
        if (one := self._first(Place.UNSCHEDULABLE)) is not None:
            times.append(one.overdue_at)
        return min(times, default=None)

    # --- within -----------------------------------------------------------------------------------------------------

    def _activate(self, one: Waiting) -> None:
        """Into the active queue, unless a plugin holds the pod back."""
        held = one.profile.pre_enqueue(one.pod)
        if held is not None:
            one.refused_by = frozenset({held[0].name})
        self._put(one, Place.ACTIVE if held is None else Place.GATED)

    def preempted(self, one: Waiting, now: float) -> None:
        """The pod's victims are told; it may be tried again as soon as something helps."""
        one.is_preempting = False
        if one.was_called and one.place is Place.UNSCHEDULABLE:
            self._try_again(one, now)
        one.was_called = False

    def _try_again(self, one: Waiting, now: float) -> None:
        if one.is_preempting:
            one.was_called = True
        elif _is_backing_off(one, now):
            self._put(one, Place.BACKOFF)
        else:
            self._put(one, Place.ACTIVE)

    def _back_off(self, one: Waiting, count: int, now: float) -> None:
        seconds = min(self._first_backoff * 2 ** min(count - 1, 30), self._longest_backoff)
        one.since = now
        one.backoff_until = math.floor(now + seconds + _TICK)

    def _put(self, one: Waiting, place: Place) -> None:
        """The only way from one place to another."""
        before = one.place
        if before is Place.UNSCHEDULABLE:
            self._leave_unschedulable(one)
        self._counts[before] -= 1
        self._counts[place] += 1
        one.place = place
        one.ticket += 1
        heap = self._heaps.get(place)
        if heap is not None:
            heapq.heappush(heap, (_due(one), one.rank, one.ticket, one))
        if place is Place.UNSCHEDULABLE:
            self._unschedulable.setdefault(_kind(one), {})[one.key] = one
        self._tidy(before)

    def _tidy(self, place: Place) -> None:
        """Drop the void entries of a heap when they are the most of it: they hold pods that may be gone, and their
        turn, in which they would be dropped, comes only minutes later.
        """
        heap = self._heaps.get(place)
        if heap is not None and len(heap) > 2 * self._counts[place] + _MOST_VOID:
            heap[:] = [entry for entry in heap if _is_valid(entry, place)]
            heapq.heapify(heap)

    def _leave_unschedulable(self, one: Waiting) -> None:
        kind = _kind(one)
        pods = self._unschedulable[kind]
        del pods[one.key]
        if not pods:
            del self._unschedulable[kind]

    def _first(self, place: Place) -> Waiting | None:
        """The head of a heap, which stays there; void entries before it are dropped."""
        heap = self._heaps[place]
        while heap:
            if _is_valid(heap[0], place):
                return heap[0][-1]
            heapq.heappop(heap)
        return None


def _is_valid(entry: _Entry, place: Place) -> bool:
    """Whether the pod has not been put anywhere since."""
    _, _, ticket, one = entry
    return one.place is place and one.ticket == ticket


def _is_backing_off(one: Waiting, now: float) -> bool:
    """The whole second in which back-off ends still belongs to it."""
    return one.backoff_until >= math.floor(now + _TICK)


def _next_flush(now: float) -> float:
    """Upstream looks for pods that have waited too long every 30 seconds."""
    return (math.floor(now / FLUSH_SECONDS) + 1) * FLUSH_SECONDS


def _due(one: Waiting) -> float:
    """By what the pods of its place are in order before they are by rank."""
    if one.place is Place.ACTIVE:
        return 0.0
    return one.overdue_at if one.place is Place.UNSCHEDULABLE else one.backoff_until


def _kind(one: Waiting) -> _Kind:
    """Pods of one kind are helped by the same changes."""
    return one.task.shape, one.task.company, one.profile.name, one.refused_by


def _is_helped(change: Change, one: Waiting) -> bool:
    """Whether the change matters to one of the plugins that refused. Nobody knows what matters to extenders."""
    if EXTENDER in one.refused_by and change.events:
        return True
    plugins = one.profile.named(one.refused_by)
    return any(change.events & plugin.events and plugin.helps(change, one.task) for plugin in plugins)
