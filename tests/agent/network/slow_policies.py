"""NetworkPolicies as their documentation reads, one packet at a time: slow, and obviously right.

A policy is the object itself, a pod is a dictionary too: nothing here is shared with what it is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

Obj = dict[str, Any]


@dataclass(frozen=True)
class End:
    """Somebody who sends or receives: a pod, or (without a namespace) anybody else."""

    address: str
    namespace: str = ""
    labels: Obj = field(default_factory=dict)
    namespace_labels: Obj = field(default_factory=dict)
    ports: dict[tuple[str, str], int] = field(default_factory=dict)  # by name and protocol


def may(policies: list[Obj], sender: End, receiver: End, protocol: str, port: int) -> bool:
    return _sends(policies, sender, receiver, protocol, port) and _receives(policies, sender, receiver, protocol, port)


def _sends(policies: list[Obj], sender: End, receiver: End, protocol: str, port: int) -> bool:
    mine = [policy for policy in policies if _selects(policy, sender) and "Egress" in policy["spec"]["policyTypes"]]
    return not mine or any(
        _peer(policy, rule.get("to"), receiver) and _port(rule.get("ports"), receiver, protocol, port)
        for policy in mine
        for rule in policy["spec"].get("egress", [])
    )


def _receives(policies: list[Obj], sender: End, receiver: End, protocol: str, port: int) -> bool:
    mine = [policy for policy in policies if _selects(policy, receiver) and "Ingress" in policy["spec"]["policyTypes"]]
    return not mine or any(
        _peer(policy, rule.get("from"), sender) and _port(rule.get("ports"), receiver, protocol, port)
        for policy in mine
        for rule in policy["spec"].get("ingress", [])
    )


def _selects(policy: Obj, pod: End) -> bool:
    return pod.namespace == policy["metadata"]["namespace"] and _matches(policy["spec"]["podSelector"], pod.labels)


def _matches(selector: Obj, labels: Obj) -> bool:
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for expression in selector.get("matchExpressions", []):
        value, operator, values = labels.get(expression["key"]), expression["operator"], expression.get("values", [])
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds[operator]:
            return False
    return True


def _peer(policy: Obj, peers: list[Obj] | None, end: End) -> bool:
    if not peers:
        return True
    for peer in peers:
        if "ipBlock" in peer:
            block, address = peer["ipBlock"], ip_address(end.address)
            if address in ip_network(block["cidr"]) and not any(
                address in ip_network(part) for part in block.get("except", [])
            ):
                return True
            continue
        if not end.namespace:
            continue
        if "namespaceSelector" in peer:
            in_namespace = _matches(peer["namespaceSelector"], end.namespace_labels)
        else:
            in_namespace = end.namespace == policy["metadata"]["namespace"]
        if in_namespace and _matches(peer.get("podSelector", {}), end.labels):
            return True
    return False


def _port(ports: list[Obj] | None, receiver: End, protocol: str, port: int) -> bool:
    if not ports:
        return True
    for entry in ports:
        if entry.get("protocol", "TCP") != protocol:
            continue
        if "port" not in entry:
            return True
        wanted: int | str = entry["port"]
        if isinstance(wanted, str):
            if receiver.ports.get((wanted, protocol)) == port:
                return True
        elif wanted <= port <= entry.get("endPort", wanted):
            return True
    return False
