"""`/exec` and `/attach`: a process in a container, joined with a client that may speak any of the protocols.

Source: pkg/kubelet/server/server.go, cri-streaming `pkg/streaming/remotecommand` (1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from fairlead.agent.kubelet_api.pod_streams import NotRun, PodStreams, ProcessStreams
from fairlead.agent.kubelet_api.pod_views import PodView
from fairlead.runtime.http.exchange import Scope
from fairlead.runtime.http.replies import Failed
from fairlead.runtime.streaming.command_protocols import SPOKEN
from fairlead.runtime.streaming.command_status import ended, failed
from fairlead.runtime.streaming.duplex import copy
from fairlead.runtime.streaming.handshake import HandshakeError, agree
from fairlead.runtime.streaming.remote_command import CommandClient, Wanted, commanding

_TRUE = "1"


async def answer(
    pods: PodStreams,
    where: tuple[str, str, str, str],
    query: Mapping[str, Sequence[str]],
    scope: Scope,
    *,
    is_exec: bool,
) -> None:
    """Run a command, or attach, until one of the two has gone. `where`: namespace, pod, its UID or "", container."""
    wanted = _wanted(query)
    container_id = _running(pods, *where)
    try:
        agreement = agree(scope, SPOKEN)
    except HandshakeError as error:
        raise Failed(error.code, str(error)) from None
    command = query.get("command", ())
    with contextlib.suppress(TimeoutError, ConnectionError):  # it did not open its streams
        async with commanding(agreement, wanted) as client:
            try:
                if is_exec:
                    process = await pods.exec(container_id, command, wanted)
                else:
                    process = await pods.attach(container_id, wanted)
                try:
                    exit_code = await _join(client, process)
                finally:
                    await process.close()
            except (OSError, NotRun) as error:
                verb = "executing command in" if is_exec else "attaching to"
                await client.finish(failed(f"Internal error occurred: error {verb} container: {error}"))
                return
            if exit_code is not None:
                await client.finish(ended(exit_code if is_exec else 0))


async def _join(client: CommandClient, process: ProcessStreams) -> int | None:
    """Copy everything to where it belongs, until the process has ended and all is said: its exit code. None: the client
    has gone.
    """
    copies = [asyncio.create_task(_resize(client, process))]
    outputs = [
        asyncio.create_task(copy(source, sink))
        for source, sink in ((process.stdout, client.stdout), (process.stderr, client.stderr))
        if source is not None and sink is not None
    ]
    if client.stdin is not None and process.stdin is not None:
        copies.append(asyncio.create_task(_feed(client, process)))
    ending = asyncio.create_task(_end(process, outputs))
    leaving = asyncio.create_task(_leave(client))
    try:
        await asyncio.wait([ending, leaving], return_when=asyncio.FIRST_COMPLETED)
        return ending.result() if ending.done() else None
    finally:
        for task in (tasks := [*copies, *outputs, ending, leaving]):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _end(process: ProcessStreams, outputs: Sequence[asyncio.Task[None]]) -> int:
    exit_code = await process.wait()
    if outputs:
        await asyncio.wait(outputs)
    return exit_code


async def _leave(client: CommandClient) -> None:
    await client.gone.wait()


async def _feed(client: CommandClient, process: ProcessStreams) -> None:
    assert client.stdin is not None and process.stdin is not None
    await copy(client.stdin, process.stdin)
    await process.stdin.end()


async def _resize(client: CommandClient, process: ProcessStreams) -> None:
    while True:
        await process.resize(await client.sizes.next())


def _wanted(query: Mapping[str, Sequence[str]]) -> Wanted:
    flags = {name: query.get(name, [""])[0] == _TRUE for name in ("input", "output", "error", "tty")}
    is_terminal = flags["tty"]
    stderr = flags["error"] and not is_terminal  # a terminal has one output
    if not (flags["input"] or flags["output"] or stderr):
        raise Failed(400, "you must specify at least 1 of stdin, stdout, stderr")
    return Wanted(flags["input"], flags["output"], stderr, is_terminal)


def _running(pods: PodStreams, namespace: str, name: str, uid: str, container: str) -> str:
    """The ID of the container that is meant."""
    pod = pods.pod(namespace, name)
    view = pod.view(PodView) if pod is not None else None
    if view is None or (uid and uid != view.metadata.uid):
        raise Failed(404, "pod does not exist")
    status = view.container(container)
    if status is None or status.state.running is None or not pods.is_running(status.container_id):
        raise Failed(500, f'container not found ("{container}")')
    return status.container_id
