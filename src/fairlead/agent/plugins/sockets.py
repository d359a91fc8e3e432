"""Plugins come and go with their sockets in a folder of the node: each is asked who it is once.

One that takes its time, or hangs, holds up nobody else.
Source: pkg/kubelet/pluginmanager (1.36).
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from fairlead.agent.plugins.messages import PluginInfo
from fairlead.runtime.clock import monotonic

#: In the folder of the agent, as a kubelet has them.
REGISTRY: Final = "plugins_registry"
PLUGINS: Final = "plugins"
_LOOK_SECONDS: Final = 1.0
_FIRST_AGAIN_SECONDS: Final = 0.5
_LONGEST_AGAIN_SECONDS: Final = 122.0

log = logging.getLogger(__name__)


class _Socket(NamedTuple):
    """A file that is made anew is another."""

    path: Path
    inode: int
    made_at: int


class _Failed(NamedTuple):
    again_at: float
    seconds: float


class PluginHandler(Protocol):
    """Takes the plugins of one kind."""

    async def register(self, info: PluginInfo, endpoint: str) -> str:
        """Why it cannot be, or nothing."""
        ...

    def deregister(self, name: str, endpoint: str) -> None:
        """Its socket has gone."""
        ...


class _Accepted(NamedTuple):
    handler: PluginHandler
    name: str
    endpoint: str

    def deregister(self) -> None:
        self.handler.deregister(self.name, self.endpoint)


class PluginSockets:
    def __init__(self, root: Path, handlers: Mapping[str, PluginHandler]) -> None:
        """`handlers` by what plugins of their kind call themselves."""
        self._folder, self._handlers = root / REGISTRY, handlers
        for folder in (self._folder, root / PLUGINS):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._registered: dict[_Socket, _Accepted] = {}
        self._failed: dict[_Socket, _Failed] = {}
        self._asked: set[_Socket] = set()  # those that have not answered yet

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._look(group)
                await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self, group: asyncio.TaskGroup) -> None:
        try:
            found = await asyncio.to_thread(lambda: set(_sockets(self._folder)))
        except OSError as problem:  # somebody removes folders just now, or will not let us look
            log.warning("%s cannot be looked through: %s", self._folder, problem)
            return
        for gone in self._registered.keys() - found:
            self._registered.pop(gone).deregister()
        for gone in self._failed.keys() - found:
            del self._failed[gone]
        now = monotonic()
        for socket in sorted(found - self._registered.keys() - self._asked):
            if now >= self._again_at(self._failed, socket):
                self._asked.add(socket)
                group.create_task(self._ask(socket), name=f"plugin {socket.path.name}")

    @staticmethod
    def _again_at(failed: Mapping[_Socket, _Failed], socket: _Socket) -> float:
        return failed[socket].again_at if socket in failed else 0.0

    async def _ask(self, socket: _Socket) -> None:
        try:
            await self._register(socket)
        finally:
            self._asked.discard(socket)

    async def _register(self, socket: _Socket) -> None:
        from fairlead.agent.plugins.registration import NotRegistered, register  # with what speaks gRPC

        accepted: list[_Accepted] = []

        async def accept(info: PluginInfo) -> str:
            endpoint = info.endpoint or str(socket.path)
            if problem := await self._problem_of(socket.path, info, endpoint):
                return f"RegisterPlugin error -- {problem}"
            accepted.append(_Accepted(self._handlers[info.type], info.name, endpoint))
            return ""

        try:
            await register(socket.path, accept)
        except NotRegistered as failure:
            for each in accepted:  # it has not heard of that: it is asked anew
                each.deregister()
            seconds = _FIRST_AGAIN_SECONDS
            if (before := self._failed.get(socket)) is not None:
                seconds = min(2 * before.seconds, _LONGEST_AGAIN_SECONDS)
            self._failed[socket] = _Failed(monotonic() + seconds, seconds)
            log.warning("the plugin at %s is not registered: %s", socket.path, failure)
        else:
            self._failed.pop(socket, None)
            (self._registered[socket],) = accepted

    async def _problem_of(self, path: Path, info: PluginInfo, endpoint: str) -> str:
        """Why it cannot be a plugin here, or nothing."""
        if (handler := self._handlers.get(info.type)) is None:
            return f"no handler registered for plugin type: {info.type} at socket {path}"
        if not endpoint.startswith("/"):
            return f"plugin validation failed with err: endpoint {endpoint} is no absolute path"
        return await handler.register(info, endpoint)


def _sockets(folder: Path) -> Iterator[_Socket]:
    for path in folder.rglob("*"):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            try:
                found = path.stat(follow_symlinks=False)
            except OSError:  # it has gone
                continue
            if stat.S_ISSOCK(found.st_mode):
                yield _Socket(path, found.st_ino, found.st_ctime_ns)
