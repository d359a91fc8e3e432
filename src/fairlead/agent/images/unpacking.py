"""What a layer means to the file system below it: members are put there, whiteouts take away.

In the form of `OVERLAY` a layer lies alone, and the kernel lays one over the other: what a layer takes away is a
character device 0:0, a folder that hides those below has `trusted.overlay.opaque`. Without the rights for that, a
layer is unpacked over those below it (`FLAT`). Whiteouts speak of the layers below alone, whatever the order in the
archive: over others the archive is therefore read twice.
"""

from __future__ import annotations

import enum
import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fairlead.agent.images.errors import BadImage
from fairlead.agent.images.limits import Limits
from fairlead.agent.images.tar import Kind, Member, TarReader
from fairlead.agent.images.tree import Tree, clean, is_folder, remove, status_of

_PREFIX: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_AUFS: Final = ".wh..wh."  # what else begins so is aufs' own bookkeeping
OPAQUE_ATTRIBUTE: Final = "trusted.overlay.opaque"
_OF_THE_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
_ONE_USER: Final = 1
_CAPABILITY: Final = "security.capability"


class Form(enum.Enum):
    OVERLAY = "overlay"
    FLAT = "flat"


class Unpacker:
    """One folder that layers are unpacked into: one of them in the form of overlay, else each over those before it."""

    def __init__(self, root: Path, form: Form, limits: Limits) -> None:
        self._root = root
        self._form = form
        self._limits = limits
        self._tree = Tree(root, limits.depth)
        self._is_root = owns_all_users()
        self._folders: dict[str, Member] = {}
        self.size_bytes = 0
        self.entries = 0

    def take_away(self, layer: TarReader) -> None:
        """What a layer takes away of those below it. (Flat only, and first.)"""
        for member in layer:
            folder, base = _split(member)
            if base == _OPAQUE:
                place = self._tree.locate(f"{folder}/.")[:-2]
                if is_folder(status_of(place)):
                    for entry in Path(place).iterdir():
                        self._drop(str(entry))
            elif _is_whiteout(base):
                self._drop(self._tree.locate(f"{folder}/{_named(member, base)}"))

    def put(self, layer: TarReader) -> None:
        """What a layer has."""
        for member in layer:
            folder, base = _split(member)
            if base == _OPAQUE:
                self._hide_below(folder)
            elif _is_whiteout(base):
                self._white_out(member, folder, base)
            elif not base.startswith(_AUFS):
                self._put_whole(member, layer)

    def finish(self) -> None:
        """Folders get their modes and times last, when nothing is put into them any more."""
        for path in sorted(self._folders, key=len, reverse=True):  # those within others first
            if is_folder(status_of(path)):
                self._dress(path, self._folders[path])

    def _drop(self, path: str) -> None:
        remove(path)
        self._tree.forget()

    def _hide_below(self, folder: str) -> None:
        if self._form is Form.OVERLAY:
            place = self._tree.locate(f"{folder}/.")[:-2]
            self._make_folders(place)
            os.setxattr(place, OPAQUE_ATTRIBUTE, b"y")

    def _white_out(self, member: Member, folder: str, base: str) -> None:
        if self._form is Form.FLAT:
            return
        place = self._tree.locate(f"{folder}/{_named(member, base)}")
        status = status_of(place)
        if status is None:
            self._make_parents(place)
            os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))
        elif is_folder(status):
            os.setxattr(place, OPAQUE_ATTRIBUTE, b"y")

    def _put_whole(self, member: Member, layer: TarReader) -> None:
        try:
            self._put(member, layer)
        except OSError as error:
            if error.errno in _OF_THE_DISK:
                raise
            raise BadImage(f"{member.name} in the archive cannot be unpacked: {error.strerror}") from None

    def _put(self, member: Member, layer: TarReader) -> None:
        name = clean(member.name)
        path = self._tree.locate(name)
        self.entries += 1
        if member.kind is Kind.FOLDER:
            self._make_parents(path)
            self._make_folder(path)
            self._folders.pop(path, None)
            self._folders[path] = member
            return
        if not name:
            raise BadImage("the root of the archive is no folder")
        if member.kind is Kind.HARD_LINK:
            self._link(member, path)
            return
        self._make_way(path)
        match member.kind:
            case Kind.FILE:
                self._write(path, layer.pieces())
            case Kind.SYMBOLIC_LINK:
                Path(path).symlink_to(member.link)
                self._tree.forget()
            case Kind.FIFO:
                os.mkfifo(path, 0o600)
            case Kind.CHARACTER_DEVICE | Kind.BLOCK_DEVICE:
                if self._form is Form.FLAT:
                    return  # whoever may not make devices does without
                kind = stat.S_IFCHR if member.kind is Kind.CHARACTER_DEVICE else stat.S_IFBLK
                os.mknod(path, kind | 0o600, os.makedev(*member.device))
        self._dress(path, member)

    def _link(self, member: Member, path: str) -> None:
        target = self._tree.locate(clean(member.link))
        status = status_of(target)
        if status is None or is_folder(status):
            raise BadImage(
                f"{member.name} in the archive is a hard link to {member.link}, which is no file in its layer"
            )
        if target == path:
            return
        self._make_way(path)
        os.link(target, path, follow_symlinks=False)

    def _write(self, path: str, pieces: Iterable[bytes]) -> None:
        with Path(path).open("xb", buffering=0) as file:
            for piece in pieces:
                self.size_bytes += len(piece)
                if self.size_bytes > self._limits.unpacked_bytes:
                    raise BadImage(f"the image unpacks to more than {self._limits.unpacked_bytes} bytes")
                file.write(piece)

    def _make_way(self, path: str) -> None:
        """The folders that lead there are there, and nothing else is."""
        self._make_parents(path)
        status = status_of(path)
        if status is None:
            return
        if is_folder(status) or stat.S_ISLNK(status.st_mode):
            self._tree.forget()
        remove(path)

    def _make_parents(self, path: str) -> None:
        self._make_folders(str(Path(path).parent))

    def _make_folders(self, path: str) -> None:
        if path != str(self._root) and not is_folder(status_of(path)):
            self._make_folders(str(Path(path).parent))
            self._make_folder(path)

    def _make_folder(self, path: str) -> None:
        """A folder in place of something else hides what is below it."""
        status = status_of(path)
        if is_folder(status):
            return
        if status is not None:
            self._tree.forget()
            Path(path).unlink()
        Path(path).mkdir()
        Path(path).chmod(0o755)  # whatever the umask
        if status is not None and self._form is Form.OVERLAY:
            os.setxattr(path, OPAQUE_ATTRIBUTE, b"y")

    def _dress(self, path: str, member: Member) -> None:
        """Owner, mode, attributes, time; in this order, for each takes something of those after it away."""
        if self._is_root:
            os.lchown(path, member.uid, member.gid)
        if member.kind is not Kind.SYMBOLIC_LINK:
            Path(path).chmod(member.mode)
        if member.kind in (Kind.FILE, Kind.FOLDER):
            for name, value in member.xattrs.items():
                if self._is_kept(name):
                    self._set_attribute(path, name, value)
        os.utime(path, ns=(member.mtime_ns, member.mtime_ns), follow_symlinks=False)

    def _is_kept(self, attribute: str) -> bool:
        """What overlay itself writes down there is no stranger's to say."""
        is_users = attribute.startswith("user.") and not attribute.startswith("user.overlay.")
        return is_users or (attribute == _CAPABILITY and self._is_root)

    def _set_attribute(self, path: str, name: str, value: bytes) -> None:
        try:
            os.setxattr(path, name, value, follow_symlinks=False)
        except OSError as error:
            if error.errno == errno.ENOTSUP and name != _CAPABILITY:
                return  # this file system has none; a program that lacks its capability would fail later
            where = self._tree.relative(path)
            raise BadImage(f"{where} in the archive has the attribute {name}: {error.strerror}") from None


def owns_all_users() -> bool:
    """Whether files may be given to anybody: root may, but not one that is root of a user namespace alone."""
    if os.geteuid() != 0:
        return False
    try:
        mapped = Path("/proc/self/uid_map").read_text().split()
    except OSError:
        return True
    return len(mapped) == 3 and int(mapped[2]) > _ONE_USER


def _split(member: Member) -> tuple[str, str]:
    """Folder and own name. Raises BadImage where a whiteout has members."""
    folder, _, base = clean(member.name).rpartition("/")
    if f"/{_PREFIX}" in f"/{folder}":
        raise BadImage(f"{member.name} in the archive lies within a whiteout")
    return folder, base


def _is_whiteout(base: str) -> bool:
    return base.startswith(_PREFIX) and not base.startswith(_AUFS)


def _named(member: Member, base: str) -> str:
    name = base.removeprefix(_PREFIX)
    if name in ("", ".", ".."):
        raise BadImage(f"{member.name} in the archive takes away nothing that has a name")
    return name
