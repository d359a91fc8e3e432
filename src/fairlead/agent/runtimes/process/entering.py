"""A command in a container that runs, a program: `kubectl exec`, probes and hooks.

Arguments: the container's bundle, the pid of its first process, whether there is a terminal, and the command.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.agent import linux
from fairlead.agent.runtimes.process.becoming import (
    NoProgram,
    all_capabilities,
    drop_capabilities,
    found_program,
    go_to,
    run,
    take_terminal,
)
from fairlead.agent.runtimes.process.bundle import FILE, Bundle

#: The user's own comes last: with it goes what opens the others.
_NAMESPACES: Final = ("uts", "ipc", "pid", "mnt", "user")
_NOT_FOUND: Final = 127
_NOT_RUN: Final = 126


def main() -> None:
    folder, pid, has_terminal, *argv = sys.argv[1:]
    bundle: Bundle = json.loads(Path(folder, FILE).read_bytes())
    known = all_capabilities()
    with suppress(OSError):
        os.sched_setaffinity(0, os.sched_getaffinity(int(pid)))
    _enter(pid)
    child = os.fork()  # which is in the container's namespace of processes
    if child == 0:
        try:
            _run(bundle, known, argv, has_terminal=has_terminal == "terminal")
        except NoProgram as problem:
            _fail(problem, _NOT_FOUND)
        except OSError as problem:
            _fail(problem, _NOT_RUN)
        finally:
            os._exit(_NOT_RUN)
    for stream in (0, 1, 2):
        os.close(stream)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(128 - code if code < 0 else code)


def _enter(pid: str) -> None:
    """In whatever of its namespaces this process is not; all are opened while they can be seen."""
    opened = {name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in _NAMESPACES}
    own = {name: Path(f"/proc/self/ns/{name}").stat().st_ino for name in _NAMESPACES}
    for name, descriptor in opened.items():
        if os.fstat(descriptor).st_ino != own[name]:
            linux.set_namespace(descriptor, name)
        os.close(descriptor)


def _run(bundle: Bundle, known: range, argv: list[str], *, has_terminal: bool) -> None:
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.umask(0o022)
    if has_terminal:
        take_terminal(0)
    drop_capabilities(known, bundle["capabilities"])
    go_to(bundle["working_dir"])
    env = {**bundle["env"], **({"TERM": "xterm"} if has_terminal else {})}
    run(found_program(argv, env), argv, env, has_no_new_privileges=bundle["has_no_new_privileges"])


def _fail(problem: Exception, code: int) -> None:
    with suppress(OSError):
        os.write(2, f"{problem}\n".encode())
    os._exit(code)
