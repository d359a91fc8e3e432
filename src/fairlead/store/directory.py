"""The data directory: what is where in it, and that one process alone works on it.

Two locks go with the process, however it ends. The file in the directory holds its process id, for whoever wants to
stop it. The other is a name in the kernel, made of the place and not of what is there: it still holds when somebody has
removed the directory under a running server, so that no second one begins an empty cluster beside it. (Other systems
than Linux have no such names; there the port tells.)
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

_DATABASE = "fairlead.db"
#: How often, and how far apart, a lock is tried.
_TRIES, _PAUSE_SECONDS = 20, 0.01


class DataDirInUse(Exception):
    """Another process works on the same data directory."""


def database_in(data_dir: Path) -> Path:
    return data_dir / _DATABASE


def lock_in(data_dir: Path) -> Path:
    return data_dir / "lock"


def credentials_in(data_dir: Path) -> Path:
    """Made by the first server that was ready, so a database beside them once had content."""
    return data_dir / "pki"


def kubeconfig_in(data_dir: Path) -> Path:
    """The one that leads to this cluster and to no other."""
    return data_dir / "kubeconfig"


def record_in(data_dir: Path) -> Path:
    """How to reach the server, as it says when it is ready."""
    return data_dir / "cluster.json"


def log_in(data_dir: Path) -> Path:
    """What a server in the background says."""
    return data_dir / "fairlead.log"


def has_been_used(data_dir: Path) -> bool:
    """Whether a cluster was kept there, as far as can be told without its database."""
    return credentials_in(data_dir).exists()


def is_unused(data_dir: Path) -> bool:
    """Whether no cluster was ever kept there."""
    return not has_been_used(data_dir) and not database_in(data_dir).exists()


def discard(data_dir: Path) -> None:
    """Remove what a cluster that does not run has left there. What is not ours stays, and so does its folder."""
    credentials = credentials_in(data_dir)
    ours = (lock_in(data_dir), kubeconfig_in(data_dir), record_in(data_dir))
    for path in (*data_dir.glob(f"{_DATABASE}*"), *credentials.glob("*"), *ours):
        path.unlink(missing_ok=True)
    for folder in (credentials, data_dir):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """Have the data directory for this process alone; made if need be. Raises DataDirInUse."""
    with ExitStack() as stack:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _taken(data_dir)
        stack.callback(os.close, lock)
        os.ftruncate(lock, 0)
        if sys.platform == "linux":
            place = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            try:
                _take_place(data_dir, place)
            except DataDirInUse:
                _leave(data_dir)
                raise
        _outdate(record_in(data_dir))
        os.write(lock, b"%d" % os.getpid())
        yield


def _taken(data_dir: Path) -> int:
    """The lock, which is ours. Whoever looks whether it is held (`fairlead status`) has it for an instant."""
    path = lock_in(data_dir)
    for _ in range(_TRIES):
        lock = _opened(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            time.sleep(_PAUSE_SECONDS)
            continue
        if _is_at(lock, path):
            return lock
        os.close(lock)  # whoever had it has removed it, and the next one makes another
    raise DataDirInUse(f"{data_dir} is in use by another fairlead")


def _is_at(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except FileNotFoundError:
        return False


def _leave(data_dir: Path) -> None:
    """Take the lock away, and the directory if nothing else is in it."""
    lock_in(data_dir).unlink(missing_ok=True)
    if not any(data_dir.iterdir()):
        data_dir.rmdir()


def _outdate(record: Path) -> None:
    """A record is of a process that was ready before. In a container the next one may well have the same id."""
    with suppress(FileNotFoundError, msgspec.DecodeError):
        former = msgspec.json.decode(record.read_bytes(), type=dict)
        record.write_bytes(msgspec.json.encode(former | {"pid": 0}))


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "is a symbolic link, which is not followed: remove it", str(path)) from None


def _take_place(data_dir: Path, place: socket.socket) -> None:
    """By the folder that the directory is in: a container next door may have the same path, but not the same folder."""
    resolved = data_dir.resolve()
    parent = resolved.parent.stat()
    place_id = f"{os.getuid()}/{parent.st_dev}/{parent.st_ino}/{resolved.name}"
    try:
        place.bind(b"\0fairlead/" + blake2b(place_id.encode(), digest_size=16).hexdigest().encode())
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        why = f"{data_dir} was removed under another fairlead, which still runs and can no longer write"
        raise DataDirInUse(why) from None
