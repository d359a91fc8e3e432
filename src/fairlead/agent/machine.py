"""What this machine is and has, as a node tells it."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Final

from fairlead import COMPATIBILITY_VERSION
from fairlead.api.objects import Obj
from fairlead.node.allocatable import Machine

#: As Go names processors.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "riscv64": "riscv64"}
_HUGE_PAGES: Final = Path("/sys/kernel/mm/hugepages")
SWAPS: Final = Path("/proc/swaps")


def machine(root: Path) -> Machine:
    """`root` is where pods write: its file system is the node's."""
    return Machine(
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=meminfo()["MemTotal"],
        ephemeral_storage_bytes=shutil.disk_usage(root).total,
        max_pid=int(Path("/proc/sys/kernel/pid_max").read_text()),
        huge_pages=_huge_pages(),
    )


def meminfo() -> dict[str, int]:
    """/proc/meminfo in bytes."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * (1024 if words[-1] == "kB" else 1) for words in lines}


def _huge_pages() -> dict[str, int]:
    if not _HUGE_PAGES.is_dir():
        return {}
    found = {}
    for folder in _HUGE_PAGES.iterdir():
        kib = int(folder.name.removeprefix("hugepages-").removesuffix("kB"))
        size = f"{kib // (1 << 20)}Gi" if kib % (1 << 20) == 0 else f"{kib // 1024}Mi"
        found[size] = int((folder / "nr_hugepages").read_text())
    return found


def architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def node_info() -> Obj:
    """But for the runtime."""
    return {
        "machineID": _text("/etc/machine-id"),
        "systemUUID": _text("/sys/class/dmi/id/product_uuid") or _text("/etc/machine-id"),
        "bootID": _text("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": platform.release(),
        "osImage": _os_image(),
        "kubeletVersion": f"v{COMPATIBILITY_VERSION}.0",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": architecture(),
        **({"swap": {"capacity": swap}} if (swap := swap_bytes()) else {}),
    }


def is_swap_on() -> bool:
    """The first line says what stands in the others."""
    return len(_text(str(SWAPS)).splitlines()) > 1


def swap_bytes() -> int:
    return meminfo().get("SwapTotal", 0)


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "Linux"


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
