"""The CSI drivers of this node: those that have registered. The CSINode names them, and labels say where the node is.

Sources: pkg/volume/csi/csi_plugin.go and nodeinfomanager (1.36).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from fairlead.agent.plugins.messages import PluginInfo
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.api.builtin import CSI_NODES, NODES
from fairlead.api.errors import ApiError, Conflict, NotFound
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.golang.json_errors import json_error
from fairlead.golang.quoting import go_quote
from fairlead.node.csi_node import make_csi_node

if TYPE_CHECKING:
    from fairlead.agent.csi.messages import NodeInfo
    from fairlead.agent.grpc.client import Client

#: What plugins of drivers call themselves.
CSI: Final = "CSIPlugin"
_NODE_IDS: Final = "csi.volume.kubernetes.io/nodeid"
#: How long a call of a driver may take.
CALL_SECONDS: Final = 120.0
#: As large a number as a CSINode can tell.
_MOST_VOLUMES: Final = 2**31 - 1
_TRIES: Final = 5
_AGAIN_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class Driver(msgspec.Struct, frozen=True, eq=False):
    name: str
    endpoint: str
    client: Client
    #: What its node service can do.
    capabilities: frozenset[int]


class CsiDrivers:
    def __init__(self, api: Api, node_name: str) -> None:
        self._api, self._node_name = api, node_name
        self._drivers: dict[str, Driver] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        #: One at a time changes what the cluster knows: a driver that starts anew goes and comes at once.
        self._changing = asyncio.Lock()

    def get(self, name: str) -> Driver | None:
        return self._drivers.get(name)

    async def register(self, info: PluginInfo, endpoint: str) -> str:
        """Why it cannot be, or nothing."""
        from fairlead.agent.csi.messages import GET_CAPABILITIES, GET_INFO  # with what speaks gRPC
        from fairlead.agent.grpc.client import Client
        from fairlead.agent.grpc.methods import Nothing

        if not any(version.removeprefix("v").partition(".")[0] == "1" for version in info.supported_versions):
            known = " ".join(f'"{each}"' for each in info.supported_versions)
            why = f"none of the CSI versions [{known}] supported by this kubelet"
            return f"plugin validation failed with err: CSI driver {info.name}: {why}"
        client = Client(endpoint, f"CSI driver {info.name}")
        try:
            about = await client.call(GET_INFO, Nothing(), CALL_SECONDS)
            said = await client.call(GET_CAPABILITIES, Nothing(), CALL_SECONDS)
            can = frozenset(each.rpc.type for each in said.capabilities if each.rpc is not None)
            async with self._changing:
                await self._changed(lambda: self._install(info.name, about))
                if (before := self._drivers.get(info.name)) is not None:
                    before.client.close()
                self._drivers[info.name] = Driver(info.name, endpoint, client, can)
        except (RuntimeFailure, ApiError, OSError, ValueError) as failure:
            client.close()
            return f"plugin registration failed with err: {failure}"
        log.info("CSI driver %s at %s has registered", info.name, endpoint)
        return ""

    def deregister(self, name: str, endpoint: str) -> None:
        driver = self._drivers.get(name)
        if driver is None or driver.endpoint != endpoint:
            return
        del self._drivers[name]
        driver.client.close()
        log.info("CSI driver %s at %s has gone", name, endpoint)
        task = asyncio.create_task(self._leave(name), name=f"CSI driver {name}")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def close(self) -> None:
        for task in self._leaving:
            task.cancel()
        for driver in self._drivers.values():
            driver.client.close()
        self._drivers.clear()

    async def _leave(self, name: str) -> None:
        """Take it out of the CSINode, unless it is back."""
        while name not in self._drivers:
            try:
                async with self._changing:
                    if name not in self._drivers:
                        await self._changed(lambda: self._uninstall(name))
                return
            except (ApiError, OSError, ValueError) as error:
                log.info("CSI driver %s cannot be taken out of the CSINode yet: %s", name, error)
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _changed(self, change: Callable[[], Awaitable[None]]) -> None:
        """What is read may be another by the time it is written."""
        for left in reversed(range(_TRIES)):
            try:
                await change()
                return
            except Conflict:
                if not left:
                    raise

    async def _install(self, name: str, about: NodeInfo) -> None:
        if not about.node_id:
            raise ValueError("error adding CSI driver node info: driverNodeID must not be empty")
        segments: Mapping[str, str] = about.accessible_topology.segments if about.accessible_topology else {}
        uid = await self._annotate(name, about.node_id, segments)
        entry: Obj = {"name": name, "nodeID": about.node_id, "topologyKeys": sorted(segments)}
        if about.max_volumes_per_node > 0:
            entry["allocatable"] = {"count": min(about.max_volumes_per_node, _MOST_VOLUMES)}
        try:
            await self._put(name, entry)
        except NotFound:  # somebody has deleted it
            await make_csi_node(self._api, self._node_name, uid)
            await self._put(name, entry)

    async def _uninstall(self, name: str) -> None:
        with suppress(NotFound):
            await self._put(name, None)
            await self._annotate(name, None, {})

    async def _put(self, name: str, entry: Obj | None) -> None:
        found = (await self._api.get(CSI_NODES, self._node_name)).obj()
        before = found["spec"].get("drivers") or []
        after = [each for each in before if each["name"] != name] + ([entry] if entry is not None else [])
        if after != before:
            found["spec"]["drivers"] = after
            await self._api.update(CSI_NODES, found)

    async def _annotate(self, name: str, node_id: str | None, labels: Mapping[str, str]) -> str:
        """What a driver calls the node; and where the node is to it, which stays when the driver goes. The uid of the
        node.

        ValueError for an annotation that somebody else has written, and for a driver that says where the node is not.
        """
        meta = (await self._api.get(NODES, self._node_name)).obj()["metadata"]
        before = (meta.get("annotations") or {}).get(_NODE_IDS)
        ids = _node_ids(before) if before else {}
        ids = {key: value for key, value in ids.items() if key != name} | ({name: node_id} if node_id else {})
        written = json.dumps(ids, separators=(",", ":"), sort_keys=True) if ids else None
        known = meta.get("labels") or {}
        for key, value in labels.items():
            if (label := known.get(key, value)) != value:
                told, there = (f"{go_quote(key)}:{go_quote(each)}" for each in (value, label))
                raise ValueError(
                    f"detected topology value collision: driver reported {told} but existing label is {there}"
                )
        new = {key: value for key, value in labels.items() if key not in known}
        uid: str = meta["uid"]
        if written == before and not new:
            return uid
        guarded = {"uid": uid, "resourceVersion": meta["resourceVersion"]}
        patch = {"metadata": {**guarded, "annotations": {_NODE_IDS: written}, "labels": new}}
        await self._api.patch(NODES, self._node_name, "", patch)
        return uid


def _node_ids(annotation: str) -> dict[str, str]:
    """What drivers call the node. ValueError, in a kubelet's words."""
    try:
        return msgspec.json.decode(annotation, type=dict[str, str])
    except msgspec.DecodeError as problem:
        why = json_error(annotation.encode()) or problem
        stated = f"{go_quote(_NODE_IDS)} annotation value ({go_quote(annotation)})"
        raise ValueError(f"failed to parse node's {stated} err={why}") from None
