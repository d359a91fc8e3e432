"""The message of a container that has ended: what it left in its file, or else the end of what it said.

Source: pkg/kubelet/kuberuntime (getTerminationMessage).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fairlead.agent.runtimes.base import ContainerStatus, Runtime
from fairlead.api.objects import Obj

MOST_BYTES: Final = 4096
_MOST_LOG_BYTES: Final = 2048
_MOST_LOG_LINES: Final = 80
#: Each line of a log begins with when, where to, and whether it is whole.
_LOG_FIELDS: Final = 3
_PART: Final = "P"


def last_words(runtime: Runtime, status: ContainerStatus, container: Obj) -> str:
    left = runtime.last_words(status.id, MOST_BYTES).decode(errors="replace")
    speaks_by_log = container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
    if left or not speaks_by_log or status.exit_code == 0:
        return left
    return _end_of(status.log)


def _end_of(log: Path) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - 16 * _MOST_LOG_BYTES, 0))
            lines = file.read().decode(errors="replace").splitlines()[-_MOST_LOG_LINES:]
    except FileNotFoundError:
        return ""
    said = "".join(map(_said, lines))
    return said.encode()[-_MOST_LOG_BYTES:].decode(errors="ignore")


def _said(line: str) -> str:
    fields = line.split(" ", _LOG_FIELDS)
    is_part = len(fields) > _LOG_FIELDS and fields[_LOG_FIELDS - 1].partition(":")[0] == _PART
    return fields[-1] + ("" if is_part else "\n")
