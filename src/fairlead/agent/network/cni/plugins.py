"""How plugins are called: a program each, its configuration on stdin, who it is about in the environment.

ADD calls them in order, each with the result of the one before. DEL calls them backwards, with the result that ADD
ended with, and goes on to the next one when one fails: a lease must not stay because an interface is gone already.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from fairlead.agent.network.cni.configuration import Conflist
from fairlead.agent.network.commands import CommandFailed, run

INTERFACE: Final = "eth0"


class PluginFailed(Exception):
    """A plugin could not do what it was asked for."""


class Target(msgspec.Struct, frozen=True):
    """A pod's network namespace, and who it is."""

    container_id: str
    netns: str
    arguments: Mapping[str, str]
    #: What plugins are told that say they understand it, by capability.
    capabilities: Mapping[str, Any]


class Plugins:
    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    async def add(self, network: Conflist, target: Target) -> dict[str, Any]:
        result: dict[str, Any] | None = None
        for plugin in network.plugins:
            result = _result(plugin["type"], network.name, await self._call("ADD", network, plugin, target, result))
        assert result is not None  # there is at least one plugin
        return result

    async def delete(self, network: Conflist, target: Target, result: Mapping[str, Any] | None) -> None:
        """Undo what `add` did, or the part of it that was done."""
        failures = []
        for plugin in reversed(network.plugins):
            try:
                await self._call("DEL", network, plugin, target, result)
            except PluginFailed as failure:
                failures.append(str(failure))
        if failures:
            raise PluginFailed("; ".join(failures))

    async def _call(
        self,
        command: str,
        network: Conflist,
        plugin: Mapping[str, Any],
        target: Target,
        result: Mapping[str, Any] | None,
    ) -> bytes:
        config = dict(plugin) | {"cniVersion": network.version, "name": network.name}
        supported = plugin.get("capabilities") or {}
        wanted = {name: value for name, value in target.capabilities.items() if supported.get(name) is True and value}
        config |= {"runtimeConfig": wanted} if wanted else {}
        config |= {"prevResult": result} if result is not None else {}
        env = os.environ | {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": target.container_id,
            "CNI_NETNS": target.netns,
            "CNI_IFNAME": INTERFACE,
            "CNI_ARGS": ";".join(f"{key}={value}" for key, value in target.arguments.items()),
            "CNI_PATH": ":".join(map(str, self._folders)),
        }
        program = self._program(plugin["type"])
        try:
            return await run(str(program), stdin=json.dumps(config).encode(), env=env)
        except CommandFailed as failure:
            raise PluginFailed(f"plugin {plugin['type']} of network {network.name}: {_reason(failure)}") from failure

    def _program(self, kind: str) -> Path:
        for folder in self._folders:
            if (program := folder / kind).is_file():
                return program
        raise PluginFailed(f"plugin {kind} is in none of {', '.join(map(str, self._folders))}")


def _result(plugin: str, network: str, output: bytes) -> dict[str, Any]:
    """What ADD printed. Later plugins and DEL get it as it is; what we read of it is checked."""
    try:
        found = json.loads(output)
        is_result = isinstance(found, dict) and all(isinstance(ip["address"], str) for ip in found.get("ips") or ())
    except (ValueError, TypeError, KeyError):
        is_result = False
    if not is_result:
        raise PluginFailed(f"plugin {plugin} of network {network}: it printed no result: {output[:200]!r}")
    return cast(dict[str, Any], found)


def _reason(failure: CommandFailed) -> str:
    """Plugins print their errors as JSON to stdout."""
    try:
        error = json.loads(failure.output)
        return ": ".join(filter(None, (str(error["msg"]), str(error.get("details", "")))))
    except (ValueError, TypeError, KeyError, AttributeError):
        return str(failure)
