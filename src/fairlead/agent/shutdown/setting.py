"""How long systemd-logind waits before it lets the machine go down: a file of its configuration, while we need more."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SETTING: Final = Path("/etc/systemd/logind.conf.d/99-fairlead.conf")
_TEXT: Final = "# Written by fairlead: shutdownGracePeriod of its node.\n[Login]\nInhibitDelayMaxSec={seconds:.0f}\n"


def write(seconds: float) -> None:
    SETTING.parent.mkdir(parents=True, exist_ok=True)
    SETTING.write_text(_TEXT.format(seconds=seconds))


def remove() -> None:
    SETTING.unlink(missing_ok=True)
