"""A runtime with one sandbox, whichever runtime it is: what one suite holds all of them to stands on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.probes import least_oom_score_adj
from fairlead.agent.runtime_choice import Ground, behind_cri, conmon, processes
from fairlead.agent.runtimes.base import ContainerSpec, ContainerStatus, Mount, Runtime, SandboxSpec
from fairlead.agent.runtimes.process.process_groups import ProcessGroups
from fairlead.node.cgroups.containers import ContainerValues
from fairlead.node.containers import container_id
from tests.agent.containerd import Containerd, containerd, with_containerd
from tests.agent.folder_images import FolderImages
from tests.agent.machine import mounts_below, own_cgroup, real_containers, root_file_system

OCI, CONTAINERD, PROCESS = "oci", "containerd", "process"
ROOT = "a root: odd"
IMAGE = "test/busybox:1"

#: Set where the tests are run in the world of a user without root: by `test_user_node.py`, for that runtime alone.
WORLD = "FAIRLEAD_TEST_WORLD"
#: On containerd in the slow run: of each run is test_cri_node.py.
_OF_ROOT = [
    pytest.param(OCI, marks=real_containers),
    pytest.param(CONTAINERD, marks=[with_containerd, pytest.mark.slow]),
]

on_each = pytest.mark.parametrize("kind", [PROCESS] if WORLD in os.environ else _OF_ROOT)


@dataclass
class Place:
    kind: str
    folder: Path
    cgroups: Cgroups
    cgroup: str
    rootfs: Path
    containerd: Containerd | None
    runtime: Runtime = field(init=False)
    image_id: str = "sha256:1"
    watching: asyncio.Task[None] | None = None
    ended: asyncio.Queue[ContainerStatus] = field(default_factory=asyncio.Queue)

    @property
    def pod(self) -> str:
        return f"{self.cgroup}/podu1"

    @property
    def root(self) -> Path:
        return self.folder / ROOT

    async def open(self) -> None:
        """A runtime as a new agent has it, which finds what there is."""
        folders = FolderImages({})
        runtimes = {OCI: conmon(folders), CONTAINERD: behind_cri, PROCESS: processes(folders)}[self.kind]
        endpoint = self.containerd.endpoint if self.containerd is not None else ""
        ground = Ground(self.root, self.cgroups, f"{self.cgroup}/conmon", least_oom_score_adj(), endpoint)
        self.runtime, images = runtimes(ground)
        await self.runtime.adopt()
        if (image := images.find(IMAGE)) is not None:
            self.image_id = image.id
        self.runtime.subscribe(self.ended.put_nowait)
        await self.runtime.create_sandbox(self.sandbox())
        if self.kind == PROCESS:  # where the kernel does not kill, the runtime does
            self.watching = asyncio.create_task(self.runtime.run())

    def close(self) -> None:
        if self.watching is not None:
            self.watching.cancel()
        self.runtime.close()

    def sandbox(self, uid: str = "u1") -> SandboxSpec:
        return SandboxSpec(uid=uid, namespace="ns", name="p", hostname="web-0", cgroup=self.pod, logs=self.folder)

    async def run(self, name: str, *argv: str, **options: Any) -> str:
        """The id of a container that has been started."""
        id_ = await self.create(name, *argv, **options)
        await self.runtime.start(id_)
        return id_

    async def create(
        self,
        name: str,
        *argv: str,
        memory: int = 0,
        cpus: str = "",
        has_stdin: bool = False,
        has_stdin_once: bool = False,
        has_tty: bool = False,
        mounts: Sequence[Mount] = (),
        pod: str = "u1",
        host_pid: bool = False,
    ) -> str:
        """The id of a container that is to be started."""
        values = ContainerValues(
            cpu_shares=2,
            cpu_quota=0,
            cpu_period=100_000,
            memory_limit=memory,
            memory_swap_limit=memory,
            oom_score_adj=-997,
            cpuset_cpus=cpus,
        )
        spec = ContainerSpec(
            id=container_id(pod, name, 0),
            pod_uid=pod,
            name=name,
            attempt=0,
            image=IMAGE,
            image_id=self.image_id,
            layers=[self.rootfs],
            argv=argv,
            env={"GREETING": "hello"},
            resources=values,
            log=self.log(name),
            mounts=mounts,
            host_pid=host_pid,
            has_stdin=has_stdin,
            has_stdin_once=has_stdin_once,
            has_tty=has_tty,
            termination_message_path="/dev/termination-log",
        )
        return await self.runtime.create(spec)

    def found(self, name: str) -> ContainerStatus:
        (status,) = (each for each in self.runtime.containers() if each.name == name)
        return status

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def logs(self, name: str) -> list[str]:
        """The names of its log and of what was rotated."""
        return sorted(path.name for path in self.folder.glob(f"{name}.log*"))

    def lines(self, name: str) -> list[str]:
        """What it has said, without when and where to."""
        return [line.split(" ", 3)[3] for line in self.log(name).read_text().splitlines()]

    async def end(self) -> ContainerStatus:
        return await asyncio.wait_for(self.ended.get(), 10)


@asynccontextmanager
async def place(folder: Path, kind: str) -> AsyncIterator[Place]:
    cgroups = Cgroups(hierarchies()) if kind != PROCESS else ProcessGroups(folder / ROOT)
    rootfs = root_file_system(folder / "rootfs")
    with own_cgroup(cgroups) as cgroup:
        if kind != CONTAINERD:
            async with _opened(Place(kind, folder, cgroups, cgroup, rootfs, None)) as found:
                yield found
            assert mounts_below(found.root) == [found.root]
            linux.unmount(found.root)
        else:
            with containerd(rootfs) as daemon:
                daemon.load(f"docker.io/{IMAGE}", rootfs, Cmd=["sh"])
                async with _opened(Place(kind, folder, cgroups, cgroup, rootfs, daemon)) as found:
                    yield found


@asynccontextmanager
async def _opened(found: Place) -> AsyncIterator[Place]:
    found.cgroups.ensure(found.pod, {})
    await found.open()
    try:
        yield found
    finally:
        await found.runtime.remove_sandbox("u1")
        found.close()
