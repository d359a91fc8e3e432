"""What happened, and when: read from the pods as any client sees them, the same way for both runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from fairlead.api.builtin import PODS
from fairlead.api.errors import Gone
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api, EventType, WatchQuery
from fairlead.node.containers import OOM_KILLED, SIGKILLED, SIGTERMED
from fairlead.runtime.clock import monotonic

KILLED: Final = "OOM-killed"
EVICTED: Final = "evicted"
ENDED: Final = "ended"
RESTARTED: Final = "restarted"
FAILED: Final = "failed"
SUCCEEDED: Final = "succeeded"
REMOVED: Final = "removed"
THROTTLED: Final = "throttled"
UNPLACED: Final = "never placed"
CHILD_KILLED: Final = "lost children"
#: Held back in so large a part of its periods, for so many seconds running, a container is a throttled one. What it
#: takes to begin is not spoken of.
_THROTTLED_SHARE: Final = 0.2
_THROTTLED_SAMPLES: Final = 3
_SAMPLE_SECONDS: Final = 1.0
#: Whether one that is given a second for it goes at SIGTERM or SIGKILL is a matter of luck.
_STOPPED: Final = "by a signal"

#: Namespace, pod and container.
ContainerKey: TypeAlias = tuple[str, str, str]


class Happening(msgspec.Struct, frozen=True):
    #: Seconds since the workload began.
    at: float
    kind: str
    #: NAMESPACE/POD, or NAMESPACE/POD/CONTAINER.
    who: str
    #: An exit code, a reason.
    detail: str = ""


class ContainerRun(NamedTuple):
    key: ContainerKey
    #: Another for each run.
    id: str


class Counters(msgspec.Struct, frozen=True):
    """What has come together of a container since it started."""

    nanos: int
    periods: int = 0
    throttled_periods: int = 0
    oom_kills: int = 0


class Course(msgspec.Struct):
    """What happened in one run, and what came together."""

    happenings: list[Happening]
    #: Seconds of cpu by container, over all its runs.
    cpu_seconds: dict[str, float]


Sample: TypeAlias = Callable[[], Mapping[ContainerRun, Counters]]


class Observer:
    """Watches the pods of a cluster from now on."""

    def __init__(self, api: Api) -> None:
        self._api, self._began = api, monotonic()
        self._happenings: list[Happening] = []
        self._ended: set[tuple[str, str, str]] = set()  # by uid, container and what identifies its run
        self._restarts: dict[tuple[str, str], int] = {}
        self._pods: dict[str, Obj] = {}  # by uid, as these
        self._phases: dict[str, str] = {}
        self._counters: dict[ContainerRun, Counters] = {}  # by container and run
        self._throttled: dict[ContainerRun, tuple[float, int]] = {}  # since when, and how often that was seen
        self._told: set[ContainerRun] = set()
        self._childless: set[ContainerRun] = set()

    def begin(self, seconds: float = 0.0) -> None:
        """The workload begins in so many seconds; what happens before counts as happening then."""
        self._began = monotonic() + seconds

    @property
    def pods(self) -> Collection[Obj]:
        """As they were last seen."""
        return self._pods.values()

    @property
    def course(self) -> Course:
        seconds: dict[str, float] = {}
        for run, counters in self._counters.items():
            seconds["/".join(run.key)] = seconds.get("/".join(run.key), 0.0) + counters.nanos / 1e9
        happenings = [*self._happenings, *map(_unplaced, self._waiting())]
        return Course(sorted(happenings, key=lambda it: it.at), seconds)

    def _waiting(self) -> Iterator[Obj]:
        """Those that never had a node: nothing at all has happened to them."""
        for pod in self._pods.values():
            if not pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") == "Pending":
                yield pod

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async for event in self._api.watch(PODS, "", WatchQuery()):
                    self._see(event.object.obj(), is_gone=event.type is EventType.DELETED)
            except Gone:
                continue

    async def sample(self, sample: Sample) -> None:
        """Read counters once a second, until cancelled."""
        while True:
            for run, found in sample().items():
                before = self._counters.get(run, Counters(0))
                self._look_at_children(run, before)
                self._look_at_quota(run, before, found)
                self._counters[run] = found
            await asyncio.sleep(_SAMPLE_SECONDS)

    def _look_at_children(self, run: ContainerRun, before: Counters) -> None:
        """Something was killed in there a second ago, and yet it runs: not its first process."""
        if before.oom_kills and run not in self._childless:
            self._childless.add(run)
            at = monotonic() - self._began - _SAMPLE_SECONDS
            self._happenings.append(Happening(at, CHILD_KILLED, "/".join(run.key)))

    def _look_at_quota(self, run: ContainerRun, before: Counters, found: Counters) -> None:
        """It is told once of each run, with the moment when it began."""
        periods, throttled = found.periods - before.periods, found.throttled_periods - before.throttled_periods
        if periods <= 0 or throttled < _THROTTLED_SHARE * periods:
            self._throttled.pop(run, None)
            return
        began, seen = self._throttled.get(run, (monotonic() - self._began, 0))
        self._throttled[run] = began, seen + 1
        if seen + 1 == _THROTTLED_SAMPLES and run not in self._told:
            self._told.add(run)
            self._happenings.append(Happening(began, THROTTLED, "/".join(run.key)))

    def _tell(self, kind: str, who: str, detail: str = "") -> None:
        self._happenings.append(Happening(max(monotonic() - self._began, 0.0), kind, who, detail))

    def _see(self, pod: Obj, *, is_gone: bool) -> None:
        meta, status = pod["metadata"], pod.get("status") or {}
        self._pods[meta["uid"]] = pod
        who = f"{meta['namespace']}/{meta['name']}"
        statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        for container in statuses:
            self._see_container(meta["uid"], who, container)
        phase = status.get("phase", "")
        before, self._phases[meta["uid"]] = self._phases.get(meta["uid"], ""), phase
        if phase != before and phase == "Failed":
            reason = status.get("reason", "")
            is_evicted = reason == "Evicted" and bool(statuses)
            self._tell(EVICTED if is_evicted else FAILED, who, "" if is_evicted else reason)
        elif phase != before and phase == "Succeeded":
            self._tell(SUCCEEDED, who)
        if is_gone:
            del self._pods[meta["uid"]]
            self._tell(REMOVED, who)

    def _see_container(self, uid: str, who: str, status: Obj) -> None:
        name, restarts = status["name"], status.get("restartCount", 0)
        for state in (status.get("lastState"), status.get("state")):
            ended = (state or {}).get("terminated")
            if ended is None:
                continue
            run = (uid, name, ended.get("containerID") or ended.get("startedAt") or "")
            if run in self._ended:
                continue
            self._ended.add(run)
            if ended.get("reason") == OOM_KILLED:
                self._tell(KILLED, f"{who}/{name}")
            else:
                code = ended.get("exitCode")
                self._tell(ENDED, f"{who}/{name}", _STOPPED if code in (SIGTERMED, SIGKILLED) else f"with {code}")
        if restarts > self._restarts.get((uid, name), 0):
            self._restarts[uid, name] = restarts
            self._tell(RESTARTED, f"{who}/{name}")


def _unplaced(pod: Obj) -> Happening:
    return Happening(0.0, UNPLACED, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
