"""The first process of a pod whose containers see each other's: a namespace of processes lasts as long as its first.

A program of its own, which imports nothing of ours. The containers see it, so it has no root but an empty folder.
Whoever is left alone there becomes its child, and is not waited for by anybody: the kernel takes those away at once.
Argument: the folder. It goes on once it is told so, or ends with whoever started it.
"""

import ctypes
import os
import signal
import sys

_READ_ONLY, _NOSUID, _NODEV, _NOEXEC, _DETACH = 0x1, 0x2, 0x4, 0x8, 0x2


def _empty_root(folder: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _READ_ONLY | _NOSUID | _NODEV | _NOEXEC
    _check(libc.mount(b"none", folder, b"tmpfs", flags, None))
    os.chdir(folder)
    _check(libc.pivot_root(b".", b"."))
    _check(libc.umount2(b".", _DETACH))
    os.chdir("/")


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the kernel keeps from the first process of a namespace
    _empty_root(os.fsencode(sys.argv[1]))
    os.write(sys.stdout.fileno(), b"ready\n")
    if not os.read(sys.stdin.fileno(), 1):
        sys.exit(1)
    for stream in (0, 1):
        os.close(stream)
    while True:
        signal.pause()
