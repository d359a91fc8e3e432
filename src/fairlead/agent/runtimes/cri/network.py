"""Our network among those that a runtime behind CRI attaches pods to.

A runtime takes the first that it finds in a folder, and says itself which folder that is. Somebody else's there means
that pods belong to that: two networks would take each other's pods.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.grpc.client import Client
from fairlead.agent.network.cni.configuration import INSTALLED, Conflist
from fairlead.agent.network_seam import NetworkFailed
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.runtimes.cri.configuration import configuration

#: The name of the file, and where it is kept which one it was.
_FILE: Final = "10-fairlead.conflist"
_KEPT: Final = "announced"
_AGAIN_SECONDS: Final = 1.0


async def announce(network: Conflist, endpoint: str, root: Path) -> None:
    """NetworkFailed: the folder is somebody else's. `root` is that of the network."""
    folder = await _folder(endpoint)
    others = sorted(path.name for path in folder.glob("*.conf*") if path.name != _FILE)
    if others:
        raise NetworkFailed(
            f"pods of the container runtime have the network {folder / others[0]}: say --cluster-network=none to keep "
            "it, or take it away"
        )
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{_FILE}"
    draft.write_bytes(msgspec.json.encode(network.to_json()))
    (root / _KEPT).write_text(str(folder / _FILE))
    draft.replace(folder / _FILE)


def withdraw(root: Path) -> None:
    """Nothing happens where nothing was announced."""
    try:
        announced = Path((root / _KEPT).read_text())
    except FileNotFoundError:
        return
    announced.unlink(missing_ok=True)


async def _folder(endpoint: str) -> Path:
    """Where containerd has it as a part of its configuration; others are where all are by default.

    Waits for a runtime that is away, which others tell.
    """
    client = Client(endpoint)
    try:
        while True:
            with suppress(RuntimeFailure):
                return Path((await configuration(client)).cni.conf_dir or INSTALLED)
            await asyncio.sleep(_AGAIN_SECONDS)
    finally:
        client.close()
