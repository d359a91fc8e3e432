"""A driver of devices that a node agent talks to: real sockets, and devices that are nothing but CDI files."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from fairlead.agent.devices.messages import (
    SERVICES,
    WATCH_HEALTH,
    Claims,
    Device,
    DeviceHealth,
    DeviceIdentifier,
    DevicesHealth,
    Prepared,
    PreparedClaims,
    PreparedOf,
    Unprepared,
    UnpreparedClaims,
    UnpreparedOf,
    prepare,
    unprepare,
)
from fairlead.agent.grpc import protobuf
from fairlead.agent.grpc.client import Codec
from fairlead.agent.grpc.methods import Method, Nothing
from fairlead.agent.plugins.messages import GET_INFO, NOTIFY, PluginInfo, RegistrationStatus
from fairlead.agent.plugins.sockets import PLUGINS, REGISTRY

NAME = "gadgets.fairlead.test"
V1, V1BETA1 = SERVICES


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for sockets, whose paths have a hundred bytes at most."""
    with TemporaryDirectory(prefix="dra") as found:
        yield Path(found)


class ServerCodec(Codec):
    def decode(self, data: bytes, message_type: Any) -> Any:
        return protobuf.decode(data, message_type)


async def _nothing() -> None:
    return


@dataclass
class Driver:
    """What it was asked, in order: `prepare NAME` and `unprepare NAME` of claims, and how it answers."""

    root: Path
    name: str = NAME
    versions: Sequence[str] = (V1, V1BETA1)
    kind: str = "DRAPlugin"
    #: Whether it tells how its device is.
    tells_health: bool = False
    _healths: asyncio.Queue[DevicesHealth] = field(default_factory=asyncio.Queue)
    #: So many times it fails when it is told that it is registered.
    mishears: int = 0
    #: Where it says it listens; where it does, if it says nothing.
    endpoint: str = ""
    asked: list[str] = field(default_factory=list)
    told: list[RegistrationStatus] = field(default_factory=list)
    #: By name of the claim.
    errors: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    cdi: tuple[str, ...] = ()
    #: For which requests of a claim its device is.
    requests: tuple[str, ...] = ("r",)
    #: Called when claims are to be given back.
    giving_back: Callable[[], Awaitable[None]] = _nothing
    #: Over which it was asked to prepare claims.
    connections: list[Any] = field(default_factory=list)
    #: Set while it lets nobody wait.
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.goes_on.set()

    @property
    def socket(self) -> Path:
        return self.root / PLUGINS / self.name / "dra.sock"

    @property
    def registration(self) -> Path:
        return self.root / REGISTRY / f"{self.name}-reg.sock"

    def __mapping__(self) -> dict[str, Handler]:
        found = {
            GET_INFO.path: handler(self._get_info, GET_INFO),
            NOTIFY.path: handler(self._notify, NOTIFY),
        }
        for version in self.versions:
            if version in SERVICES:
                found[prepare(version).path] = handler(self._prepare, prepare(version))
                found[unprepare(version).path] = handler(self._unprepare, unprepare(version))
        if self.tells_health:
            method = WATCH_HEALTH
            found[method.path] = Handler(self._tell_health, Cardinality.UNARY_STREAM, method.asked, method.answer)
        return found

    def becomes(self, health: int, message: str = "", seconds: int = 0) -> None:
        """What it tells of its device from now on."""
        device = DeviceIdentifier(pool_name="p", device_name="gadget-0")
        told = DeviceHealth(
            device=device,
            health=health,
            message=message,
            last_updated_time=int(time.time()),
            health_check_timeout_seconds=seconds,
        )
        self._healths.put_nowait(DevicesHealth(devices=[told]))

    async def _tell_health(self, stream: Any) -> None:
        await stream.recv_message()
        while True:
            await stream.send_message(await self._healths.get())

    async def _get_info(self, stream: Any) -> None:
        await stream.recv_message()
        endpoint, versions = self.endpoint or str(self.socket), list(self.versions)
        await stream.send_message(
            PluginInfo(type=self.kind, name=self.name, endpoint=endpoint, supported_versions=versions)
        )

    async def _notify(self, stream: Any) -> None:
        told = await stream.recv_message()
        if self.mishears:
            self.mishears -= 1
            raise GRPCError(Status.UNAVAILABLE, "say that again")
        self.told.append(told)
        await stream.send_message(Nothing())

    async def _prepare(self, stream: Any) -> None:
        self.connections.append(stream._stream.connection)
        asked: Claims = await stream.recv_message()
        self.asked += [f"prepare {claim.name}" for claim in asked.claims]
        await self.goes_on.wait()
        requests = list(self.requests)
        device = Device(request_names=requests, pool_name="p", device_name="gadget-0", cdi_device_ids=list(self.cdi))
        await stream.send_message(
            PreparedClaims(
                claims=[
                    PreparedOf(uid=claim.uid, result=Prepared(devices=[device], error=self.errors.get(claim.name, "")))
                    for claim in asked.claims
                    if claim.name not in self.skipped
                ]
            )
        )

    async def _unprepare(self, stream: Any) -> None:
        asked: Claims = await stream.recv_message()
        self.asked += [f"unprepare {claim.name}" for claim in asked.claims]
        await self.giving_back()
        await stream.send_message(
            UnpreparedClaims(
                claims=[
                    UnpreparedOf(uid=claim.uid, result=Unprepared(error=self.errors.get(claim.name, "")))
                    for claim in asked.claims
                ]
            )
        )


def handler(serve: Callable[[Any], Awaitable[None]], method: Method[Any, Any]) -> Handler:
    return Handler(serve, Cardinality.UNARY_UNARY, method.asked, method.answer)


@asynccontextmanager
async def serving(driver: Driver, *, is_killed: bool = False) -> AsyncIterator[Driver]:
    """It listens; when the block ends it has gone, with its sockets unless it is killed."""
    servers = []
    try:
        for path in (driver.socket, driver.registration):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            server = Server([driver], codec=ServerCodec())
            await server.start(path=str(path))
            servers.append(server)
        yield driver
    finally:
        driver.goes_on.set()
        for server in servers:
            server.close()
            await server.wait_closed()
        for connection in driver.connections:  # servers of grpclib leave them open
            connection.close()
        for path in (driver.registration, driver.socket) if not is_killed else ():
            path.unlink(missing_ok=True)


def cdi_file(folder: Path, kind: str, **edits: list[Any]) -> str:
    """The name of a device that is described there by one file."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"cdiVersion": "0.6.0", "kind": kind, "devices": [{"name": "gadget-0", "containerEdits": edits}]}
    (folder / f"{kind.replace('/', '-')}.json").write_text(json.dumps(spec))
    return f"{kind}=gadget-0"
