"""What a container may do of what root may: the usual of containerd, more and less as its pod says.

A machine may itself be without some of them. Then all means all that it has; one that is named is asked of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from fairlead.agent.runtimes.base import RuntimeFailure, Security

#: In the order of their numbers.
_NAMES: Final = """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
    NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
    SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
    MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
_DEFAULT: Final = """
    AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP SETUID
    SYS_CHROOT
"""
_ALL: Final = "CAP_ALL"
_BOUNDING: Final = re.compile(r"^CapBnd:\s*([0-9a-f]+)$", re.MULTILINE)


def capabilities(security: Security) -> list[str]:
    """What is added wins over what is dropped, unless all is dropped first."""
    if security.is_privileged:
        return sorted(_of_machine())
    added, dropped = _named(security.added_capabilities), _named(security.dropped_capabilities)
    held = set() if _ALL in dropped else _named(_DEFAULT.split()) - dropped
    held = set(_of_machine()) - dropped if _ALL in added else held | added
    if unknown := sorted(held - _named(_NAMES.split())):
        raise RuntimeFailure(f"unknown capability {unknown[0]}")
    return sorted(held)


def numbers(names: Iterable[str]) -> list[int]:
    """As the kernel counts them."""
    wanted = set(names)
    return [number for number, name in enumerate(_NAMES.split()) if f"CAP_{name}" in wanted]


def _named(names: Iterable[str]) -> set[str]:
    return {name if name.startswith("CAP_") else f"CAP_{name}" for name in map(str.upper, names)}


@cache
def _of_machine() -> frozenset[str]:
    found = _BOUNDING.search(Path("/proc/self/status").read_text())
    mask = int(found[1], 16) if found is not None else 0
    return frozenset(f"CAP_{name}" for number, name in enumerate(_NAMES.split()) if mask >> number & 1)
