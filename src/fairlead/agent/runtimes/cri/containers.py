"""What a runtime behind CRI has of our containers, as it was last seen, and how we come to see it.

the kernel says that a process has gone ─┐
the runtime tells of an end ─────────────┼▶ one container is looked at until it has ended ─▶ subscribers
every few seconds, or each minute ───────┘
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from grpclib.const import Status
from msgspec.structs import replace

from fairlead.agent import linux
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.usage import oom_kills
from fairlead.agent.grpc.client import CallFailed, Client
from fairlead.agent.runtimes.base import ContainerStatus, RuntimeFailure, State
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.specs import ROOT_LABEL, RUN, STATES, status_of
from fairlead.agent.runtimes.first_processes import FirstProcesses

_SIGKILLED: Final = 128 + signal.SIGKILL
#: The runtime hears of an end after the kernel has told us, and of an OOM kill after that.
_NEWS_SECONDS: Final = 0.02
_MOST_LOOKS: Final = 500
_LATE_SECONDS: Final = 0.2
#: A folder that is never there.
_NOWHERE: Final = Path("/proc/nowhere")


class Containers:
    """Those of the agent of a folder; of a pod, by its uid, `pod_cgroup` has the cgroup."""

    def __init__(self, root: Path, client: Client, cgroups: Cgroups, pod_cgroup: Callable[[str], str]) -> None:
        self._root, self._client, self._cgroups, self._pod_cgroup = root, client, cgroups, pod_cgroup
        self._containers: dict[str, ContainerStatus] = {}
        self._runs: dict[str, str] = {}  # by container: the agent's own name of it
        self._layers: dict[str, Path] = {}  # by container: where it writes
        self._killed: set[str] = set()  # by us
        self._oom_killed: set[str] = set()  # as their cgroups said
        self._processes = FirstProcesses(self._process_gone)
        self._looking: dict[str, asyncio.Task[None]] = {}  # by container
        self._subscribers: list[Callable[[ContainerStatus], None]] = []

    def close(self) -> None:
        for task in self._looking.values():
            task.cancel()
        self._processes.close()

    def subscribe(self, changed: Callable[[ContainerStatus], None]) -> None:
        self._subscribers.append(changed)

    def all(self) -> list[ContainerStatus]:
        return list(self._containers.values())

    def get(self, id_: str) -> ContainerStatus | None:
        return self._containers.get(id_)

    def known(self, id_: str) -> ContainerStatus:
        if (status := self._containers.get(id_)) is None:
            raise RuntimeFailure(f"there is no container {id_}")
        return status

    def run_of(self, id_: str) -> str:
        """The agent's own name of one that is known."""
        return self._runs[id_]

    def layer(self, id_: str) -> Path:
        """Where it writes; a folder that is never there if nobody knows."""
        return self._layers.get(id_, _NOWHERE)

    def is_alive(self, status: ContainerStatus) -> bool:
        """Whether that process is the container's still: its number may be somebody else's by now."""
        return status.pid in self._cgroups.processes(self._cgroup_of(status))

    def killed(self, id_: str) -> None:
        """We are about to: whatever the kernel counts, it is not short of memory."""
        self._killed.add(id_)

    async def look(self) -> None:
        """At all there is of ours."""
        own = cri.ContainerFilter(labels={ROOT_LABEL: str(self._root)})
        found = (await self._client.call(cri.LIST, cri.ListContainersRequest(filter=own))).containers
        for id_ in self._containers.keys() - {each.id for each in found}:
            self.forget(id_)
        for each in found:
            known = self._containers.get(each.id)
            if known is None or known.state is not STATES.get(each.state, State.EXITED):
                await self.look_at(each.id)

    async def look_at(self, id_: str) -> ContainerStatus | None:
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
            self.forget(id_)
            return None
        if answer.status.id != id_:
            raise RuntimeFailure(f"asked for container {id_}, the runtime tells of {answer.status.id or 'none'}")
        known, status = self._containers.get(id_), status_of(answer)
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

    def told_of(self, id_: str) -> None:
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
                status = await self.look_at(id_)
                if status is None or status.state is State.EXITED:
                    return
                await asyncio.sleep(_NEWS_SECONDS)

    def forget(self, id_: str) -> None:
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

    def _cgroup_of(self, status: ContainerStatus) -> str:
        return f"{self._pod_cgroup(status.pod_uid)}/{status.cgroup_name}"


def _may_be_oom_killed(status: cri.ContainerStatus) -> bool:
    """The runtime may hear of the reason after it has heard of the end."""
    return status.state == cri.EXITED and status.exit_code == _SIGKILLED and not status.reason.startswith("OOM")


def _upper_folder(pid: int) -> Path:
    """Where a container writes, if that is an overlay: as the kernel tells of its root."""
    try:
        lines = linux.mountinfo(pid)
    except OSError:
        return _NOWHERE
    for line in lines:
        before, _, after = line.partition(" - ")
        if before.split(" ")[4] == "/" and after.startswith("overlay "):
            options = dict(option.partition("=")[::2] for option in after.rpartition(" ")[2].split(","))
            return Path(linux.unescaped(options.get("upperdir", str(_NOWHERE))))
    return _NOWHERE
