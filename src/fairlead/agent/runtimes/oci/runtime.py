"""`Runtime` without a daemon: sandboxes are pinned namespaces, containers are bundles with a keeper, made by a `Maker`.

It knows its containers from the disk, so it may be stopped and started at any time: `adopt` finds what runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from fairlead.agent import conmon_control, conmon_streams, linux, processes
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
from fairlead.agent.runtimes.finishing import to_its_end
from fairlead.agent.runtimes.first_processes import FirstProcesses
from fairlead.agent.runtimes.oci import records, user_namespace
from fairlead.agent.runtimes.oci.commands import run_in
from fairlead.agent.runtimes.oci.config import runs_as
from fairlead.agent.runtimes.oci.layout import ContainerFiles, Layout, SandboxFiles
from fairlead.agent.runtimes.oci.maker import Maker
from fairlead.agent.runtimes.oci.records import ContainerRecord, keep, keeper_of, recall
from fairlead.agent.runtimes.oci.sandboxes import Sandboxes
from fairlead.agent.runtimes.oci.shared_processes import NAMESPACE
from fairlead.agent.trees import remove_tree
from fairlead.node.cgroups.containers import ContainerValues
from fairlead.node.cgroups.tree import CPUSET, container_files
from fairlead.node.containers import SIGKILLED
from fairlead.runtime.clock import now
from fairlead.runtime.streaming.remote_command import Wanted

#: In the agent's folder, if that is a mount that we have made.
OWN_MOUNT: Final = "own-mount"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: Of cgroup v1, where the kernel counts swap.
_MEMORY_AND_SWAP: Final = "memory.memsw.limit_in_bytes"


class OciRuntime:
    """Its methods are for one event loop; what waits for the kernel is done in threads."""

    problem = ""

    def __init__(
        self,
        root: Path,
        maker: Maker,
        cgroups: Cgroups,
        least_oom_score_adj: int,
        makers: Mapping[str, Maker] = MappingProxyType({}),
    ) -> None:
        """`maker` is the one of pods that ask for none; those of `makers` have handlers by which they are asked for."""
        self._layout, self._maker, self._makers, self._cgroups = Layout(root), maker, makers, cgroups
        self._least_oom_score_adj = least_oom_score_adj
        self.name = maker.name
        self.has_strict_groups = self.has_users = not maker.has_one_user
        self._sandboxes = Sandboxes(self._layout, maker, makers.keys(), least_oom_score_adj)
        self._containers: dict[str, ContainerStatus] = {}
        self._begun: dict[str, str] = {}  # by container that may have left something: the pod
        self._keepers = FirstProcesses(self._ended)  # by container
        self._subscribers: list[Callable[[ContainerStatus], None]] = []
        self._waiting: dict[str, list[asyncio.Event]] = {}  # by container: who waits for its end
        self.version = ""

    async def adopt(self) -> None:
        """Remnants of what was never finished are removed."""
        self.version = await self._maker.version()
        await asyncio.to_thread(self._prepare)
        await self._sandboxes.adopt()
        for folder in sorted(self._layout.containers.iterdir()):
            record = recall(ContainerFiles(folder).record, ContainerRecord)
            if record is None or record.pod_uid not in self._sandboxes.found:
                await self._discard(folder.name)
            else:
                await self._take_up(record, ContainerFiles(folder))
        await self._sandboxes.remove_unknown()

    async def run(self) -> None:
        """Keepers tell all there is to notice; what the maker has to look after is its own."""
        await self._maker.run()

    @property
    def limits(self) -> Sequence[str]:
        return self._maker.limits

    @property
    def handlers(self) -> Mapping[str, HandlerFeatures]:
        return {"": self._maker.features, **{name: maker.features for name, maker in self._makers.items()}}

    def close(self) -> None:
        """Stop watching; containers run on."""
        self._keepers.close()
        self._sandboxes.close()

    def subscribe(self, changed: Callable[[ContainerStatus], None]) -> None:
        self._subscribers.append(changed)

    def subscribe_lost(self, lost: Callable[[str], None]) -> None:
        self._sandboxes.subscribe_lost(lost)

    # -- sandboxes

    def sandboxes(self) -> Sequence[Sandbox]:
        return self._sandboxes.all()

    def has_sandbox(self, uid: str) -> bool:
        return self._sandboxes.has(uid)

    async def all_sandboxes(self) -> Sequence[Sandbox]:
        """All are made by this process, or were found by it at its start."""
        return self.sandboxes()

    async def create_sandbox(self, spec: SandboxSpec) -> Sandbox:
        return await self._sandboxes.create(spec)

    async def remove_sandbox(self, uid: str) -> None:
        for status in self.containers():
            if status.pod_uid == uid:
                await self.remove(status.id)
        for id_ in [id_ for id_, pod_uid in self._begun.items() if pod_uid == uid]:
            await self._discard(id_)
        await self._sandboxes.remove(uid)

    # -- containers

    def containers(self) -> Sequence[ContainerStatus]:
        return list(self._containers.values())

    def status(self, id_: str) -> ContainerStatus | None:
        return self._containers.get(id_)

    async def create(self, spec: ContainerSpec) -> str:
        return spec.id if spec.id in self._containers else await to_its_end(self._made(spec))

    async def _made(self, spec: ContainerSpec) -> str:
        sandbox = self._sandboxes.found[spec.pod_uid]
        files, sandbox_files = self._layout.container(spec.id), self._layout.sandbox(spec.pod_uid)
        await self._discard(spec.id)  # of an attempt that came to nothing
        self._sandboxes.check(spec.pod_uid)
        self._begun[spec.id] = spec.pod_uid
        cgroup = f"{sandbox.cgroup}/{spec.id}"
        async with self._of_users(spec, sandbox, sandbox_files) as spec:
            return await self._create(spec, files, sandbox_files, cgroup)

    async def _create(
        self, spec: ContainerSpec, files: ContainerFiles, sandbox_files: SandboxFiles, cgroup: str
    ) -> str:
        with self._processes(spec, sandbox_files) as processes:
            await asyncio.to_thread(self._write_bundle, spec, files, sandbox_files, cgroup, processes)
            who = await asyncio.to_thread(runs_as, spec) if self.has_users else None
            record = ContainerRecord.of(spec, now(), who, shares_processes=spec.host_pid or processes is not None)
            try:
                pid = await self._maker_of(spec.pod_uid).create(spec, files)
            except CannotStart as error:
                record = msgspec.structs.replace(record, start_error=str(error))
                keep(files.record, record)
                self._containers[spec.id] = self._status(record, files, State.EXITED)
                raise
            except BaseException:
                await self._discard(spec.id)
                raise
        record = msgspec.structs.replace(record, pid=pid)
        keep(files.record, record)
        self._containers[spec.id] = record.status(files, State.CREATED)
        self._watch(spec.id, files)
        # each version of crun and runc makes another weight of shares
        written = container_files(spec.resources, self._cgroups.hierarchies.version)
        await asyncio.to_thread(self._cgroups.write, cgroup, written)
        return spec.id

    async def start(self, id_: str) -> None:
        status = self._known(id_)
        if status.state is not State.CREATED:
            return
        began, maker = now(), self._maker_of(status.pod_uid)
        try:
            await maker.start(id_)
        except CannotStart:
            if not await maker.is_running(id_):  # an attempt that could not be written down has come through
                raise
        files = self._layout.container(id_)
        record = recall(files.record, ContainerRecord)
        assert record is not None
        record = msgspec.structs.replace(record, started_at=began)
        keep(files.record, record)
        if self._containers[id_].state is State.CREATED:
            self._containers[id_] = record.status(files, State.RUNNING)
        else:  # it has ended meanwhile
            self._containers[id_] = self._status(record, files, State.EXITED)

    async def signal(self, id_: str, number: int) -> None:
        status = self._known(id_)
        if status.state is State.EXITED:
            return
        if number == signal.SIGKILL:
            await asyncio.to_thread(self._cgroups.kill, self._cgroup_of(status))
        with suppress(ProcessLookupError):
            os.kill(status.pid, number)

    async def remove(self, id_: str) -> None:
        if (status := self._containers.get(id_)) is None:
            return
        if status.state is not State.EXITED:
            await self.signal(id_, signal.SIGKILL)
        self._keepers.forget(id_)
        await self._discard(id_)
        self._containers.pop(id_, None)

    async def update(self, id_: str, resources: ContainerValues) -> None:
        cgroup = self._cgroup_of(self._known(id_))
        files = dict(container_files(resources, self._cgroups.hierarchies.version))
        if resources.memory_swap_limit and self._cgroups.read(cgroup, _MEMORY_AND_SWAP) is not None:
            files[_MEMORY_AND_SWAP] = str(resources.memory_swap_limit)
        await self._change(id_, files)

    async def run_on(self, id_: str, cpus: str) -> None:
        await self._change(id_, {CPUSET: cpus})

    async def _change(self, id_: str, files: Mapping[str, str]) -> None:
        status = self._known(id_)
        refused = await asyncio.to_thread(self._cgroups.change, self._cgroup_of(status), files)
        for file, problem in refused.items():
            raise RuntimeFailure(f"cgroup file {file} of container {status.name}: {problem}")

    # -- in a container

    async def run_in(self, id_: str, argv: Sequence[str], seconds: float) -> Executed:
        status = self._known(id_)
        return await run_in(self._maker_of(status.pod_uid).exec_command(status, argv), seconds)

    async def exec(self, id_: str, argv: Sequence[str], wanted: Wanted) -> ProcessStreams:
        status = self._known(id_)
        command = self._maker_of(status.pod_uid).exec_command(status, argv, has_terminal=wanted.is_terminal)
        return await processes.begin(command, wanted)

    async def attach(self, id_: str, wanted: Wanted) -> ProcessStreams:
        return await conmon_streams.attach(self._layout.container(id_).folder, wanted, partial(self._wait, id_))

    async def reopen_log(self, id_: str) -> None:
        conmon_control.reopen_log(self._layout.container(id_).folder)

    def writable_layer(self, id_: str) -> Path:
        return self._layout.container(id_).upper

    async def _wait(self, id_: str) -> int:
        while self._known(id_).state is not State.EXITED:
            await self._changed(id_)
        return self._known(id_).exit_code

    async def _changed(self, id_: str) -> None:
        ended = asyncio.Event()
        self._waiting.setdefault(id_, []).append(ended)
        await ended.wait()

    def last_words(self, id_: str, limit: int) -> bytes:
        return _tail(self._layout.container(id_).last_words, limit)

    # -- their files

    def _prepare(self) -> None:
        """The folders; what a runtime remembers from before the machine was started means nothing."""
        self._layout.make()
        own_mount = self._layout.root / OWN_MOUNT
        if is_own := linux.share_mounts_of(self._layout.root):
            own_mount.touch()
        boot, known = _BOOT_ID.read_text(), self._layout.root / "boot-id"
        if not known.exists() or known.read_text() != boot:
            if not is_own:  # ours went with the machine, and this one is somebody else's
                own_mount.unlink(missing_ok=True)
            remove_tree(self._layout.state)
            self._layout.make()
            records.lose(self._layout, now())
            known.write_text(boot)
        for maker in self._all_makers:
            maker.prepare()

    @asynccontextmanager
    async def _of_users(
        self, spec: ContainerSpec, sandbox: Sandbox, files: SandboxFiles
    ) -> AsyncIterator[ContainerSpec]:
        """The container as the users of its pod see it, until it is made."""
        if sandbox.users is None:
            yield spec
            return
        folder, pin = files.mapped / spec.id, files.pin("user")
        mounting = asyncio.ensure_future(asyncio.to_thread(user_namespace.with_files, spec, pin, folder))
        try:
            yield replace(await asyncio.shield(mounting), users=sandbox.users)
        finally:
            await asyncio.wait([mounting])  # a thread goes on, whoever asked for it
            await asyncio.to_thread(user_namespace.forget, folder)

    @contextmanager
    def _processes(self, spec: ContainerSpec, sandbox: SandboxFiles) -> Iterator[Path | None]:
        """The namespace of others' processes that it joins, held until it has."""
        if not spec.process_target:
            pin = sandbox.pin(NAMESPACE)
            yield pin if pin.exists() else None
            return
        target = self._known(spec.process_target)
        descriptor = os.open(f"/proc/{target.pid}/ns/pid", os.O_RDONLY)
        try:
            if not self._maker.is_of(target.pid, target.id):  # the number is somebody else's by now
                raise RuntimeFailure(f"container {target.name} has ended")
            yield Path(f"/proc/{os.getpid()}/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def _write_bundle(
        self,
        spec: ContainerSpec,
        files: ContainerFiles,
        sandbox: SandboxFiles,
        cgroup: str,
        processes: Path | None,
    ) -> None:
        files.make()
        if spec.users is not None:
            for folder in (files.upper, files.work):
                os.chown(folder, spec.users.first, spec.users.first)
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        files.last_words.touch(mode=0o666)
        files.last_words.chmod(0o666)  # whoever the container runs as
        self._maker.write(spec, files, sandbox, cgroup, processes)

    async def _take_up(self, record: ContainerRecord, files: ContainerFiles) -> None:
        if not keeper_of(files):
            self._containers[record.id] = self._status(record, files, State.EXITED)
            await asyncio.to_thread(self._end_rest, record, files)
            return
        if not record.started_at and await self._maker_of(record.pod_uid).is_running(record.id):
            record = msgspec.structs.replace(record, started_at=now())
            keep(files.record, record)
        state = State.RUNNING if record.started_at else State.CREATED
        self._containers[record.id] = self._status(record, files, state)
        self._watch(record.id, files)

    async def _discard(self, id_: str) -> None:
        """Remove all that there may be of a container, however far it came."""
        files = self._layout.container(id_)
        if not files.folder.exists():
            self._begun.pop(id_, None)
            return
        record = recall(files.record, ContainerRecord)
        is_known = record is not None and record.pod_uid in self._sandboxes.found
        makers = [self._maker_of(record.pod_uid)] if record and is_known else self._all_makers
        for maker in makers:
            await maker.delete(id_)
        if keeper := keeper_of(files):
            with suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGKILL)
        await asyncio.to_thread(remove_tree, files.folder, ignore_errors=True)
        self._begun.pop(id_, None)

    # -- how they end

    def _watch(self, id_: str, files: ContainerFiles) -> None:
        """Notice the end of the keeper, which comes after it has written how the container ended."""
        if keeper := keeper_of(files):
            self._keepers.watch(id_, keeper)
        else:
            self._ended(id_)

    def _ended(self, id_: str) -> None:
        self._keepers.forget(id_)
        files = self._layout.container(id_)
        record = recall(files.record, ContainerRecord)
        if record is None or id_ not in self._containers:
            return
        status = self._containers[id_] = self._status(record, files, State.EXITED)
        self._end_rest(record, files)
        for changed in self._subscribers:
            changed(status)
        for waiting in self._waiting.pop(id_, ()):
            waiting.set()

    def _end_rest(self, record: ContainerRecord, files: ContainerFiles) -> None:
        """What a container has left that is over; of one whose keeper was killed that may be all."""
        if record.shares_processes or not files.exit.exists():
            self._cgroups.kill(f"{self._sandboxes.found[record.pod_uid].cgroup}/{record.id}")

    def _status(self, record: ContainerRecord, files: ContainerFiles, state: State) -> ContainerStatus:
        """conmon hears of every cgroup above its container as well, on cgroup v1: the container's own count decides."""
        status = record.status(files, state)
        if state is not State.EXITED or record.pod_uid not in self._sandboxes.found:
            return status
        cgroup = f"{self._sandboxes.found[record.pod_uid].cgroup}/{record.id}"
        if not self._cgroups.exists(cgroup):
            return status
        is_oom_killed = status.exit_code == SIGKILLED and oom_kills(self._cgroups, cgroup) > 0
        return replace(status, is_oom_killed=is_oom_killed)

    @property
    def _all_makers(self) -> Collection[Maker]:
        return {self._maker, *self._makers.values()}

    def _maker_of(self, pod_uid: str) -> Maker:
        """Who makes the containers of the pod; the usual one for a handler that is not installed any more."""
        return self._makers.get(self._sandboxes.found[pod_uid].handler, self._maker)

    def _cgroup_of(self, status: ContainerStatus) -> str:
        return f"{self._sandboxes.found[status.pod_uid].cgroup}/{status.id}"

    def _known(self, id_: str) -> ContainerStatus:
        if (status := self._containers.get(id_)) is None:
            raise RuntimeFailure(f"there is no container {id_}")
        return status


def _tail(file: Path, limit: int) -> bytes:
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(size - limit, 0))
            return opened.read(limit)
    except FileNotFoundError:
        return b""
