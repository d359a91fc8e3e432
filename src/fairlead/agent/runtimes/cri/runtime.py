"""`Runtime` by a container runtime behind CRI.

The runtime knows what there is, also after we were away; we look at it (containers.py, sandboxes.py) when something is
said to have happened, and at all of it every few seconds, or each minute if the runtime itself tells. Cgroups of pods,
and what is measured there, are ours: a runtime makes those of containers.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from grpclib.const import Status

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.grpc.client import CallFailed, Client
from fairlead.agent.grpc.methods import Asked, Method, Nothing
from fairlead.agent.kubelet_api.pod_streams import ProcessStreams
from fairlead.agent.runtimes.base import (
    CannotStart,
    ContainerSpec,
    ContainerStatus,
    Executed,
    HandlerFeatures,
    RuntimeFailure,
    Sandbox,
    SandboxSpec,
    State,
)
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.containers import Containers
from fairlead.agent.runtimes.cri.events import ContainerEvents
from fairlead.agent.runtimes.cri.images import CriImages
from fairlead.agent.runtimes.cri.reset import remember
from fairlead.agent.runtimes.cri.sandboxes import Sandboxes
from fairlead.agent.runtimes.cri.specs import container_config, handler_features, resources
from fairlead.agent.runtimes.cri.streams import RemoteStreams, open_streams
from fairlead.agent.trees import remove_tree
from fairlead.node.cgroups.containers import ContainerValues
from fairlead.runtime.clock import monotonic
from fairlead.runtime.streaming.remote_command import Wanted

#: What containers leave as their last words, below the agent's folder.
LAST_WORDS: Final = "last-words"
#: How often we look at all there is, and how often if the runtime tells us.
LOOK_SECONDS: Final = 5.0
TOLD_LOOK_SECONDS: Final = 60.0
_CONDITIONS: Final = {"RuntimeReady": "container runtime", "NetworkReady": "container runtime network"}
_SYSTEMD: Final = (
    "its cgroup driver is systemd, and pods have cgroups of cgroupfs here: SystemdCgroup = false in the configuration "
    'of containerd, cgroup_manager = "cgroupfs" and conmon_cgroup = "pod" in that of CRI-O'
)
#: A command's own time, and what the runtime may take besides.
_COMMAND_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class CriRuntime:
    """Its methods are for one event loop."""

    def __init__(
        self, root: Path, client: Client, images: CriImages, cgroups: Cgroups, least_oom_score_adj: int
    ) -> None:
        self._client, self._images = client, images
        self._root, self._least_oom_score_adj = root, least_oom_score_adj
        self._sandboxes = Sandboxes(root, client)
        self._containers = Containers(root, client, cgroups, self._sandboxes.cgroup_of)
        self._events = ContainerEvents(client, self._told_of)
        self.name = self.version = self.problem = ""
        self.has_strict_groups, self.has_users = False, True
        self.handlers: Mapping[str, HandlerFeatures] = {}
        self.limits: Sequence[str] = ()

    async def adopt(self) -> None:
        await self._ask_what_it_is()
        remember(self._root, self._client)
        await self._sandboxes.adopt()
        await self._containers.look()
        await self._images.look()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run(), name="events of the runtime")
            group.create_task(self._look_now_and_then(), name="looks at the runtime")

    async def _look_now_and_then(self) -> None:
        """A runtime may be restarted at any time, and be a newer one then."""
        looked_at = monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before = self.problem
            try:
                is_told = self._events.are_told and not self._events.may_have_missed
                if not is_told or monotonic() - looked_at >= TOLD_LOOK_SECONDS:
                    self._events.may_have_missed, looked_at = False, monotonic()  # what ends from now on is told
                    await self._containers.look()
                    await self._sandboxes.look()
                await self._images.look()
                self.problem = await self._ask_what_it_is()
            except RuntimeFailure as failure:
                self.problem = f"container runtime is down: {failure}"
            if self.problem and not before:
                log.warning("%s", self.problem)

    async def _ask_what_it_is(self) -> str:
        """And what it can do; why it can do nothing, if that is so."""
        found = await self._client.call(cri.VERSION, cri.VersionRequest())
        self.name, self.version = found.runtime_name, found.runtime_version
        status = await self._client.call(cri.STATUS, cri.StatusRequest())
        self.has_strict_groups = status.features.supplemental_groups_policy
        self.handlers = {each.name: handler_features(each) for each in status.runtime_handlers}
        if await self._has_slices():
            raise RuntimeFailure(_SYSTEMD)
        return _problem(status.status)

    async def _has_slices(self) -> bool:
        """Whether cgroups are systemd's for it; one that cannot be asked (containerd 1) is believed to be as we are."""
        try:
            linux = (await self._client.call(cri.RUNTIME_CONFIG, Nothing())).linux
        except CallFailed as failure:
            if failure.status is not Status.UNIMPLEMENTED:
                raise
            return False
        return linux is not None and linux.cgroup_driver == cri.SYSTEMD

    def close(self) -> None:
        self._containers.close()
        self._sandboxes.close()
        self._client.close()

    def subscribe(self, changed: Callable[[ContainerStatus], None]) -> None:
        self._containers.subscribe(changed)

    def subscribe_lost(self, lost: Callable[[str], None]) -> None:
        self._sandboxes.subscribe_lost(lost)

    def _told_of(self, id_: str) -> None:
        self._containers.told_of(id_)
        self._sandboxes.told_of(id_)

    # -- sandboxes

    def has_sandbox(self, uid: str) -> bool:
        return self._sandboxes.has(uid)

    def sandboxes(self) -> Sequence[Sandbox]:
        return self._sandboxes.all()

    async def all_sandboxes(self) -> Sequence[Sandbox]:
        return [*self._sandboxes.all(), *await self._sandboxes.unknown()]

    async def create_sandbox(self, spec: SandboxSpec) -> Sandbox:
        return await self._sandboxes.create(spec)

    async def remove_sandbox(self, uid: str) -> None:
        own = [status for status in self._containers.all() if status.pod_uid == uid]
        await self._sandboxes.remove(uid)
        for status in own:
            self._containers.forget(status.id)
        await asyncio.to_thread(remove_tree, self._folder(uid), ignore_errors=True)

    # -- containers

    def containers(self) -> Sequence[ContainerStatus]:
        return self._containers.all()

    def status(self, id_: str) -> ContainerStatus | None:
        return self._containers.get(id_)

    async def create(self, spec: ContainerSpec) -> str:
        sandbox = self._sandboxes.made(spec.pod_uid)
        last_words = self._folder(spec.pod_uid) / spec.id
        await asyncio.to_thread(_make_file, last_words)
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        config = container_config(spec, sandbox.spec, self._root, last_words, self._least_oom_score_adj)
        asked = cri.CreateContainerRequest(pod_sandbox_id=sandbox.id, config=config, sandbox_config=sandbox.config)
        try:
            id_ = (await self._client.call(cri.CREATE, asked)).container_id
        except RuntimeFailure:
            with suppress(RuntimeFailure):  # an attempt that was thought lost may have come through
                await self._containers.look()
            raise
        await self._containers.look_at(id_)
        return id_

    async def start(self, id_: str) -> None:
        if self._containers.known(id_).state is not State.CREATED:
            return
        try:
            await self._client.call(cri.START, cri.ContainerId(container_id=id_))
        except CallFailed as failure:
            await self._containers.look_at(id_)
            if self._containers.known(id_).state is State.EXITED:
                raise CannotStart(failure.message) from None
            raise
        await self._containers.look_at(id_)

    async def signal(self, id_: str, number: int) -> None:
        status = self._containers.known(id_)
        if status.state is State.EXITED:
            return
        if number == signal.SIGKILL:
            self._containers.killed(id_)
            await self._client.call(cri.STOP, cri.StopContainerRequest(container_id=id_))
        elif await asyncio.to_thread(self._containers.is_alive, status):
            with suppress(ProcessLookupError):
                os.kill(status.pid, number)

    async def remove(self, id_: str) -> None:
        if (status := self._containers.get(id_)) is None:
            return
        last_words = self._folder(status.pod_uid) / self._containers.run_of(
            id_
        )  # a look may find it gone meanwhile, and forget it
        try:
            await self._client.call(cri.STOP, cri.StopContainerRequest(container_id=id_))
            await self._client.call(cri.REMOVE, cri.ContainerId(container_id=id_))
        except CallFailed as failure:
            if failure.status is not Status.NOT_FOUND:
                raise
        last_words.unlink(missing_ok=True)
        self._containers.forget(id_)

    async def update(self, id_: str, values: ContainerValues) -> None:
        await self._change(id_, resources(values, self._least_oom_score_adj))

    async def run_on(self, id_: str, cpus: str) -> None:
        await self._change(id_, cri.LinuxContainerResources(cpuset_cpus=cpus))

    async def _change(self, id_: str, linux: cri.LinuxContainerResources) -> None:
        await self._client.call(cri.UPDATE, cri.UpdateContainerResourcesRequest(container_id=id_, linux=linux))

    # -- in a container

    async def run_in(self, id_: str, argv: Sequence[str], seconds: float) -> Executed:
        """Its outputs come one after the other."""
        asked = cri.ExecSyncRequest(container_id=id_, cmd=list(argv), timeout=max(math.ceil(seconds), 1))
        try:
            async with asyncio.timeout(seconds):
                done = await self._client.call(cri.EXEC_SYNC, asked, seconds + _COMMAND_SECONDS)
        except CallFailed as failure:
            if failure.status is Status.DEADLINE_EXCEEDED:
                raise TimeoutError from None
            raise
        return Executed(done.exit_code, done.stdout + done.stderr)

    async def exec(self, id_: str, argv: Sequence[str], wanted: Wanted) -> ProcessStreams:
        asked = cri.ExecRequest(
            container_id=id_,
            cmd=list(argv),
            tty=wanted.is_terminal,
            stdin=wanted.stdin,
            stdout=wanted.stdout,
            stderr=wanted.stderr,
        )
        return await self._streams(cri.EXEC, asked, wanted)

    async def attach(self, id_: str, wanted: Wanted) -> ProcessStreams:
        has_tty = self._containers.known(id_).has_tty
        asked = cri.AttachRequest(
            container_id=id_,
            tty=has_tty,
            stdin=wanted.stdin,
            stdout=wanted.stdout,
            stderr=wanted.stderr and not has_tty,
        )
        return await self._streams(cri.ATTACH, asked, wanted)

    async def reopen_log(self, id_: str) -> None:
        try:
            await self._client.call(cri.REOPEN_LOG, cri.ContainerId(container_id=id_))
        except RuntimeFailure as failure:
            raise OSError(str(failure)) from None

    def writable_layer(self, id_: str) -> Path:
        return self._containers.layer(id_)

    def last_words(self, id_: str, limit: int) -> bytes:
        status = self._containers.known(id_)
        try:
            with (self._folder(status.pod_uid) / self._containers.run_of(id_)).open("rb") as opened:
                size = opened.seek(0, os.SEEK_END)
                opened.seek(max(size - limit, 0))
                return opened.read(limit)
        except FileNotFoundError:
            return b""

    def _folder(self, uid: str) -> Path:
        """What the containers of a pod leave as their last words."""
        return self._root / LAST_WORDS / uid

    async def _streams(self, method: Method[Asked, cri.StreamingUrl], asked: Asked, wanted: Wanted) -> RemoteStreams:
        try:
            url = (await self._client.call(method, asked)).url
        except RuntimeFailure as failure:
            raise OSError(str(failure)) from None
        return await open_streams(url, wanted)


def _problem(status: cri.RuntimeStatus) -> str:
    """What a kubelet says of the first condition that is not met."""
    for each in status.conditions:
        if (subject := _CONDITIONS.get(each.type)) is not None and not each.status:
            return f"{subject} not ready: {each.type}=false reason:{each.reason} message:{each.message}"
    return ""


def _make_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o666)
    path.chmod(0o666)  # whoever the container runs as
