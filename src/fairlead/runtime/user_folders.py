"""A user's own folders for data and for state, where the XDG Base Directory Specification has them.

Not everybody has any: a container often runs under a number that is in no /etc/passwd, and without HOME.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


class NoHome(OSError):
    """This user has no home folder, and nothing says where to keep things instead."""

    def __init__(self, variable: str) -> None:
        super().__init__(errno.ENOENT, f"this user has no home folder: set HOME or {variable}")


def data_folder() -> Path:
    """For what is to last. Raises NoHome."""
    return _folder("XDG_DATA_HOME", ".local/share")


def state_folder() -> Path:
    """For what nobody misses for long. Raises NoHome."""
    return _folder("XDG_STATE_HOME", ".local/state")


def _folder(variable: str, below_home: str) -> Path:
    if (own := os.environ.get(variable, "")).startswith("/"):  # the specification: another path is to be ignored
        return Path(own, "fairlead")
    try:
        return Path.home() / below_home / "fairlead"
    except RuntimeError:
        raise NoHome(variable) from None
