"""How the scheduler decides, for the commands that take `--scheduler-config`."""

from __future__ import annotations

from pathlib import Path

from fairlead.scheduler.configuration import Configuration
from fairlead.scheduler.configuration_file import read_configuration


def scheduling(file: Path | None) -> Configuration | None:
    """Reads a KubeSchedulerConfiguration. Raises ValueError if it is invalid."""
    return None if file is None else read_configuration(file)
