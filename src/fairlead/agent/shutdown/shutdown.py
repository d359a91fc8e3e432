"""Ends the pods of a machine that goes down, the least important first, and lets it go down then.

    told by logind ─▶ not ready, takes no pod ─▶ pods of a priority end ─▶ … ─▶ the lock is given back
                                ▲                                                      │
                                └── told that it does not go down after all: ready ◀───┘

Without a `shutdownGracePeriod` nobody is asked, and containers end as the machine has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from fairlead.agent.pods.worker import PodWorker
from fairlead.agent.state_file import StateFile
from fairlead.api.event_types import NORMAL
from fairlead.api.objects import Obj
from fairlead.node.plan import NodeEvent
from fairlead.node.shutdown import CANCELLED, DETECTED, NODE_SHUTDOWN, Period, Turn, kill_of, turns
from fairlead.runtime.clock import now
from fairlead.runtime.metrics import Family, Gauge

if TYPE_CHECKING:
    from fairlead.agent.shutdown.logind import Logind

#: How soon a bus that is away is tried again.
_AGAIN_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.1

#: In the folder of the agent, as a kubelet calls it; what is in it is of our own form.
STATE: Final = "graceful_node_shutdown_state"
_LAST, _SINCE = "[ALPHA] Last graceful shutdown", " since unix epoch in seconds"

log = logging.getLogger(__name__)


class _Times(msgspec.Struct):
    """In seconds since the epoch; 0: not yet."""

    began: float
    ended: float = 0.0


class Shutdown:
    """`changed` is called when the node's readiness may be another, `tell` with what there is to say of it."""

    def __init__(self, periods: Sequence[Period], root: Path) -> None:
        self._periods = periods
        self._file = StateFile(root / STATE, _Times)
        self._began = Gauge("kubelet_graceful_shutdown_start_time_seconds", f"{_LAST} start time{_SINCE}")
        self._ended = Gauge("kubelet_graceful_shutdown_end_time_seconds", f"{_LAST} end time{_SINCE}")
        #: Whether the machine is about to go down.
        self.has_begun = False
        #: Why nobody would notice.
        self.problem = ""

    async def run(self, worker: PodWorker, changed: Callable[[], None], tell: Callable[[NodeEvent], None]) -> None:
        """Until cancelled; a bus that is away is tried again."""
        if not self._periods:
            return
        if (before := await asyncio.to_thread(self._file.read)) is not None:
            self._show(before)
        from fairlead.agent.shutdown.logind import NoLogind, connected  # 5 MB, for those that want it

        whole = sum(period.seconds for period in self._periods)
        while True:
            try:
                async with connected(whole) as logind:
                    self._take_problem("", changed)
                    await self._attend(logind, worker, changed, tell)
            except NoLogind as problem:
                self._take_problem(f"pods would not be given time to end in a shutdown: {problem}", changed)
            await asyncio.sleep(_AGAIN_SECONDS)

    def _take_problem(self, problem: str, changed: Callable[[], None]) -> None:
        if problem != self.problem:
            if problem:
                log.warning("%s; trying again", problem)
            self.problem = problem
            changed()

    async def _attend(
        self, logind: Logind, worker: PodWorker, changed: Callable[[], None], tell: Callable[[NodeEvent], None]
    ) -> None:
        """Until the bus is gone."""
        async for is_going_down in logind.news():
            self.has_begun = is_going_down
            message = DETECTED if is_going_down else CANCELLED
            log.warning("%s", message)
            tell(NodeEvent(NORMAL, NODE_SHUTDOWN, message))
            changed()
            if is_going_down:
                times = _Times(now())
                await self._keep(times)
                await self._end(worker, worker.admitted)
                await self._keep(_Times(times.began, now()))
                logind.let_go()
            else:
                await logind.hold()

    @property
    def families(self) -> Iterable[Family]:
        """What is counted: the shutdown that the machine has come back from, too."""
        return self._began, self._ended

    async def _keep(self, times: _Times) -> None:
        self._show(times)
        try:
            await self._file.keep(times)
        except OSError as problem:
            log.warning("when this node was shut down cannot be written: %s", problem)

    def _show(self, times: _Times) -> None:
        self._began.set(times.began)
        self._ended.set(times.ended)

    async def _end(self, worker: PodWorker, pods: Sequence[Obj]) -> None:
        for turn in turns(self._periods, pods):
            try:
                async with asyncio.timeout(turn.seconds):
                    await self._end_turn(worker, turn)
            except TimeoutError:
                log.warning("pods have not ended within %s s, the shutdown goes on", turn.seconds)

    async def _end_turn(self, worker: PodWorker, turn: Turn) -> None:
        """Until nothing of them is left, their volumes included: drivers of these may be in a later turn."""
        uids = [pod["metadata"]["uid"] for pod in turn.pods]
        for uid, pod in zip(uids, turn.pods, strict=True):
            worker.evict(uid, kill_of(pod, turn.seconds, now()))
        while any(map(worker.holds, uids)):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)
