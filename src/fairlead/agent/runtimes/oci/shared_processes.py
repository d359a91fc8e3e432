"""The namespace of processes that all containers of a pod share, kept by a process of its own: `holder_process.py`."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.agent import linux
from fairlead.agent.runtimes.oci.layout import SandboxFiles

NAMESPACE: Final = "pid"
_HOLDER: Final = Path(__file__).with_name("holder_process.py")
_START_SECONDS: Final = 30.0
#: Of the kernel's victims, the last.
_OOM_SCORE_ADJ: Final = -998


def share_processes(
    files: SandboxFiles, cgroups: Sequence[Path], least_oom_score_adj: int, *, has_users: bool = False
) -> None:
    """Start the process, and pin its namespace; OSError if that cannot be. The cgroups are where it is to be.

    `has_users`: as one of the users of the pod, who have a namespace of their own.
    """
    files.holder.mkdir()
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-I", "-S", str(_HOLDER)]
    command += [str(files.holder), *([str(files.pin("user"))] if has_users else [])]
    started: list[subprocess.Popen[bytes]] = []
    pipe = subprocess.PIPE

    def start() -> None:
        if not has_users:
            linux.unshare(NAMESPACE)  # of the processes that this thread starts
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe))

    linux.in_own_thread(start)
    holder = started[0]
    assert holder.stdin is not None and holder.stdout is not None and holder.stderr is not None
    with holder.stdin, holder.stdout, holder.stderr:
        is_heard = select.select([holder.stdout], [], [], _START_SECONDS)[0]
        said = holder.stdout.readline() if is_heard else b""
        pid = int(said) if has_users and said.strip().isdigit() else holder.pid
        if not said or (has_users and not holder.stdout.readline()):
            holder.kill()
            raise OSError(holder.stderr.read().decode(errors="replace").strip()[-500:])
        if has_users:
            holder.wait()
        for folder in cgroups:
            (folder / "cgroup.procs").write_text(str(pid))
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(max(_OOM_SCORE_ADJ, least_oom_score_adj)))
        pin = files.pin(NAMESPACE)
        pin.touch()
        linux.mount(f"/proc/{pid}/ns/pid", pin, flags=linux.MS_BIND)
        files.holder_pid.write_text(str(pid))
        holder.stdin.write(b"\n")


def end_processes(files: SandboxFiles) -> None:
    """End it, and with it all in its namespace; that there is none is well."""
    if pid := holder_of(files):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)  # if it is ours; the children of an agent that is gone are others'


def holder_of(files: SandboxFiles) -> int:
    """The pid of the process; 0 if it is gone, even if another has its number now."""
    with suppress(OSError, ValueError):
        pid = int(files.holder_pid.read_text())
        if os.fsencode(files.holder) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    return 0
