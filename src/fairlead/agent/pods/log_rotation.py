"""Logs of running containers are rotated, or one that talks would fill the disk of all.

    0.log ─▶ 0.log.TIME ─▶ 0.log.TIME.gz ─▶ removed

Only what has ended is compressed, and the last file of it not at once: somebody may still read there. Source:
pkg/kubelet/logs (1.36).
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fairlead.agent.runtimes.base import ContainerStatus, Runtime, State
from fairlead.api import quantity
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.runtime.clock import now

COMPRESSED: Final = ".gz"
_DRAFT: Final = ".tmp"
_TIME: Final = "%Y%m%d-%H%M%S"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPolicy:
    #: From how many bytes on a log is rotated; negative: never.
    max_bytes: int
    max_files: int
    interval_seconds: float
    workers: int

    @classmethod
    def of(cls, config: KubeletConfiguration) -> LogPolicy:
        """StartupError for what a kubelet would not start with."""
        size = config.container_log_max_size
        try:
            max_bytes = quantity.parse(size).units
        except ValueError as error:
            message = f'failed to parse container log max size "{size}": {error}'
            raise StartupError(Stage.START, message) from None
        return cls(
            max_bytes=max_bytes,
            max_files=config.container_log_max_files,
            interval_seconds=config.container_log_monitor_interval,
            workers=config.container_log_max_workers,
        )


class LogRotation:
    def __init__(self, runtime: Runtime, policy: LogPolicy) -> None:
        self._runtime, self._policy = runtime, policy
        self._turns = asyncio.Semaphore(policy.workers)

    async def run(self) -> None:
        """Until cancelled."""
        while self._policy.max_bytes >= 0:
            await self.look()
            await asyncio.sleep(self._policy.interval_seconds)

    async def look(self) -> None:
        """Rotate what is due now."""
        running = [status for status in self._runtime.containers() if status.state is State.RUNNING]
        await asyncio.gather(*map(self._look_at, running))

    async def _look_at(self, status: ContainerStatus) -> None:
        async with self._turns:
            try:
                await self._rotate_if_due(status.id, status.log)
            except OSError as error:
                log.warning("the log of container %s cannot be rotated: %s", status.id, error)

    async def _rotate_if_due(self, id_: str, path: Path) -> None:
        time = datetime.fromtimestamp(now(), UTC).strftime(_TIME)
        rotated = path.with_name(f"{path.name}.{time}")
        try:
            is_moved = await asyncio.to_thread(self._move_if_due, path, rotated)
        except FileNotFoundError:  # an agent ended between the two steps of a rotation
            await self._runtime.reopen_log(id_)
            return
        if is_moved:
            try:
                await self._runtime.reopen_log(id_)
            except OSError:  # it has just ended
                rotated.rename(path)

    def _move_if_due(self, path: Path, rotated: Path) -> bool:
        if path.stat().st_size < self._policy.max_bytes or rotated.exists():
            return False
        for file in _kept(path, self._policy.max_files - 2):
            _compress(file)
        path.rename(rotated)
        return True


def remove_log(path: Path) -> None:
    """With all that was rotated."""
    for file in (path, *path.parent.glob(f"{path.name}.*")):
        file.unlink(missing_ok=True)


def _kept(path: Path, most: int) -> list[Path]:
    """Those that were rotated before, the oldest first; what is more than so many is removed."""
    files = []
    for file in sorted(path.parent.glob(f"{path.name}.*")):
        if file.suffix == _DRAFT or file.with_name(f"{file.name}{COMPRESSED}").exists():
            file.unlink()  # of a compression that was cut off
        else:
            files.append(file)
    excess = max(len(files) - max(most, 0), 0)
    for file in files[:excess]:
        file.unlink()
    return files[excess:]


def _compress(file: Path) -> None:
    if file.suffix == COMPRESSED:
        return
    compressed = file.with_name(f"{file.name}{COMPRESSED}")
    draft = compressed.with_name(f"{compressed.name}{_DRAFT}")
    with file.open("rb") as source, gzip.open(draft, "wb") as target:
        shutil.copyfileobj(source, target)
    draft.rename(compressed)
    file.unlink()
