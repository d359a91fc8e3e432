"""The pods that wait: who is tried next, who is tried later, and who only when something has changed.

                     ┌─────────────── update, or an event that helps ───────────────┐
                     ▼                                     │ backing off            │
    add ──▶ ACTIVE ──pop──▶ (tried) ──refused──▶ UNSCHEDULABLE ──────▶ BACKOFF ─────┘(timer, or nothing else to do)
     │                          └──error──▶ ERROR ──(timer)──▶ ACTIVE
     └─gated─▶ GATED ──gates gone──▶ ACTIVE

Active pods go by priority, then by the time since which they wait (S3-15). A pod that was refused waits for a change
that may help with what refused it, at most five minutes; and it backs off one second, doubling to ten (S3-11). Back-off
ends on whole seconds, and a pod that backs off is taken early when nothing else waits (pkg/scheduler/backend/queue
with queueing hints and SchedulerPopFromBackoffQ). Refused pods are kept by what a hint depends on (`_HintKey`): it is
asked once for all that are alike.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from enum import IntEnum, auto
from typing import Final, TypeVar

import msgspec

from fairlead.api.scheduling import Pod
from fairlead.scheduler.framework import EXTENDER, ClusterEvent, EventKind
from fairlead.scheduler.pod_relations import PodRelations
from fairlead.scheduler.profile import Profile
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot

FIRST_BACKOFF_SECONDS: Final = 1.0
LONGEST_BACKOFF_SECONDS: Final = 10.0
LONGEST_UNSCHEDULABLE_SECONDS: Final = 300.0
FLUSH_SECONDS: Final = 30.0
#: What brings a pod into a queue, beside events of the cluster, by upstream's names.
ADDED: Final = "UnscheduledPodAdd"
ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"
BACKOFF_OVER: Final = "BackoffComplete"
OVERDUE: Final = "UnschedulableTimeout"
ACTIVATED: Final = "ForceActivate"
#: Requirements, relations (where a plugin about other pods refused), profile and who refused: what a hint depends on.
_HintKey = tuple[PodRequirements, PodRelations | None, str, frozenset[str]]
_Group = TypeVar("_Group", _HintKey, float)
#: So many void entries more than others may a heap have before they are dropped.
_MOST_VOID: Final = 16
#: The clock may be this early when a timer fires.
_TICK = 1e-3


class QueueState(IntEnum):  # an Enum's hash is Python's, and these are keys of all that is counted
    ACTIVE = auto()
    BACKOFF = auto()
    ERROR = auto()
    UNSCHEDULABLE = auto()
    GATED = auto()
    NONE = auto()


class QueuedPod(msgspec.Struct, eq=False):
    """A pod in the queue."""

    pod: Pod
    request: SchedulingRequest
    profile: Profile
    key: str
    #: Since when it waits (its creation, or its last refusal); on the loop's clock, as all times here.
    since: float
    number: int
    state: QueueState = QueueState.NONE
    refused_by: frozenset[str] = frozenset()
    #: When it first came.
    added_at: float = 0.0
    attempts: int = 0
    attempted_at: float = 0.0
    refusals: int = 0
    errors_in_a_row: int = 0
    backoff_until: float = -math.inf
    #: When a refused pod is tried again although nothing helped.
    overdue_at: float = 0.0
    #: Its victims are being driven away: it must not be tried, or it would look for more.
    is_preempting: bool = False
    #: Something helped it meanwhile.
    was_activated: bool = False
    #: Grows whenever the pod is put somewhere: heap entries with an older one are void.
    ticket: int = 0

    @property
    def rank(self) -> tuple[tuple[float, ...], int]:
        return self.profile.rank(self.pod, self.since), self.number


class InFlight(msgspec.Struct):
    """A pod that extenders are asked about, and what happened meanwhile."""

    queued: QueuedPod
    changes: list[ClusterEvent] = msgspec.field(default_factory=list)


#: When it is due, its rank, its ticket and the pod.
_Entry = tuple[float, tuple[tuple[float, ...], int], int, QueuedPod]


class SchedulingQueue:
    """Waiting pods by key. Methods take the time as an argument; nothing here waits."""

    def __init__(
        self,
        snapshot: Snapshot,
        events: EventKind,
        *,
        first_backoff: float = FIRST_BACKOFF_SECONDS,
        longest_backoff: float = LONGEST_BACKOFF_SECONDS,
    ) -> None:
        """`events` are those that may help with any plugin of any profile; who holds pods back looks at `snapshot`."""
        self._snapshot = snapshot
        self._waiting: dict[str, QueuedPod] = {}
        self._heaps: dict[QueueState, list[_Entry]] = {
            QueueState.ACTIVE: [],
            QueueState.BACKOFF: [],
            QueueState.ERROR: [],
        }
        self._unschedulable: dict[_HintKey, dict[str, QueuedPod]] = {}
        self._gated: dict[_HintKey, dict[str, QueuedPod]] = {}
        #: The same pods by when they are overdue: on few different times, as upstream looks for them now and then.
        self._overdue: dict[float, dict[str, QueuedPod]] = {}
        self._in_flight: dict[str, InFlight] = {}
        self._number = 0
        self._counts = dict.fromkeys(QueueState, 0)
        #: How many pods came where, and by which event (`scheduler_queue_incoming_pods_total`).
        self.incoming: Counter[tuple[QueueState, str]] = Counter()
        self._of_interest = events
        self._first_backoff, self._longest_backoff = first_backoff, longest_backoff

    def __len__(self) -> int:
        return len(self._waiting)

    def count(self, state: QueueState) -> int:
        """How many pods are there (`scheduler_pending_pods`)."""
        return self._counts[state]

    def refusals(self) -> Counter[tuple[str, str]]:
        """How many of the refused pods each plugin has refused, by profile (`scheduler_unschedulable_pods`)."""
        found: Counter[tuple[str, str]] = Counter()
        for (_, _, profile, plugins), pods in self._unschedulable.items():
            for plugin in plugins:
                found[plugin, profile] += len(pods)
        return found

    @property
    def has_next(self) -> bool:
        """Whether `pop` has a pod to return."""
        return bool(self._counts[QueueState.ACTIVE] or self._counts[QueueState.BACKOFF])

    def get(self, key: str) -> QueuedPod | None:
        """The pod, if it waits or is away."""
        in_flight = self._in_flight.get(key)
        return self._waiting.get(key) if in_flight is None else in_flight.queued

    # --- pods come and go -------------------------------------------------------------------------------------------

    def add(self, pod: Pod, request: SchedulingRequest, profile: Profile, now: float) -> None:
        """A pod that has never been tried."""
        self._number += 1
        queued = QueuedPod(pod, request, profile, pod.metadata.key, now, self._number)
        queued.added_at = now
        self._waiting[queued.key] = queued
        self._activate(queued, ADDED)

    def remove(self, key: str) -> None:
        """The pod is gone, or no longer ours to place."""
        self._in_flight.pop(key, None)
        queued = self._waiting.pop(key, None)
        if queued is not None:
            self._put(queued, QueueState.NONE)

    def update(self, pod: Pod, request: SchedulingRequest, events: EventKind, now: float) -> None:
        """A pod that waits has changed; `events` says in which of the ways that could help it."""
        in_flight = self._in_flight.get(pod.metadata.key)
        queued = in_flight.queued if in_flight is not None else self._waiting[pod.metadata.key]
        state, before = queued.state, queued.request
        event = ClusterEvent(
            events,
            old_requirements=before.requirements,
            new_requirements=request.requirements,
            old_relations=before.relations,
            new_relations=request.relations,
        )
        if in_flight is not None:
            in_flight.changes.append(event)
        if state in (QueueState.UNSCHEDULABLE, QueueState.GATED):
            self._put(queued, QueueState.NONE)
        queued.pod, queued.request = pod, request
        if state is QueueState.GATED:
            self._activate(queued, event.label)  # whoever holds it back is asked again
        elif state is QueueState.UNSCHEDULABLE:
            if _is_helped(event, queued):
                self._try_again(queued, now, event.label)
            else:
                self._put(queued, QueueState.UNSCHEDULABLE)

    # --- trying -----------------------------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        """The next pod to try. It is out of the queue until the caller gives it back: `refused` or `failed`."""
        for state in (QueueState.ACTIVE, QueueState.BACKOFF):
            queued = self._first(state)
            if queued is not None:
                heapq.heappop(self._heaps[state])
                self._put(queued, QueueState.NONE)
                del self._waiting[queued.key]
                queued.attempts += 1
                return queued
        return None

    def is_ready(self, key: str) -> bool:
        """Whether a pod of that name waits that may be tried."""
        queued = self._waiting.get(key)
        if queued is None or queued.is_preempting or queued.pod.metadata.is_terminating:
            return False
        return queued.state not in (QueueState.GATED, QueueState.NONE)

    def take(self, key: str) -> QueuedPod | None:
        """Take a certain pod out, wherever it waits; None if no pod of that name may be tried."""
        if not self.is_ready(key):
            return None
        queued = self._waiting[key]
        self._put(queued, QueueState.NONE)
        del self._waiting[key]
        queued.attempts += 1
        return queued

    def track_in_flight(self, queued: QueuedPod) -> None:
        """What is done about the popped pod may take time: remember what happens until it is back."""
        self._in_flight[queued.key] = InFlight(queued)

    def refused(self, queued: QueuedPod, plugins: frozenset[str], now: float, *, backs_off: bool = True) -> None:
        """No node would do, by the word of these plugins. Who was not even tried does not back off."""
        in_flight = self._in_flight.pop(queued.key, None)
        queued.refused_by = plugins
        queued.errors_in_a_row = 0
        if backs_off:
            queued.refusals += 1
            self._back_off(queued, queued.refusals, now)
        queued.overdue_at = _next_flush(max(queued.since + LONGEST_UNSCHEDULABLE_SECONDS, now))
        self._waiting[queued.key] = queued
        self._put(queued, QueueState.UNSCHEDULABLE, ATTEMPT_FAILED)
        if in_flight is not None:
            helpful = next((event for event in in_flight.changes if _is_helped(event, queued)), None)
            if helpful is not None:
                self._try_again(queued, now, helpful.label)

    def failed(self, queued: QueuedPod, now: float) -> None:
        """Trying it went wrong, and no plugin refused it; it is tried again after its back-off and not before."""
        self._in_flight.pop(queued.key, None)
        queued.refused_by = frozenset()
        queued.errors_in_a_row += 1
        self._back_off(queued, queued.errors_in_a_row, now)
        self._waiting[queued.key] = queued
        self._put(queued, QueueState.ERROR, ATTEMPT_FAILED)

    # --- changes ----------------------------------------------------------------------------------------------------

    def on_cluster_event(self, event: ClusterEvent, now: float, most_important: int | None = None) -> None:
        """Something happened: try the pods again that it may help, up to the priority `most_important`."""
        if not event.kinds & self._of_interest:
            return
        for in_flight in self._in_flight.values():
            if most_important is None or in_flight.queued.pod.priority <= most_important:
                in_flight.changes.append(event)
        for pods in list(self._gated.values()):
            if _is_helped(event, next(iter(pods.values()))):
                for queued in list(pods.values()):
                    self._activate(queued, event.label)
        for pods in list(self._unschedulable.values()):
            if _is_helped(event, next(iter(pods.values()))):
                label = event.label
                for queued in list(pods.values()):
                    if most_important is None or queued.pod.priority <= most_important:
                        self._try_again(queued, now, label)

    def activate(self, key: str, now: float) -> None:
        """Something that no plugin speaks of may have helped this pod."""
        queued = self._waiting.get(key)
        if queued is not None and queued.state is QueueState.UNSCHEDULABLE:
            self._try_again(queued, now, ACTIVATED)

    def tick(self, now: float) -> None:
        """Let those go on whose time has come."""
        for state in (QueueState.BACKOFF, QueueState.ERROR):
            while (queued := self._first(state)) is not None and not _is_backing_off(queued, now):
                heapq.heappop(self._heaps[state])
                self._put(queued, QueueState.ACTIVE, BACKOFF_OVER)
        for at in [at for at in self._overdue if at <= now]:
            for queued in list(self._overdue[at].values()):
                self._try_again(queued, now, OVERDUE)
                if queued.state is QueueState.UNSCHEDULABLE:  # its victims are being driven away
                    self._put(queued, QueueState.NONE)
                    queued.overdue_at = _next_flush(now)
                    self._put(queued, QueueState.UNSCHEDULABLE)

    def next_tick(self, now: float) -> float | None:
        """When `tick` has something to do again; None while nothing waits for time to pass."""
        firsts = (self._first(state) for state in (QueueState.BACKOFF, QueueState.ERROR))
        times = [queued.backoff_until + 1.0 for queued in firsts if queued is not None]
        return min([*times, *self._overdue], default=None)

    # --- within -----------------------------------------------------------------------------------------------------

    def _activate(self, queued: QueuedPod, event: str) -> None:
        """Into the active queue, unless a plugin holds the pod back."""
        if queued.state is QueueState.GATED:
            self._put(queued, QueueState.NONE)
        held = queued.profile.pre_enqueue(queued.pod, self._snapshot)
        if held is not None:
            queued.refused_by = frozenset({held[0].name})
        self._put(queued, QueueState.ACTIVE if held is None else QueueState.GATED, event)

    def preempted(self, queued: QueuedPod, now: float) -> None:
        """The pod's victims are evicted; it may be tried again as soon as something helps."""
        queued.is_preempting = False
        if queued.was_activated and queued.state is QueueState.UNSCHEDULABLE:
            self._try_again(queued, now, ACTIVATED)
        queued.was_activated = False

    def _try_again(self, queued: QueuedPod, now: float, event: str) -> None:
        if queued.is_preempting:
            queued.was_activated = True
        elif _is_backing_off(queued, now):
            self._put(queued, QueueState.BACKOFF, event)
        else:
            self._put(queued, QueueState.ACTIVE, event)

    def _back_off(self, queued: QueuedPod, count: int, now: float) -> None:
        seconds = min(self._first_backoff * 2 ** min(count - 1, 30), self._longest_backoff)
        queued.since = now
        queued.backoff_until = math.floor(now + seconds + _TICK)

    def _put(self, queued: QueuedPod, state: QueueState, event: str = "") -> None:
        """The only way from one state to another. `event`: what brings the pod there, unless it only changes place."""
        before = queued.state
        if event:
            self.incoming[state, event] += 1
        if before is QueueState.UNSCHEDULABLE:
            _take_out(self._unschedulable, _hint_key(queued), queued)
            _take_out(self._overdue, queued.overdue_at, queued)
        elif before is QueueState.GATED:
            _take_out(self._gated, _hint_key(queued), queued)
        self._counts[before] -= 1
        self._counts[state] += 1
        queued.state = state
        queued.ticket += 1
        heap = self._heaps.get(state)
        if heap is not None:
            heapq.heappush(heap, (_due(queued), queued.rank, queued.ticket, queued))
        elif state is QueueState.UNSCHEDULABLE:
            self._unschedulable.setdefault(_hint_key(queued), {})[queued.key] = queued
            self._overdue.setdefault(queued.overdue_at, {})[queued.key] = queued
        elif state is QueueState.GATED:
            self._gated.setdefault(_hint_key(queued), {})[queued.key] = queued
        self._tidy(before)

    def _tidy(self, state: QueueState) -> None:
        """Drop the void entries of a heap when they are the most of it: they hold pods that may be gone, and their
        turn, in which they would be dropped, comes only minutes later.
        """
        heap = self._heaps.get(state)
        if heap is not None and len(heap) > 2 * self._counts[state] + _MOST_VOID:
            heap[:] = [entry for entry in heap if _is_valid(entry, state)]
            heapq.heapify(heap)

    def _first(self, state: QueueState) -> QueuedPod | None:
        """The head of a heap, which stays there; void entries before it are dropped."""
        heap = self._heaps[state]
        while heap:
            if _is_valid(heap[0], state):
                return heap[0][-1]
            heapq.heappop(heap)
        return None


