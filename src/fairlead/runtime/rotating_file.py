"""A log file that is put aside when it is full, as kube-apiserver's are: `audit.log` becomes
`audit-2026-11-24T05-30-00.000.log`, and those that are too old or too many are removed.

Source: gopkg.in/natefinch/lumberjack.v2 and k8s.io/apiserver, pkg/server/options/audit.go (1.36). Everything here may
wait for a disk.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

_MEGABYTE: Final = 1 << 20
_TIME_FORMAT: Final = "%Y-%m-%dT%H-%M-%S.%f"


class RotatingFile:
    """Appends lines. One writer, in one thread."""

    def __init__(self, path: Path, *, max_megabytes: int, max_backups: int, max_age_days: int) -> None:
        """Raises OSError if there can be no such file. 0 is no limit: of its size, of files put aside, of their age."""
        self._path = path
        self._max_bytes = max_megabytes * _MEGABYTE
        self._max_backups, self._max_age = max_backups, timedelta(days=max_age_days)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = _opened(path)
        self._remove_stale()

    def write(self, data: bytes) -> None:
        """Append lines, as many to a file as fit in it; one that alone is larger than a file has one of its own.

        Raises OSError; what was written of the line that failed is taken back, if it can be.
        """
        size = os.fstat(self._file).st_size
        if not self._max_bytes or size + len(data) <= self._max_bytes:
            self._append(data)
            return
        fitting: list[bytes] = []
        for line in data.splitlines(keepends=True):
            if size and size + len(line) > self._max_bytes:
                self._append(b"".join(fitting))
                self._rotate()
                fitting, size = [], 0
            fitting.append(line)
            size += len(line)
        self._append(b"".join(fitting))

    def close(self) -> None:
        os.close(self._file)

    def _append(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, memoryview(data)[written:])
        except OSError:
            whole = data.rfind(b"\n", 0, written) + 1
            with contextlib.suppress(OSError):  # lest the next line is appended to half of this one
                os.ftruncate(self._file, os.fstat(self._file).st_size - (written - whole))
            raise

    # -- files put aside

    def _rotate(self) -> None:
        moment = datetime.now(UTC)  # where files rotate there is no virtual time, and no loop in this thread
        mode = os.fstat(self._file).st_mode & 0o777
        while (aside := self._aside(moment)).exists():
            moment += timedelta(milliseconds=1)
        self._path.rename(aside)
        fresh = _opened(self._path, mode)
        os.close(self._file)
        self._file = fresh
        self._remove_stale()

    def _aside(self, moment: datetime) -> Path:
        return self._path.with_name(f"{self._path.stem}-{moment.strftime(_TIME_FORMAT)[:-3]}{self._path.suffix}")

    def _remove_stale(self) -> None:
        """Remove what is too much, newest first kept. A file that cannot be removed stays."""
        newest_first = sorted(self._put_aside(), reverse=True)
        oldest = datetime.now(UTC) - self._max_age if self._max_age else None  # as above
        for number, (moment, path) in enumerate(newest_first):
            if (self._max_backups and number >= self._max_backups) or (oldest and moment < oldest):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _put_aside(self) -> Iterator[tuple[datetime, Path]]:
        """Those of this log, by the time in their names."""
        start, end = f"{self._path.stem}-", self._path.suffix
        for path in self._path.parent.iterdir():
            if path.name.startswith(start) and path.name.endswith(end):
                with contextlib.suppress(ValueError):
                    text = path.name[len(start) : len(path.name) - len(end)]
                    yield datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=UTC), path


def _opened(path: Path, mode: int = 0o600) -> int:
    return os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, mode)
