"""Sandboxes of pods without a daemon: namespaces that files hold, and a process where containers share processes.

made ─▶ lost: the process has died, or somebody has unmounted a file ─▶ made again, once its containers have ended
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from typing import Final

from fairlead.agent import linux
from fairlead.agent.runtimes.base import RuntimeFailure, Sandbox, SandboxSpec
from fairlead.agent.runtimes.finishing import to_its_end
from fairlead.agent.runtimes.first_processes import FirstProcesses
from fairlead.agent.runtimes.oci import records, user_namespace
from fairlead.agent.runtimes.oci.layout import Layout, SandboxFiles
from fairlead.agent.runtimes.oci.maker import Maker
from fairlead.agent.runtimes.oci.records import SandboxRecord, keep
from fairlead.agent.runtimes.oci.shared_processes import end_processes, holder_of, share_processes
from fairlead.agent.trees import remove_tree
from fairlead.node.sysctls import file_of

#: /dev/shm of a pod, as containerd has it.
_SHM_OPTIONS: Final = "mode=1777,size=65536k"


class Sandboxes:
    def __init__(self, layout: Layout, maker: Maker, handlers: Collection[str], least_oom_score_adj: int) -> None:
        self._layout, self._maker, self._handlers = layout, maker, handlers
        self._least_oom_score_adj = least_oom_score_adj
        self._found: dict[str, Sandbox] = {}
        self._lost: set[str] = set()
        self._holders = FirstProcesses(self._is_lost)  # by uid
        self._subscribers: list[Callable[[str], None]] = []

    @property
    def found(self) -> Mapping[str, Sandbox]:
        """By uid, with those that are lost."""
        return self._found

    def all(self) -> list[Sandbox]:
        return list(self._found.values())

    def has(self, uid: str) -> bool:
        """Whether the pod has one that is not lost."""
        return uid in self._found and uid not in self._lost

    def subscribe_lost(self, lost: Callable[[str], None]) -> None:
        self._subscribers.append(lost)

    def close(self) -> None:
        self._holders.close()

    async def adopt(self) -> None:
        for record in records.sandbox_records(self._layout):
            files = self._layout.sandbox(record.uid)
            self._found[record.uid] = record.sandbox(files)
            await asyncio.to_thread(user_namespace.forget, files.mapped)  # of a container that was never made
            self._watch(record.uid, files)

    async def remove_unknown(self) -> None:
        """Those that were never finished."""
        for folder in self._layout.sandboxes.iterdir():
            if folder.name not in self._found:
                await asyncio.to_thread(remove_files, SandboxFiles(folder))

    async def create(self, spec: SandboxSpec) -> Sandbox:
        return self._found[spec.uid] if self.has(spec.uid) else await to_its_end(self._made(spec))

    async def _made(self, spec: SandboxSpec) -> Sandbox:
        if spec.handler and spec.handler not in self._handlers:
            raise RuntimeFailure(f'no runtime for "{spec.handler}" is configured')  # containerd's words
        files, wanted = self._layout.sandbox(spec.uid), self._maker.namespaces(spec)
        record = SandboxRecord.of(spec, host_network="net" not in wanted)
        try:
            await asyncio.to_thread(self._make, files, spec, wanted)
        except OSError as error:
            await asyncio.to_thread(remove_files, files)
            raise RuntimeFailure(f"the namespaces of the pod cannot be made: {error}") from error
        keep(files.record, record)
        found = self._found[spec.uid] = record.sandbox(files)
        self._lost.discard(spec.uid)
        self._watch(spec.uid, files)
        return found

    async def remove(self, uid: str) -> None:
        self._holders.forget(uid)
        await asyncio.to_thread(remove_files, self._layout.sandbox(uid))
        self._found.pop(uid, None)
        self._lost.discard(uid)

    def check(self, uid: str) -> None:
        """RuntimeFailure: the sandbox is lost."""
        if uid not in self._lost and not _is_whole(self._layout.sandbox(uid)):
            self._is_lost(uid)
        if uid in self._lost:
            raise RuntimeFailure(f"the namespaces of pod {uid} are gone")

    def _watch(self, uid: str, files: SandboxFiles) -> None:
        if not _is_whole(files):
            self._is_lost(uid)
        elif holder := holder_of(files):
            self._holders.watch(uid, holder)

    def _is_lost(self, uid: str) -> None:
        self._holders.forget(uid)
        self._lost.add(uid)
        for lost in self._subscribers:
            lost(uid)

    def _make(self, files: SandboxFiles, spec: SandboxSpec, wanted: Collection[str]) -> None:
        remove_files(files)
        files.shm.mkdir(parents=True)
        linux.mount("shm", files.shm, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC, _SHM_OPTIONS)
        pins = {name: files.pin(name) for name in wanted}
        sysctls = {file_of(name): value for name, value in spec.sysctls.items()}
        if spec.users is not None:
            user_namespace.pin_with_users(pins, spec.users)
            others = {name: pin for name, pin in pins.items() if name != "user"}
            linux.set_up_namespaces(others, spec.hostname)
            user_namespace.set_sysctls(pins, sysctls)
        elif pins:
            linux.pin_namespaces(pins, spec.hostname, sysctls)
        if spec.shares_processes:
            cgroups, least = self._maker.cgroup_folders, self._least_oom_score_adj
            share_processes(files, cgroups, least, has_users=spec.users is not None)


def remove_files(files: SandboxFiles) -> None:
    end_processes(files)
    linux.unmount_below(files.folder)
    remove_tree(files.folder, ignore_errors=True)


def _is_whole(files: SandboxFiles) -> bool:
    """Whether all is there still that was mounted for it, and its process lives if it has one."""
    pins = [pin for name in linux.NAMESPACES if (pin := files.pin(name)).exists()]
    if not all(os.path.ismount(mounted) for mounted in (files.shm, *pins)):
        return False
    return not files.holder_pid.exists() or bool(holder_of(files))
