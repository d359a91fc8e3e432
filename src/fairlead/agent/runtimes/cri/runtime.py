"""`Runtime` by a container runtime behind CRI.

The runtime knows what there is, also after we were away; we look at it when something is said to have happened, and at
all of it every few seconds, or each minute if the runtime itself tells. Cgroups of pods, and what is measured there,
are ours: a runtime makes those of containers.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
from grpclib.const import Status

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.usage import oom_kills
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
from fairlead.agent.runtimes.cri.client import Asked, CallFailed, Client
from fairlead.agent.runtimes.cri.events import ContainerEvents
from fairlead.agent.runtimes.cri.images import CriImages
from fairlead.agent.runtimes.cri.reset import remember
from fairlead.agent.runtimes.cri.sandboxes import Sandboxes
from fairlead.agent.runtimes.cri.specs import (
    ROOT_LABEL,
    RUN,
    STATES,
    container_config,
    handler_features,
    resources,
    status_of,
)
from fairlead.agent.runtimes.cri.streams import RemoteStreams, open_streams
from fairlead.agent.runtimes.first_processes import FirstProcesses
from fairlead.agent.trees import remove_tree
from fairlead.node.cgroups.containers import ContainerValues
from fairlead.runtime.clock import monotonic
from fairlead.runtime.streaming.remote_command import Wanted

#: What containers leave as their last words, below the agent's folder.
LAST_WORDS: Final = "last-words"
#: How often we look at all there is, and how often if the runtime tells us.
LOOK_SECONDS: Final = 5.0
TOLD_LOOK_SECONDS: Final = 60.0
_SIGKILLED: Final = 128 + signal.SIGKILL
#: The runtime hears of an end after the kernel has told us, and of an OOM kill after that.
_NEWS_SECONDS: Final = 0.02
_MOST_LOOKS: Final = 500
_LATE_SECONDS: Final = 0.2
#: A folder that is never there.
_NOWHERE: Final = Path("/proc/nowhere")
_CONDITIONS: Final = {"RuntimeReady": "container runtime", "NetworkReady": "container runtime network"}
#: A command's own time, and what the runtime may take besides.
_COMMAND_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class _Info(msgspec.Struct):
    pid: int = 0


class CriRuntime:
    """Its methods are for one event loop."""

    def __init__(
        self, root: Path, client: Client, images: CriImages, cgroups: Cgroups, least_oom_score_adj: int
    ) -> None:
        self._client, self._images, self._cgroups = client, images, cgroups
        self._root, self._least_oom_score_adj = root, least_oom_score_adj
        self._sandboxes = Sandboxes(root, client)
        self._containers: dict[str, ContainerStatus] = {}
        self._runs: dict[str, str] = {}  # by container: the agent's own name of it
        self._layers: dict[str, Path] = {}  # by container: where it writes
        self._killed: set[str] = set()  # by us
        self._oom_killed: set[str] = set()  # as their cgroups said
        self._processes = FirstProcesses(self._process_gone)
        self._events = ContainerEvents(client, self._told_of)
        self._looking: dict[str, asyncio.Task[None]] = {}  # by container
        self._subscribers: list[Callable[[ContainerStatus], None]] = []
        self.name = self.version = self.problem = ""
        self.has_strict_groups, self.has_users = False, True
        self.handlers: Mapping[str, HandlerFeatures] = {}
        self.limits: Sequence[str] = ()

    async def adopt(self) -> None:
        await self._ask_what_it_is()
        remember(self._root, self._client)
        await self._sandboxes.adopt()
        await self._look()
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
                    await self._look()
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
        return _problem(status.status)

    def close(self) -> None:
        for task in self._looking.values():
            task.cancel()
        self._processes.close()
        self._sandboxes.close()
        self._client.close()

    def subscribe(self, changed: Callable[[ContainerStatus], None]) -> None:
        self._subscribers.append(changed)

    def subscribe_lost(self, lost: Callable[[str], None]) -> None:
        self._sandboxes.subscribe_lost(lost)

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
        own = [status for status in self._containers.values() if status.pod_uid == uid]
        await self._sandboxes.remove(uid)
        for status in own:
            self._forget(status.id)
        await asyncio.to_thread(remove_tree, self._folder(uid), ignore_errors=True)

    # -- containers

    def containers(self) -> Sequence[ContainerStatus]:
        return list(self._containers.values())

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
                await self._look()
            raise
        await self._look_at(id_)
        return id_

    async def start(self, id_: str) -> None:
        if self._known(id_).state is not State.CREATED:
            return
        try:
            await self._client.call(cri.START, cri.ContainerId(container_id=id_))
        except CallFailed as failure:
            await self._look_at(id_)
            if self._known(id_).state is State.EXITED:
                raise CannotStart(failure.message) from None
            raise
        await self._look_at(id_)

    async def signal(self, id_: str, number: int) -> None:
        status = self._known(id_)
        if status.state is State.EXITED:
            return
        if number == signal.SIGKILL:
            self._killed.add(id_)
            await self._client.call(cri.STOP, cri.StopContainerRequest(container_id=id_))
        elif await asyncio.to_thread(self._is_alive, status):
            with suppress(ProcessLookupError):
                os.kill(status.pid, number)

    async def remove(self, id_: str) -> None:
        if (status := self._containers.get(id_)) is None:
            return
        last_words = self._folder(status.pod_uid) / self._runs[id_]  # a look may find it gone meanwhile, and forget it
        try:
            await self._client.call(cri.STOP, cri.StopContainerRequest(container_id=id_))
            await self._client.call(cri.REMOVE, cri.ContainerId(container_id=id_))
        except CallFailed as failure:
            if failure.status is not Status.NOT_FOUND:
                raise
        last_words.unlink(missing_ok=True)
        self._forget(id_)

    async def update(self, id_: str, values: ContainerValues) -> None:
        linux = resources(values, self._least_oom_score_adj)
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
        has_tty = self._known(id_).has_tty
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
        return self._layers.get(id_, _NOWHERE)

    def last_words(self, id_: str, limit: int) -> bytes:
        status = self._containers[id_]
        try:
            with (self._folder(status.pod_uid) / self._runs[id_]).open("rb") as opened:
                size = opened.seek(0, os.SEEK_END)
                opened.seek(max(size - limit, 0))
                return opened.read(limit)
        except FileNotFoundError:
            return b""

    # -- what is there

    async def _look(self) -> None:
        """At all there is of ours."""
        own = cri.ContainerFilter(labels={ROOT_LABEL: str(self._root)})
        found = (await self._client.call(cri.LIST, cri.ListContainersRequest(filter=own))).containers
        for id_ in self._containers.keys() - {each.id for each in found}:
            self._forget(id_)
        for each in found:
            known = self._containers.get(each.id)
            if known is None or known.state is not STATES.get(each.state, State.EXITED):
                await self._look_at(each.id)

    async def _look_at(self, id_: str) -> ContainerStatus | None:
        """At one container, None if it is gone. Whoever subscribed hears that it has ended."""
        asked = cri.ContainerStatusRequest(container_id=id_, verbose=True)
        try:
            answer = await self._client.call(cri.CONTAINER_STATUS, asked)
            if _may_be_oom_killed(answer.status) and self._nobody_knows_why(id_):
                await asyncio.sleep(_LATE_SECONDS)
                answer = await self._client.call(cri.CONTAINER_STATUS, asked)
        except CallFailed as failure:
            if failure.status is not Status.NOT_FOUND:
                raise
            self._forget(id_)
            return None
        if answer.status.id != id_:
            raise RuntimeFailure(f"asked for container {id_}, the runtime tells of {answer.status.id or 'none'}")
        known, status = self._containers.get(id_), status_of(answer, _pid(answer))
        if _may_be_oom_killed(answer.status) and id_ in self._oom_killed:
            status = replace(status, is_oom_killed=True)
        if known is not None and known.state is State.EXITED:
            return known
        if status.state is State.RUNNING and id_ not in self._layers:
            self._layers[id_] = await asyncio.to_thread(_upper_folder, status.pid)
        self._containers[id_] = status
        self._runs[id_] = answer.status.annotations.get(RUN, "")
        if status.state is State.RUNNING:
            self._processes.watch(id_, status.pid)
        elif status.state is State.EXITED:
            self._processes.forget(id_)
            if known is not None:
                for changed in self._subscribers:
                    changed(status)
        return status

    def _told_of(self, id_: str) -> None:
        """It has ended or is gone, as the runtime says; there are containers of others, and of sandboxes."""
        if id_ in self._containers and not self._has_ended(id_):
            self._process_gone(id_)

    def _process_gone(self, id_: str) -> None:
        """The cgroup is there for a moment yet, and a runtime that is busy may never hear why the process went.

        One look is enough, however often it is told and whatever the runtime says of it meanwhile.
        """
        if id_ in self._looking:
            return
        status = self._containers.get(id_)
        if status is not None and id_ not in self._killed and oom_kills(self._cgroups, self._cgroup_of(status)):
            self._oom_killed.add(id_)
        task = asyncio.get_running_loop().create_task(self._look_until_ended(id_))
        self._looking[id_] = task
        task.add_done_callback(lambda _: self._looking.pop(id_, None))

    async def _look_until_ended(self, id_: str) -> None:
        """The runtime hears of it a moment after us; while it is away itself, `run` looks later."""
        with suppress(RuntimeFailure):
            for _ in range(_MOST_LOOKS):
                status = await self._look_at(id_)
                if status is None or status.state is State.EXITED:
                    return
                await asyncio.sleep(_NEWS_SECONDS)

    def _forget(self, id_: str) -> None:
        self._processes.forget(id_)
        self._containers.pop(id_, None)
        self._runs.pop(id_, None)
        self._layers.pop(id_, None)
        self._killed.discard(id_)
        self._oom_killed.discard(id_)

    def _has_ended(self, id_: str) -> bool:
        known = self._containers.get(id_)
        return known is None or known.state is State.EXITED

    def _nobody_knows_why(self, id_: str) -> bool:
        return id_ not in self._killed and id_ not in self._oom_killed and not self._has_ended(id_)

    def _is_alive(self, status: ContainerStatus) -> bool:
        """Whether that process is the container's still: its number may be somebody else's by now."""
        return status.pid in self._cgroups.processes(self._cgroup_of(status))

    def _cgroup_of(self, status: ContainerStatus) -> str:
        return f"{self._sandboxes.cgroup_of(status.pod_uid)}/{status.id}"

    def _known(self, id_: str) -> ContainerStatus:
        if (status := self._containers.get(id_)) is None:
            raise RuntimeFailure(f"there is no container {id_}")
        return status

    def _folder(self, uid: str) -> Path:
        """What the containers of a pod leave as their last words."""
        return self._root / LAST_WORDS / uid

    async def _streams(
        self, method: cri.Method[Asked, cri.StreamingUrl], asked: Asked, wanted: Wanted
    ) -> RemoteStreams:
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


def _may_be_oom_killed(status: cri.ContainerStatus) -> bool:
    """The runtime may hear of the reason after it has heard of the end."""
    return status.state == cri.EXITED and status.exit_code == _SIGKILLED and not status.reason.startswith("OOM")


def _pid(answer: cri.ContainerStatusResponse) -> int:
    try:
        return msgspec.json.decode(answer.info.get("info", "{}"), type=_Info).pid
    except msgspec.DecodeError:
        return 0


def _upper_folder(pid: int) -> Path:
    """Where a container writes, if that is an overlay: as the kernel tells of its root."""
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    except OSError:
        return _NOWHERE
    for line in lines:
        before, _, after = line.partition(" - ")
        if before.split()[4] == "/" and after.startswith("overlay "):
            options = dict(option.partition("=")[::2] for option in after.split()[-1].split(","))
            return Path(options.get("upperdir", _NOWHERE))
    return _NOWHERE


def _make_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o666)
    path.chmod(0o666)  # whoever the container runs as
