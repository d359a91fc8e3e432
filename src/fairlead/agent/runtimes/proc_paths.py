"""What a container does not see of the machine, or cannot write, unless it asks for `procMount: Unmasked`.

Kubernetes leaves it to the runtime; this is what containerd has, and a runtime behind CRI is told the same.
"""

from __future__ import annotations

from typing import Final

MASKED: Final = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
