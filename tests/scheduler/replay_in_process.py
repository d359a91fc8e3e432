"""Replays recorded scheduling cases without a socket and in virtual time: the recorder's own tool, over our server.

The tool sends its requests to an `Application` instead of a URL, and reads scores from the scheduler instead of
from kube-scheduler's log.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead.client.events import SeriesRecorder
from fairlead.client.informer import Informers
from fairlead.runtime.http.protocol import TRANSPORT, WRITABLE
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.configuration import load as load_configuration
from fairlead.scheduler.loop import Scheduler
from fairlead.server.assembly import Server
from fairlead.server.auth import tokens
from fairlead.server.http.app import Application
from fairlead.server.http.documents import Documents
from fairlead.store.memory import MemoryStore
from tests.conftest import GOLDEN

sys.path.insert(0, str(GOLDEN))
from kubeapi import ApiError

from scheduler import load, replay

Obj = dict[str, Any]
SETTLE_SECONDS = 0.3
DISABLED = ("ServiceAccount", "TaintNodesByCondition")


class InProcess:
    """Stands in for the tool's `Api`: one request, answered by the application itself."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._writable = asyncio.Event()
        self._writable.set()

    async def __call__(self, method: str, path: str, body: Obj | None = None, *, absent_ok: bool = False) -> Obj:
        status, answer = await self._ask(method, path, b"" if body is None else json.dumps(body).encode())
        if status < 300:
            return answer
        if absent_ok and status in (404, 409):
            return {}
        raise ApiError(status, answer.get("message", ""))

    async def _ask(self, method: str, target: str, body: bytes) -> tuple[int, Obj]:
        content = b"application/merge-patch+json" if method == "PATCH" else b"application/json"
        path, _, query = target.partition("?")
        sent: list[Obj] = []

        async def receive() -> Obj:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Obj) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            TRANSPORT: asyncio.Transport(),
            WRITABLE: self._writable,
            "headers": [(b"host", b"127.0.0.1"), (b"content-type", content), (b"content-length", b"%d" % len(body))],
        }
        await self._application(scope, receive, send)
        text = b"".join(event.get("body", b"") for event in sent[1:])
        return int(sent[0]["status"]), json.loads(text)


class Scores:
    """Stands in for kube-scheduler's log: the scores behind each decision since the mark."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._told: dict[str, dict[str, dict[str, int]]] = {}
        scheduler.observe_scores(self._told.__setitem__)

    def mark(self) -> None:
        self._told.clear()

    def scores(self, pod: str) -> dict[str, dict[str, int]]:
        """Nothing is scored where one node alone passes the filters."""
        scores = self._told.get(pod, {})
        return dict(sorted(scores.items())) if len(scores) > 1 else {}


@asynccontextmanager
async def control_plane(configuration: Obj | None) -> AsyncIterator[tuple[InProcess, Scores]]:
    """An API server and a scheduler, nothing else."""
    server = Server(MemoryStore())
    await server.open(DISABLED)
    informers = Informers(server.api)
    recorder = SeriesRecorder(server.api, "default-scheduler", host="h")
    model = ClusterModel(informers, load_configuration(configuration))
    scheduler = Scheduler(server.api, model, recorder=recorder)
    scores = Scores(scheduler)
    parts = (server.run(), informers.run(), scheduler.run(), recorder.run())
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        documents = Documents(server.registry, "in-process")
        yield InProcess(Application(server.registry, documents, tokens.anybody)), scores
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def failures(file: Path) -> dict[str, str]:
    """The cases of a file that fail, with the first difference of each."""
    configurations, cases = load(file)
    found: dict[str, str] = {}
    async with control_plane(configurations[0] if configurations else None) as (api, scores):
        for case in cases:
            _, problem = await replay(api, case, SETTLE_SECONDS, scores)
            if problem:
                found[case["id"]] = problem
    return found
