"""systemd-logind, over D-Bus: it tells that the machine is about to go down, and waits for those that hold a lock.

Sources: org.freedesktop.login1(5), pkg/kubelet/nodeshutdown/systemd.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from dbus_fast import BusType, DBusError, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from fairlead.agent.shutdown import setting

_SERVICE: Final = "org.freedesktop.login1"
_PATH: Final = "/org/freedesktop/login1"
_MANAGER: Final = "org.freedesktop.login1.Manager"
_SIGNAL: Final = "PrepareForShutdown"
_SIGHUP: Final = 1
#: How long a call may take, and logind to read its configuration anew.
CALL_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.1


class NoLogind(Exception):
    """Nobody tells this machine that it goes down, or waits for us."""


class Logind:
    """Use `connected`."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        self._lock: int | None = None
        self._told: dict[str | None, bool] = {}  # by who says so, what he said last
        self._is_gone = False
        self._changed = asyncio.Event()

    async def begin(self, seconds: float) -> None:
        """Be told of shutdowns, and have them wait for so long. NoLogind."""
        if await self._longest() < seconds:
            await self._wait_longer(seconds)
        await self.hold()
        self._bus.add_message_handler(self._take)
        rule = f"type='signal',sender='{_SERVICE}',interface='{_MANAGER}',member='{_SIGNAL}',path='{_PATH}'"
        await self._ask_bus("AddMatch", rule)

    async def hold(self) -> None:
        """From now on a shutdown waits until `let_go`."""
        asked = "shutdown", "fairlead", "the node needs time to end its pods", "delay"
        reply = await self._call(_SERVICE, _PATH, _MANAGER, "Inhibit", "ssss", *asked)
        self.let_go()
        self._lock = reply.unix_fds[reply.body[0]]

    def let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def news(self) -> AsyncIterator[bool]:
        """True: the machine is about to go down; False: it is not after all. Ends when the bus is gone.

        Anybody may send us a signal that looks like that: logind alone is believed. NoLogind.
        """
        while not self._is_gone:
            await self._changed.wait()
            self._changed.clear()
            told, self._told = self._told, {}
            owner = (await self._ask_bus("GetNameOwner", _SERVICE)).body[0] if told else None
            if owner in told:
                yield told[owner]

    def _take(self, message: Message) -> None:
        if message.message_type is MessageType.SIGNAL and (message.interface, message.member) == (_MANAGER, _SIGNAL):
            self._told[message.sender] = message.body == [True]
            self._changed.set()

    def gone(self) -> None:
        """The bus is."""
        self._is_gone = True
        self._changed.set()

    async def _longest(self) -> float:
        """How long it waits at most, in seconds."""
        properties = "org.freedesktop.DBus.Properties"
        reply = await self._call(_SERVICE, _PATH, properties, "Get", "ss", _MANAGER, "InhibitDelayMaxUSec")
        found: Variant = reply.body[0]
        return float(found.value) / 1e6

    async def _wait_longer(self, seconds: float) -> None:
        """logind reads its configuration anew at a SIGHUP, which systemd sends it."""
        try:
            await asyncio.to_thread(setting.write, seconds)
        except OSError as error:
            raise NoLogind(f"systemd-logind waits for less, and cannot be told otherwise: {error}") from None
        unit = "systemd-logind.service", "all", _SIGHUP
        systemd = "org.freedesktop.systemd1"
        await self._call(systemd, "/org/freedesktop/systemd1", f"{systemd}.Manager", "KillUnit", "ssi", *unit)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                while (longest := await self._longest()) < seconds:  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            problem = (
                f"systemd-logind waits for {longest:g} s at most (InhibitDelayMaxSec), whatever {setting.SETTING} says"
            )
            raise NoLogind(problem) from None

    async def _ask_bus(self, member: str, said: str) -> Message:
        bus = "org.freedesktop.DBus"
        return await self._call(bus, "/org/freedesktop/DBus", bus, member, "s", said)

    async def _call(self, service: str, path: str, interface: str, member: str, kinds: str, *said: Any) -> Message:
        asked = Message(service, path, interface, member, signature=kinds, body=list(said))
        try:
            async with asyncio.timeout(CALL_SECONDS):
                reply = await self._bus.call(asked)
        except (TimeoutError, OSError, EOFError) as error:
            raise NoLogind(f"{member} of {service}: {str(error) or 'no answer'}") from None
        if reply is None or reply.message_type is MessageType.ERROR:
            problem = " ".join(map(str, reply.body)) if reply is not None else ""
            raise NoLogind(f"{member} of {service}: {problem or 'no answer'}")
        return reply


@asynccontextmanager
async def connected(seconds: float) -> AsyncIterator[Logind]:
    """logind, with a lock on shutdowns which lasts as long as the block. NoLogind."""
    bus = MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True)
    try:
        async with asyncio.timeout(CALL_SECONDS):
            await bus.connect()
    except (TimeoutError, OSError, EOFError, DBusError, ValueError) as error:
        raise NoLogind(f"the system bus cannot be reached: {str(error) or 'no answer'}") from None
    logind = Logind(bus)
    watching = asyncio.create_task(_watch(bus, logind))
    try:
        await logind.begin(seconds)
        yield logind
    finally:
        logind.let_go()
        watching.cancel()
        bus.disconnect()


async def _watch(bus: MessageBus, logind: Logind) -> None:
    with suppress(OSError, EOFError):
        await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
    logind.gone()
