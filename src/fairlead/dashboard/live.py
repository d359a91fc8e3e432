"""A live cluster: informers mark rows as changed, and a few times a second these are made anew and sent.

    informers ─▶ stale keys ─▶ tick: new rows, those that differ ─▶ a set of keys for each viewer ─▶ batches

A viewer holds keys, not messages: one that is slow gets the latest rows later, and costs no more than there are rows.
What is used, and the shares of an arbitrator, cannot be watched; they are asked for as long as somebody looks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Final, TypeVar

import msgspec

from fairlead.api.builtin import NODES, PODS
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.meta import Object
from fairlead.api.metrics import NODE_METRICS, NodeMetrics
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api
from fairlead.arbitrator.objects import ALLOCATIONS, Allocation
from fairlead.client.informer import Informers
from fairlead.dashboard.aside import aside
from fairlead.dashboard.rows import Batch, NodeRow, PodRow, ShareRow, ShownPod, has_moved, node_row, pod_row, share_row
from fairlead.dashboard.source import TURN_ROWS, About, Chart, UnknownPod
from fairlead.runtime.clock import now
from fairlead.runtime.turns import in_turns
from fairlead.scheduler.configuration import Configuration
from fairlead.study.explaining import Unreadable, explained_pod

_TICK_SECONDS: Final = 0.25
#: How often it is asked what is used, and who deserves what.
_LOOK_SECONDS: Final = 2.0
#: Without news for so long, the viewer is written to nevertheless: that finds out whether it is still there.
_QUIET_SECONDS: Final = 15.0
#: Of an explanation: nodes named of a group, and nodes whose scores are shown.
_NAMED: Final = 20

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)
R = TypeVar("R", NodeRow, PodRow)


class _Viewer(msgspec.Struct, eq=False):
    """What one page has not been told yet."""

    nodes: set[str]
    pods: set[str]
    knows_shares: bool = False
    news: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


class LiveCluster:
    """Shows a cluster through an `Api` that needs to read alone."""

    def __init__(self, api: Api, title: str, configuration: Configuration | None = None) -> None:
        self.about = About(title, is_live=True)
        self._api, self._configuration = api, configuration
        self._informers = Informers(api)
        self._nodes, self._pods = self._informers.of(NODES, Node), self._informers.of(PODS, ShownPod)
        self._node_rows: dict[str, NodeRow] = {}
        self._pod_rows: dict[str, PodRow] = {}
        self._stale_nodes: OrderedDict[str, None] = OrderedDict()  # in the order in which they changed
        self._stale_pods: OrderedDict[str, None] = OrderedDict()
        self._used: dict[str, dict[str, str] | None] = {}
        self._shares: list[ShareRow] = []
        self._viewers: set[_Viewer] = set()
        self._is_watched = asyncio.Event()
        self._asking = asyncio.Lock()
        self._nodes.subscribe(lambda old, new: _note(self._stale_nodes, self._node_rows, old, new))
        self._pods.subscribe(lambda old, new: _note(self._stale_pods, self._pod_rows, old, new))

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="dashboard: informers")
            group.create_task(self._tick(), name="dashboard: rows")
            group.create_task(self._look(), name="dashboard: usage and shares")

    # --- what is told ----------------------------------------------------------------------------------------------

    async def batches(self, variant: str) -> AsyncGenerator[Batch | Chart | None, None]:
        await self._informers.synced()
        await self._renew()
        with self._watched_by(_Viewer(set(self._node_rows), set(self._pod_rows))) as viewer:
            while (batch := self._next(viewer)) is not None:
                yield batch
            yield Batch(now(), is_whole=True)
            while True:
                try:
                    async with asyncio.timeout(_QUIET_SECONDS):
                        await viewer.news.wait()
                except TimeoutError:
                    yield None
                    continue
                while (batch := self._next(viewer)) is not None:
                    yield batch
                    await asyncio.sleep(0)
                viewer.news.clear()

    @contextmanager
    def _watched_by(self, viewer: _Viewer) -> Iterator[_Viewer]:
        viewer.news.set()
        self._viewers.add(viewer)
        self._is_watched.set()
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                self._is_watched.clear()

    def _next(self, viewer: _Viewer) -> Batch | None:
        """Some of what the viewer has not been told, nodes first; None if it knows everything."""
        batch = Batch(now())
        for key in _taken(viewer.nodes):
            if (node := self._node_rows.get(key)) is not None:
                batch.nodes.append(node)
            else:
                batch.gone.append(key)
        for key in _taken(viewer.pods) if not viewer.nodes else ():
            if (pod := self._pod_rows.get(key)) is not None:
                batch.pods.append(pod)
            else:
                batch.gone.append(key)
        if not viewer.knows_shares:
            batch.shares, viewer.knows_shares = self._shares, True
        return batch if batch.nodes or batch.pods or batch.gone or batch.shares is not None else None

    # --- what is known ---------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await self._is_watched.wait()
            await self._renew()
            await asyncio.sleep(_TICK_SECONDS)

    async def _renew(self) -> None:
        """Make the stale rows anew."""
        async for key in in_turns(_drained(self._stale_nodes)):
            node = self._nodes.get(key)
            row = node_row(node, self._used.get(key)) if node is not None else None
            if _replaced(self._node_rows, key, row):
                for viewer in self._viewers:
                    viewer.nodes.add(key)
                    viewer.news.set()
        async for key in in_turns(_drained(self._stale_pods)):
            pod = self._pods.get(key)
            if _replaced(self._pod_rows, key, pod_row(pod) if pod is not None else None):
                for viewer in self._viewers:
                    viewer.pods.add(key)
                    viewer.news.set()

    async def _look(self) -> None:
        while True:
            await self._is_watched.wait()
            try:
                await self._look_once()
            except (ApiError, OSError) as error:
                log.warning("the dashboard cannot read what is used: %s", error)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look_once(self) -> None:
        measured = await self._listed(NODE_METRICS, NodeMetrics)
        used = {metrics.metadata.name: metrics.usage for metrics in measured}
        async for node in in_turns(self._nodes):
            name = node.metadata.name
            if has_moved(node, self._used.get(name), used.get(name)):
                self._used[name] = used.get(name)
                self._stale_nodes[name] = None
        for name in [name for name in self._used if self._nodes.get(name) is None]:
            del self._used[name]
        shares = [share_row(each) async for each in in_turns(await self._listed(ALLOCATIONS, Allocation))]
        shares.sort(key=lambda row: (-row.share, row.namespace))  # the largest first
        if shares != self._shares:
            self._shares = shares
            for viewer in self._viewers:
                viewer.knows_shares = False
                viewer.news.set()

    async def _listed(self, resource: Resource, view: type[T]) -> list[T]:
        """Nothing where nobody serves the kind."""
        try:
            return [item.view(view) async for item in in_turns((await self._api.list(resource)).items)]
        except NotFound:
            return []

    # --- what is asked ---------------------------------------------------------------------------------------------

    async def why(self, key: str, variant: str) -> Obj:
        """As `fairlead why`. One is answered at a time: each copies the cluster."""
        async with self._asking:
            try:
                explanation = await aside(self._api, lambda api: explained_pod(api, self._configuration, key))
            except Unreadable as error:
                raise UnknownPod(str(error)) from None
        if explanation is None:
            raise UnknownPod(f"there is no pod {key}, and no event tells of one")
        found: Obj = msgspec.to_builtins(explanation)
        found["scored"] = found["scored"][:_NAMED]
        found["groups"] = [
            group | {"count": len(group["nodes"]), "nodes": group["nodes"][:_NAMED]} for group in found["groups"]
        ]
        return found


def _key(old: Object | None, new: Object | None) -> str:
    known = new or old
    assert known is not None
    return known.metadata.key


def _note(stale: OrderedDict[str, None], rows: Mapping[str, object], old: Object | None, new: Object | None) -> None:
    """Its row is stale; what has come and gone while nobody looked has none."""
    key = _key(old, new)
    if new is None and key not in rows:
        stale.pop(key, None)
    else:
        stale[key] = None


def _drained(keys: OrderedDict[str, None]) -> Iterator[str]:
    while keys:
        yield keys.popitem(last=False)[0]


def _replaced(rows: dict[str, R], key: str, row: R | None) -> bool:
    """Whether that changed anything."""
    if rows.get(key) == row:
        return False
    if row is None:
        del rows[key]
    else:
        rows[key] = row
    return True


def _taken(keys: set[str]) -> list[str]:
    """Some of the keys, which the set has no longer."""
    taken = list(islice(keys, TURN_ROWS))
    keys.difference_update(taken)
    return taken
