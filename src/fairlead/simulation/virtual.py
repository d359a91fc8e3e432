"""A cluster in virtual time: the same parts as `fairlead up`, on a loop whose clock jumps, so a day takes a moment.

What the cluster does at once has been done when a call returns: `apply` comes back when pods that fit have a node. What
takes time (containers that start, jobs that run) happens while the test lets time pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Final, Unpack

from fairlead.api.builtin import EVENTS, PODS
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.client.informer import Informers
from fairlead.compose import simulation
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.loops import VirtualLoop
from fairlead.server.registry.registry import UserApi
from fairlead.sim.manifests import latest_date
from fairlead.simulation.aftermath import aftermath
from fairlead.simulation.moments import Duration, Moment, moment_of, seconds_of
from fairlead.simulation.objects import DEFAULT_NAMESPACE, ClusterStopped, Objects
from fairlead.simulation.options import ClusterOptions, Source, virtual_settings_of
from fairlead.simulation.tables import Event, Events, Pods, event_row, pod_row
from fairlead.simulation.waiting import Condition

#: Nothing that happens at all takes longer, in virtual time.
_PATIENCE_SECONDS: Final = 24 * 3600.0


class VirtualCluster(Objects):
    """A running cluster in virtual time; `virtual_cluster` makes one."""

    def __init__(self, api: UserApi, informers: Informers, loop: VirtualLoop) -> None:
        super().__init__(api, api.registry.catalogue)
        self._loop, self._pods = loop, informers.of(PODS, Pod)
        self._opener = asyncio.current_task()
        #: Its block has ended: what is there can be looked at, and nothing happens any more (ClusterStopped).
        self.is_over = False

    @property
    def now(self) -> datetime:
        """What the cluster's clock shows."""
        return datetime.fromtimestamp(now(), UTC)

    async def run_for(self, duration: Duration) -> None:
        """Let that much time pass: seconds, `6h`, a timedelta."""
        self._check()
        await asyncio.sleep(seconds_of(duration))
        await self._settled()

    async def run_until(
        self,
        moment: Moment | Callable[[], bool],
        *,
        timeout: Duration = _PATIENCE_SECONDS,  # noqa: ASYNC109 - the name that everybody expects
    ) -> None:
        """Let time pass until then: `06:00` (the next one, in UTC), RFC 3339, a datetime, seconds since the epoch.

        Or until a function is true, which is asked whenever something has happened; if that is not so within
        `timeout`, it raises TimeoutError.
        """
        if callable(moment):
            await self._run_until_true(moment, seconds_of(timeout))
            return
        begins, ends = now(), moment_of(moment, now())
        if ends < begins:
            raise ValueError(f"{moment} has passed: it is {self.now.isoformat()}")
        await self.run_for(ends - begins)

    async def _run_until_true(self, is_so: Callable[[], bool], seconds: float) -> None:
        self._check()
        ends = self._loop.time() + seconds
        await self._settled()
        while not is_so():
            if self._loop.time() >= ends:
                name = getattr(is_so, "__name__", "the condition")
                raise TimeoutError(f"{name!r} did not come to be within {seconds:g} s")
            alarm = self._loop.call_at(ends, lambda: None)  # time goes on, and no further
            await self._loop.moved()
            alarm.cancel()
            await self._settled()

    async def apply(self, source: Source, *, namespace: str = DEFAULT_NAMESPACE) -> list[Obj]:
        self._check()
        applied = await super().apply(source, namespace=namespace)
        await self._settled()
        return applied

    async def patch(self, what: str, patch: Obj, *, namespace: str = DEFAULT_NAMESPACE, subresource: str = "") -> Obj:
        self._check()
        patched = await super().patch(what, patch, namespace=namespace, subresource=subresource)
        await self._settled()
        return patched

    async def delete(
        self, what: str, *, namespace: str = DEFAULT_NAMESPACE, grace_period_seconds: int | None = None
    ) -> None:
        self._check()
        await super().delete(what, namespace=namespace, grace_period_seconds=grace_period_seconds)
        await self._settled()

    async def wait_for(
        self,
        what: str,
        condition: Condition,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        timeout: Duration = _PATIENCE_SECONDS,  # noqa: ASYNC109 - the name that everybody expects
    ) -> Obj:
        self._check()
        found = await super().wait_for(what, condition, namespace=namespace, timeout=timeout)
        await self._settled()
        return found

    def _check(self) -> None:
        if self.is_over:
            raise ClusterStopped("this cluster has been stopped: nothing happens in it after its block")

    async def _settled(self) -> None:
        """Whoever opened the cluster goes on when the controllers have done their part that it has in other tasks."""
        await self._loop.settled(last=asyncio.current_task() is self._opener)

    def pods(self, *, namespace: str = "") -> Pods:
        """The pods that there are, of all namespaces or one."""
        found = sorted(self._pods, key=lambda pod: pod.metadata.key)
        return Pods(pod_row(pod, now()) for pod in found if namespace in ("", pod.metadata.namespace))

    async def events(self, *, namespace: str = "") -> Events:
        """What was told of late, the latest last."""
        rows = [event_row(item.view(Event)) for item in (await self._api.list(EVENTS, namespace)).items]
        return Events(sorted(rows, key=lambda row: row.at))

    async def describe(self) -> str:
        """Pods, those in trouble first, and the last events, in a few lines; stands below what a test fails with."""
        return await aftermath(self._api)


@asynccontextmanager
async def virtual_cluster(
    *, start: Moment | None = None, seed: int = 1, **options: Unpack[ClusterOptions]
) -> AsyncIterator[VirtualCluster]:
    """A cluster in virtual time while the block runs. Equal seeds give equal runs.

    It begins at `start`, else at the latest date of what is imported, else when the loop's clock says (a new loop:
    midnight of 1 January 2026, UTC).
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise RuntimeError(
            "a virtual cluster needs a loop in virtual time: let the test take the fixture `virtual_cluster` and open "
            "the cluster (an async fixture has another loop), or run a coroutine with fairlead.simulation.run_virtual"
        )
    settings = virtual_settings_of(options)
    begins = moment_of(start, now()) if start is not None else latest_date(settings.imported)
    if begins is not None:
        _begin(loop, begins)
    with rng.seeded(seed), _counted(loop):
        async with simulation(settings) as (api, informers):
            cluster = VirtualCluster(api, informers, loop)
            await loop.settled()
            try:
                yield cluster
            except (AssertionError, TimeoutError) as failure:  # of a test: by its end the cluster is gone
                failure.add_note(await cluster.describe())
                raise
            finally:
                cluster.is_over = True


def _begin(loop: VirtualLoop, begins: float) -> None:
    """Raises ValueError where it is another time for a cluster that runs already: a loop has one clock."""
    if loop.clusters and begins != now():
        at, wish = (datetime.fromtimestamp(each, UTC).isoformat() for each in (now(), begins))
        raise ValueError(f"it is {at} for another cluster of this loop, and this one is to begin at {wish}")
    loop.epoch = begins - loop.time()


@contextmanager
def _counted(loop: VirtualLoop) -> Iterator[None]:
    loop.clusters += 1
    try:
        yield
    finally:
        loop.clusters -= 1
