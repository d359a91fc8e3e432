"""What is in the store: one small file, replaced as a whole. A folder of a layer that it does not name is nobody's.

So a process may be killed at any instant: either the index names what it had written, or the next one that changes
the store sweeps it away. One process at a time changes the store (a lock on a file, which the kernel releases with
its holder); whoever only looks needs no lock.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.images.errors import StoreDamaged
from fairlead.agent.images.manifests import ContainerConfig
from fairlead.agent.images.tree import remove

_FORMAT: Final = 1
_TEMPORARY: Final = "temporary-"


class StoredLayer(msgspec.Struct, frozen=True):
    #: Below `layers/`: a number, since an overlay mount has room for short names only.
    folder: str
    size_bytes: int
    entries: int


class StoredImage(msgspec.Struct, frozen=True):
    tags: list[str]
    digests: list[str]
    #: Keys of layers, lowest first.
    layers: list[str]
    config: ContainerConfig


class Index(msgspec.Struct):
    format: int = _FORMAT
    images: dict[str, StoredImage] = {}
    #: By the digest of the unpacked archive; of several in one, by that of the chain.
    layers: dict[str, StoredLayer] = {}
    aliases: dict[str, str] = {}
    next_folder: int = 1

    def drop_unused_layers(self) -> None:
        used = {layer for image in self.images.values() for layer in image.layers}
        self.layers = {key: layer for key, layer in self.layers.items() if key in used}


class IndexFile:
    """The files of a store: `index.json`, `lock`, `layers/`, and temporary ones."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / "index.json"
        self.layers = root / "layers"

    def read(self) -> Index:
        """What is there now. Raises StoreDamaged."""
        try:
            index = msgspec.json.decode(self._path.read_bytes(), type=Index)
        except FileNotFoundError:
            return Index()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreDamaged(
                f"{self._path} is damaged: {error}. Move {self._root} away, and load the images again"
            ) from None
        if index.format != _FORMAT:
            raise StoreDamaged(f"{self._path} has format {index.format}, which another version of Fairlead wrote")
        return index

    @contextmanager
    def locked(self) -> Iterator[Index]:
        """The index to be changed, while nobody else does. Leftovers are gone before, and after."""
        self.layers.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root.chmod(0o700)
        with (self._root / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._sweep()
            try:
                yield self.read()
            finally:
                self._sweep()

    def write(self, index: Index) -> None:
        """Replace it; what it names is on disk before. Only while locked."""
        _sync(self.layers)
        part = self._root / f"{_TEMPORARY}index"
        with part.open("wb") as file:
            file.write(msgspec.json.encode(index))
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path)
        _sync_folder(self._root)

    def temporary(self) -> Path:
        """A path for a file that is gone when the lock is released. Only while locked."""
        return self._root / f"{_TEMPORARY}file"

    @contextmanager
    def downloads(self) -> Iterator[Path]:
        """A folder for what is being downloaded, without the lock. Its own lock tells the sweeper that it is in use."""
        with self.locked():
            folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self._root))
            holder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(holder, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            remove(str(folder))
            os.close(holder)

    def _sweep(self) -> None:
        named = {layer.folder for layer in self.read().layers.values()}
        for folder in self.layers.iterdir():
            if folder.name not in named:
                remove(str(folder))
        for path in self._root.glob(f"{_TEMPORARY}*"):
            if not _is_held(path):
                remove(str(path))


def _is_held(path: Path) -> bool:
    """Whether somebody downloads there."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


def _sync(folder: Path) -> None:
    """Everything that was written to that file system is on disk (Python has no syncfs)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
