"""Which settings of the kernel a pod may have: the safe ones, and what a node's configuration allows besides.

A setting that the kernel does not keep by namespace would be that of the whole machine.
Sources: pkg/kubelet/sysctl, k8s.io/component-helpers/node/util/sysctl.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.node.admission import Refusal

FORBIDDEN: Final = "SysctlForbidden"
SAFE: Final = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)
_IPC, _NET = "hostIPC", "hostNetwork"
#: As refusals name them.
_HOST: Final = {_IPC: "ipc", _NET: "net"}
_SWAPPED: Final = str.maketrans("./", "/.")
_NAMESPACES: Final = {"kernel.shm": _IPC, "kernel.msg": _IPC, "kernel.sem": _IPC, "fs.mqueue.": _IPC, "net.": _NET}


def sysctl_refusal(spec: Obj, allowed: Iterable[str]) -> Refusal | None:
    """`allowed` are names and, with a `*` at the end, beginnings of names."""
    patterns = [dotted(pattern) for pattern in (*SAFE, *allowed)]
    for sysctl in (spec.get("securityContext") or {}).get("sysctls") or ():
        name = dotted(sysctl["name"])
        problem = ""
        if not any(_is_match(name, pattern) for pattern in patterns):
            problem = f"{go_quote(name)} not allowlisted"
        elif spec.get(field := _namespace(name)):
            problem = f"{go_quote(name)} not allowed with host {_HOST[field]} enabled"
        if problem:
            return Refusal(FORBIDDEN, f"forbidden sysctl: {problem}")
    return None


def pattern_problem(patterns: Iterable[str]) -> str:
    """What is wrong with the patterns of a configuration; nothing if all is well."""
    for pattern in patterns:
        if not _namespace(dotted(pattern)):
            verb = "sysctls" if pattern.endswith("*") else "sysctl"
            return f"the {verb} {go_quote(dotted(pattern))} are not known to be namespaced"
    return ""


def dotted(name: str) -> str:
    """As sysctl(8): whichever of `.` and `/` comes first separates, and the other stands for it within a part."""
    first = next((letter for letter in name if letter in "./"), ".")
    return name if first == "." else name.translate(_SWAPPED)


def file_of(name: str) -> str:
    """Its file below /proc/sys."""
    return dotted(name).translate(_SWAPPED)


def _is_match(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _namespace(name: str) -> str:
    """By the field with which a pod does without its own; empty for what is the whole machine's."""
    return next((field for start, field in _NAMESPACES.items() if name.startswith(start)), "")
