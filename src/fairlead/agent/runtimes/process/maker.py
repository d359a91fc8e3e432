"""Makes containers for a user without root: each by a keeper of ours, within the user namespace of its node."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead import __version__
from fairlead.agent.runtimes.base import (
    SLAVE,
    CannotStart,
    ContainerSpec,
    ContainerStatus,
    HandlerFeatures,
    RuntimeFailure,
    SandboxSpec,
)
from fairlead.agent.runtimes.oci.capabilities import capabilities, numbers
from fairlead.agent.runtimes.oci.config import user_of, variables_of
from fairlead.agent.runtimes.oci.keeper import reported
from fairlead.agent.runtimes.oci.layout import ContainerFiles, Layout, SandboxFiles
from fairlead.agent.runtimes.oci.records import keeper_of
from fairlead.agent.runtimes.process.bundle import FILE, START, Bind, Bundle
from fairlead.agent.runtimes.process.ending import end_container
from fairlead.agent.runtimes.process.isolation import Isolation, isolation_of
from fairlead.agent.runtimes.process.process_groups import ProcessGroups
from fairlead.agent.runtimes.process.process_table import process_table
from fairlead.agent.runtimes.process.programs import command_of
from fairlead.node.cgroups.containers import ContainerValues
from fairlead.node.configuration.cpu_sets import parse_cpu_set

_PROCESSES_OF_MACHINE: Final = Path("/proc/self/ns/pid")
#: How often it is looked who uses too much memory.
WATCH_SECONDS: Final = 0.5
#: Each step of niceness is a fifth less.
_STEP: Final = 1.25
_WHOLE_CPU: Final = 1024

log = logging.getLogger(__name__)


class ProcessMaker:
    name = "fairlead-process"
    has_one_user = True
    features = HandlerFeatures(has_recursive_read_only_mounts=True)

    def __init__(self, root: Path, cgroups: ProcessGroups, least_oom_score_adj: int) -> None:
        self._layout, self._cgroups = Layout(root), cgroups
        self._isolation = Isolation()  # until it was tried
        self._least_oom_score_adj = least_oom_score_adj
        self.limits: Sequence[str] = ()
        self.cgroup_folders: Sequence[Path] = ()

    async def version(self) -> str:
        return __version__

    def prepare(self) -> None:
        self._isolation = isolation_of(self._layout.root)
        self.limits = list(self._isolation.problems)
        for limit in self.limits:
            log.warning("%s", limit)

    async def run(self) -> None:
        while True:
            for id_ in await asyncio.to_thread(self._cgroups.kill_who_exceeds):
                with suppress(OSError):  # it has been removed, or the disk is full
                    self._layout.container(id_).oom.touch()
            await asyncio.sleep(WATCH_SECONDS)

    def namespaces(self, spec: SandboxSpec) -> Collection[str]:
        """Never one of the network: there would be nothing in it."""
        for port in spec.host_ports:
            if port.host_port != port.container_port:
                raise RuntimeFailure(
                    f"hostPort {port.host_port} cannot lead to port {port.container_port}: the pod has the network of"
                    " the machine"
                )
        return [*(() if spec.host_network else ("uts",)), *(() if spec.host_ipc else ("ipc",))]

    def write(
        self, spec: ContainerSpec, files: ContainerFiles, sandbox: SandboxFiles, cgroup: str, processes: Path | None
    ) -> None:
        if not self._isolation.has_overlay:
            _copy(spec.layers, files.upper)
        bundle = self._bundle(spec, files, sandbox, processes)
        (files.folder / FILE).write_bytes(msgspec.json.encode(bundle))

    async def create(self, spec: ContainerSpec, files: ContainerFiles) -> int:
        command = command_of("keeper", str(files.folder), spec.id)
        report = await reported(command, files.problems)
        return _pid(report, files)

    async def start(self, id_: str) -> None:
        folder = os.open(self._layout.container(id_).folder, os.O_PATH | os.O_DIRECTORY)
        try:  # the path itself may be longer than an address
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{START}")
        except OSError as problem:
            raise CannotStart(f"nobody keeps the container any more: {problem}") from None
        finally:
            os.close(folder)
        said = await reader.read()
        writer.close()
        if said:
            raise CannotStart(said.decode(errors="replace"))
        (self._layout.container(id_).folder / "started").touch()

    async def is_running(self, id_: str) -> bool:
        return (self._layout.container(id_).folder / "started").exists()

    async def delete(self, id_: str) -> None:
        await end_container(self._layout.container(id_))
        await asyncio.to_thread(self._cgroups.forget, id_)

    def is_of(self, pid: int, id_: str) -> bool:
        process = process_table().get(pid)
        return process is not None and process.parent == keeper_of(self._layout.container(id_)) != 0

    def exec_command(self, container: ContainerStatus, argv: Sequence[str], *, has_terminal: bool = False) -> list[str]:
        folder, terminal = self._layout.container(container.id).folder, "terminal" if has_terminal else ""
        return command_of("entering", str(folder), str(container.pid), terminal, *argv)

    def _bundle(
        self, spec: ContainerSpec, files: ContainerFiles, sandbox: SandboxFiles, processes: Path | None
    ) -> Bundle:
        user, security = user_of(spec), spec.security
        if security.is_seccomp_confined or security.seccomp is not None:
            raise RuntimeFailure("seccomp profiles are not supported by this runtime")
        if is_of_machine := processes is not None and processes.stat().st_ino == _PROCESSES_OF_MACHINE.stat().st_ino:
            processes = None
        uts, ipc = (pin if pin.exists() else None for pin in map(sandbox.pin, ("uts", "ipc")))
        return Bundle(
            argv=list(spec.argv),
            env=variables_of(spec, user),
            working_dir=spec.working_dir,
            uid=user.uid,
            gid=user.gid,
            layers=[str(layer) for layer in spec.layers],
            rootfs=str(files.rootfs),
            upper=str(files.upper),
            work=str(files.work),
            has_overlay=self._isolation.has_overlay,
            binds=_binds(spec, files),
            shm=str(sandbox.shm),
            has_read_only_root=security.has_read_only_root,
            has_no_new_privileges=security.has_no_new_privileges,
            capabilities=numbers(capabilities(security)),
            oom_score_adj=max(spec.resources.oom_score_adj, self._least_oom_score_adj),
            nice=niceness(spec.resources),
            cpus=sorted(parse_cpu_set(spec.resources.cpuset_cpus).cpus),
            uts=str(uts or ""),
            ipc=str(ipc or ""),
            pid=str(processes or ""),
            has_own_processes=self._isolation.has_own_processes and not spec.host_pid and not is_of_machine,
            has_tty=spec.has_tty,
            has_stdin=spec.has_stdin,
            has_stdin_once=spec.has_stdin_once,
            log=str(spec.log),
        )


def niceness(resources: ContainerValues) -> int:
    """A whole cpu or more is as everybody else; it can only be less than that."""
    below = math.log(_WHOLE_CPU / max(resources.cpu_shares, 2), _STEP)
    return min(max(round(below), 0), 19)


def _binds(spec: ContainerSpec, files: ContainerFiles) -> list[Bind]:
    found = [
        Bind(
            source=os.path.realpath(mount.source),
            target=mount.target,
            is_read_only=mount.read_only,
            is_read_only_below=mount.is_read_only_below,
            is_slave=mount.propagation == SLAVE,
        )
        for mount in spec.mounts
    ]
    if path := spec.termination_message_path:
        words = str(files.last_words)
        found.append(Bind(source=words, target=path, is_read_only=False, is_read_only_below=False, is_slave=False))
    return found


def _copy(layers: Sequence[Path], target: Path) -> None:
    """Where layers cannot be mounted: they were unpacked over each other, so there is one."""
    for layer in layers:
        shutil.copytree(layer, target, symlinks=True, dirs_exist_ok=True)


def _pid(report: bytes, files: ContainerFiles) -> int:
    try:
        said: dict[str, Any] = json.loads(report)
    except ValueError:
        words = files.problems.read_text(errors="replace").strip()[-1000:] if files.problems.exists() else ""
        raise RuntimeFailure(words or "the container could not be created") from None
    if problem := said.get("problem"):
        raise (CannotStart if said.get("is_missing") else RuntimeFailure)(problem)
    return int(said["pid"])
