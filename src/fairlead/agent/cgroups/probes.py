"""What this machine refuses, found out once at the start: a container must not fail for it later.

A process without CAP_SYS_RESOURCE may raise its oom_score_adj, but never set it below what it began with.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

_LEAST: Final = -1000
_TRY: Final = "import os, sys; os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), sys.argv[1].encode())"


def least_oom_score_adj() -> int:
    """The lowest that a process which we start may have."""
    own = int(Path("/proc/self/oom_score_adj").read_text())
    if own == _LEAST or (os.geteuid() == 0 and _may_have(_LEAST)):
        return _LEAST
    return own


def _may_have(score: int) -> bool:
    """Tried in a process of its own: a refusal changes nothing, but a success could not be taken back."""
    return subprocess.run([sys.executable, "-S", "-c", _TRY, str(score)], stderr=subprocess.DEVNULL).returncode == 0
