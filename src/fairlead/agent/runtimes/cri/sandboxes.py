"""The sandboxes of our pods: made by the runtime, with an address of its network, in a cgroup that we have made."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from grpclib.const import Status

from fairlead.agent.runtimes.base import RuntimeFailure, Sandbox, SandboxSpec
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.client import CallFailed, Client
from fairlead.agent.runtimes.cri.specs import CGROUP, ROOT_LABEL, sandbox_config

#: How long, and how often, a network of the runtime is waited for.
_MOST_LOOKS: Final = 50
_LOOK_SECONDS: Final = 0.1
_NO_CGROUP: Final = "/no-such-pod"

log = logging.getLogger(__name__)


class _Namespace(msgspec.Struct):
    type: str = ""
    path: str = ""


class _Linux(msgspec.Struct):
    namespaces: list[_Namespace] = []


class _RuntimeSpec(msgspec.Struct):
    linux: _Linux = msgspec.field(default_factory=_Linux)


class _Info(msgspec.Struct, rename="camel"):
    """What the runtime says besides, as containerd and CRI-O spell it."""

    runtime_spec: _RuntimeSpec = msgspec.field(default_factory=_RuntimeSpec)


@dataclass(frozen=True, slots=True)
class MadeSandbox:
    """One that containers can be made in."""

    id: str
    spec: SandboxSpec
    config: cri.PodSandboxConfig


class Sandboxes:
    def __init__(self, root: Path, client: Client) -> None:
        self._root, self._client = root, client
        self._found: dict[str, tuple[str, Sandbox]] = {}  # by uid: the runtime's id, and what it is
        self._made: dict[str, MadeSandbox] = {}

    async def adopt(self) -> None:
        """Those that are there; the ones that have ended, as all have once the machine was started, are removed."""
        for each in await self._list():
            if each.state == cri.READY and each.metadata.uid not in self._found:
                self._found[each.metadata.uid] = each.id, _sandbox(each, *await self._network(each.id))
            else:
                await self._remove_if_possible(each.id)

    def all(self) -> list[Sandbox]:
        return [sandbox for _, sandbox in self._found.values()]

    async def unknown(self) -> list[Sandbox]:
        """The others that there are: those that are being made, and those that came from an earlier agent's request."""
        return [_sandbox(each, None, ()) for each in await self._list() if each.metadata.uid not in self._found]

    def cgroup_of(self, uid: str) -> str:
        """Of a pod; of one that has no sandbox, a cgroup that is never there."""
        found = self._found.get(uid)
        return found[1].cgroup if found is not None else _NO_CGROUP

    def made(self, uid: str) -> MadeSandbox:
        if (found := self._made.get(uid)) is None:
            raise RuntimeFailure(f"pod {uid} has no sandbox")
        return found

    async def create(self, spec: SandboxSpec) -> Sandbox:
        config = sandbox_config(spec, self._root)
        if (known := self._found.get(spec.uid)) is None:
            spec.logs.mkdir(parents=True, exist_ok=True)
            known = self._found[spec.uid] = await self._run(spec, config)
        self._made[spec.uid] = MadeSandbox(known[0], spec, config)
        return known[1]

    async def remove(self, uid: str) -> None:
        for each in await self._list():
            if each.metadata.uid == uid:
                await self._remove(each.id)
        self._found.pop(uid, None)
        self._made.pop(uid, None)

    async def remove_all(self) -> int:
        """However they came to be here: how many."""
        found = await self._list()
        for each in found:
            await self._remove(each.id)
        return len(found)

    async def _run(self, spec: SandboxSpec, config: cri.PodSandboxConfig) -> tuple[str, Sandbox]:
        """What an attempt that was cut off has left of the pod stands in the way."""
        await self.remove(spec.uid)
        if not spec.host_network:
            await self._network_ready()
        asked = cri.RunPodSandboxRequest(config=config, runtime_handler=spec.handler)
        id_ = (await self._client.call(cri.RUN_SANDBOX, asked)).pod_sandbox_id
        netns, addresses = await self._network(id_)
        return id_, Sandbox(spec.uid, spec.namespace, spec.name, spec.cgroup, netns, addresses)

    async def _network_ready(self) -> None:
        """A network that has just come is a moment later one of the runtime's; a failure would cost ten seconds."""
        for _ in range(_MOST_LOOKS):
            status = (await self._client.call(cri.STATUS, cri.StatusRequest())).status
            if not any(each.type == "NetworkReady" and not each.status for each in status.conditions):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _network(self, id_: str) -> tuple[Path | None, tuple[str, ...]]:
        """The namespace, if it is not the machine's, and the addresses in it."""
        asked = cri.PodSandboxStatusRequest(pod_sandbox_id=id_, verbose=True)
        answer = await self._client.call(cri.SANDBOX_STATUS, asked)
        network = answer.status.network
        addresses = [network.ip, *(each.ip for each in network.additional_ips)]
        try:
            info = msgspec.json.decode(answer.info.get("info", "{}"), type=_Info)
        except msgspec.DecodeError as error:
            raise RuntimeFailure(f"what the runtime tells of sandbox {id_} cannot be read: {error}") from None
        paths = [each.path for each in info.runtime_spec.linux.namespaces if each.type == "network"]
        netns = Path(paths[0]) if paths and paths[0] else None
        return netns, tuple(address for address in addresses if address) if netns is not None else ()

    async def _list(self) -> list[cri.PodSandbox]:
        own = cri.LabelFilter(labels={ROOT_LABEL: str(self._root)})
        return (await self._client.call(cri.LIST_SANDBOXES, cri.ListPodSandboxRequest(filter=own))).items

    async def _remove_if_possible(self, id_: str) -> None:
        """What is left now stands in nobody's way: it goes with the pod, or before a new sandbox of that."""
        try:
            await self._remove(id_)
        except CallFailed as failure:
            log.warning("sandbox %s is left for now: %s", id_, failure)

    async def _remove(self, id_: str) -> None:
        """With all of its containers, whatever state they are in."""
        try:
            await self._client.call(cri.STOP_SANDBOX, cri.PodSandboxId(pod_sandbox_id=id_))
            await self._client.call(cri.REMOVE_SANDBOX, cri.PodSandboxId(pod_sandbox_id=id_))
        except CallFailed as failure:
            if failure.status is not Status.NOT_FOUND:
                raise


def _sandbox(found: cri.PodSandbox, netns: Path | None, addresses: tuple[str, ...]) -> Sandbox:
    meta = found.metadata
    return Sandbox(meta.uid, meta.namespace, meta.name, found.annotations.get(CGROUP, ""), netns, addresses)
