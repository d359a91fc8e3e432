"""Gives every Service its cluster address, its families and its node ports, and takes them back.

It runs as the last mutating admission step, because the rules of a Service want to see the addresses, and because a
request that fails afterwards is undone through `Attributes.on_failure`. What is in use follows from the stored
services (`observe`) plus what unfinished requests hold. Sources: pkg/registry/core/service/storage/alloc.go,
ipallocator, portallocator (1.36). One family is configured, as in a default cluster; from which networks addresses
come, ServiceCIDRs say (`service_networks.py`).
"""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv4Network
from typing import Final, TypeVar

import msgspec

from fairlead.api.errors import ApiError, InternalError
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.service_networks import IPAddress
from fairlead.kinds.ips import IPV4, IPV6, family_of, parse_ip
from fairlead.kinds.service_ips import REQUIRE_DUAL, SINGLE, validate_address_fields
from fairlead.kinds.service_kinds import (
    EXTERNAL_NAME,
    HEADLESS,
    LOAD_BALANCER,
    WITH_NODE_PORTS,
    is_headless,
    needs_health_check,
)
from fairlead.kinds.service_networks import gives
from fairlead.runtime import rng
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Operation
from fairlead.server.admission.service_networks import ServiceNetworks

NODE_PORTS: Final = range(30000, 32768)

#: The lower part of the node ports is left to users who choose for themselves (KEP-3668).
_STATIC_PORTS: Final = 86
_ATTEMPTS: Final = 64
_SMALL_NETWORK: Final = 16

Port = int
AddressText = str
_T = TypeVar("_T")
_decode_address = msgspec.json.Decoder(IPAddress).decode


class Held(msgspec.Struct):
    """The addresses and node ports of one service."""

    addresses: set[AddressText] = msgspec.field(default_factory=set)
    ports: set[Port] = msgspec.field(default_factory=set)

    def is_part_of(self, whole: Held) -> bool:
        return self.addresses <= whole.addresses and self.ports <= whole.ports


