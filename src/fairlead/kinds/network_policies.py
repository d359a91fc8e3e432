"""NetworkPolicies: what is filled in, and which traffic they may speak of.

Sources: pkg/apis/networking/{v1/defaults,validation} (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors, validate_choice
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_structured
from fairlead.kinds.ips import parse_network, validate_cidr
from fairlead.kinds.rules import check
from fairlead.kinds.strategy import Strategy

POLICY_TYPES: Final = ("Ingress", "Egress")
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")

_DIRECTIONS: Final = (("ingress", "from"), ("egress", "to"))


class NetworkPolicyStrategy(Strategy):
    has_generation = True

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        for direction, _ in _DIRECTIONS:
            for rule in spec.get(direction) or ():
                for port in rule.get("ports") or ():
                    port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate(self, obj: Obj, errors: Errors) -> None:
        _validate_spec(obj["spec"], frozenset(), errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        _validate_spec(obj["spec"], frozenset(_networks(old["spec"])), errors)

    def validate_admitted(self, obj: Obj, errors: Errors) -> None:
        self.validate_update(obj, obj, errors)


def _networks(spec: Obj) -> Iterator[str]:
    """All that a policy names: they stay valid wherever a change puts them."""
    for direction, peers in _DIRECTIONS:
        for rule in spec.get(direction) or ():
            for peer in rule.get(peers) or ():
                if (block := peer.get("ipBlock")) is not None:
                    yield block["cidr"]
                    yield from block.get("except") or ()


def _validate_spec(spec: Obj, existing: Set[str], errors: Errors) -> None:
    validate_structured(spec.get("podSelector"), errors, "spec.podSelector")
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or ()):
            where = f"spec.{direction}[{index}]"
            for position, port in enumerate(rule.get("ports") or ()):
                _validate_port(port, f"{where}.ports[{position}]", errors)
            _validate_peers(rule.get(peers) or (), f"{where}.{peers}", existing, errors)
    types = spec["policyTypes"]
    if len(types) > len(POLICY_TYPES):
        errors.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, type_ in enumerate(types):
        validate_choice(type_, POLICY_TYPES, f"spec.policyTypes[{index}]", errors)


def _validate_port(port: Obj, path: str, errors: Errors) -> None:
    protocol, number, end = port["protocol"], port.get("port"), port.get("endPort")
    if protocol not in PROTOCOLS:
        errors.not_supported(f"{path}.protocol", protocol, PROTOCOLS, sort=False)
    if isinstance(number, int):
        check(errors, f"{path}.port", number, names.port_number)
        if end is not None:
            if end < number:
                errors.invalid(f"{path}.endPort", number, "must be greater than or equal to `port`")  # as upstream
            check(errors, f"{path}.endPort", end, names.port_number)
        return
    if end is not None:
        lack = "not specified" if number is None else "non-numeric"
        errors.invalid(f"{path}.endPort", end, f"may not be specified when `port` is {lack}")
    if number is not None:
        check(errors, f"{path}.port", number, names.port_name)


def _validate_peers(peers: Iterable[Obj], path: str, existing: Set[str], errors: Errors) -> None:
    for index, peer in enumerate(peers):
        where, block = f"{path}[{index}]", peer.get("ipBlock")
        selectors = [field for field in ("podSelector", "namespaceSelector") if peer.get(field) is not None]
        for field in selectors:
            validate_structured(peer[field], errors, f"{where}.{field}")
        if block is not None:
            _validate_block(block, f"{where}.ipBlock", existing, errors)
        if not selectors and block is None:
            errors.required(where, "must specify a peer")
        elif selectors and block is not None:
            errors.forbidden(where, "may not specify both ipBlock and another peer")


def _validate_block(block: Obj, path: str, existing: Set[str], errors: Errors) -> None:
    if not block["cidr"]:
        errors.required(f"{path}.cidr")
        return
    validate_cidr(block["cidr"], f"{path}.cidr", errors, existing)
    whole = parse_network(block["cidr"])
    if whole is None:
        return
    for index, text in enumerate(block.get("except") or ()):
        where = f"{path}.except[{index}]"
        validate_cidr(text, where, errors, existing)
        part = parse_network(text)
        if part is None:
            continue
        if part[1].network_address not in whole[1] or part[1].prefixlen <= whole[1].prefixlen:
            errors.invalid(where, text, "must be a strict subset of `cidr`")
