"""`/containerLogs/NAMESPACE/POD/CONTAINER`: the log of a container, as far as it goes or as long as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from fairlead.agent.kubelet_api.log_files import LogFiles
from fairlead.agent.kubelet_api.log_lines import LineFormatter, Shown
from fairlead.agent.kubelet_api.pod_streams import PodStreams
from fairlead.agent.kubelet_api.pod_views import NoLogs, PodView, logged_container
from fairlead.api.errors import ApiError
from fairlead.api.pod_log_options import ALL, PodLogOptions
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import now
from fairlead.runtime.http.exchange import Scope, Send, framing
from fairlead.runtime.http.replies import Failed
from fairlead.runtime.offload import offload

#: How long nothing may have come before it is looked again: a tenth of a second is what people see as at once.
LOOK_SECONDS: Final = 0.1


class Log:
    """One request for one log. Failed: there is none."""

    def __init__(self, pods: PodStreams, namespace: str, name: str, container: str, query: Mapping[str, str]) -> None:
        self._pods, self._options = pods, _options(query)
        pod = pods.pod(namespace, name)
        if pod is None:
            raise Failed(404, f"pod {go_quote(name)} does not exist")
        view = pod.view(PodView)
        if not view.has_container(container):
            raise Failed(404, f"container {go_quote(container)} not found in pod {go_quote(name)}")
        try:
            self._id = logged_container(view, container, is_previous=self._options.previous)
        except NoLogs as error:
            raise Failed(400, str(error)) from None
        path = pods.log_path(self._id)
        if path is None or not path.exists():
            raise Failed(400, f"unable to retrieve container logs for {self._id}")
        self._path = path

    async def send(self, scope: Scope, send: Send) -> None:
        """Send it, for as long as it grows if that is asked for."""
        headers = [(b"content-type", b"text/plain"), framing(None, scope["http_version"])]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        is_running = partial(self._pods.is_running, self._id)
        async with aclosing(_pieces(self._path, self._options, is_running)) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _options(query: Mapping[str, str]) -> PodLogOptions:
    named = dict(query)
    if tail := named.pop("tail", ""):  # how it was called before there was an API for it
        named["tailLines"] = "" if tail == "all" else tail
    try:
        options = PodLogOptions.read(named)
    except ApiError:
        raise Failed(400, '{"message": "Unable to decode query."}') from None
    if options.validate():
        raise Failed(422, '{"message": "Invalid request."}')
    return options


async def _pieces(path: Path, options: PodLogOptions, is_running: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """What is shown, in pieces; reading and formatting are done apart from the loop."""
    formatter = LineFormatter(_shown(options))
    remaining = options.limit_bytes
    files = await offload(lambda: _opened(path, options.tail_lines), is_long=True)
    try:
        while remaining is None or remaining > 0:
            may_grow = options.follow and is_running()  # before it is read: what was written then is read now
            raw, piece = await offload(lambda: _next(files, formatter), is_long=True)
            if piece:
                piece = piece[:remaining]
                remaining = None if remaining is None else remaining - len(piece)
                yield piece
            if not raw:
                if not may_grow:
                    return
                await asyncio.sleep(LOOK_SECONDS)
                await _until(lambda: files.may_go_on() or not is_running())
    finally:
        files.close()


async def _until(holds: Callable[[], bool]) -> None:
    """Looked at here: a thread for each look would be dear where a thousand follow."""
    while not holds():  # noqa: ASYNC110  (files tell nobody)
        await asyncio.sleep(LOOK_SECONDS)


def _opened(path: Path, tail_lines: int | None) -> LogFiles:
    files = LogFiles(path)
    if tail_lines is not None:
        files.skip_to_last(tail_lines)
    return files


def _next(files: LogFiles, formatter: LineFormatter) -> tuple[bytes, bytes]:
    raw = files.read()
    return raw, formatter.format(raw)


def _shown(options: PodLogOptions) -> Shown:
    since = options.since_time
    if options.since_seconds is not None:
        since = datetime.fromtimestamp(now(), UTC) - timedelta(seconds=min(options.since_seconds, 10**9))
    return Shown(options.timestamps, "" if options.stream == ALL else options.stream.lower(), since)
