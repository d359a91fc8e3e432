"""What `fairlead node reset` does about a runtime behind CRI: the pods that it runs for the agent of a folder go.

Which runtime that is the folder says, or a reset would not know whom to ask.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.agent.grpc.client import CallFailed, Client
from fairlead.agent.runtime_choice import ENDPOINT
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.sandboxes import Sandboxes
from fairlead.agent.runtimes.cri.specs import ROOT_LABEL

_TRIES: Final = 50
_AGAIN_SECONDS: Final = 0.2


def remember(root: Path, client: Client) -> None:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    (root / ENDPOINT).write_text(f"unix://{client.socket}\n")


async def reset(root: Path) -> tuple[int, int]:
    """How many pods and containers were removed. RuntimeFailure: the runtime does not answer, and they are there."""
    try:
        endpoint = (root / ENDPOINT).read_text().strip()
    except FileNotFoundError:
        return 0, 0
    client = Client(endpoint)
    try:
        await _until_ready(client)
        own = cri.ContainerFilter(labels={ROOT_LABEL: str(root)})
        containers = (await client.call(cri.LIST, cri.ListContainersRequest(filter=own))).containers
        return await Sandboxes(root, client).remove_all(), len(containers)
    finally:
        client.close()


async def _until_ready(client: Client) -> None:
    """A runtime that has just been started answers for a moment that it is not ready."""
    for _ in range(_TRIES):
        with suppress(CallFailed):
            await client.call(cri.STATUS, cri.StatusRequest())
            return
        await asyncio.sleep(_AGAIN_SECONDS)
