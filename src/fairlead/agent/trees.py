"""Folders that containers write to, however deep: deeper than a path may be long, and than Python recurses.

So nothing here goes by path but the first step. What is below is known by its name in an open folder, one folder at a
time, and no link is followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.agent import linux

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Found(NamedTuple):
    #: Of the folder that it is in, open until the next is asked for.
    descriptor: int
    entry: os.DirEntry[str]


class _Level(NamedTuple):
    """A folder on the way down: which it is, and what in it is still to be visited."""

    identity: tuple[int, int]
    pending: list[str]


def walked(folder: Path) -> Iterator[Found]:
    """All that is below on the same file system, a folder before what is in it; OSError if there is no such folder.

    The walk ends early where somebody moves the folder that it is in.
    """
    descriptor = os.open(folder, _FOLDER)
    try:
        way = [_Level(_identity(descriptor), [])]
        yield from _visited(descriptor, way[-1].pending)
        while way:
            if way[-1].pending:
                below = _opened(way[-1].pending.pop(), descriptor, way[0].identity[0])
                if below is not None:
                    os.close(descriptor)
                    descriptor = below
                    way.append(_Level(_identity(descriptor), []))
                    yield from _visited(descriptor, way[-1].pending)
                continue
            way.pop()
            if way:
                above = os.open("..", _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = above
                if _identity(descriptor) != way[-1].identity:
                    return
    finally:
        os.close(descriptor)


def _visited(descriptor: int, folders: list[str]) -> Iterator[Found]:
    with suppress(OSError), os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            yield Found(descriptor, entry)


def _opened(name: str, within: int, device: int) -> int | None:
    """None: it is gone, may not be read, or is another file system."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=within)
    except OSError:
        return None
    if os.fstat(descriptor).st_dev == device:
        return descriptor
    os.close(descriptor)
    return None


def _identity(descriptor: int) -> tuple[int, int]:
    about = os.fstat(descriptor)
    return about.st_dev, about.st_ino


def make_folders(within: Path, names: Sequence[str], mode: int = 0o777) -> None:
    """A folder in a folder in a folder; those that are there stay. OSError: a name is taken by something else."""
    descriptor = os.open(within, _FOLDER)
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, mode, dir_fd=descriptor)
            below = os.open(name, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
    finally:
        os.close(descriptor)


def remove_tree(folder: Path, *, ignore_errors: bool = False) -> None:
    """Remove a folder with all that is in it; nothing if there is none. OSError for what stays, such as a mount.

    Each folder within a folder is moved to the top before it is emptied, so that none is ever deep. What is mounted
    there is somebody else's: nothing in it is touched. With `ignore_errors` what cannot be removed stays without a
    word.
    """
    trying = suppress(OSError) if ignore_errors else nullcontext()
    with trying:
        try:
            top = os.open(folder, _FOLDER)
        except FileNotFoundError:
            return
        try:
            _empty(top, trying)
        finally:
            os.close(top)
        folder.rmdir()


def _empty(top: int, trying: AbstractContextManager[None]) -> None:
    pending = list(_emptied(top, trying))
    taken, numbers = frozenset(pending), count()
    while pending:
        name = pending.pop()
        with trying:
            below = linux.open_unmounted(name, top, _FOLDER)
            try:
                for found in _emptied(below, trying):
                    free = next(moved for number in numbers if (moved := f"removed-{number}") not in taken)
                    with trying:
                        os.rename(found, free, src_dir_fd=below, dst_dir_fd=top)
                        pending.append(free)
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=top)


def _emptied(descriptor: int, trying: AbstractContextManager[None]) -> Iterator[str]:
    """Remove all but folders, which are named."""
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _permit(entry.name, descriptor)
                yield entry.name
            else:
                with trying:
                    os.unlink(entry.name, dir_fd=descriptor)


def _permit(name: str, within: int) -> None:
    """Folders of images need not let their owner write; root is not asked."""
    if os.geteuid():
        with suppress(OSError):
            os.chmod(name, 0o700, dir_fd=within)
