"""Begins a keeper that may mount for the machine: what a container mounts in certain folders is to be seen there.

A program of its own, which imports nothing of ours, in a copy of the machine's mounts that is still of one group with
them. Those folders stay so; of all others the keeper only sees what comes and goes on the machine.
Arguments: the folders, `--`, and the command that goes on.
"""

import ctypes
import os
import sys

#: open_tree(2), move_mount(2): these have the same numbers everywhere.
_OPEN_TREE, _MOVE_MOUNT = 428, 429
_CLONE, _RECURSIVE, _FROM_DESCRIPTOR, _HERE = 0x1, 0x8000, 0x4, -100
_WITH_ALL_BELOW, _SLAVE = 0x4000, 1 << 19

_libc = ctypes.CDLL(None, use_errno=True)


def _begin(folders: list[bytes]) -> None:
    """A copy of each that is nowhere mounted is not made a slave with the others, and then lies over it."""
    copies = [_called(_OPEN_TREE, _HERE, folder, _CLONE | _RECURSIVE | os.O_CLOEXEC) for folder in folders]
    _check(_libc.mount(None, b"/", None, _WITH_ALL_BELOW | _SLAVE, None))
    for copy, folder in zip(copies, folders, strict=True):
        _called(_MOVE_MOUNT, copy, b"", _HERE, folder, _FROM_DESCRIPTOR)
        os.close(copy)


def _called(number: int, *arguments: int | bytes) -> int:
    found: int = _libc.syscall(ctypes.c_long(number), *arguments)
    _check(min(found, 0))
    return found


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


if __name__ == "__main__":
    end = sys.argv.index("--")
    _begin([os.fsencode(folder) for folder in sys.argv[1:end]])
    command = sys.argv[end + 1 :]
    os.execvp(command[0], command)
