"""Logs of running containers are rotated, or one that talks would fill the disk of all.

    0.log ─▶ 0.log.TIME ─▶ 0.log.TIME.gz ─▶ removed

Only what has ended is compressed, and the last file of it not at once: somebody may still read there. Source:
pkg/kubelet/logs (1.36).
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from fairlead.agent.runtimes.base import ContainerStatus, Runtime, State
from fairlead.node.log_rotation import LogPolicy
from fairlead.runtime.clock import monotonic, now

COMPRESSED: Final = ".gz"
_DRAFT: Final = ".tmp"
_TIME: Final = "%Y%m%d-%H%M%S"
_ROTATED: Final = re.compile(r"\.(\d{8}-\d{6})")
#: As Go does without being told.
_LEVEL: Final = 6

log = logging.getLogger(__name__)


class LogRotation:
    def __init__(self, runtime: Runtime, policy: LogPolicy) -> None:
        self._runtime, self._policy = runtime, policy
        self._turns = asyncio.Semaphore(policy.workers)

    async def run(self) -> None:
        """Until cancelled. However long packing takes, the next look comes when it would have come without."""
        due = monotonic()
        while self._policy.max_bytes >= 0:
            await self.look()
            due = max(due + self._policy.interval_seconds, monotonic())
            await asyncio.sleep(due - monotonic())

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
        at = datetime.fromtimestamp(now(), UTC)
        try:
            rotated = await asyncio.to_thread(self._move_if_due, path, at)
        except FileNotFoundError:  # an agent ended between the two steps of a rotation
            await self._runtime.reopen_log(id_)
            return
        if rotated is not None:
            try:
                await self._runtime.reopen_log(id_)
            except OSError:  # it has just ended
                rotated.rename(path)

    def _move_if_due(self, path: Path, at: datetime) -> Path | None:
        """Where it is now; None if it stays."""
        if path.stat().st_size < self._policy.max_bytes or (rotated := _rotated(path, at)).exists():
            return None
        for file in _kept(path, self._policy.most_packed):
            _compress(file)
        path.rename(rotated)
        return rotated


def remove_log(path: Path) -> None:
    """With all that was rotated."""
    for file in (path, *path.parent.glob(f"{path.name}.*")):
        file.unlink(missing_ok=True)


def _rotated(path: Path, at: datetime) -> Path:
    """Named by the time, and after all that were rotated before: names say the order, and a clock may be set back."""
    time = at.strftime(_TIME)
    last = max((found[1] for file in path.parent.iterdir() if (found := _ROTATED.search(file.name))), default=time)
    if last > time:
        time = (datetime.strptime(last, _TIME).replace(tzinfo=UTC) + timedelta(seconds=1)).strftime(_TIME)
    return path.with_name(f"{path.name}.{time}")


def _kept(path: Path, most: int) -> list[Path]:
    """Those that were rotated before, the oldest first; what is more than so many is removed."""
    files = []
    for file in sorted(path.parent.glob(f"{path.name}.*")):
        if file.suffix == _DRAFT or file.with_name(f"{file.name}{COMPRESSED}").exists():
            file.unlink()  # of a compression that was cut off
        else:
            files.append(file)
    excess = max(len(files) - most, 0)
    for file in files[:excess]:
        file.unlink()
    return files[excess:]


def _compress(file: Path) -> None:
    if file.suffix == COMPRESSED:
        return
    compressed = file.with_name(f"{file.name}{COMPRESSED}")
    draft = compressed.with_name(f"{compressed.name}{_DRAFT}")
    with file.open("rb") as source, gzip.open(draft, "wb", _LEVEL) as target:
        shutil.copyfileobj(source, target)
    draft.rename(compressed)
    file.unlink()
