"""`/healthz` of the agent for programs of its machine, where a kubelet has it: `curl localhost:10248/healthz`."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.runtime.http.listener import BACKLOG, reserve, serving
from fairlead.runtime.http.routes import Routes, healthy

_AGAIN_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


async def serve_health(config: KubeletConfiguration) -> None:
    """Until cancelled. A port that somebody else has is waited for, which is told once."""
    address, port = config.healthz_bind_address, config.healthz_port
    if not port:
        return
    is_told = False
    while True:
        try:
            sock = reserve(port, address)
            sock.listen(BACKLOG)
        except OSError as error:
            if not is_told:
                log.warning("/healthz cannot be served at %s port %s, trying again: %s", address, port, error)
            is_told = True
            await asyncio.sleep(_AGAIN_SECONDS)
            continue
        async with serving(Routes({"/healthz": healthy}), sock):
            await asyncio.get_running_loop().create_future()
