"""Files whose content comes from the API: all change at once, as a reader of several of them expects.

    ..2026_11_24_12_00_00.123456/  the files            ..data ─▶ that folder            KEY ─▶ ..data/KEY

An update writes a new folder and moves `..data` to it, in one rename. Source: pkg/volume/util/atomic_writer.go.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.trees import make_folders, remove_tree, walked

DATA: Final = "..data"


class PayloadFile(msgspec.Struct, frozen=True):
    content: bytes
    mode: int


class Owner(msgspec.Struct, frozen=True):
    """None for what stays root's."""

    uid: int | None = None
    gid: int | None = None


def digest_of(files: Mapping[str, PayloadFile], owner: Owner) -> bytes:
    """The same for the same files of the same owner."""
    made = sha256(repr(owner).encode())
    for name, file in sorted(files.items()):
        made.update(f"{name}\0{file.mode} {len(file.content)}\0".encode())
        made.update(file.content)
    return made.digest()


def write_payload(folder: Path, files: Mapping[str, PayloadFile], stamp: str, owner: Owner) -> bool:
    """Have these files there, by relative path, and no others; whether anything has changed."""
    data = folder / DATA
    if data.exists() and _holds(data, files):
        return False
    before = data.readlink() if data.is_symlink() else None
    version = folder / f"..{stamp}"
    remove_tree(version, ignore_errors=True)
    version.mkdir(mode=0o755)
    for name, file in files.items():
        make_folders(version, Path(name).parent.parts)
        _write(version / name, file, owner)
    scratch = folder / f"{DATA}_tmp"
    scratch.unlink(missing_ok=True)
    scratch.symlink_to(version.name)
    scratch.replace(data)
    _link(folder, {name.partition("/")[0] for name in files})
    if before is not None and before.name != version.name:
        remove_tree(folder / before.name, ignore_errors=True)
    return True


def _write(path: Path, file: PayloadFile, owner: Owner) -> None:
    path.write_bytes(file.content)
    mode = file.mode | (0o440 if owner.gid is not None else 0)
    if owner != Owner():
        os.chown(path, -1 if owner.uid is None else owner.uid, -1 if owner.gid is None else owner.gid)
    path.chmod(mode)


def _link(folder: Path, names: set[str]) -> None:
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
    for name in names:
        with suppress(FileExistsError):
            (folder / name).symlink_to(f"{DATA}/{name}")


def _holds(data: Path, files: Mapping[str, PayloadFile]) -> bool:
    """Just these."""
    there = sum(entry.is_file(follow_symlinks=False) for _, entry in walked(data.resolve()))
    return there == len(files) and all(_read(data / name) == file for name, file in files.items())


def _read(path: Path) -> PayloadFile | None:
    try:
        return PayloadFile(path.read_bytes(), path.stat().st_mode & 0o777)
    except FileNotFoundError:
        return None
