"""The end of what a user's node has started, whether an agent knows of it or not."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import Final

from fairlead.agent.runtimes.oci.layout import ContainerFiles, Layout
from fairlead.agent.runtimes.oci.records import keeper_of
from fairlead.agent.runtimes.oci.shared_processes import end_processes
from fairlead.agent.runtimes.process.process_table import children_in, descendants, process_table, rooted

#: How long it may take: five seconds, after which the keeper is killed itself.
_TRIES: Final = 500
_SECONDS: Final = 0.01


async def end_container(files: ContainerFiles) -> None:
    """All that it has begun, and then the keeper, which ends by itself once nothing is left."""
    for _ in range(_TRIES):
        keeper = keeper_of(files)
        if not keeper and files.exit.exists():  # which it writes when all has ended
            return
        left = await asyncio.to_thread(_left, files, keeper)
        if not keeper and not left:
            return
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(_SECONDS)
    if keeper := keeper_of(files):
        with suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)


def _left(files: ContainerFiles, keeper: int) -> list[int]:
    """Whoever has killed the keeper need not have killed them."""
    return list(descendants(children_in(process_table()), keeper) if keeper else rooted([files.folder.name]))


async def end_containers(layout: Layout) -> None:
    for folder in layout.containers.iterdir():
        await end_container(ContainerFiles(folder))
    for folder in layout.sandboxes.iterdir():
        end_processes(layout.sandbox(folder.name))
