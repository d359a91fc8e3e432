"""What policies allow, as fragments of the table: a chain for each direction of a pod, which ends with a drop.

Who may talk to a pod is in sets, one for each rule of a policy, which all pods share that it selects: a pod that comes
or goes somewhere in the cluster is one element more or less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.agent.network.nftables import base
from fairlead.agent.network.nftables.table import Fragment, Key, NamedSet, name
from fairlead.agent.network.policies.compile import Allowance, Allowed, Block, Direction, PodRules, PortRange

_PEER: Final = {Direction.INGRESS: "ip saddr", Direction.EGRESS: "ip daddr"}
_MAPS: Final = {Direction.INGRESS: base.INGRESS, Direction.EGRESS: base.EGRESS}
_PORT: Final = "meta l4proto . th dport"


def policy_rules(rules: Mapping[str, PodRules], addresses: Mapping[str, str]) -> dict[str, Fragment]:
    """By owner: those of pods (by `namespace/name`, whose addresses these are), and those of the rules of policies."""
    found: dict[str, Fragment] = {}
    for key, of_pod in rules.items():
        chains: dict[str, tuple[str, ...]] = {}
        elements: dict[Key, str] = {}
        for direction, allowed in ((Direction.INGRESS, of_pod.ingress), (Direction.EGRESS, of_pod.egress)):
            if allowed is None:
                continue
            chain = name(direction, key)
            chains[chain] = _chain(direction, allowed)
            elements[Key(_MAPS[direction], addresses[key])] = f"goto {chain}"
            for allowance in allowed:
                found[f"peers {allowance.name}"] = Fragment(sets=_sets(allowance))
        found[f"policies of {key}"] = Fragment(chains, {}, elements)
    return found


def _chain(direction: Direction, allowed: Allowed) -> tuple[str, ...]:
    return (*(rule for allowance in allowed or () for rule in _allow(direction, allowance)), "drop")


def _allow(direction: Direction, allowance: Allowance) -> list[str]:
    peer, peers = _PEER[direction], allowance.peers
    found = []
    if allowance.ports != ():
        ports = _ports(allowance.ports)
        if peers.everyone:
            found.append(f"{ports}accept")
        if peers.addresses:
            found.append(f"{peer} @{name('peers', allowance.name)} {ports}accept")
        found += [f"{_block(peer, block)} {ports}accept" for block in peers.blocks]
    if allowance.destinations:
        found.append(f"ip daddr . {_PORT} @{name('destinations', allowance.name)} accept")
    return found


def _ports(ports: tuple[PortRange, ...] | None) -> str:
    if ports is None:
        return ""
    shown = [
        f"{part.protocol.lower()} . {part.first}" + (f"-{part.last}" if part.last != part.first else "")
        for part in ports
    ]
    return f"{_PORT} {{ {', '.join(shown)} }} "


def _block(peer: str, block: Block) -> str:
    without = f" {peer} != {{ {', '.join(map(str, block.without))} }}" if block.without else ""
    return f"{peer} {block.network}{without}"


def _sets(allowance: Allowance) -> dict[str, NamedSet]:
    found = {}
    if allowance.peers.addresses:
        found[name("peers", allowance.name)] = NamedSet("type ipv4_addr;", allowance.peers.addresses)
    if allowance.destinations:
        shown = frozenset(f"{to.address} . {to.protocol.lower()} . {to.port}" for to in allowance.destinations)
        declaration = "type ipv4_addr . inet_proto . inet_service;"
        found[name("destinations", allowance.name)] = NamedSet(declaration, shown)
    return found
