"""The sandboxes of our pods: made by the runtime, with an address of its network, in a cgroup that we have made."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from grpclib.const import Status

from fairlead.agent.grpc.client import CallFailed, Client
from fairlead.agent.runtimes.base import RuntimeFailure, Sandbox, SandboxSpec
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.specs import CGROUP, ROOT_LABEL, sandbox_config
from fairlead.agent.runtimes.first_processes import FirstProcesses

#: How long, and how often, a network of the runtime is waited for.
_MOST_LOOKS: Final = 50
_LOOK_SECONDS: Final = 0.1
#: How many sandboxes of a pod are kept: the latest, and the one before it.
_KEPT: Final = 2
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
    #: Of the process that keeps the namespaces; 0 where there is none.
    pid: int = 0


class MadeSandbox(msgspec.Struct, frozen=True):
    """One that containers can be made in."""

    id: str
    spec: SandboxSpec
    config: cri.PodSandboxConfig


class Sandboxes:
    """A sandbox whose process has died, or that somebody has stopped, is lost: the next one of its pod replaces it.

    Until then, and while its successor lasts, it is kept, for its containers tell how they ended.
    """

    def __init__(self, root: Path, client: Client) -> None:
        self._root, self._client = root, client
        self._found: dict[str, tuple[str, Sandbox]] = {}  # by uid: the runtime's id, and what it is
        self._lost: dict[str, tuple[str, Sandbox]] = {}  # the same of those that are lost
        self._made: dict[str, MadeSandbox] = {}
        self._processes = FirstProcesses(self._process_gone)
        self._subscribers: list[Callable[[str], None]] = []

    def close(self) -> None:
        self._processes.close()

    def subscribe_lost(self, lost: Callable[[str], None]) -> None:
        self._subscribers.append(lost)

    async def adopt(self) -> None:
        """The latest of each pod, and what came right before that; once the machine was started all are lost."""
        self._forget_all()  # of an attempt that was cut off
        by_pod: dict[str, list[cri.PodSandbox]] = {}
        for each in await self._list():
            by_pod.setdefault(each.metadata.uid, []).append(each)
        for uid, of_pod in by_pod.items():
            of_pod.sort(key=lambda each: (each.state == cri.READY, each.metadata.attempt))
            latest = of_pod[-1]
            if latest.state == cri.READY:
                await self._keep(uid, latest.id, latest.metadata, latest.annotations.get(CGROUP, ""))
            else:
                self._lost[uid] = latest.id, _sandbox(latest, None, ())
            for each in of_pod[:-_KEPT]:
                await self._remove_if_possible(each.id)

    def _forget_all(self) -> None:
        for id_, _ in self._found.values():
            self._processes.forget(id_)
        self._found.clear()
        self._lost.clear()

    async def look(self) -> None:
        """Whether all are there still."""
        known = dict(self._found)
        ready = {each.id for each in await self._list() if each.state == cri.READY}
        for uid, (id_, _) in known.items():
            if id_ not in ready:
                self._is_lost(uid, id_)

    def all(self) -> list[Sandbox]:
        return [sandbox for _, sandbox in (*self._found.values(), *self._lost.values())]

    def has(self, uid: str) -> bool:
        """Whether the pod has one that is not lost."""
        return uid in self._found

    async def unknown(self) -> list[Sandbox]:
        """The others that there are: those that are being made, and those that came from an earlier agent's request."""
        known = self._found.keys() | self._lost.keys()
        return [_sandbox(each, None, ()) for each in await self._list() if each.metadata.uid not in known]

    def cgroup_of(self, uid: str) -> str:
        """Of a pod; of one that has no sandbox, a cgroup that is never there."""
        found = self._found.get(uid) or self._lost.get(uid)
        return found[1].cgroup if found is not None else _NO_CGROUP

    def made(self, uid: str) -> MadeSandbox:
        if (found := self._made.get(uid)) is None:
            raise RuntimeFailure(f"pod {uid} has no sandbox")
        return found

    async def create(self, spec: SandboxSpec) -> Sandbox:
        config = sandbox_config(spec, self._root)
        if (known := self._found.get(spec.uid)) is None:
            spec.logs.mkdir(parents=True, exist_ok=True)
            attempt = await self._make_room(spec.uid)
            config = msgspec.structs.replace(config, metadata=msgspec.structs.replace(config.metadata, attempt=attempt))
            known = await self._run(spec, config)
        self._made[spec.uid] = MadeSandbox(known[0], spec, config)
        return known[1]

    async def remove(self, uid: str) -> None:
        for each in await self._list():
            if each.metadata.uid == uid:
                await self._remove(each.id)
        for found in (self._found.pop(uid, None), self._lost.pop(uid, None)):
            if found is not None:
                self._processes.forget(found[0])
        self._made.pop(uid, None)

    async def remove_all(self) -> int:
        """However they came to be here: how many."""
        found = await self._list()
        for each in found:
            await self._remove(each.id)
        return len(found)

    def told_of(self, id_: str) -> None:
        """It has ended or is gone, as the runtime says: nobody else does of one without a process (CRI-O)."""
        self._process_gone(id_)

    def _process_gone(self, id_: str) -> None:
        for uid, (known, _) in list(self._found.items()):
            if known == id_:
                self._is_lost(uid, id_)

    def _is_lost(self, uid: str, id_: str) -> None:
        if uid not in self._found or self._found[uid][0] != id_:
            return
        self._processes.forget(id_)
        self._lost[uid] = self._found.pop(uid)
        self._made.pop(uid, None)
        for lost in self._subscribers:
            lost(uid)

    async def _make_room(self, uid: str) -> int:
        """Stop the one that is lost, whose network goes with that, and remove the others; the next number of one.

        What an attempt that was cut off has left of the pod stands in the way.
        """
        kept, attempt = self._lost.get(uid, ("", None))[0], 0
        for each in await self._list():
            if each.metadata.uid != uid:
                continue
            attempt = max(attempt, each.metadata.attempt + 1)
            if each.id == kept:
                await self._client.call(cri.STOP_SANDBOX, cri.PodSandboxId(pod_sandbox_id=each.id))
            else:
                await self._remove(each.id)
        return attempt

    async def _run(self, spec: SandboxSpec, config: cri.PodSandboxConfig) -> tuple[str, Sandbox]:
        if not spec.host_network:
            await self._network_ready()
        asked = cri.RunPodSandboxRequest(config=config, runtime_handler=spec.handler)
        id_ = (await self._client.call(cri.RUN_SANDBOX, asked)).pod_sandbox_id
        return await self._keep(spec.uid, id_, config.metadata, spec.cgroup)

    async def _keep(self, uid: str, id_: str, meta: cri.PodSandboxMetadata, cgroup: str) -> tuple[str, Sandbox]:
        """Know it from now on, and notice when it is lost."""
        pid, netns, addresses = await self._told_of(id_)
        known = self._found[uid] = id_, Sandbox(uid, meta.namespace, meta.name, cgroup, netns, addresses)
        self._lost.pop(uid, None)
        self._processes.watch(id_, pid)
        return known

    async def _network_ready(self) -> None:
        """A network that has just come is a moment later one of the runtime's; a failure would cost ten seconds."""
        for _ in range(_MOST_LOOKS):
            status = (await self._client.call(cri.STATUS, cri.StatusRequest())).status
            if not any(each.type == "NetworkReady" and not each.status for each in status.conditions):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _told_of(self, id_: str) -> tuple[int, Path | None, tuple[str, ...]]:
        """Its process, the namespace of its network, if that is not the machine's, and the addresses in it."""
        asked = cri.PodSandboxStatusRequest(pod_sandbox_id=id_, verbose=True)
        answer = await self._client.call(cri.SANDBOX_STATUS, asked)
        network = answer.status.network
        addresses = [network.ip, *(each.ip for each in network.additional_ips)]
        try:
            info = msgspec.json.decode(answer.info.get("info", "{}"), type=_Info)
        except msgspec.DecodeError as error:
            raise RuntimeFailure(f"what the runtime tells of sandbox {id_} cannot be read: {error}") from None
        paths = [each.path for each in info.runtime_spec.linux.namespaces if each.type == "network"]
        is_own = answer.status.linux.namespaces.options.network == cri.POD  # CRI-O has a path of the machine's, too
        netns = Path(paths[0]) if is_own and paths and paths[0] else None
        own = tuple(address for address in addresses if address) if netns is not None else ()
        return info.pid, netns, own

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
        """With all of its containers, whatever state they are in: CRI-O would wait for one that runs."""
        inside = cri.ListContainersRequest(filter=cri.ContainerFilter(pod_sandbox_id=id_))
        try:
            for each in (await self._client.call(cri.LIST, inside)).containers:
                if each.state == cri.RUNNING:
                    with suppress(CallFailed):  # of one whose process containerd has lost; with its sandbox it ends
                        await self._client.call(cri.STOP, cri.StopContainerRequest(container_id=each.id))
            await self._client.call(cri.STOP_SANDBOX, cri.PodSandboxId(pod_sandbox_id=id_))
            await self._client.call(cri.REMOVE_SANDBOX, cri.PodSandboxId(pod_sandbox_id=id_))
        except CallFailed as failure:
            if failure.status is not Status.NOT_FOUND:
                raise


def _sandbox(found: cri.PodSandbox, netns: Path | None, addresses: tuple[str, ...]) -> Sandbox:
    meta = found.metadata
    return Sandbox(meta.uid, meta.namespace, meta.name, found.annotations.get(CGROUP, ""), netns, addresses)
