"""Where the things of this runtime lie: everything that `fairlead node reset` has to remove is below one folder."""

from __future__ import annotations

from pathlib import Path

import msgspec


class ContainerFiles(msgspec.Struct, frozen=True):
    """The bundle of a container, and what is remembered of it."""

    folder: Path

    @property
    def record(self) -> Path:
        return self.folder / "container.json"

    @property
    def config(self) -> Path:
        return self.folder / "config.json"

    @property
    def rootfs(self) -> Path:
        return self.folder / "rootfs"

    @property
    def upper(self) -> Path:
        """What the container writes to its root file system."""
        return self.folder / "upper"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def exit(self) -> Path:
        """conmon writes the exit code here."""
        return self.folder / "exits" / self.folder.name

    @property
    def persist(self) -> Path:
        return self.folder / "persist"

    @property
    def oom(self) -> Path:
        """conmon makes it when the kernel has killed for memory in the container's cgroup."""
        return self.persist / "oom"

    @property
    def pid(self) -> Path:
        return self.folder / "pid"

    @property
    def keeper_pid(self) -> Path:
        return self.folder / "conmon.pid"

    @property
    def last_words(self) -> Path:
        return self.folder / "termination-log"

    @property
    def problems(self) -> Path:
        """What conmon itself had to say."""
        return self.folder / "conmon.log"

    def make(self) -> None:
        for folder in (self.rootfs, self.upper, self.work, self.exit.parent, self.persist):
            folder.mkdir(parents=True, exist_ok=True)


class SandboxFiles(msgspec.Struct, frozen=True):
    folder: Path

    @property
    def record(self) -> Path:
        return self.folder / "sandbox.json"

    @property
    def shm(self) -> Path:
        return self.folder / "shm"

    @property
    def holder(self) -> Path:
        """The root of the process that holds a namespace of processes, and beside it its pid."""
        return self.folder / "holder"

    @property
    def holder_pid(self) -> Path:
        return self.folder / "holder.pid"

    @property
    def mapped(self) -> Path:
        """A folder of each container while it is made, with its files for users of the pod's own."""
        return self.folder / "mapped"

    def pin(self, namespace: str) -> Path:
        return self.folder / namespace


class Layout(msgspec.Struct, frozen=True):
    root: Path

    @property
    def containers(self) -> Path:
        return self.root / "containers"

    @property
    def sandboxes(self) -> Path:
        return self.root / "sandboxes"

    @property
    def state(self) -> Path:
        """What crun or runc remembers; means nothing after the machine has been started anew."""
        return self.root / "state"

    def container(self, id_: str) -> ContainerFiles:
        return ContainerFiles(self.containers / id_)

    def sandbox(self, uid: str) -> SandboxFiles:
        return SandboxFiles(self.sandboxes / uid)

    def make(self) -> None:
        for folder in (self.root, self.containers, self.sandboxes, self.state):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
