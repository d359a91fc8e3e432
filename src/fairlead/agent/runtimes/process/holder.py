"""What keeps the user namespace of a node without root, a program, and with it the mounts that are made there.

An agent joins it at each start, and so finds the mounts of pods that an earlier one made. It ends with the last of
them, or by `fairlead node reset`. Argument: the folder of the node, by which it is known.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from fairlead.agent import linux


def main() -> None:
    uid, gid = os.geteuid(), os.getegid()
    try:
        linux.unshare("user", "mnt")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        linux.mount("", Path("/"), flags=linux.MS_SLAVE | linux.MS_REC)  # some machines allow one and not the other
    except OSError as problem:
        os.write(1, f"{problem.strerror}\n".encode())
        return
    os.write(1, b"\n")
    os.close(1)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    while True:
        signal.pause()
