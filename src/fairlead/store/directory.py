"""The data directory: its layout, and the locks that let only one process use it.

Both locks are released when the process ends, however it ends. The lock file in the directory contains the process id,
for `fairlead down`. The other lock is an abstract Unix socket named after the path: it still holds when the directory
is removed under a running server, so that no second server starts an empty cluster there. (Only Linux has such sockets;
elsewhere the port is taken.)
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
#: How often a lock is tried, and how long it waits in between.
_TRIES, _PAUSE_SECONDS = 20, 0.01


class DataDirInUse(Exception):
    """Another process works on the same data directory."""


def database_in(data_dir: Path) -> Path:
    return data_dir / _DATABASE


def lock_in(data_dir: Path) -> Path:
    return data_dir / "lock"


def credentials_in(data_dir: Path) -> Path:
    """Created by the first server that became ready: a database beside it has had content."""
    return data_dir / "pki"


def kubeconfig_in(data_dir: Path) -> Path:
    """The kubeconfig of this cluster alone."""
    return data_dir / "kubeconfig"


def record_in(data_dir: Path) -> Path:
    """The file in which a ready server says how to reach it."""
    return data_dir / "cluster.json"


def log_in(data_dir: Path) -> Path:
    """The log of a server in the background."""
    return data_dir / "fairlead.log"


def has_been_used(data_dir: Path) -> bool:
    """Whether a cluster was kept there; does not look at the database."""
    return credentials_in(data_dir).exists()


def is_unused(data_dir: Path) -> bool:
    """Whether no cluster was ever kept there."""
    return not has_been_used(data_dir) and not database_in(data_dir).exists()


def discard(data_dir: Path) -> None:
    """Remove the files of a cluster that does not run. Files of others stay, and then the folder does too."""
    credentials = credentials_in(data_dir)
    ours = (lock_in(data_dir), kubeconfig_in(data_dir), record_in(data_dir))
    for path in (*data_dir.glob(f"{_DATABASE}*"), *credentials.glob("*"), *ours):
        path.unlink(missing_ok=True)
    for folder in (credentials, data_dir):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """Hold both locks while the block runs; creates the directory if needed. Raises DataDirInUse."""
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
    """The locked lock file. Retries: `fairlead status` holds the lock for an instant when it tests it."""
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
        os.close(lock)  # the last holder has deleted this file: lock the new one
    raise DataDirInUse(f"{data_dir} is in use by another fairlead")


def _is_at(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except FileNotFoundError:
        return False


def _leave(data_dir: Path) -> None:
    """Remove the lock file, and the directory if it is empty then."""
    lock_in(data_dir).unlink(missing_ok=True)
    if not any(data_dir.iterdir()):
        data_dir.rmdir()


def _outdate(record: Path) -> None:
    """Clear the pid in the last server's record: in a container the next server may have the same pid."""
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
    """Bind the socket. Its name uses the parent's device and inode: another container may have the same path."""
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
