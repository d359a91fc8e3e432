"""The keeper of one container, a program: it holds its streams, writes its log, and tells how it ended.

    launched ─▶ (the container's process enters its root) ─▶ reports its pid ─▶ asked to start ─▶ … ─▶ exit file

It does what conmon does, whose socket and pipe (`conmon_streams.py`, `conmon_control.py`) it answers in the same words.
It outlives the agent, and its container dies with it. Arguments: the container's folder and its id; where to report is
told as to conmon.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fairlead.agent import linux
from fairlead.agent.runtimes.process import bundle as bundles
from fairlead.agent.runtimes.process.becoming import (
    NoProgram,
    all_capabilities,
    be_user,
    drop_capabilities,
    found_program,
    go_to,
    join,
    run,
    take_terminal,
    weigh,
)
from fairlead.agent.runtimes.process.bundle import Bundle
from fairlead.agent.runtimes.process.process_table import children_in, descendants, process_table, rooted
from fairlead.agent.runtimes.process.relay import Relay, Streams
from fairlead.agent.runtimes.process.root_mounts import enter_root

_LONGEST: Final = 1 << 16
#: Of what is told of a problem, in characters: a program may be called anything.
_LONGEST_PROBLEM: Final = 1000
#: As long as the longest.
_NO_CODE: Final = " " * 3
#: Between looks at those who were killed, in seconds.
_SHORTEST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.5
#: `oci/keeper.py`'s `REPORT_TO`: a keeper loads nothing that it does not need.
_REPORT_TO: Final = "_OCI_SYNCPIPE"


def main() -> None:
    folder, report_to = Path(sys.argv[1]), int(os.environ[_REPORT_TO])
    os.set_inheritable(report_to, False)
    if os.fork():
        os._exit(0)
    (folder / "conmon.pid").write_text(str(os.getpid()))
    bundle: Bundle = json.loads((folder / bundles.FILE).read_bytes())
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    os.chdir(folder)  # the path may be longer than the address of a socket
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    streams, given = Streams.made(has_stdin=bundle["has_stdin"], has_tty=bundle["has_tty"])
    try:
        pid = _begin(bundle, ours, theirs, given)
    except OSError as refusal:
        _report(report_to, {"problem": str(refusal)})
        return
    said, terminal = _hear(ours)
    if terminal:
        streams = Streams.of_terminal(terminal[0])
    if problem := said.get("problem"):
        os.waitpid(pid, 0)
        _report(report_to, {"problem": problem, "is_missing": said.get("is_missing", False)})
        return
    relay = Relay(bundle, streams, ours, pid)
    scratch = Path("exits", f"{folder.name}.new")
    scratch.write_text(_NO_CODE)  # there may be no room on the disk when there is a code
    _report(report_to, {"pid": pid})
    code = relay.run()
    _end_all(folder.name)
    relay.drain()
    with scratch.open("r+") as file:
        file.write(str(code).ljust(len(_NO_CODE)))
    scratch.replace(scratch.with_suffix(""))


def _begin(bundle: Bundle, ours: socket.socket, theirs: socket.socket, given: list[int]) -> int:
    """The container's first process, by its number on the machine."""
    if bundle["pid"]:
        join("pid", bundle["pid"])
    elif bundle["has_own_processes"]:
        linux.unshare("pid")
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _become(bundle, theirs, given)
        except NoProgram as problem:
            _tell(theirs, {"problem": str(problem)[:_LONGEST_PROBLEM], "is_missing": True})
        except BaseException as problem:
            _tell(theirs, {"problem": str(problem)[:_LONGEST_PROBLEM] or type(problem).__name__})
        finally:
            os._exit(128)
    theirs.close()
    for descriptor in given:
        os.close(descriptor)
    return pid


def _become(bundle: Bundle, theirs: socket.socket, given: list[int]) -> None:
    """In the container's process; it returns only by an exception."""
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    weigh(bundle)
    known = all_capabilities()
    join("uts", bundle["uts"])
    join("ipc", bundle["ipc"])
    linux.unshare("mnt")
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    enter_root(bundle)
    os.umask(0o022)
    terminal: list[int] = []
    if bundle["has_tty"]:
        master, slave = os.openpty()
        take_terminal(slave)
        terminal = [master]
    else:
        for stream, descriptor in enumerate(given):
            os.dup2(descriptor, stream)
    be_user(bundle["uid"], bundle["gid"], proc)
    os.close(proc)
    drop_capabilities(known, bundle["capabilities"])
    go_to(bundle["working_dir"])
    program = found_program(bundle["argv"], bundle["env"])
    _tell(theirs, {}, terminal)
    for descriptor in terminal:
        os.close(descriptor)
    if not theirs.recv(1):
        return
    run(program, bundle["argv"], bundle["env"], has_no_new_privileges=bundle["has_no_new_privileges"])


def _tell(theirs: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    with suppress(OSError):
        socket.send_fds(theirs, [json.dumps(message).encode()], descriptors or [])


def _hear(ours: socket.socket) -> tuple[dict[str, Any], list[int]]:
    data, descriptors, _, _ = socket.recv_fds(ours, _LONGEST, 1)
    if not data:
        return {"problem": "the container's process ended before it was one"}, []
    return json.loads(data), descriptors


def _report(report_to: int, message: dict[str, Any]) -> None:
    with suppress(OSError):  # nobody may wait for it any more
        os.write(report_to, json.dumps(message).encode() + b"\n")
    os.close(report_to)


def _end_all(container: str) -> None:
    """Whatever the container has left: all of it are children of ours by now or become so, but for those who are alone
    in the processes of their pod. Nobody is killed before all are stopped, or others would be made in the meantime.

    One that the kernel does not let die, or that another container traces, is waited for without haste.
    """
    stopped, pause = set[int](), _SHORTEST_PAUSE
    while True:
        left = {*descendants(children_in(process_table()), os.getpid()), *rooted([container])}
        _send(signal.SIGSTOP, left - stopped)
        if left <= stopped:
            _send(signal.SIGKILL, left)
            if not _has_children() and not left:
                return
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        stopped = left


def _send(number: int, pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _has_children() -> bool:
    """Once those are buried that have died."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
