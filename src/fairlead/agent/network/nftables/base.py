"""What the table always has: the way of a packet, and the maps that lead it to fragments.

    prerouting, output   destination is translated: services (address, protocol, port), host_ports and node_ports
                         (protocol, port)
    forward, input, output   refused: unserved, unserved_node_ports; then forward: policies of pods
    postrouting          source is translated: hairpins, what is marked, pods that talk to the world

Bridged packets come this way too if `net.bridge.bridge-nf-call-iptables` is 1 (machine.py). Those of IPv6 between pods
are dropped in a table of their own: pods have no addresses of it but those that interfaces give themselves, to which no
policy could apply.
"""

from __future__ import annotations

from typing import Final

from fairlead.agent.network.nftables.table import TABLE, Table
from fairlead.agent.network.settings import NetworkSettings

#: On packets whose source becomes this node, so that the answer comes back here (kube-proxy's bit).
MARK: Final = "0x4000"
#: What a chain that is reached does with its packet.
MASQUERADE: Final = f"meta mark set meta mark or {MARK}"

SERVICES, HOST_PORTS, NODE_PORTS = "services", "host_ports", "node_ports"
UNSERVED, UNSERVED_NODE_PORTS = "unserved", "unserved_node_ports"
#: The addresses of pods that are services to themselves: pairs of twice the same.
HAIRPINS: Final = "hairpins"
#: Which chain says what a pod may send, and who may send to it.
EGRESS, INGRESS = "egress", "ingress"
#: Where unserved packets go whose sender is told; by TCP's own means, for the kernel sends only so many ICMP messages.
REFUSE: Final = "refuse"

IPV6_TABLE: Final = "ip6 fairlead"

_SETS: Final = f"""
add map {TABLE} {SERVICES} {{ type ipv4_addr . inet_proto . inet_service : verdict; }}
add map {TABLE} {HOST_PORTS} {{ type inet_proto . inet_service : verdict; }}
add map {TABLE} {NODE_PORTS} {{ type inet_proto . inet_service : verdict; }}
add map {TABLE} {UNSERVED} {{ type ipv4_addr . inet_proto . inet_service : verdict; }}
add map {TABLE} {UNSERVED_NODE_PORTS} {{ type inet_proto . inet_service : verdict; }}
add set {TABLE} {HAIRPINS} {{ type ipv4_addr . ipv4_addr; }}
add map {TABLE} {EGRESS} {{ type ipv4_addr : verdict; }}
add map {TABLE} {INGRESS} {{ type ipv4_addr : verdict; }}
add chain {TABLE} {REFUSE}
add rule {TABLE} {REFUSE} meta l4proto tcp reject with tcp reset
add rule {TABLE} {REFUSE} reject
""".strip()

_SERVICE: Final = "ip daddr . meta l4proto . th dport vmap"
_LOCAL_PORT: Final = "fib daddr type local meta l4proto . th dport vmap"
#: Not at 127.0.0.1: what comes from there can only be led to pods of this node.
_NODE_PORT: Final = f"ip daddr != 127.0.0.0/8 {_LOCAL_PORT}"

_HOOKS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("guard", "filter hook prerouting priority raw", ('iifname "{bridge}" ip daddr 127.0.0.0/8 drop',)),
    ("prerouting", "nat hook prerouting priority dstnat", ("jump translate",)),
    ("output", "nat hook output priority -100", ("jump translate",)),
    ("refuse_forward", "filter hook forward priority -10", ("ct state new jump unserved",)),
    ("refuse_input", "filter hook input priority -10", ("ct state new jump unserved",)),
    ("refuse_output", "filter hook output priority -10", ("ct state new jump unserved",)),
    (
        "egress",
        "filter hook forward priority 0",
        (
            "ct state established,related accept",
            f"ip saddr . ip daddr @{HAIRPINS} accept",
            f"ip saddr vmap @{EGRESS}",
        ),
    ),
    (
        "ingress",
        "filter hook forward priority 5",
        (
            "ct state established,related accept",
            f"ip saddr . ip daddr @{HAIRPINS} accept",
            f"ip daddr vmap @{INGRESS}",
        ),
    ),
    (
        "postrouting",
        "nat hook postrouting priority srcnat",
        (
            f"ip saddr . ip daddr @{HAIRPINS} masquerade",
            f"meta mark & {MARK} == {MARK} meta mark set meta mark xor {MARK} masquerade",
            'ip saddr 127.0.0.0/8 oifname "{bridge}" masquerade',
            "ip saddr {pods} ip daddr != {pods} masquerade",
        ),
    ),
)


def table(settings: NetworkSettings) -> Table:
    """The table of a node. Whatever is sent to an address of services and was not translated is refused: no router
    knows it, and the kernel would remember a flow of UDP that leads nowhere."""
    bridge, pods, services = settings.bridge, settings.pod_network, settings.service_network
    chains = [
        f"add chain {TABLE} translate",
        f"add rule {TABLE} translate {_SERVICE} @{SERVICES}",
        f"add rule {TABLE} translate {_LOCAL_PORT} @{HOST_PORTS}",
        f"add rule {TABLE} translate {_NODE_PORT} @{NODE_PORTS}",
        f"add chain {TABLE} unserved",
        f"add rule {TABLE} unserved {_SERVICE} @{UNSERVED}",
        f"add rule {TABLE} unserved {_NODE_PORT} @{UNSERVED_NODE_PORTS}",
        f"add rule {TABLE} unserved ip daddr {services} ip daddr != {settings.dns_address} goto {REFUSE}",
    ]
    for name, hook, rules in _HOOKS:
        chains.append(f"add chain {TABLE} {name} {{ type {hook}; }}")
        chains += [f"add rule {TABLE} {name} {rule.format(bridge=bridge, pods=pods)}" for rule in rules]
    ipv6 = [
        f"add table {IPV6_TABLE}",
        f"delete table {IPV6_TABLE}",
        f"add table {IPV6_TABLE}",
        f"add chain {IPV6_TABLE} forward {{ type filter hook forward priority 0; }}",
        f'add rule {IPV6_TABLE} forward iifname "{bridge}" oifname "{bridge}" drop',
    ]
    return Table(_SETS, "\n".join([*chains, *ipv6]))
