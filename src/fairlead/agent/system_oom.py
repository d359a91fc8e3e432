"""Tells of it when the machine as a whole has no memory left and the kernel kills somebody, as its log says (S3-84).

What dies by the limit of a cgroup is its container's affair, unless that cgroup stands for the machine. Source:
pkg/kubelet/oom (1.36), cadvisor's utils/oomparser.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
from collections.abc import Callable, Iterator
from typing import Final

from fairlead.api.event_types import WARNING
from fairlead.node.oom import SYSTEM_OOM, system_oom_message
from fairlead.node.plan import NodeEvent

KERNEL_LOG: Final = "/dev/kmsg"
_KILL: Final = re.compile(
    r"oom-kill:constraint=.*(?:,oom_memcg=(?P<cgroup>.*)|,global_oom),task_memcg=.*,task=(?P<task>.*),pid=(?P<pid>\d+),uid="
)
_MOST_RECORD: Final = 8192
#: How many records are read before others have their turn.
_AT_ONCE: Final = 100

log = logging.getLogger(__name__)


def system_oom(record: str, within: str) -> NodeEvent | None:
    """The event that a record of the kernel's log gives rise to; `within` is the cgroup that is the machine."""
    found = _KILL.search(record)
    if found is None or found["cgroup"] not in (None, within):
        return None
    return NodeEvent(WARNING, SYSTEM_OOM, system_oom_message(found["task"], int(found["pid"])))


async def watch_system_oom(within: str, tell: Callable[[NodeEvent], None]) -> None:
    """From now on, until cancelled."""
    try:
        log_file = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        log.warning("nobody tells when the machine has no memory left: %s", error)
        return

    def look() -> None:
        for record in _records(log_file):
            if (event := system_oom(record, within)) is not None:
                tell(event)

    loop = asyncio.get_running_loop()
    try:
        os.lseek(log_file, 0, os.SEEK_END)
        loop.add_reader(log_file, look)
        await loop.create_future()
    finally:
        loop.remove_reader(log_file)
        os.close(log_file)


def _records(log_file: int) -> Iterator[str]:
    """Those that are there; one that was overwritten meanwhile is passed over."""
    for _ in range(_AT_ONCE):
        try:
            yield os.read(log_file, _MOST_RECORD).decode("utf-8", "replace")
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
