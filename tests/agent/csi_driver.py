"""A CSI driver that a node agent talks to: real sockets, and volumes that are folders, mounted where it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpclib.const import Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from fairlead.agent import linux
from fairlead.agent.csi import messages as csi
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.plugins.messages import GET_INFO, NOTIFY, PluginInfo, RegistrationStatus
from fairlead.agent.plugins.sockets import PLUGINS, REGISTRY
from tests.agent.device_driver import ServerCodec, handler

NAME = "disks.fairlead.test"
_RACK = csi.Topology(segments={"topology.fairlead.test/rack": "r1"})
ABOUT = csi.NodeInfo(node_id="machine-7", max_volumes_per_node=5, accessible_topology=_RACK)


@dataclass
class CsiDriver:
    """What it was asked, in order, and how it answers."""

    root: Path
    versions: Sequence[str] = ("1.0.0",)
    capabilities: Sequence[int] = (csi.STAGE,)
    #: What it says of itself and the node.
    about: csi.NodeInfo = ABOUT
    asked: list[str] = field(default_factory=list)
    told: list[RegistrationStatus] = field(default_factory=list)
    #: What volumes without a file system are.
    device: Path = Path("/dev/null")
    #: How full its volumes are.
    usage: Sequence[csi.Usage] = ()
    published: list[csi.Publish] = field(default_factory=list)
    #: By name of the call.
    errors: dict[str, str] = field(default_factory=dict)
    #: Calls that are never answered.
    hangs: set[str] = field(default_factory=set)

    @property
    def socket(self) -> Path:
        return self.root / PLUGINS / NAME / "csi.sock"

    @property
    def registration(self) -> Path:
        return self.root / REGISTRY / f"{NAME}-reg.sock"

    def content(self, volume: str) -> Path:
        found = self.root / "disks" / volume
        found.mkdir(parents=True, exist_ok=True)
        return found

    def __mapping__(self) -> dict[str, Handler]:
        served = (
            (self._get_info, GET_INFO),
            (self._notify, NOTIFY),
            (self._node_info, csi.GET_INFO),
            (self._capabilities, csi.GET_CAPABILITIES),
            (self._stage, csi.STAGE_VOLUME),
            (self._unstage, csi.UNSTAGE_VOLUME),
            (self._publish, csi.PUBLISH_VOLUME),
            (self._unpublish, csi.UNPUBLISH_VOLUME),
            (self._expand, csi.EXPAND_VOLUME),
            (self._stats, csi.GET_VOLUME_STATS),
        )
        return {method.path: handler(serve, method) for serve, method in served}

    async def _get_info(self, stream: Any) -> None:
        await stream.recv_message()
        versions, endpoint = list(self.versions), str(self.socket)
        await stream.send_message(
            PluginInfo(type="CSIPlugin", name=NAME, endpoint=endpoint, supported_versions=versions)
        )

    async def _notify(self, stream: Any) -> None:
        self.told.append(await stream.recv_message())
        await stream.send_message(Nothing())

    async def _node_info(self, stream: Any) -> None:
        await stream.recv_message()
        await stream.send_message(self.about)

    async def _capabilities(self, stream: Any) -> None:
        await stream.recv_message()
        found = [csi.Capability(rpc=csi.Rpc(type=each)) for each in self.capabilities]
        await stream.send_message(csi.Capabilities(capabilities=found))

    async def _stage(self, stream: Any) -> None:
        asked: csi.Stage = await stream.recv_message()
        await self._note("stage", asked.volume_id)
        if asked.volume_capability.block is None:
            await asyncio.to_thread(_bind, self.content(asked.volume_id), Path(asked.staging_target_path))
        await stream.send_message(Nothing())

    async def _unstage(self, stream: Any) -> None:
        asked: csi.Unstage = await stream.recv_message()
        await self._note("unstage", asked.volume_id)
        await asyncio.to_thread(linux.unmount_below, Path(asked.staging_target_path))
        await stream.send_message(Nothing())

    async def _publish(self, stream: Any) -> None:
        asked: csi.Publish = await stream.recv_message()
        await self._note("publish", asked.volume_id)
        self.published.append(asked)
        source = Path(asked.staging_target_path) if asked.staging_target_path else self.content(asked.volume_id)
        if asked.volume_capability.block is not None:
            source = self.device
        await asyncio.to_thread(_bind, source, Path(asked.target_path))
        await stream.send_message(Nothing())

    async def _unpublish(self, stream: Any) -> None:
        asked: csi.Unpublish = await stream.recv_message()
        await self._note("unpublish", asked.volume_id)
        await asyncio.to_thread(linux.unmount, Path(asked.target_path))
        await stream.send_message(Nothing())

    async def _expand(self, stream: Any) -> None:
        asked: csi.Expand = await stream.recv_message()
        assert asked.capacity_range is not None and linux.mount_points(Path(asked.volume_path))
        await self._note("expand", f"{asked.volume_id} to {asked.capacity_range.required_bytes}")
        await stream.send_message(Nothing())

    async def _stats(self, stream: Any) -> None:
        asked: csi.StatsRequest = await stream.recv_message()
        await self._note("stats", asked.volume_id)
        await stream.send_message(csi.Stats(usage=list(self.usage)))

    async def _note(self, call: str, volume: str) -> None:
        self.asked.append(f"{call} {volume}")
        if call in self.hangs:
            await asyncio.get_running_loop().create_future()
        if problem := self.errors.get(call):
            raise GRPCError(Status.INTERNAL, problem)


def _bind(source: Path, target: Path) -> None:
    """It may be asked twice."""
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    if not linux.mount_points(target):
        linux.mount(str(source), target, flags=linux.MS_BIND)


@asynccontextmanager
async def serving(driver: CsiDriver) -> AsyncIterator[CsiDriver]:
    """It listens; when the block ends it has gone, with its sockets."""
    servers = []
    try:
        for path in (driver.socket, driver.registration):
            path.parent.mkdir(parents=True, exist_ok=True)
            server = Server([driver], codec=ServerCodec())
            await server.start(path=str(path))
            servers.append(server)
        yield driver
    finally:
        for server in servers:
            server.close()
            await server.wait_closed()
        for path in (driver.registration, driver.socket):
            path.unlink(missing_ok=True)
