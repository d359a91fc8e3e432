"""The few system calls that Python has no function for: mounts and namespaces.

They may wait for the kernel, and a namespace is entered by a thread, so callers are in threads of their own.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import socket
import struct
import threading
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Final

MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18
MS_SLAVE: Final = 1 << 19
MS_SHARED: Final = 1 << 20
MNT_DETACH: Final = 0x2

#: By name of the namespace, as /proc/PID/ns has it.
NAMESPACES: Final[Mapping[str, int]] = {
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "pid": 0x20000000,
    "mnt": 0x00020000,
    "user": 0x10000000,
}
#: open_tree(2), move_mount(2), mount_setattr(2): these have the same numbers everywhere.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH, _MOUNT_ATTR_RDONLY, _MOUNT_ATTR_IDMAP = 0x1, 0x4, 0x1, 0x100000
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
PR_SET_PDEATHSIG: Final = 1
PR_CAPBSET_READ: Final = 23
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
#: openat2(2), likewise.
_OPENAT2, _RESOLVE_NO_XDEV, _RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 437, 0x01, 0x02, 0x10
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1

_NONE: Final[Mapping[str, str]] = {}
#: As the kernel writes blanks and backslashes of a path.
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")

_libc: Final = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    encoded = (os.fsencode(source), os.fsencode(target), kind.encode() or None, flags, data.encode() or None)
    _checked(_libc.mount(*encoded), str(target))


def unmount(target: Path) -> None:
    """At once for new users, in the end for those that are still there."""
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), str(target))


def mountinfo(pid: int | None = None) -> list[str]:
    """What a process sees mounted, ourselves if none is named: a line for each, in the words of proc(5). OSError.

    Fields are apart by single blanks alone, and lines by line feeds: names may have whatever else divides texts, and
    bytes that are no text. `unescaped` tells a name.
    """
    lines = os.fsdecode(Path(f"/proc/{pid or 'self'}/mountinfo").read_bytes())
    return lines.rstrip("\n").split("\n")


def unescaped(name: str) -> str:
    """A name of a line of `mountinfo`."""
    return _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), name) if "\\" in name else name


def mount_points(below: Path) -> list[Path]:
    """All mount points at or below a folder, the latest first."""
    folder, found = str(below), []
    prefix = folder.rstrip("/") + "/"
    for line in mountinfo():  # thousands, where there are many pods
        point = unescaped(line.split(" ", 5)[4])
        if point == folder or point.startswith(prefix):
            found.append(Path(point))
    return found[::-1]


def mount_of(path: Path) -> tuple[Path, bool]:
    """Where that is mounted in which the path is, and whether what is mounted in it shows wherever it does."""
    wanted, found = str(path.resolve()), (Path("/"), False)
    for line in mountinfo():
        fields = line.split(" ")
        point = unescaped(fields[4])
        is_in = wanted == point or wanted.startswith(point.rstrip("/") + "/")
        if is_in and len(point) >= len(str(found[0])):  # the last of several at one point lies over the others
            optional = fields[6 : fields.index("-", 6)]
            found = Path(point), any(each.startswith("shared:") for each in optional)
    return found


def unmount_below(folder: Path) -> None:
    for point in mount_points(folder):
        unmount(point)


def share_mounts_of(folder: Path) -> bool:
    """Make the folder a mount of its own, whose mounts come and go for those who have copied our mounts as well.

    What was mounted in it stays there, such as a disk for images. Returns whether it is a mount only now.

    A container's keeper lives in a copy of our mounts. Without this, a tmpfs or a namespace that is pinned in the
    folder would stay for as long as any container that started meanwhile.
    """
    if is_new := folder not in mount_points(folder):
        mount(str(folder), folder, flags=MS_BIND | MS_REC)
    mount("", folder, flags=MS_SHARED)
    return is_new


def pin_namespaces(pins: Mapping[str, Path], hostname: str, sysctls: Mapping[str, str] = _NONE) -> None:
    """Make new namespaces, which last as long as the files that they are pinned to; the loopback device is up in them.

    `sysctls` are values of files below /proc/sys, which shows each thread those of its own namespaces. A thread of its
    own enters them, and ends in them.
    """

    def make() -> None:
        flags = 0
        for name, pin in pins.items():
            flags |= NAMESPACES[name]
            pin.touch()
        _checked(_libc.unshare(flags), "new namespaces")
        _set_up(pins, hostname)
        for file, value in sysctls.items():
            Path("/proc/sys", file).write_text(value)
        for name, pin in pins.items():
            mount(f"/proc/self/task/{threading.get_native_id()}/ns/{name}", pin, flags=MS_BIND)

    in_own_thread(make)


def set_up_namespaces(pins: Mapping[str, Path], hostname: str) -> None:
    """The same for namespaces that are there, and pinned."""

    def enter() -> None:
        for name, pin in pins.items():
            descriptor = os.open(pin, os.O_RDONLY | os.O_CLOEXEC)
            try:
                set_namespace(descriptor, name)
            finally:
                os.close(descriptor)
        _set_up(pins, hostname)

    in_own_thread(enter)


def mount_for_users(source: Path, target: Path, user_namespace: int) -> None:
    """Mount it there with all below it, so that in that namespace its files have the owners that they have here.

    Since Linux 5.12, by file system; `user_namespace` is a descriptor of it.
    """
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    tree = _called(_OPEN_TREE, _AT_FDCWD, os.fsencode(source), flags, about=str(source))
    try:
        attributes = struct.pack("QQQQ", _MOUNT_ATTR_IDMAP, 0, 0, user_namespace)
        size = ctypes.c_size_t(len(attributes))
        _called(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, attributes, size, about=str(source))
        _called(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH, about=str(target))
    finally:
        os.close(tree)


def unshare(*namespaces: str) -> None:
    """Leave them for new ones: in a thread of its own."""
    flags = 0
    for name in namespaces:
        flags |= NAMESPACES[name]
    _checked(_libc.unshare(flags), f"a new {' and '.join(namespaces)} namespace")


def set_namespace(descriptor: int, namespace: str) -> None:
    """Enter the one that is open there: in a thread of its own."""
    _checked(_libc.setns(descriptor, NAMESPACES[namespace]), f"{namespace} namespace")


def make_read_only(target: Path, *, is_recursive: bool = False) -> None:
    """A mount as it is now, whatever else it may or may not."""
    attributes = struct.pack("QQQQ", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = _AT_RECURSIVE if is_recursive else 0
    size = ctypes.c_size_t(len(attributes))
    _called(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), flags, attributes, size, about=str(target))


def open_within(folder: Path, path: str) -> int:
    """A descriptor (O_PATH) of what that is in the folder, out of which no symlink leads. OSError; since Linux 5.6."""
    root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _opened(path, root, os.O_PATH | os.O_CLOEXEC, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    finally:
        os.close(root)


def open_unmounted(name: str, within: int, flags: int) -> int:
    """As os.open, but OSError if something is mounted there; before Linux 5.6 nobody notices that."""
    try:
        return _opened(name, within, flags, _RESOLVE_NO_XDEV)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        return os.open(name, flags, dir_fd=within)


def pivot_here() -> None:
    """Make the working directory, which is a mount, the root; what was the root lies over it until it is unmounted."""
    _checked(_libc.pivot_root(b".", b"."), "the root")


def prctl(option: int, value: int = 0) -> int:
    """What it returns, which is not negative."""
    found: int = _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0)
    _checked(min(found, 0), f"prctl {option}")
    return found


def socket_in(netns: Path | None, family: int, kind: int, protocol: int) -> socket.socket:
    """A socket that sees the network of that namespace, whoever uses it; None: the machine's."""
    if netns is None:
        return socket.socket(family, kind, protocol)
    made: list[socket.socket] = []

    def make() -> None:
        descriptor = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _checked(_libc.setns(descriptor, NAMESPACES["net"]), str(netns))
        finally:
            os.close(descriptor)
        made.append(socket.socket(family, kind, protocol))

    in_own_thread(make)
    return made[0]


def in_own_thread(work: Callable[[], None]) -> None:
    """For work that leaves its thread in another namespace."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # it is raised where it can be caught
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _set_up(names: Container[str], hostname: str) -> None:
    """The namespaces that this thread is in."""
    if "uts" in names:
        encoded = hostname.encode()
        _checked(_libc.sethostname(encoded, len(encoded)), hostname)
    if "net" in names:
        _bring_up_loopback()


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("16xH", fcntl.ioctl(control, _SIOCGIFFLAGS, request))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def _opened(path: str, within: int, flags: int, resolve: int) -> int:
    how = struct.pack("QQQ", flags, 0, resolve)
    return _called(_OPENAT2, within, os.fsencode(path), how, ctypes.c_size_t(len(how)), about=path)


def _called(number: int, *arguments: int | bytes | ctypes.c_size_t, about: str) -> int:
    """A system call that the C library may have no function for."""
    found: int = _libc.syscall(ctypes.c_long(number), *arguments)
    _checked(min(found, 0), about)
    return found


def _checked(result: int, about: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), about)
