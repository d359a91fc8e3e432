"""What is remembered of sandboxes and containers on disk, so that a new agent finds what the last one left."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from fairlead.agent.runtimes.base import (
    ContainerSpec,
    ContainerStatus,
    IdRange,
    RunsAs,
    Sandbox,
    SandboxSpec,
    State,
)
from fairlead.agent.runtimes.oci.layout import ContainerFiles, Layout, SandboxFiles
from fairlead.node.containers import LOST, SIGKILLED

Record = TypeVar("Record", bound=msgspec.Struct)


class SandboxRecord(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    namespace: str
    name: str
    cgroup: str
    host_network: bool
    handler: str = ""
    users: IdRange | None = None

    @classmethod
    def of(cls, spec: SandboxSpec, *, host_network: bool) -> SandboxRecord:
        return cls(
            uid=spec.uid,
            namespace=spec.namespace,
            name=spec.name,
            cgroup=spec.cgroup,
            host_network=host_network,
            handler=spec.handler,
            users=spec.users,
        )

    def sandbox(self, files: SandboxFiles) -> Sandbox:
        netns = None if self.host_network else files.pin("net")
        return Sandbox(self.uid, self.namespace, self.name, self.cgroup, netns, handler=self.handler, users=self.users)


class ContainerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds since the epoch, 0 for what has not been."""

    id: str
    pod_uid: str
    name: str
    attempt: int
    image: str
    image_id: str
    log: str
    stop_signal: int
    has_tty: bool
    created_at: float
    pid: int = 0
    started_at: float = 0.0
    start_error: str = ""
    #: Its processes do not end with its first.
    shares_processes: bool = False
    runs_as: RunsAs | None = None
    #: When the machine went down under it; nobody saw how it ended.
    lost_at: float = 0.0

    @classmethod
    def of(cls, spec: ContainerSpec, now: float, runs_as: RunsAs | None, *, shares_processes: bool) -> ContainerRecord:
        return cls(
            id=spec.id,
            pod_uid=spec.pod_uid,
            name=spec.name,
            attempt=spec.attempt,
            image=spec.image,
            image_id=spec.image_id,
            log=str(spec.log),
            stop_signal=spec.stop_signal,
            has_tty=spec.has_tty,
            runs_as=runs_as,
            created_at=now,
            shares_processes=shares_processes,
        )

    def status(self, files: ContainerFiles, state: State) -> ContainerStatus:
        is_lost = state is State.EXITED and bool(self.lost_at)
        code, finished_at = (LOST, self.lost_at) if is_lost else ended(files) if state is State.EXITED else (0, 0.0)
        return ContainerStatus(
            id=self.id,
            pod_uid=self.pod_uid,
            name=self.name,
            attempt=self.attempt,
            image=self.image,
            image_id=self.image_id,
            state=state,
            log=Path(self.log),
            cgroup_name=self.id,
            pid=0 if state is State.EXITED else self.pid,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=max(finished_at, self.started_at, self.created_at),
            exit_code=code,
            is_oom_killed=state is State.EXITED and code == SIGKILLED and files.oom.exists(),
            is_lost=is_lost,
            start_error=self.start_error,
            stop_signal=self.stop_signal,
            has_tty=self.has_tty,
            runs_as=self.runs_as,
        )


def ended(files: ContainerFiles) -> tuple[int, float]:
    """Exit code and time; a keeper that was killed could not tell, so nobody knows how its container ended."""
    try:
        return int(files.exit.read_text()), files.exit.stat().st_mtime
    except (FileNotFoundError, ValueError):
        return SIGKILLED, 0.0


def keeper_of(files: ContainerFiles) -> int:
    """The pid of the container's keeper; 0 if it is gone, even if another process has its number now."""
    with suppress(OSError, ValueError):
        pid = int(files.keeper_pid.read_text())
        if files.folder.name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    return 0


def keep(path: Path, record: msgspec.Struct) -> None:
    """Write it, whole or not at all."""
    scratch = path.with_suffix(".new")
    scratch.write_bytes(msgspec.json.encode(record))
    scratch.replace(path)


def recall(path: Path, kind: type[Record]) -> Record | None:
    """None if it was never written, or lies in no folder of ours."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, msgspec.DecodeError):
        return None


def sandbox_records(layout: Layout) -> list[SandboxRecord]:
    found = (recall(SandboxFiles(folder).record, SandboxRecord) for folder in sorted(layout.sandboxes.iterdir()))
    return [record for record in found if record is not None]


def container_records(layout: Layout) -> list[ContainerRecord]:
    found = (recall(ContainerFiles(folder).record, ContainerRecord) for folder in sorted(layout.containers.iterdir()))
    return [record for record in found if record is not None]


def lose(layout: Layout, now: float) -> None:
    """The machine was started anew: what ran until then has ended, and nobody saw how."""
    for record in container_records(layout):
        files = layout.container(record.id)
        if not files.exit.exists() and not record.start_error:
            keep(files.record, msgspec.structs.replace(record, lost_at=record.lost_at or now))
