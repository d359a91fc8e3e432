"""Asks a plugin at its socket who it is.

Source: pkg/kubelet/pluginmanager/operationexecutor (1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from fairlead.agent.grpc.client import Client
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.plugins.messages import GET_INFO, NOTIFY, PluginInfo, RegistrationStatus
from fairlead.agent.runtimes.base import RuntimeFailure

_INFO_SECONDS: Final = 1.0
_NOTIFY_SECONDS: Final = 5.0


class NotRegistered(Exception):
    """Nobody answers, or is not accepted; the text says why, in a kubelet's words."""


async def register(socket: Path, accept: Callable[[PluginInfo], Awaitable[str]]) -> None:
    """Ask whoever listens there, and tell what becomes of that: `accept` says what is wrong, or nothing.

    Raises NotRegistered.
    """
    client = Client(str(socket), f"the plugin at {socket}")
    try:
        problem = await accept(await client.call(GET_INFO, Nothing(), _INFO_SECONDS))
        status = RegistrationStatus(plugin_registered=not problem, error=problem)
        await client.call(NOTIFY, status, _NOTIFY_SECONDS)
    except RuntimeFailure as failure:
        raise NotRegistered(str(failure)) from None
    finally:
        client.close()
    if problem:
        raise NotRegistered(problem)
