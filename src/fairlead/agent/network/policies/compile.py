"""What NetworkPolicies allow the pods of this node: addresses and ports, without selectors and names.

A pod that a policy selects is isolated in the policy's directions: nothing gets through but what some policy allows. A
selector that makes no sense selects nothing, so that it opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from typing import Any, Final, NamedTuple

import msgspec

from fairlead.agent.network.views import EgressRule, IngressRule, IPBlock, NetworkPolicy, PolicyPeer, PolicyPort
from fairlead.api.selectors import NOTHING, Selector, SelectorError, of_structured

LAST_PORT: Final = 65535
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


class Direction(StrEnum):
    INGRESS = "ingress"
    EGRESS = "egress"


class PortRange(NamedTuple):
    protocol: str
    first: int
    last: int


class Destination(NamedTuple):
    """A port of one pod: what a name of a port is where it is sent to."""

    address: str
    protocol: str
    port: int


class Block(NamedTuple):
    network: IPv4Network
    without: tuple[IPv4Network, ...] = ()


class PodFacts(msgspec.Struct, frozen=True):
    """A pod with an address in the network of pods, as policies see it."""

    namespace: str
    name: str
    address: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: By name and protocol.
    ports: Mapping[tuple[str, str], int] = msgspec.field(default_factory=dict)
    #: Whether this node answers for it.
    is_local: bool = False


class Peers(msgspec.Struct, frozen=True):
    """Everyone, or these."""

    everyone: bool = False
    addresses: frozenset[str] = frozenset()
    blocks: tuple[Block, ...] = ()


class Allowance(msgspec.Struct, frozen=True):
    """One rule of one policy, for one pod. `name` says which, and is the same for all pods that it is about."""

    name: str
    peers: Peers
    #: None: any port, and whatever has no ports.
    ports: tuple[PortRange, ...] | None
    destinations: frozenset[Destination] = frozenset()


#: What a pod may receive or send: None, whatever it likes; else what one of these allows.
Allowed = tuple[Allowance, ...] | None


class PodRules(msgspec.Struct, frozen=True):
    ingress: Allowed = None
    egress: Allowed = None


ISOLATED: Final = PodRules((), ())


class World:
    """The pods and namespaces that rules are made for, found by selectors."""

    def __init__(self, pods: Iterable[PodFacts], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self.pods: dict[str, list[PodFacts]] = {}
        for pod in pods:
            self.pods.setdefault(pod.namespace, []).append(pod)
        self.namespaces = namespaces

    def selected(self, peer: PolicyPeer, namespace: str) -> list[PodFacts]:
        """The pods that a peer of a policy of that namespace means."""
        if peer.namespace_selector is None:
            names = [namespace]
        else:
            selector = _selector(peer.namespace_selector)
            names = [name for name, labels in self.namespaces.items() if selector.matches(labels)]
        pods = _selector({} if peer.pod_selector is None else peer.pod_selector)
        return [pod for name in names for pod in self.pods.get(name, ()) if pods.matches(pod.labels)]


def compiled(policies: Iterable[NetworkPolicy], world: World) -> dict[str, PodRules]:
    """By `namespace/name` of the pods of this node that some policy selects."""
    found: dict[str, tuple[list[Allowance] | None, list[Allowance] | None]] = {}
    for policy in sorted(policies, key=lambda policy: policy.metadata.key):
        selector = _selector(policy.spec.pod_selector)
        local = [pod for pod in world.pods.get(policy.metadata.namespace, ()) if pod.is_local]
        subjects = [pod for pod in local if selector.matches(pod.labels)]
        if not subjects:
            continue
        directions = _directions(policy)
        incoming = [_incoming(rule, policy, number, world) for number, rule in enumerate(policy.spec.ingress)]
        outgoing = [_outgoing(rule, policy, number, world) for number, rule in enumerate(policy.spec.egress)]
        for pod in subjects:
            ingress, egress = found.get(f"{pod.namespace}/{pod.name}", (None, None))
            if Direction.INGRESS in directions:
                ingress = [*(ingress or ()), *(allow(pod) for allow in incoming)]
            if Direction.EGRESS in directions:
                egress = [*(egress or ()), *outgoing]
            found[f"{pod.namespace}/{pod.name}"] = (ingress, egress)
    return {key: PodRules(_useful(ingress), _useful(egress)) for key, (ingress, egress) in found.items()}


def _directions(policy: NetworkPolicy) -> list[Direction]:
    """What the API server fills in, if it was not said."""
    if not policy.spec.policy_types:
        return [Direction.INGRESS, *([Direction.EGRESS] if policy.spec.egress else [])]
    return [direction for direction in Direction if direction.name.capitalize() in policy.spec.policy_types]


def _useful(allowances: list[Allowance] | None) -> Allowed:
    if allowances is None:
        return None
    return tuple(allowance for allowance in allowances if allowance.ports != () or allowance.destinations)


def _incoming(rule: IngressRule, policy: NetworkPolicy, number: int, world: World) -> Callable[[PodFacts], Allowance]:
    """A name of a port is one of the pod that receives, so each has an allowance of its own."""
    peers = _peers(rule.from_, policy.metadata.namespace, world)
    return partial(_for_receiver, f"{policy.metadata.key}/{Direction.INGRESS}/{number}", peers, rule.ports)


def _for_receiver(name: str, peers: Peers, ports: Sequence[PolicyPort], pod: PodFacts) -> Allowance:
    if not ports:
        return Allowance(name, peers, None)
    ranges = [_numbers(port) for port in ports]
    for port in ports:
        number = pod.ports.get((port.port, port.protocol)) if isinstance(port.port, str) else None
        ranges.append(PortRange(port.protocol, number, number) if number is not None else None)
    return Allowance(name, peers, _merged(ranges))


def _outgoing(rule: EgressRule, policy: NetworkPolicy, number: int, world: World) -> Allowance:
    """A name of a port is one of the pod that is sent to; who is no pod has none."""
    name = f"{policy.metadata.key}/{Direction.EGRESS}/{number}"
    peers = _peers(rule.to, policy.metadata.namespace, world)
    if not rule.ports:
        return Allowance(name, peers, None)
    named = {(port.port, port.protocol) for port in rule.ports if isinstance(port.port, str)}
    destinations = frozenset(
        Destination(pod.address, port[1], pod.ports[port])
        for pod in (_pods_among(peers, world) if named else ())
        for port in named & pod.ports.keys()
        if port[1] in PROTOCOLS
    )
    return Allowance(name, peers, _merged(map(_numbers, rule.ports)), destinations)


def _peers(peers: Sequence[PolicyPeer], namespace: str, world: World) -> Peers:
    if not peers:
        return Peers(everyone=True)
    blocks = [block for peer in peers if peer.ip_block is not None for block in _block(peer.ip_block)]
    pods = [pod for peer in peers if peer.ip_block is None for pod in world.selected(peer, namespace)]
    return Peers(addresses=frozenset(pod.address for pod in pods), blocks=tuple(blocks))


def _pods_among(peers: Peers, world: World) -> Iterator[PodFacts]:
    for pod in (pod for pods in world.pods.values() for pod in pods):
        is_named = peers.everyone or pod.address in peers.addresses
        if is_named or any(covers(block, pod.address) for block in peers.blocks):
            yield pod


def covers(block: Block, address: str) -> bool:
    found = IPv4Address(address)
    return found in block.network and not any(found in part for part in block.without)


def _block(block: IPBlock) -> list[Block]:
    """None for those of IPv6, of which pods have no addresses."""
    try:
        without = collapse_addresses(IPv4Network(part, strict=False) for part in block.except_)
        return [Block(IPv4Network(block.cidr, strict=False), tuple(without))]
    except ValueError:
        return []


def _numbers(port: PolicyPort) -> PortRange | None:
    """None if it goes by name."""
    if isinstance(port.port, str):
        return None
    if port.port is None:
        return PortRange(port.protocol, 0, LAST_PORT)
    return PortRange(port.protocol, max(port.port, 0), min(max(port.port, port.end_port or 0), LAST_PORT))


def _merged(ranges: Iterable[PortRange | None]) -> tuple[PortRange, ...]:
    """Without overlaps, which nftables refuses, and without what is no port: it becomes part of rules."""
    merged: list[PortRange] = []
    some = [part for part in ranges if part is not None and part.protocol in PROTOCOLS and part.first <= part.last]
    for part in sorted(some):
        last = merged[-1] if merged else None
        if last is not None and last.protocol == part.protocol and part.first <= last.last + 1:
            merged[-1] = last._replace(last=max(last.last, part.last))
        else:
            merged.append(part)
    return tuple(merged)


def _selector(selector: Mapping[str, Any]) -> Selector:
    try:
        return of_structured(selector)
    except SelectorError:
        return NOTHING
