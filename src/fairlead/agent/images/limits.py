"""How much of a stranger's image is taken, so that no archive and no registry fills memory, disk or time."""

from __future__ import annotations

from typing import Final

import msgspec

MIB: Final = 1 << 20
#: In one read, write or hash.
PIECE: Final = 256 * 1024


class Limits(msgspec.Struct, frozen=True):
    """The most that is taken of one image, or of one archive."""

    #: Of a manifest, an index or a configuration (containerd's bound).
    document_bytes: int = 4 * MIB
    #: As many as Docker makes; the options of an overlay mount have room for them.
    layers: int = 127
    images: int = 1000
    #: Of the files that an image unpacks to.
    unpacked_bytes: int = 64 << 30
    #: Of files, folders and links in one layer, and of all their names together.
    entries: int = 1_000_000
    name_bytes: int = 128 * MIB
    #: Of the extended header of one member.
    header_bytes: int = MIB
    path_bytes: int = 4096
    depth: int = 256
