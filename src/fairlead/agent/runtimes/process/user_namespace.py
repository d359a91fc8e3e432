"""A node without root lives in a user namespace, in which its user may mount and make further namespaces.

not there ─▶ (holder started) ─▶ joined by agent after agent, and by reset ─▶ nothing runs: ended
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.agent import linux
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.runtimes.process.programs import command_of

PID: Final = "holder.pid"
_START_SECONDS: Final = 30.0
_SETTINGS: Final = {
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=10000"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}


def enter(root: Path) -> None:
    """Join the user namespace of the node in that folder, which is made if it is not there. Only without other threads,
    and only by whom the folder is held: of two who make one, the second would not see the mounts of the first.

    RuntimeFailure says why this machine allows none, and what would.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    root.chmod(0o700)  # images may have been here first; what pods have is nobody else's
    pid, folder = holder_of(root) or _begin(root), Path.cwd()
    user, mounts = (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("user", "mnt"))
    linux.set_namespace(user, "user")
    linux.set_namespace(mounts, "mnt")
    os.close(user)
    os.close(mounts)
    os.chdir(folder)


def holder_of(root: Path) -> int:
    """Its pid; 0 if there is none, even if another process has the number now."""
    with suppress(OSError, ValueError):
        pid = int((root / PID).read_text())
        if os.fsencode(root) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    return 0


def is_here(root: Path) -> bool:
    """Whether the folder is that of a node without root, or was until the machine was restarted."""
    return (root / PID).exists()


def end(root: Path) -> None:
    """Nothing of it runs any more."""
    if pid := holder_of(root):
        os.kill(pid, signal.SIGKILL)
    (root / PID).unlink(missing_ok=True)


def _begin(root: Path) -> int:
    nothing = subprocess.DEVNULL
    command = command_of("holder", str(root))
    holder = subprocess.Popen(command, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing, start_new_session=True)
    assert holder.stdout is not None
    with holder.stdout:
        is_heard = select.select([holder.stdout], [], [], _START_SECONDS)[0]
        said = holder.stdout.readline().decode() if is_heard else ""
    if said != "\n":
        holder.kill()
        holder.wait()
        raise RuntimeFailure(_why_not(said.strip()))
    (root / PID).write_text(str(holder.pid))
    holder.returncode = 0  # it outlives this process, which need not wait for it
    return holder.pid


def _why_not(said: str) -> str:
    closed = [what for file, (bad, what) in _SETTINGS.items() if _text(file) == bad]
    help_ = f"root can allow it: {closed[0]}" if closed else "a container or a policy of this machine forbids it"
    return (
        f"this machine gives its users no namespaces ({said or 'no answer'}), without which an image cannot be the root"
        f" of its container: {help_}"
    )


def _text(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except OSError:
        return ""
