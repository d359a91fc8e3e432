"""What the machine must do for pods to have a network: forward, show bridged packets to the rules, have our bridge.

With pods on a bridge, a packet from one to another never meets rules for routed packets unless br_netfilter hands it
over: the answer of a service would come from an address that nobody asked, and policies would not hold, both silently.
So that is set where it is not, and said where it cannot be. What was changed is kept, for `restore`.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from fairlead.agent.network.commands import CommandFailed, run, run_json
from fairlead.agent.network.settings import NetworkSettings

_SYSCTL: Final = Path("/proc/sys")
_BRIDGED: Final = "net/bridge/bridge-nf-call-iptables"
_WANTED: Final = ("net/ipv4/ip_forward", _BRIDGED, "net/bridge/bridge-nf-call-ip6tables")
_KEPT: Final = "sysctls.json"

log = logging.getLogger(__name__)


class AddressConflict(Exception):
    """The addresses of the cluster, or the bridge, are somebody else's; the message says whose."""


async def prepare(settings: NetworkSettings) -> list[str]:
    """Set what must be set; what could not be, as sentences for people."""
    if not (_SYSCTL / _BRIDGED).exists():
        with suppress(CommandFailed):
            await run("modprobe", "br_netfilter")
    kept = _kept(settings.root)
    problems = []
    for name in _WANTED:
        try:
            before = (_SYSCTL / name).read_text().strip()
            if before != "1":
                (_SYSCTL / name).write_text("1")
                kept.setdefault(name, before)
        except OSError as error:
            what = "packets are not forwarded" if name == _WANTED[0] else "services and policies fail on one node"
            problems.append(f"{name.replace('/', '.')} cannot be set to 1 ({error.strerror}): between pods {what}")
    settings.root.mkdir(parents=True, exist_ok=True)
    (settings.root / _KEPT).write_text(json.dumps(kept))
    for problem in problems:
        log.warning("%s", problem)
    return problems


def was_prepared(root: Path) -> bool:
    """Whether the machine has a network of ours that is kept there."""
    return (root / _KEPT).exists()


async def check_bridge(settings: NetworkSettings) -> None:
    """Refuse a bridge that is not of this folder: two agents would take away each other's addresses and rules."""
    if was_prepared(settings.root) or settings.bridge not in await _bridges():
        return
    raise AddressConflict(
        f"the bridge {settings.bridge} is there and not of {settings.root}: if another node agent runs on this "
        f"machine, stop it; if it is a remnant, ip link del {settings.bridge}"
    )


def restore(root: Path) -> None:
    """Set back what `prepare` changed, unless somebody has changed it again."""
    for name, before in _kept(root).items():
        with suppress(OSError):
            if name in _WANTED and (_SYSCTL / name).read_text().strip() == "1":
                (_SYSCTL / name).write_text(before)


def _kept(root: Path) -> dict[str, str]:
    try:
        kept: dict[str, str] = json.loads((root / _KEPT).read_text())
    except (OSError, ValueError):
        return {}
    return kept


async def other_networks(settings: NetworkSettings) -> list[IPv4Network]:
    """Where this machine sends packets already, other than to our pods; not its default route."""
    routes = await run_json("ip", "-j", "-4", "route", "show", "table", "main")
    return [
        IPv4Network(route["dst"])
        for route in routes
        if route.get("dst") not in (None, "default") and route.get("dev") != settings.bridge
    ]


async def check_addresses(settings: NetworkSettings) -> None:
    """Refuse addresses for services that the machine's own network has: it would be cut off from its neighbours."""
    for network in await other_networks(settings):
        if network.subnet_of(settings.service_network):
            raise AddressConflict(
                f"services have addresses of {settings.service_network}, and this machine has a route to {network}: "
                "give the cluster another network for services"
            )


async def make_bridge(settings: NetworkSettings, subnet: IPv4Network) -> None:
    """Our bridge: the gateway of the pods, and the address where names are resolved.

    Its hardware address is fixed, or it would change with the pods that come and go. The route of service addresses
    lets this machine's own programs reach them where it has no default route: their packets are translated on the way.
    """
    bridge, gateway = settings.bridge, subnet[1]
    if bridge not in await _bridges():
        await run("ip", "link", "add", "name", bridge, "address", _hardware_address(gateway), "type", "bridge")
    await run("ip", "link", "set", "dev", bridge, "up")
    wanted = {f"{gateway}/{subnet.prefixlen}", f"{settings.dns_address}/32"}
    links = await run_json("ip", "-j", "-4", "address", "show", "dev", bridge)
    present = {f"{info['local']}/{info['prefixlen']}" for link in links for info in link.get("addr_info", ())}
    for address in present - wanted:
        await run("ip", "address", "del", address, "dev", bridge)
    for address in sorted(wanted - present):
        await run("ip", "address", "add", address, "dev", bridge)
    (_SYSCTL / f"net/ipv4/conf/{bridge}/route_localnet").write_text(
        "1"
    )  # ports of pods at 127.0.0.1; base.py guards it
    await run("ip", "route", "replace", str(settings.service_network), "dev", bridge, "src", str(gateway))


async def _bridges() -> set[str]:
    return {link.get("ifname") for link in await run_json("ip", "-j", "link", "show", "type", "bridge")}


async def remove_bridge(bridge: str) -> None:
    with suppress(CommandFailed):  # it is not there
        await run("ip", "link", "del", "dev", bridge, "type", "bridge")


def _hardware_address(gateway: IPv4Address) -> str:
    return ":".join(f"{octet:02x}" for octet in (0x0A, 0x58, *gateway.packed))
