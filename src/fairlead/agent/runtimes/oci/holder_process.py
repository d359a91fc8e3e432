"""The first process of a pod whose containers see each other's: a namespace of processes lasts as long as its first.

A program of its own, which imports nothing of ours. The containers see it, and one that may trace others can have it
do whatever it may: so it has an empty root, namespaces in which nothing is, and no capability.
Whoever is left alone there becomes its child, and is not waited for by anybody: the kernel takes those away at once.
It goes on once it is told so, or ends with whoever started it. Arguments: the folder, and if the pod has users of its
own, the file of their namespace: then it makes the namespace of processes as one of theirs, and says its pid first.
"""

import ctypes
import os
import signal
import sys

_NEW_USER, _NEW_PROCESSES, _NEW_MOUNTS = 0x10000000, 0x20000000, 0x00020000
_NEW_NETWORK, _NEW_IPC, _NEW_NAMES, _NEW_CGROUPS = 0x40000000, 0x08000000, 0x04000000, 0x02000000
_READ_ONLY, _NOSUID, _NODEV, _NOEXEC, _DETACH = 0x1, 0x2, 0x4, 0x8, 0x2
_DROP_FROM_BOUNDING_SET, _NO_NEW_PRIVILEGES = 24, 38
_CAPABILITIES_VERSION, _CAPABILITIES_WORDS = 0x20080522, 6


def _empty_root(folder: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _READ_ONLY | _NOSUID | _NODEV | _NOEXEC
    _check(libc.mount(b"none", folder, b"tmpfs", flags, None))
    os.chdir(folder)
    _check(libc.pivot_root(b".", b"."))
    _check(libc.umount2(b".", _DETACH))
    os.chdir("/")


def _be_of(users: str) -> None:
    """In a process of its own, with our credentials still: those users have no way to the folder."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(users, os.O_RDONLY | os.O_CLOEXEC)
    _check(libc.setns(namespace, _NEW_USER))
    os.close(namespace)
    _check(libc.unshare(_NEW_PROCESSES | _NEW_MOUNTS))
    if pid := os.fork():
        os.write(sys.stdout.fileno(), f"{pid}\n".encode())
        os._exit(0)


def _become_root() -> None:
    """Of those users."""
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _give_up_all() -> None:
    """What root may do, and what it would see of the machine's network."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_NEW_NETWORK | _NEW_IPC | _NEW_NAMES | _NEW_CGROUPS))
    capability = 0
    while libc.prctl(_DROP_FROM_BOUNDING_SET, ctypes.c_ulong(capability), 0, 0, 0) == 0:
        capability += 1
    _check(libc.prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), 0, 0, 0))
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * _CAPABILITIES_WORDS)()
    _check(libc.capset(header, none))


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the kernel keeps from the first process of a namespace
    folder, *users = sys.argv[1:]
    if users:
        _be_of(users[0])
    _empty_root(os.fsencode(folder))
    if users:
        _become_root()
    _give_up_all()
    os.write(sys.stdout.fileno(), b"ready\n")
    if not os.read(sys.stdin.fileno(), 1):
        sys.exit(1)
    for stream in (0, 1):
        os.close(stream)
    while True:
        signal.pause()