class ServiceAddresses(AdmissionPlugin):
    """The addresses and node ports of one cluster."""

    name = "ServiceAddresses"

    def __init__(self, networks: ServiceNetworks | None = None) -> None:
        self._networks = networks or ServiceNetworks()
        #: The address of the kubernetes service of the default namespace, which the server itself keeps there.
        self._kubernetes = str(self._networks.default[1])
        self._stored: dict[str, Held] = {}
        #: Those of requests under way, without names: these may be generated later.
        self._pending: list[Held] = []
        #: How many hold each address and port; a reservation and the stored service overlap for a moment.
        self._addresses: Counter[AddressText] = Counter({self._kubernetes: 1})
        #: Those that somebody else has taken, by an IPAddress.
        self._foreign: set[AddressText] = set()
        #: Networks without a free address, until one is given back.
        self._full: set[IPv4Network] = set()
        self._ports: Counter[Port] = Counter()

    def observe(self, namespace: str, name: str, raw: bytes | None) -> None:
        """A service was stored, or removed."""
        key = f"{namespace}/{name}"
        held = held_by(msgspec.json.decode(raw)["spec"]) if raw is not None else Held()
        self._count(held)
        self._release(self._stored.pop(key, Held()))
        if raw is not None:
            self._stored[key] = held
            for pending in [entry for entry in self._pending if entry.is_part_of(held)]:
                self._forget(pending)

    def observe_address(self, namespace: str, name: str, raw: bytes | None) -> None:
        """An IPAddress was stored, or removed. Those of Services follow them, and say nothing new."""
        if raw is not None and not _decode_address(raw).is_allocated:
            self._foreign.add(name)
        elif name in self._foreign:
            self._foreign.discard(name)
            self._full.clear()

    async def admit(self, attributes: Attributes) -> None:
        is_write = attributes.operation in (Operation.CREATE, Operation.UPDATE)
        if attributes.resource.qualified != "services" or attributes.subresource or not is_write:
            return
        taken = self.complete(attributes.obj, attributes.old)
        if attributes.dry_run:
            self._release(taken)
            return
        self._pending.append(taken)

        async def give_back() -> None:
            self._forget(taken)

        attributes.on_failure.append(give_back)

    def complete(self, obj: Obj, old: Obj | None) -> Held:
        """Fill in families, addresses and ports; returns what was newly taken. Raises `Invalid`."""
        spec, old_spec = obj["spec"], old["spec"] if old else {}
        taken = Held()
        try:
            if old is None and spec.get("clusterIP") and not spec.get("clusterIPs"):
                spec["clusterIPs"] = [spec["clusterIP"]]
            _complete_families(obj, old_spec)
            self._complete_addresses(obj, held_by(old_spec), taken)
            self._complete_ports(obj, held_by(old_spec), taken)
        except ApiError:
            self._release(taken)
            raise
        return taken

    def _complete_addresses(self, obj: Obj, before: Held, taken: Held) -> None:
        spec = obj["spec"]
        if spec["type"] == EXTERNAL_NAME or is_headless(spec):
            return
        ips: list[AddressText] = spec.setdefault("clusterIPs", [])
        for index in range(len(spec["ipFamilies"])):
            if index == len(ips):
                ips.append("")
            if not ips[index]:
                ips[index] = self._free_address(obj)
            elif ips[index] in before.addresses:
                continue
            else:
                self._claim_address(obj, ips[index])
            taken.addresses.add(ips[index])
            self._addresses[ips[index]] += 1
        spec["clusterIP"] = ips[0]

    def _claim_address(self, obj: Obj, ip: AddressText) -> None:
        address = parse_ip(ip)
        if address is None or not any(gives(network, address) for network in self._networks.ready):
            why = "the provided network does not match the current range"
        elif self._is_taken(ip) and not (ip == self._kubernetes and _is_kubernetes(obj)):
            why = "provided IP is already allocated"
        else:
            return
        _refuse(obj, "spec.clusterIPs", obj["spec"]["clusterIPs"], f"failed to allocate IP {ip}: {why}")

    def _free_address(self, obj: Obj) -> AddressText:
        if _is_kubernetes(obj):
            return self._kubernetes
        networks = [network for network in self._networks.ready if network not in self._full]
        for network in rng.source().sample(networks, len(networks)) if len(networks) > 1 else networks:
            if (ip := self._free_in(network)) is not None:
                return ip
            self._full.add(network)
        raise InternalError(f'failed to allocate a serviceIP for Service "{name_of(obj)}": range is full')

    def _free_in(self, network: IPv4Network) -> AddressText | None:
        """An address of the upper part, which is not left to users who choose for themselves; else of the lower."""
        last, first = network.num_addresses - 1, _first_offered(network)
        for _ in range(_ATTEMPTS if first < last else 0):
            ip = str(network[rng.source().randrange(first, last)])
            if not self._is_taken(ip):
                return ip
        for numbers in (range(first, last), range(1, min(first, last))):
            for number in numbers:
                if not self._is_taken(ip := str(network[number])):
                    return ip
        return None

    def _is_taken(self, ip: AddressText) -> bool:
        return ip in self._addresses or ip in self._foreign

    def _complete_ports(self, obj: Obj, before: Held, taken: Held) -> None:
        spec = obj["spec"]
        ports: list[Obj] = spec.get("ports") or []
        allocates = spec.get("allocateLoadBalancerNodePorts") is not False or spec["type"] != LOAD_BALANCER
        #: The same port of another protocol gets the same node port: what was chosen for it before, or is asked for.
        chosen: dict[Port, Port] = {}
        asked = {port["port"]: port["nodePort"] for port in reversed(ports) if port.get("nodePort")}
        for index, port in enumerate(ports) if spec["type"] in WITH_NODE_PORTS else ():
            number_asked = port.get("nodePort") or chosen.get(port["port"]) or asked.get(port["port"])
            if not number_asked and not allocates:
                continue
            port["nodePort"] = number_asked or self._free_port()
            if not {port["nodePort"]} & (before.ports | taken.ports):
                self._claim_port(obj, port["nodePort"], f"spec.ports[{index}].nodePort", taken)
            chosen.setdefault(port["port"], port["nodePort"])
        if needs_health_check(spec):
            number = spec.setdefault("healthCheckNodePort", 0) or self._free_port()
            if number not in before.ports:
                self._claim_port(obj, number, "spec.healthCheckNodePort", taken)
            spec["healthCheckNodePort"] = number

    def _claim_port(self, obj: Obj, port: Port, path: str, taken: Held) -> None:
        if port not in NODE_PORTS:
            known = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            _refuse(obj, path, port, f"provided port is not in the valid range. The range of valid ports is {known}")
        if port in self._ports:
            _refuse(obj, path, port, "provided port is already allocated")
        taken.ports.add(port)
        self._ports[port] += 1

    def _free_port(self) -> Port:
        offered = NODE_PORTS[_STATIC_PORTS:]
        for _ in range(_ATTEMPTS):
            if (port := rng.source().choice(offered)) not in self._ports:
                return port
        free = [port for port in offered if port not in self._ports]
        free = free or [port for port in NODE_PORTS if port not in self._ports]
        if not free:
            raise InternalError("failed to allocate a nodePort: range is full")
        return rng.source().choice(free)

    def _count(self, held: Held) -> None:
        self._addresses.update(held.addresses)
        self._ports.update(held.ports)

    def _release(self, held: Held) -> None:
        if _take_off(self._addresses, held.addresses):
            self._full.clear()
        _take_off(self._ports, held.ports)

    def _forget(self, pending: Held) -> None:
        """Release the reservation of a request that has ended."""
        before = len(self._pending)
        self._pending = [held for held in self._pending if held is not pending]
        if len(self._pending) < before:
            self._release(pending)


