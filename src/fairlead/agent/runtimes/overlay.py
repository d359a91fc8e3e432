"""How the kernel is told of an overlay: layers of an image, and where a container writes if it is the root of one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: What divides options, or is taken for a quotation of one.
_UNTOLD: Final = frozenset(',"\\')


def can_be_told(folder: Path) -> bool:
    """Whether what is below that folder can be part of an overlay."""
    return _UNTOLD.isdisjoint(str(folder))


def options(layers: Iterable[str], upper: str, work: str) -> str:
    """Those of its mount; the lowest layer comes first. Names are of what `can_be_told`."""
    return f"{read_only_options(layers)},upperdir={_told(upper)},workdir={_told(work)}"


def read_only_options(layers: Iterable[str]) -> str:
    """Of one that nobody writes to."""
    return "lowerdir=" + ":".join(reversed([_told(layer) for layer in layers]))


def _told(name: str) -> str:
    return name.replace(":", "\\:")
