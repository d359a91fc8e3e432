"""The kubelet's API as an ASGI application: who asks is looked at before what they ask for.

Source: pkg/kubelet/server/server.go (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import parse_qs, unquote

import msgspec

from fairlead.agent.kubelet_api import commands, logs, ports
from fairlead.agent.kubelet_api.access import KubeletAccess
from fairlead.agent.kubelet_api.pod_streams import PodStreams
from fairlead.api.users import ANONYMOUS_USER
from fairlead.node.stats import endpoints, kubelet_metrics
from fairlead.runtime.clock import monotonic
from fairlead.runtime.exposition import MEDIA_TYPE, exposition
from fairlead.runtime.http.exchange import Receive, Scope, Send
from fairlead.runtime.http.protocol import ON_AUTHENTICATED, TRANSPORT
from fairlead.runtime.http.replies import NOT_FOUND, Failed, Reply
from fairlead.runtime.metrics import DEFAULT_BOUNDS, Counter, Gauge, Histogram, MetricsRegistry
from fairlead.runtime.process_metrics import process_families

_MOST_PARAMETERS: Final = 1000
_READS: Final = ("GET", "HEAD")
_UPGRADES: Final = ("GET", "POST")
#: What `enableDebuggingHandlers: false` shuts, besides `configz`.
_DEBUGGING: Final = ("run", "exec", "attach", "portForward", "containerLogs", "runningpods", "logs")
#: Paths that are counted apart; of all others the first part is.
_COUNTED_APART: Final = ("metrics/cadvisor", "metrics/probes", "metrics/resource")
#: Of what is counted of requests.
_LABELS: Final = ("method", "path", "server_type", "long_running")
#: `portForward` is not meant by upstream's `portforward`.
_LONG_RUNNING: Final = ("exec", "attach")


class _Asked(msgspec.Struct, frozen=True):
    """A request of somebody who may make it."""

    scope: Scope
    receive: Receive
    send: Send
    method: str
    parts: tuple[str, ...]
    queries: dict[str, list[str]]

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in self.queries.items()}


#: Answers by itself, or with a Reply.
_Handler = Callable[[_Asked], Awaitable[Reply | None]]


class KubeletApi:
    """What a listener of the node serves."""

    def __init__(self, pods: PodStreams, access: KubeletAccess, *, has_debugging: bool = True) -> None:
        self._pods, self._access = pods, access
        self._open: set[asyncio.Task[None]] = set()
        #: What `/metrics` shows besides what is known of pods.
        self.metrics = MetricsRegistry()
        self._requests = Counter("kubelet_http_requests_total", "HTTP requests since the start.", *_LABELS)
        self._inflight = Gauge("kubelet_http_inflight_requests", "HTTP requests under way.", *_LABELS)
        self._seconds = Histogram(
            "kubelet_http_requests_duration_seconds", "How long requests took.", DEFAULT_BOUNDS, *_LABELS
        )
        self.metrics.add(*process_families(), self._requests, self._inflight, self._seconds)
        self._handlers: dict[str, tuple[tuple[str, ...], _Handler]] = {
            "containerLogs": (_READS, self._logs),
            "exec": (_UPGRADES, self._exec),
            "attach": (_UPGRADES, self._attach),
            "portForward": (_UPGRADES, self._port_forward),
            "pods": (_READS, self._all_pods),
            "runningpods": (_READS, self._measurements),
            "metrics": (_READS, self._measurements),
            "stats": (_READS, self._measurements),
            "configz": (_READS, self._measurements),
            "healthz": (_READS, self._healthz),
        }
        if not has_debugging:
            del self._handlers["configz"]
            self._handlers |= dict.fromkeys(_DEBUGGING, ((), _disabled))

    def close(self) -> None:
        """End logs, commands and ports: the listener is about to stop."""
        for task in self._open:
            task.cancel()

    def note_failed_handshake(self) -> None:
        """Nobody counts them here."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._answer(scope, receive, send)
        finally:
            self._open.discard(task)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reply = await self._reply(scope, receive, send)
        except Failed as error:  # before anything was answered
            reply = error.reply
        if reply is not None:
            await reply.send(send)

    async def _reply(self, scope: Scope, receive: Receive, send: Send) -> Reply | None:
        headers = dict(reversed(scope["headers"]))
        user = await self._access.user(scope[TRANSPORT], headers.get(b"authorization", b""))
        if user is not ANONYMOUS_USER:
            scope[ON_AUTHENTICATED]()
        path, method = unquote(scope["raw_path"].decode("ascii")), scope["method"]
        await self._access.check(user, method, path)
        parts = tuple(path.strip("/").split("/"))
        methods, handler = self._handlers.get(parts[0], ((), _unknown))
        if methods and method not in methods:
            return Reply(b"Method Not Allowed" if methods is _READS else b"405: Method Not Allowed", 405)
        labels = (
            method,
            _label_of(parts) if parts[0] in self._handlers else "other",
            "readwrite",
            str(parts[0] in _LONG_RUNNING).lower(),
        )
        self._requests.add(labels)
        self._inflight.add(labels)
        began = monotonic()
        try:
            return await handler(_Asked(scope, receive, send, method, parts, _queries(scope["query_string"])))
        finally:
            self._inflight.add(labels, -1)
            self._seconds.observe(monotonic() - began, labels)

    # -- by path

    async def _logs(self, asked: _Asked) -> Reply | None:
        if len(asked.parts) != 4:
            return NOT_FOUND
        _, namespace, name, container = asked.parts
        log = logs.Log(self._pods, namespace, name, container, asked.query)
        sending = asyncio.create_task(log.send(asked.scope, asked.send))
        leaving = asyncio.create_task(_until_gone(asked.receive))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error
        return None

    async def _exec(self, asked: _Asked) -> Reply | None:
        return await self._command(asked, is_exec=True)

    async def _attach(self, asked: _Asked) -> Reply | None:
        return await self._command(asked, is_exec=False)

    async def _command(self, asked: _Asked, *, is_exec: bool) -> Reply | None:
        match asked.parts:
            case (_, namespace, name, container):
                where = namespace, name, "", container
            case (_, namespace, name, uid, container):
                where = namespace, name, uid, container
            case _:
                return NOT_FOUND
        await commands.answer(self._pods, where, asked.queries, asked.scope, is_exec=is_exec)
        return None

    async def _port_forward(self, asked: _Asked) -> Reply | None:
        match asked.parts:
            case (_, namespace, name):
                where = namespace, name, ""
            case (_, namespace, name, uid):
                where = namespace, name, uid
            case _:
                return NOT_FOUND
        await ports.answer(self._pods, where, asked.queries, asked.scope)
        return None

    async def _all_pods(self, asked: _Asked) -> Reply | None:
        pods = b",".join(pod.raw for pod in self._pods.pods())
        return Reply.json(b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[%b]}\n' % pods)

    async def _healthz(self, asked: _Asked) -> Reply | None:
        return Reply(b"ok")

    async def _measurements(self, asked: _Asked) -> Reply | None:
        path = "/".join(asked.parts)
        if path == "metrics/probes":
            return Reply(await exposition(self._pods.probe_metrics()), media_type=MEDIA_TYPE)
        try:
            measured = await self._pods.measure()
        except OSError as error:
            raise Failed(500, str(error)) from error
        if path == "metrics":  # of the node as far as it was measured, and of this process
            of_node = b"" if measured is None else kubelet_metrics.exposition(measured, self._pods.evictions())
            return Reply(of_node + await exposition([*self.metrics, *self._pods.metrics()]), media_type=MEDIA_TYPE)
        if measured is None:
            return Reply(b"nothing has been measured yet\n", 503)
        return endpoints.answer(path, asked.query, measured, self._pods.configuration())


def _label_of(parts: tuple[str, ...]) -> str:
    path = "/".join(parts)
    return path if path in _COUNTED_APART else parts[0]


async def _unknown(asked: _Asked) -> Reply | None:
    return NOT_FOUND


async def _disabled(asked: _Asked) -> Reply | None:
    return Reply(b"Debug endpoints are disabled.\n", 405)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _queries(raw: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise Failed(400, f"a query may have no more than {_MOST_PARAMETERS} parameters") from None
