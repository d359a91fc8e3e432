"""What every process says of itself: its time, memory and descriptors, and who has held its event loop.

Names are those of Prometheus' client libraries. Where there is no `/proc`, only the event loop is told of.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from fairlead.runtime.metrics import COUNTER, GAUGE, Computed, Family, Labels
from fairlead.runtime.watchdog import HOLDS, LONGEST_SECONDS

_PROCESS: Final = Path("/proc/self")
#: Where `/proc/self/stat` says these, counted after the name of the program.
_USER_TICKS, _SYSTEM_TICKS, _START_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 11, 12, 19, 20, 21


def process_families() -> list[Family]:
    """Of this process."""
    return [
        _process(COUNTER, "process_cpu_seconds_total", "Processor time, user and system.", _cpu_seconds),
        _process(GAUGE, "process_open_fds", "Open file descriptors.", open_descriptors),
        _process(GAUGE, "process_max_fds", "How many there may be.", most_descriptors),
        _process(GAUGE, "process_virtual_memory_bytes", "Virtual memory.", lambda: _stat()[_VIRTUAL_BYTES]),
        _process(GAUGE, "process_resident_memory_bytes", "Resident memory.", _resident_bytes),
        process_start(),
        Computed(
            COUNTER,
            "fairlead_event_loop_holds_total",
            f"Turns that held the event loop for more than {LONGEST_SECONDS} seconds, by the component.",
            ("component",),
            lambda: [((component,), count) for component, count in HOLDS.count.items()],
        ),
        Computed(
            COUNTER,
            "fairlead_event_loop_held_seconds_total",
            "For how many seconds these turns held the event loop, by the component.",
            ("component",),
            lambda: [((component,), seconds) for component, seconds in HOLDS.seconds.items()],
        ),
    ]


def process_start() -> Family:
    """When this process began."""
    return _process(GAUGE, "process_start_time_seconds", "Start of the process, in seconds of the epoch.", _started_at)


def _process(kind: str, name: str, text: str, value: Callable[[], float]) -> Family:
    def read() -> Iterable[tuple[Labels, float]]:
        return [((), value())] if _PROCESS.exists() else []

    return Computed(kind, name, text, (), read)


def _stat() -> list[int]:
    text = (_PROCESS / "stat").read_text()
    fields = text.rpartition(")")[2].split()
    return [int(field) if field.lstrip("-").isdigit() else 0 for field in fields]


def _cpu_seconds() -> float:
    stat = _stat()
    return (stat[_USER_TICKS] + stat[_SYSTEM_TICKS]) / os.sysconf("SC_CLK_TCK")


def _resident_bytes() -> float:
    return _stat()[_RESIDENT_PAGES] * resource.getpagesize()


def _started_at() -> float:
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + _stat()[_START_TICKS] / os.sysconf("SC_CLK_TCK")


def open_descriptors() -> float:
    return len(list((_PROCESS / "fd").iterdir()))


def most_descriptors() -> float:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
