"""From a process of the node to the first process of a container: names, root, terminal, user, and then its program.

Who it runs as is one user of the machine in any case. A container whose user is not root is shown that user by a user
namespace of its own, in which its files are its own as well.
"""

from __future__ import annotations

import fcntl
import os
import signal
import termios
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fairlead.agent import linux
from fairlead.agent.runtimes.process.bundle import Bundle


class NoProgram(Exception):
    """What is to be run is not there, or is no program."""


def join(namespace: str, file: str) -> None:
    if file:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            linux.set_namespace(descriptor, namespace)
        finally:
            os.close(descriptor)


def weigh(bundle: Bundle) -> None:
    """Only as long as the machine's /proc is seen. What is refused stays as it is."""
    own = Path("/proc/self")
    with suppress(OSError):
        (own / "oom_score_adj").write_text(str(bundle["oom_score_adj"]))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, bundle["nice"])
    if bundle["cpus"]:
        with suppress(OSError):
            os.sched_setaffinity(0, bundle["cpus"])
    with suppress(OSError):  # where the kernel weighs sessions, a process has no say of its own
        (own / "autogroup").write_text(str(bundle["nice"]))


def be_user(uid: int, gid: int, proc: int) -> None:
    """`proc` is open where the kernel shows this process: a user is shown in a namespace of its own."""
    if (uid, gid) == (0, 0):
        return
    linux.unshare("user")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} 0 1"), ("gid_map", f"{gid} 0 1")):
        descriptor = os.open(f"self/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def all_capabilities() -> range:
    """The numbers of those that this kernel knows; only as long as the machine's /proc is seen."""
    return range(int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1)


def drop_capabilities(known: Iterable[int], held: Iterable[int]) -> None:
    for number in set(known) - set(held):
        if linux.prctl(linux.PR_CAPBSET_READ, number):
            linux.prctl(linux.PR_CAPBSET_DROP, number)


def take_terminal(descriptor: int) -> None:
    """Make it the terminal of this process, which begins a session."""
    with suppress(PermissionError):  # it has begun one already
        os.setsid()
    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)
    for stream in (0, 1, 2):
        os.dup2(descriptor, stream)


def go_to(folder: str) -> None:
    """A working directory that is missing is made, as other runtimes do."""
    with suppress(OSError):
        Path(folder).mkdir(parents=True, exist_ok=True)
    os.chdir(folder)


def found_program(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Where the program is; NoProgram, in the words of other runtimes, if it is not."""
    name = argv[0]
    if "/" in name:
        if not Path(name).exists():
            raise NoProgram(f'exec: "{name}": stat {name}: no such file or directory')
        if not _is_program(name):
            raise NoProgram(f'exec: "{name}": permission denied')
        return name
    for folder in env.get("PATH", "").split(":"):
        if _is_program(path := f"{folder or '.'}/{name}"):
            return path
    raise NoProgram(f'exec: "{name}": executable file not found in $PATH')


def run(program: str, argv: Sequence[str], env: Mapping[str, str], *, has_no_new_privileges: bool) -> None:
    """Never returns; OSError if the kernel does not take it. Who started it takes it along."""
    if has_no_new_privileges:
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execve(program, list(argv), dict(env))


def _is_program(path: str) -> bool:
    return Path(path).is_file() and os.access(path, os.X_OK)
