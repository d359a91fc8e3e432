"""Who may run a real node: root, or with a runtime of its own somebody who is not."""

from __future__ import annotations

import os

from fairlead.agent.choices import RuntimeKind
from fairlead.cli.failures import WrongUsage


def check_user(kind: RuntimeKind, option: str = "--runtime") -> None:
    """Root has no need of less, and the images of root are not unpacked as those of a user."""
    is_root = os.geteuid() == 0
    if is_root and kind is RuntimeKind.PROCESS:
        raise WrongUsage(f"{option} process is for users without root: choose {option} oci, or be another user")
    if not is_root and kind is not RuntimeKind.PROCESS:
        raise WrongUsage(f"{option} {kind} takes root: start it with sudo, or choose {option} process")
