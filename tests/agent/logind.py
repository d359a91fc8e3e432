"""A system bus with somebody on it who stands for systemd-logind, and for the systemd that has it read its setting."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

MANAGER = "org.freedesktop.login1.Manager"
with_bus = pytest.mark.skipif(
    shutil.which("dbus-daemon") is None, reason="a bus needs dbus-daemon (apt-get install dbus)"
)

_CONFIGURATION = """<busconfig><listen>unix:path={socket}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/>
</policy>
</busconfig>"""


@contextmanager
def bus(folder: Path) -> Iterator[str]:
    """The address of one that is there until the block ends."""
    folder.mkdir(exist_ok=True)
    socket, configuration = folder / "bus", folder / "bus.xml"
    configuration.write_text(_CONFIGURATION.format(socket=socket))
    command = ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline()  # it listens
        try:
            yield f"unix:path={socket}"
        finally:
            daemon.terminate()
            daemon.wait()


class FakeLogind:
    """Waits `longest` seconds for whom it has given a lock, or as long as the file `setting` says after a SIGHUP."""

    def __init__(self, connection: MessageBus, setting: Path, longest: float) -> None:
        self._bus, self._setting, self.longest = connection, setting, longest
        self._locks: list[int] = []
        #: Who asked for a lock, in which words.
        self.asked: list[list[str]] = []
        #: What the bus calls those.
        self.clients: list[str | None] = []
        self.obeys = True
        connection.add_message_handler(self._answer)

    def _answer(self, message: Message) -> Message | None:
        if message.message_type is not MessageType.METHOD_CALL:
            return None
        match message.member:
            case "Get":
                return Message.new_method_return(message, "v", [Variant("t", int(self.longest * 1e6))])
            case "Inhibit":
                self.asked.append(message.body)
                self.clients.append(message.sender)
                ours, theirs = os.pipe()
                self._locks.append(ours)
                asyncio.get_running_loop().call_later(1, os.close, theirs)  # the bus has a copy of it by then
                return Message.new_method_return(message, "h", [0], [theirs])
            case "KillUnit" if message.body == ["systemd-logind.service", "all", 1]:
                if self.obeys:
                    self.longest = float(self._setting.read_text().rpartition("InhibitDelayMaxSec=")[2])
                return Message.new_method_return(message)
        return None

    async def announce(self, *, is_going_down: bool) -> None:
        await self._bus.send(
            Message.new_signal("/org/freedesktop/login1", MANAGER, "PrepareForShutdown", "b", [is_going_down])
        )

    async def locked(self) -> None:
        """Somebody holds the last lock that was given."""
        while not self._locks or self._is_free():  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def free(self) -> None:
        while not self._is_free():  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    def _is_free(self) -> bool:
        os.set_blocking(self._locks[-1], False)
        try:
            return os.read(self._locks[-1], 1) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        for lock in self._locks:
            os.close(lock)


@asynccontextmanager
async def logind(address: str, setting: Path, longest: float = 5.0) -> AsyncIterator[FakeLogind]:
    connection = await MessageBus(address, negotiate_unix_fd=True).connect()
    fake = FakeLogind(connection, setting, longest)
    for name in ("org.freedesktop.login1", "org.freedesktop.systemd1"):
        await connection.request_name(name)
    try:
        yield fake
    finally:
        connection.disconnect()
        fake.close()
