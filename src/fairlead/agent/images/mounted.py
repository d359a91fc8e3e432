"""Which layers are part of a mounted overlay: taking them away would pull the files from under a running container."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from fairlead.agent import linux


class _Record(msgspec.Struct):
    image_id: str = ""


def images_of_containers(containers: Path) -> set[str]:
    """The ids of the images that the node agent has containers of: their mounts are in namespaces of their own."""
    found = set()
    for record in containers.glob("*/container.json"):
        with suppress(FileNotFoundError, msgspec.DecodeError):
            found.add(msgspec.json.decode(record.read_bytes(), type=_Record).image_id)
    return found


def mounted_layers(layers: Path) -> set[str]:
    """The names of those folders in `layers`. Mounts of other namespaces are not seen."""
    try:
        lines = linux.mountinfo()
    except FileNotFoundError:
        return set()
    return {name for line in lines for name in _layers_of(line, layers)}


def _layers_of(line: str, layers: Path) -> set[str]:
    _, _, super_block = line.partition(" - ")
    kind, _, rest = super_block.partition(" ")
    if kind != "overlay":
        return set()
    options = rest.rpartition(" ")[2].split(",")
    lower = [
        path for option in options if option.startswith("lowerdir") for path in option.partition("=")[2].split(":")
    ]
    found = [Path(linux.unescaped(path)) for path in lower if path]
    return {path.name for path in found if path.parent == layers}
