"""Where a real node keeps images, containers, volumes and logs, unless it is told."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.runtime.user_folders import NoHome, data_folder

_ROOT_OF_MACHINE: Final = Path("/var/lib/fairlead")
#: As the help says it.
SHOWN_ROOT: Final = "/var/lib/fairlead; without root ~/.local/share/fairlead"


def default_root() -> Path:
    """Where a node keeps things: the machine's, or the user's own."""
    if os.geteuid() != 0:
        with suppress(NoHome):
            return data_folder()
    return _ROOT_OF_MACHINE
