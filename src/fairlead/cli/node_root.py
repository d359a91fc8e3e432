"""Where a real node keeps images, containers, volumes and logs, unless it is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_ROOT_OF_MACHINE: Final = Path("/var/lib/fairlead")
#: As the help says it.
SHOWN_ROOT: Final = "/var/lib/fairlead; without root ~/.local/share/fairlead"


def default_root() -> Path:
    """Where a node keeps things: the machine's, or a user's own."""
    if os.geteuid() == 0:
        return _ROOT_OF_MACHINE
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else Path.home() / ".local" / "share") / "fairlead"
