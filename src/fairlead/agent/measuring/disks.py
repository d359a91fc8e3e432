"""What a cgroup has read from disks and written to them, as far as the kernel counts that for it.

cgroup v1 counts what is read and what bypasses the page cache; what is written back later belongs to nobody there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.node.stats.measurements import DiskMeasurements

_BYTES_V1: Final = "blkio.throttle.io_service_bytes_recursive"
_OPERATIONS_V1: Final = "blkio.throttle.io_serviced_recursive"
_STAT_V2: Final = "io.stat"
_MOST_DEVICES: Final = 1024


def disks(cgroups: Cgroups, path: str) -> tuple[DiskMeasurements, ...]:
    """Empty where nothing was counted."""
    return tuple(_of_v2(cgroups, path) if cgroups.hierarchies.version == 2 else _of_v1(cgroups, path))


@lru_cache(_MOST_DEVICES)  # of hundreds of pods, each time; a number is another disk's after years, if ever
def device_name(number: str) -> str:
    """Of a device by its MAJOR:MINOR; that itself where it is no disk."""
    try:
        return f"/dev/{Path(f'/sys/dev/block/{number}').readlink().name}"
    except OSError:
        return number


def _of_v2(cgroups: Cgroups, path: str) -> Iterator[DiskMeasurements]:
    for line in (cgroups.read(path, _STAT_V2) or "").splitlines():
        number, *pairs = line.split()
        figures = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        if "rbytes" in figures:
            amounts = [int(figures.get(name, 0)) for name in ("rbytes", "wbytes", "rios", "wios")]
            yield DiskMeasurements(device_name(number), *_numbers(number), *amounts)


def _of_v1(cgroups: Cgroups, path: str) -> Iterator[DiskMeasurements]:
    sizes = _table_v1(cgroups.read(path, _BYTES_V1))
    operations = _table_v1(cgroups.read(path, _OPERATIONS_V1)) if sizes else {}
    for number, amounts in sizes.items():
        counts = operations.get(number, {})
        figures = [of.get(name, 0) for of in (amounts, counts) for name in ("Read", "Write")]
        yield DiskMeasurements(device_name(number), *_numbers(number), *figures)


def _table_v1(text: str | None) -> dict[str, dict[str, int]]:
    """By device, then by kind of operation; the line of the total has two words."""
    found: dict[str, dict[str, int]] = {}
    for line in (text or "").splitlines():
        words = line.split()
        if len(words) == 3:
            found.setdefault(words[0], {})[words[1]] = int(words[2])
    return found


def _numbers(number: str) -> tuple[int, int]:
    major, _, minor = number.partition(":")
    return int(major), int(minor)
