"""A network is a list of plugins: ours, or what somebody has installed for this machine's container runtimes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.agent.network.settings import NetworkSettings

INSTALLED: Final = Path("/etc/cni/net.d")
#: Versions whose results have the form that we read; the name of ours.
_VERSIONS: Final = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
_VERSION, NAME = "1.0.0", "fairlead"
_LARGEST_BYTES: Final = 1 << 20


class BadConfiguration(Exception):
    """The file is no list of plugins that we could call; the message says which file and why."""


class Conflist(msgspec.Struct, frozen=True):
    name: str
    version: str
    plugins: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        return {"cniVersion": self.version, "name": self.name, "plugins": list(self.plugins)}


def ours(settings: NetworkSettings, subnet: IPv4Network) -> Conflist:
    """Pods on our bridge, which is their gateway, with addresses of the subnet.

    Ports of the host are rules of our own table: the plugin portmap would write to one of everybody.
    """
    ipam = {
        "type": "host-local",
        "dataDir": str(settings.root / "leases"),
        "ranges": [[{"subnet": str(subnet)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": settings.bridge, "hairpinMode": True, "ipam": ipam}
    return Conflist(NAME, _VERSION, (bridge,))


def installed(folder: Path = INSTALLED) -> Path | None:
    """The network that container runtimes use: the first file by name."""
    suffixes = (".conf", ".conflist", ".json")
    try:
        return min((path for path in folder.iterdir() if path.suffix in suffixes), default=None)
    except OSError:
        return None


def read(path: Path) -> Conflist:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise BadConfiguration(f"{path}: larger than {_LARGEST_BYTES} bytes")
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadConfiguration(f"{path}: {error}") from error
    try:
        return parse(found)
    except BadConfiguration as error:
        raise BadConfiguration(f"{path}: {error}") from error


def parse(found: Any) -> Conflist:
    """A list of plugins, or a single one as files of `.conf` have it."""
    if not isinstance(found, dict):
        raise BadConfiguration("a network is an object")
    name, version = found.get("name"), found.get("cniVersion", "0.1.0")
    plugins = found.get("plugins", [found])
    if not isinstance(name, str) or not name or "/" in name:
        raise BadConfiguration("name: it must have one")
    if version not in _VERSIONS:
        raise BadConfiguration(f"cniVersion: {version} is none of {', '.join(_VERSIONS)}")
    if not isinstance(plugins, list) or not plugins:
        raise BadConfiguration("plugins: there must be at least one")
    for index, plugin in enumerate(plugins):
        kind = plugin.get("type") if isinstance(plugin, dict) else None
        if not isinstance(kind, str) or not kind or "/" in kind:
            raise BadConfiguration(f"plugins[{index}].type: it must be the name of a program")
    return Conflist(name, version, tuple(plugins))
