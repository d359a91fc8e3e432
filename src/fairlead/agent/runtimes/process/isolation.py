"""What of containers this machine lets a user without root have: tried once at the start, and said once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.runtimes.process.programs import command_of
from fairlead.agent.trees import remove_tree

_FOLDER: Final = "probe"
_SECONDS: Final = 30.0


class Isolation(msgspec.Struct, frozen=True):
    #: Layers of an image are laid over each other; else each container gets a copy of its image.
    has_overlay: bool = False
    #: A container sees its own processes alone.
    has_own_processes: bool = False

    @property
    def problems(self) -> Iterator[str]:
        """As sentences for people."""
        yield (
            "without cgroups, memory limits are enforced by looking twice a second, cpu limits not at all, and cpu"
            " requests by niceness"
        )
        if not self.has_overlay:
            yield "the kernel mounts no overlay for a user, so each container has a copy of its image"
        if not self.has_own_processes:
            yield "the kernel mounts no /proc for a user, so containers see, and may end, all processes of this user"


def isolation_of(root: Path) -> Isolation:
    """Within the user namespace of the node. It is tried in processes of their own: nothing stays mounted."""
    folder = root / _FOLDER
    remove_tree(folder, ignore_errors=True)
    for name in ("lower", "upper", "work", "merged"):
        (folder / name).mkdir(parents=True)
    try:
        return Isolation(has_overlay=_may("overlay", folder), has_own_processes=_may("proc", folder))
    finally:
        remove_tree(folder, ignore_errors=True)


def _may(what: str, folder: Path) -> bool:
    command = command_of("trying", what, str(folder))
    tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
    return tried.returncode == 0
