"""What a kubelet wants of the kernel. It sets these itself unless `protectKernelDefaults` forbids that, and then wants
them so; this agent leaves the machine as it is, and looks only where it is told to.

Source: setupKernelTunables of pkg/kubelet/cm/container_manager_linux.go, pkg/util/sysctl (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

SYSCTLS: Final = Path("/proc/sys")
_WANTED: Final = {
    "kernel/keys/root_maxbytes": 25_000_000,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
}


def kernel_problem() -> str:
    """What is otherwise; empty if nothing is."""
    found = list(_problems())
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""


def _problems() -> Iterator[str]:
    for flag, wanted in _WANTED.items():
        try:
            actual = int((SYSCTLS / flag).read_text())
        except (OSError, ValueError) as error:
            yield str(error)
            continue
        if actual != wanted:
            yield f"invalid kernel flag: {flag}, expected value: {wanted}, actual value: {actual}"
