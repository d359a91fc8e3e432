"""Who makes what the runtime keeps: conmon with crun or runc, for root; a user has another way."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.runtimes.base import ContainerSpec, ContainerStatus, HandlerFeatures, SandboxSpec
from fairlead.agent.runtimes.oci import devices, user_namespace
from fairlead.agent.runtimes.oci.cdi import inject
from fairlead.agent.runtimes.oci.commands import Commands
from fairlead.agent.runtimes.oci.config import config_of
from fairlead.agent.runtimes.oci.keeper import Keepers, Programs
from fairlead.agent.runtimes.oci.layout import ContainerFiles, Layout, SandboxFiles


class Maker(Protocol):
    """A keeper that it starts writes the files that `ContainerFiles` names, and answers as conmon does."""

    #: As container ids begin.
    name: str
    #: Whatever user a container runs as, its files are the same one's.
    has_one_user: bool
    #: What it cannot do on this machine, as sentences for people.
    limits: Sequence[str]
    #: Once it is prepared.
    features: HandlerFeatures

    @property
    def cgroup_folders(self) -> Sequence[Path]:
        """Where what looks after containers has to be."""
        ...

    async def version(self) -> str: ...

    def prepare(self) -> None: ...

    async def run(self) -> None:
        """Look after what runs, until cancelled, if there is anything to do."""
        ...

    def namespaces(self, spec: SandboxSpec) -> Collection[str]:
        """Those that a sandbox gets; RuntimeFailure for one that cannot be."""
        ...

    def write(
        self, spec: ContainerSpec, files: ContainerFiles, sandbox: SandboxFiles, cgroup: str, processes: Path | None
    ) -> None:
        """The bundle; `processes` is a namespace to join. RuntimeFailure for what cannot be."""
        ...

    async def create(self, spec: ContainerSpec, files: ContainerFiles) -> int:
        """Start the keeper, and have everything ready: the pid of the container's first process."""
        ...

    async def start(self, id_: str) -> None:
        """CannotStart says why not."""
        ...

    async def is_running(self, id_: str) -> bool:
        """Whether it was started, of one whose keeper is there."""
        ...

    async def delete(self, id_: str) -> None:
        """End what there is of it."""
        ...

    def is_of(self, pid: int, id_: str) -> bool:
        """Whether that still is a process of the container."""
        ...

    def exec_command(self, container: ContainerStatus, argv: Sequence[str], *, has_terminal: bool = False) -> list[str]:
        """What runs a command in a container."""
        ...


class ConmonMaker:
    name = "fairlead-oci"
    has_one_user = False
    limits: Sequence[str] = ()
    features = HandlerFeatures(has_recursive_read_only_mounts=True)

    def __init__(
        self, root: Path, programs: Programs, runtime: str, cgroups: Cgroups, keepers: str, least_oom_score_adj: int
    ) -> None:
        """`runtime` is crun or runc, `keepers` the cgroup of the conmons, beside those of pods."""
        state = Layout(root).state / Path(runtime).name  # neither knows of the other's containers
        self._root = root
        self._cgroups, self._least_oom_score_adj = cgroups, least_oom_score_adj
        self._commands = Commands(runtime, state)
        self._keepers = Keepers(programs, runtime, state, cgroups.hierarchies, keepers)

    @property
    def cgroup_folders(self) -> Sequence[Path]:
        return self._keepers.cgroup_folders

    async def version(self) -> str:
        return await self._commands.version()

    def prepare(self) -> None:
        self._commands.state.mkdir(mode=0o700, exist_ok=True)
        self._cgroups.ensure(self._keepers.cgroup, {})
        self.features = replace(self.features, has_user_namespaces=user_namespace.is_possible(self._root))

    async def run(self) -> None:
        """The kernel does."""

    def namespaces(self, spec: SandboxSpec) -> Collection[str]:
        wanted = {
            "user": spec.users is not None,
            "net": not spec.host_network,
            "uts": not spec.host_network,
            "ipc": not spec.host_ipc,
        }
        return [name for name, is_own in wanted.items() if is_own]

    def write(
        self, spec: ContainerSpec, files: ContainerFiles, sandbox: SandboxFiles, cgroup: str, processes: Path | None
    ) -> None:
        config = config_of(spec, files, sandbox, cgroup, self._least_oom_score_adj, processes)
        devices.give(config, spec.devices)
        if spec.cdi_devices:
            inject(config, spec.cdi_devices)
        files.config.write_bytes(msgspec.json.encode(config))

    async def create(self, spec: ContainerSpec, files: ContainerFiles) -> int:
        return await self._keepers.create(spec, files)

    async def start(self, id_: str) -> None:
        await self._commands.run("start", id_)

    async def is_running(self, id_: str) -> bool:
        return await self._commands.state_of(id_) == "running"

    async def delete(self, id_: str) -> None:
        await self._commands.delete(id_)

    def is_of(self, pid: int, id_: str) -> bool:
        return id_ in Path(f"/proc/{pid}/cgroup").read_text()

    def exec_command(self, container: ContainerStatus, argv: Sequence[str], *, has_terminal: bool = False) -> list[str]:
        return self._commands.exec_command(container.id, container.pid, argv, has_terminal=has_terminal)