def _first_offered(network: IPv4Network) -> int:
    """Where the upper part of a network begins (KEP-3070); a small one has no other."""
    size = network.num_addresses
    return 1 if size <= _SMALL_NETWORK else min(max(16, size // 16), 256)


def _take_off(count: Counter[_T], items: set[_T]) -> bool:
    """Count them no more; whether nobody has one of them now."""
    count.subtract(items)
    free = [item for item in items if not count[item]]
    for item in free:
        del count[item]
    return bool(free)


def held_by(spec: Obj) -> Held:
    """The addresses and ports that a service has."""
    addresses = {ip for ip in spec.get("clusterIPs") or () if ip != HEADLESS}
    ports = {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    if health_port := spec.get("healthCheckNodePort"):
        ports.add(health_port)
    return Held(addresses, ports)


def _is_kubernetes(obj: Obj) -> bool:
    meta = metadata(obj)
    return meta.get("namespace") == "default" and meta.get("name") == "kubernetes"


def _complete_families(obj: Obj, old: Obj) -> None:
    """`initIPFamilyFields`: a policy, and as many families as it wants and the cluster has."""
    spec = obj["spec"]
    if spec["type"] == EXTERNAL_NAME:
        return
    is_bare = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        spec["ipFamilyPolicy"] = old.get("ipFamilyPolicy") or (REQUIRE_DUAL if is_bare else SINGLE)
    errors = Errors()
    validate_address_fields(spec, old, errors)
    errors.raise_invalid("Service", name_of(obj))
    families: list[str] = list(spec.get("ipFamilies") or ())
    _refuse_second(spec, families, errors)
    for index, ip in enumerate(spec.get("clusterIPs") or ()):
        if ip == HEADLESS:
            break
        if index >= len(families):
            if family_of(ip) == IPV4:
                families.append(IPV4)
            else:
                text = "IPv6 is not configured on this cluster"
                errors.invalid(f"spec.clusterIPs[{index}]", spec["clusterIPs"], text)
    errors.raise_invalid("Service", name_of(obj))
    families = families or [IPV4]
    if is_bare:
        if len(families) < 2 and spec["ipFamilyPolicy"] != SINGLE:
            families.append(IPV6 if families[0] == IPV4 else IPV4)
    else:
        _refuse_unconfigured(spec, families, errors)
    errors.raise_invalid("Service", name_of(obj))
    spec["ipFamilies"] = families


def _refuse_second(spec: Obj, families: list[str], errors: Errors) -> None:
    if spec["ipFamilyPolicy"] != SINGLE:
        return
    for count, plural in ((len(spec.get("clusterIPs") or ()), "cluster IPs"), (len(families), "IP families")):
        if count == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {plural} are specified"
            errors.invalid("spec.ipFamilyPolicy", SINGLE, text)


def _refuse_unconfigured(spec: Obj, families: list[str], errors: Errors) -> None:
    if spec["ipFamilyPolicy"] == REQUIRE_DUAL:
        text = "this cluster is not configured for dual-stack services"
        errors.invalid("spec.ipFamilyPolicy", REQUIRE_DUAL, text)
    for index, family in enumerate(families):
        if family != IPV4:
            errors.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")


def _refuse(obj: Obj, path: str, value: object, why: str) -> None:
    errors = Errors()
    errors.invalid(path, value, why)
    errors.raise_invalid("Service", name_of(obj))
