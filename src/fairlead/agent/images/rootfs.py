"""An image made of a root file system: a folder or tar archive is its one layer, options its configuration."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from fairlead.agent.images.contents import ImageContents, LayerSource
from fairlead.agent.images.manifests import ContainerConfig, ImageConfig, RootFs, this_machine
from fairlead.agent.images.streams import Hashed, Section, digest_of


class RunAs(msgspec.Struct, frozen=True):
    """What a root file system does not say of itself."""

    entrypoint: Sequence[str] = ()
    cmd: Sequence[str] = ()
    env: Sequence[str] = ()


def image_of(layer: BinaryIO, tag: str, run_as: RunAs) -> ImageContents:
    """The image with that file, a plain tar archive, as its one layer. The same input makes the same image."""
    size = layer.seek(0, os.SEEK_END)
    hashed = Hashed(Section(layer, 0, size))
    hashed.drain()
    here = this_machine()
    config = ContainerConfig(
        entrypoint=list(run_as.entrypoint) or None, cmd=list(run_as.cmd) or None, env=list(run_as.env) or None
    )
    document = msgspec.json.encode(ImageConfig(RootFs([hashed.digest]), here.architecture, here.os, config=config))

    @contextmanager
    def opened() -> Iterator[Section]:
        yield Section(layer, 0, size)

    return ImageContents(document, [LayerSource(opened)], [tag], digest=digest_of(document))


def pack(folder: Path, target: BinaryIO) -> None:
    """Write a folder as a tar archive: owners as numbers, extended attributes kept, in the order of names."""
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, folder, ".")


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    member = archive.gettarinfo(path, name)
    if member is None:  # a socket, which nothing listens on in an image
        return
    member.uname = member.gname = ""
    attributes: dict[str, str] = {}
    for attribute in os.listxattr(path, follow_symlinks=False):
        value = os.getxattr(path, attribute, follow_symlinks=False)
        attributes[f"SCHILY.xattr.{attribute}"] = value.decode(errors="surrogateescape")
    member.pax_headers = attributes
    if member.isreg():
        with path.open("rb") as file:
            archive.addfile(member, file)
        return
    archive.addfile(member)
    if member.isdir():
        for entry in sorted(path.iterdir()):
            _add(archive, entry, f"{name}/{entry.name}")