def _is_valid(entry: _Entry, state: QueueState) -> bool:
    """Whether the pod has not been put anywhere since."""
    _, _, ticket, queued = entry
    return queued.state is state and queued.ticket == ticket


def _is_backing_off(queued: QueuedPod, now: float) -> bool:
    """The whole second in which back-off ends still belongs to it."""
    return queued.backoff_until >= math.floor(now + _TICK)


def _next_flush(now: float) -> float:
    """Upstream looks for pods that have waited too long every 30 seconds."""
    return (math.floor(now / FLUSH_SECONDS) + 1) * FLUSH_SECONDS


def _due(queued: QueuedPod) -> float:
    """By what the pods of its state are in order before they are by rank."""
    return 0.0 if queued.state is QueueState.ACTIVE else queued.backoff_until


def _hint_key(queued: QueuedPod) -> _HintKey:
    """Pods of one kind are helped by the same changes."""
    request, profile, plugins = queued.request, queued.profile, queued.refused_by
    relations = None if profile.relation_names.isdisjoint(plugins) else request.relations
    return request.requirements, relations, profile.name, plugins


def _take_out(groups: dict[_Group, dict[str, QueuedPod]], group: _Group, queued: QueuedPod) -> None:
    pods = groups[group]
    del pods[queued.key]
    if not pods:
        del groups[group]


def _is_helped(event: ClusterEvent, queued: QueuedPod) -> bool:
    """Whether the change matters to one of the plugins that refused. Nobody knows what matters to extenders."""
    if EXTENDER in queued.refused_by and event.kinds:
        return True
    plugins = queued.profile.named(queued.refused_by)
    return any(event.kinds & plugin.events and plugin.helps(event, queued.request) for plugin in plugins)
