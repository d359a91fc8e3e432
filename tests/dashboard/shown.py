"""Dashboards for tests: over a whole cluster in this process, or over any source, and a client that has the link."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from fairlead.api.builtin import PODS
from fairlead.api.objects import Obj
from fairlead.api.users import DASHBOARD_USER
from fairlead.compose import Cluster, Settings, cluster
from fairlead.dashboard.app import dashboard
from fairlead.dashboard.live import LiveCluster
from fairlead.dashboard.permissions import RULES
from fairlead.dashboard.source import Source
from fairlead.runtime.http.listener import bind
from fairlead.runtime.loops import run
from fairlead.server.auth.rbac.defaults import component_policy
from fairlead.sim.nodes import NodeShape, kubelet_nodes

PATIENCE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Shown:
    """A dashboard that is served, and the cluster that it shows."""

    link: str
    cluster: Cluster

    @property
    def origin(self) -> str:
        return self.link.partition("/?")[0]

    async def create(self, name: str, cpu: str = "100m", namespace: str = "default", **spec: Any) -> None:
        await self.cluster.api.create(PODS, pod(name, cpu, **spec), namespace)


def pod(name: str, cpu: str, **spec: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def on_dashboard(test: Callable[[Shown], Awaitable[None]], nodes: int = 3, **settings: Any) -> None:
    """Run the test with the dashboard of a fresh cluster."""

    async def act() -> None:
        rules = component_policy(DASHBOARD_USER.name, RULES)
        shape = tuple(kubelet_nodes(nodes, NodeShape("4", "16Gi")))
        wanted = Settings(port=0, nodes=shape, further_policy=rules, **settings)
        async with asyncio.timeout(60), cluster(wanted) as running:
            source = LiveCluster(running.registry.as_user(DASHBOARD_USER), "test")
            showing = asyncio.create_task(source.run())
            async with dashboard(source, bind(0)) as link:
                await test(Shown(link, running))
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)

    run(act())


def on_source(test: Callable[[str], Awaitable[None]], source: Source) -> None:
    """Run the test with the link of a dashboard of this source."""

    async def act() -> None:
        async with asyncio.timeout(60), dashboard(source, bind(0)) as link:
            await test(link)

    run(act())


@asynccontextmanager
async def visitor(link: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that has opened the link."""
    jar = aiohttp.CookieJar(unsafe=True)  # an address has cookies, too
    async with aiohttp.ClientSession(link.partition("/?")[0], cookie_jar=jar) as session:
        async with session.get(link) as answer:
            assert answer.status == 200
        yield session


@asynccontextmanager
async def events(session: aiohttp.ClientSession, variant: str = "") -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    """The events of the stream, by name and data."""
    async with session.get("/events", params={"variant": variant}) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield _parsed(answer)


async def _parsed(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    buffer = b""
    async for chunk in answer.content.iter_any():
        buffer += chunk
        *whole, buffer = buffer.split(b"\n\n")
        for event in whole:
            fields = dict(line.split(": ", 1) for line in event.decode().splitlines() if ": " in line)
            if "event" in fields:
                yield fields["event"], json.loads(fields["data"])


class Picture:
    """What a page knows, from the batches that it was sent."""

    def __init__(self, stream: AsyncIterator[tuple[str, Any]]) -> None:
        self._stream = stream
        self.rows: dict[str, Obj] = {}
        self.shares: list[Obj] = []
        self.batches = 0

    async def until(self, is_so: Callable[[dict[str, Obj]], bool]) -> dict[str, Obj]:
        """Read on until the rows (by name of node, key of pod) are so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not is_so(self.rows):
                name, data = await anext(self._stream)
                if name != "batch":
                    continue
                self.batches += 1
                for row in (*data.get("nodes", ()), *data.get("pods", ())):
                    self.rows[row.get("name") or row["key"]] = row
                for key in data.get("gone", ()):
                    self.rows.pop(key, None)
                self.shares = data.get("shares", self.shares)
        return self.rows
