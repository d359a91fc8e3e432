"""What `fairlead node reset` does about a runtime behind CRI: the pods that it runs for the agent of a folder go.

Which runtime that is the folder says, or a reset would not know whom to ask.
"""

from __future__ import annotations

from pathlib import Path

from fairlead.agent.runtime_choice import ENDPOINT
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.client import Client
from fairlead.agent.runtimes.cri.sandboxes import Sandboxes
from fairlead.agent.runtimes.cri.specs import ROOT_LABEL


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
        own = cri.ContainerFilter(labels={ROOT_LABEL: str(root)})
        containers = (await client.call(cri.LIST, cri.ListContainersRequest(filter=own))).containers
        return await Sandboxes(root, client).remove_all(), len(containers)
    finally:
        client.close()
