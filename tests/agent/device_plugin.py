"""A device plugin that a node agent talks to, over real sockets: its devices are those of every machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from fairlead.agent.device_plugins.manager import DEVICE_PLUGIN, FOLDER, SOCKET
from fairlead.agent.device_plugins.messages import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERENCES,
    HEALTHY,
    LIST_AND_WATCH,
    PRE_START,
    REGISTER,
    VERSION,
    AllAllocated,
    Allocated,
    AllocateRequests,
    Device,
    Devices,
    Options,
    Preference,
    PreferenceRequests,
    Preferences,
    RegisterRequest,
)
from fairlead.agent.grpc.client import Client
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.plugins.messages import GET_INFO, NOTIFY, PluginInfo, RegistrationStatus
from fairlead.agent.plugins.sockets import REGISTRY
from tests.agent.device_driver import ServerCodec, handler

RESOURCE = "fairlead.test/zero"


@dataclass
class FakePlugin:
    """What it was asked, in order, and how it answers."""

    root: Path
    resource: str = RESOURCE
    devices: Sequence[Device] = tuple(Device(id=f"zero-{number}", health=HEALTHY) for number in range(3))
    options: Options = field(default_factory=Options)
    #: What a container gets, whichever devices it has.
    given: Allocated = field(default_factory=Allocated)
    #: Which devices it would rather give.
    preference: Sequence[str] = ()
    version: str = VERSION
    #: Where it says it listens; where it does, if it says nothing.
    endpoint: str = ""
    #: Why it allocates nothing, and starts nothing.
    allocate_error: str = ""
    pre_start_error: str = ""
    asked: list[str] = field(default_factory=list)
    told: list[RegistrationStatus] = field(default_factory=list)
    #: How many lists it has sent.
    sent: int = 0
    #: Set while it lets nobody wait for an allocation.
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    _changes: list[asyncio.Queue[Devices | bytes]] = field(default_factory=list)
    _connections: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.goes_on.set()

    @property
    def socket(self) -> Path:
        return self.root / FOLDER / f"{self.resource.rpartition('/')[2]}.sock"

    @property
    def registration(self) -> Path:
        return self.root / REGISTRY / f"{self.resource.rpartition('/')[2]}-reg.sock"

    def __mapping__(self) -> dict[str, Handler]:
        listing = Handler(self._list, Cardinality.UNARY_STREAM, LIST_AND_WATCH.asked, LIST_AND_WATCH.answer)
        return {
            GET_OPTIONS.path: handler(self._get_options, GET_OPTIONS),
            LIST_AND_WATCH.path: listing,
            GET_PREFERENCES.path: handler(self._prefer, GET_PREFERENCES),
            ALLOCATE.path: handler(self._allocate, ALLOCATE),
            PRE_START.path: handler(self._pre_start, PRE_START),
            GET_INFO.path: handler(self._get_info, GET_INFO),
            NOTIFY.path: handler(self._notify, NOTIFY),
        }

    def lists(self, *devices: Device) -> None:
        """What it has from now on."""
        self.devices = devices
        self.sends(Devices(devices=list(devices)))

    def sends(self, listed: Devices | bytes) -> None:
        """That, whatever it has."""
        for changes in self._changes:
            changes.put_nowait(listed)

    def becomes(self, id_: str, health: str) -> None:
        self.lists(*(Device(id=each.id, health=health if each.id == id_ else each.health) for each in self.devices))

    async def register(self) -> None:
        """At the socket of the node; CallFailed with why it is not taken."""
        client = Client(str(self.root / FOLDER / SOCKET))
        try:
            request = RegisterRequest(
                version=self.version, endpoint=self.endpoint or self.socket.name, resource_name=self.resource
            )
            await client.call(REGISTER, request)
        finally:
            client.close()

    def hang_up(self) -> None:
        """As if it had died, whatever it is doing."""
        for connection in self._connections:
            connection.close()

    async def _get_options(self, stream: Any) -> None:
        self._connections.append(stream._stream.connection)
        await stream.recv_message()
        await stream.send_message(self.options)

    async def _list(self, stream: Any) -> None:
        await stream.recv_message()
        changes: asyncio.Queue[Devices | bytes] = asyncio.Queue()
        self._changes.append(changes)
        await stream.send_message(Devices(devices=list(self.devices)))
        while True:
            await stream.send_message(await changes.get())
            self.sent += 1

    async def _prefer(self, stream: Any) -> None:
        asked: PreferenceRequests = await stream.recv_message()
        (request,) = asked.container_requests
        self.asked.append(f"prefer {request.allocation_size} of {len(request.available)}")
        await stream.send_message(Preferences(container_responses=[Preference(device_ids=list(self.preference))]))

    async def _allocate(self, stream: Any) -> None:
        asked: AllocateRequests = await stream.recv_message()
        (request,) = asked.container_requests
        self.asked.append(f"allocate {' '.join(sorted(request.devices_ids))}")
        await self.goes_on.wait()
        if self.allocate_error:
            raise GRPCError(Status.UNKNOWN, self.allocate_error)
        await stream.send_message(AllAllocated(container_responses=[self.given]))

    async def _pre_start(self, stream: Any) -> None:
        asked = await stream.recv_message()
        self.asked.append(f"start {' '.join(sorted(asked.devices_ids))}")
        if self.pre_start_error:
            raise GRPCError(Status.UNKNOWN, self.pre_start_error)
        await stream.send_message(Nothing())

    async def _get_info(self, stream: Any) -> None:
        await stream.recv_message()
        about = PluginInfo(
            type=DEVICE_PLUGIN, name=self.resource, endpoint=str(self.socket), supported_versions=[self.version]
        )
        await stream.send_message(about)

    async def _notify(self, stream: Any) -> None:
        self.told.append(await stream.recv_message())
        await stream.send_message(Nothing())


@asynccontextmanager
async def listening(plugin: FakePlugin, *, is_watched_for: bool = False) -> AsyncIterator[FakePlugin]:
    """It listens, and is found in the folder of all plugins if it is watched for there; afterwards it has gone."""
    servers = []
    try:
        for path in (plugin.socket, plugin.registration) if is_watched_for else (plugin.socket,):
            path.unlink(missing_ok=True)
            server = Server([plugin], codec=ServerCodec())
            await server.start(path=str(path))
            servers.append(server)
        yield plugin
    finally:
        plugin.goes_on.set()
        for path in (plugin.registration, plugin.socket):
            path.unlink(missing_ok=True)
        for server in servers:
            server.close()
        plugin.hang_up()  # servers of grpclib leave connections open
        for server in servers:
            await server.wait_closed()


@asynccontextmanager
async def offering(plugin: FakePlugin) -> AsyncIterator[FakePlugin]:
    """It has registered with a node, which may be starting, and so removing the sockets that it finds."""
    async with asyncio.timeout(20):
        while not (plugin.root / FOLDER / SOCKET).exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    async with listening(plugin):
        await plugin.register()
        yield plugin
