"""What is answered about the cluster's names: the specification of DNS-based service discovery, as CoreDNS reads it.

    SERVICE.NAMESPACE.svc            its virtual address; of a headless service those of its endpoints; or an alias
    HOST.SERVICE.NAMESPACE.svc       an endpoint of a headless service, by its hostname or its address with dashes
    _PORT._PROTOCOL.SERVICE….svc     SRV: the number of a named port, and where
    A-B-C-D.NAMESPACE.pod            that address
    D.C.B.A.in-addr.arpa             PTR: back to the names above

A name that exists and has no record of a type is answered with none; one that does not exist ends a search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, TypeVar

from fairlead.agent.network.dns.directory import Directory
from fairlead.agent.network.views import Endpoint, EndpointSlice, Service
from fairlead.runtime import rng

#: As kubeadm sets up CoreDNS.
TTL_SECONDS: Final = 30
#: A service may have any number of endpoints, an answer only so many; others come with the next one.
MOST_RECORDS: Final = 500
VERSION: Final = "1.1.0"
_ADDRESS_TYPES: Final = {"A": "IPv4", "AAAA": "IPv6"}


class Record(NamedTuple):
    name: str
    type: str
    #: As in a zone file.
    value: str


@dataclass(frozen=True, slots=True)
class Answer:
    exists: bool = True
    records: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()
    #: A name elsewhere whose records are wanted, too.
    alias: str = ""


T = TypeVar("T")

_MISSING: Final = Answer(exists=False)
_EMPTY: Final = Answer()


class Zone:
    """The names of one cluster."""

    def __init__(self, domain: str, directory: Directory) -> None:
        self._domain, self._directory = domain, directory

    def answer(self, name: str, type_: str) -> Answer | None:
        """The answer about a name (lower case, without its last dot); None if it is not about this cluster."""
        if name.endswith((".in-addr.arpa", ".ip6.arpa")):
            return self._reverse(name, type_)
        if name != self._domain and not name.endswith(f".{self._domain}"):
            return None
        labels = name.removesuffix(self._domain).rstrip(".").split(".")[::-1]
        match labels:
            case [""] | ["svc"] | ["pod"]:
                return _EMPTY
            case ["dns-version"]:
                return _of(name, type_, "TXT", [f'"{VERSION}"'])
            case ["svc" | "pod", namespace]:
                return _EMPTY if self._directory.has_namespace(namespace) else _MISSING
            case ["pod", namespace, dashed]:
                return self._pod(name, namespace, dashed, type_)
            case ["svc", namespace, service_name, *rest]:
                service = self._directory.service(namespace, service_name)
                return _MISSING if service is None else self._service(name, service, rest, type_)
        return _MISSING

    def _pod(self, name: str, namespace: str, dashed: str, type_: str) -> Answer:
        try:
            address = ip_address(dashed.replace("-", ".") if dashed.count("-") == 3 else dashed.replace("-", ":"))
        except ValueError:
            return _MISSING
        if not self._directory.has_namespace(namespace):
            return _MISSING
        return _of(name, type_, "A" if address.version == 4 else "AAAA", [str(address)])

    def _service(self, name: str, service: Service, rest: Sequence[str], type_: str) -> Answer:
        if service.spec.type == "ExternalName":
            target = service.spec.external_name.rstrip(".").lower()
            return _MISSING if rest else Answer(records=(Record(name, "CNAME", f"{target}."),), alias=target)
        if len(rest) == 2 and all(label.startswith("_") for label in rest):
            return self._ports(name, service, protocol=rest[0][1:], port=rest[1][1:], type_=type_)
        if not rest and not service.is_headless:
            return _addresses(name, type_, service.addresses)
        if len(rest) > 1 or not service.is_headless:
            return _MISSING
        wanted = rest[0] if rest else None
        found = [
            address
            for _, endpoint, address in self._endpoints(service)
            if wanted is None or _host(endpoint, address) == wanted
        ]
        return _addresses(name, type_, found) if found else _MISSING

    def _ports(self, name: str, service: Service, *, protocol: str, port: str, type_: str) -> Answer:
        home = self._name_of(service)
        if not service.is_headless:
            numbers = [entry.port for entry in service.spec.ports if _is(entry.name, entry.protocol, port, protocol)]
            targets = [(number, home, address) for number in numbers for address in service.addresses]
        else:
            targets = [
                (entry.port, f"{_host(endpoint, address)}.{home}", address)
                for piece, endpoint, address in self._endpoints(service)
                for entry in piece.ports or ()
                if entry.port is not None and _is(entry.name, entry.protocol, port, protocol)
            ]
        if not targets:
            return _MISSING
        if type_ != "SRV":
            return _EMPTY
        chosen = _few(targets)
        values = dict.fromkeys((number, host) for number, host, _ in chosen)
        weight = max(1, 100 // len(values))
        records = tuple(Record(name, "SRV", f"0 {weight} {number} {host}.") for number, host in values)
        hosts = dict.fromkeys((host, address) for _, host, address in chosen)
        return Answer(records=records, additional=tuple(_address_record(host, address) for host, address in hosts))

    def _reverse(self, name: str, type_: str) -> Answer | None:
        address = _reversed(name)
        if address is None:
            return None
        names = [self._name_of(service) for service in self._directory.services_at(address)]
        for piece in self._directory.slices_at(address):
            service = self._directory.service(*piece.service_key.split("/", 1))
            if service is not None and service.is_headless:
                there = [endpoint for endpoint in piece.endpoints or () if address in endpoint.addresses]
                hosts = sorted({_host(endpoint, address) for endpoint in there})
                names += [f"{host}.{self._name_of(service)}" for host in hosts]
        return _of(name, type_, "PTR", [f"{found}." for found in _few(names)]) if names else None

    def _endpoints(self, service: Service) -> Iterator[tuple[EndpointSlice, Endpoint, str]]:
        for piece in self._directory.slices(service):
            for endpoint in piece.endpoints or ():
                if endpoint.is_ready and piece.address_type in _ADDRESS_TYPES.values():
                    for address in endpoint.addresses:
                        yield piece, endpoint, address

    def _name_of(self, service: Service) -> str:
        return f"{service.metadata.name}.{service.metadata.namespace}.svc.{self._domain}"


def _is(name: str, protocol: str, wanted_name: str, wanted_protocol: str) -> bool:
    return bool(name) and name == wanted_name and protocol.lower() == wanted_protocol


def _host(endpoint: Endpoint, address: str) -> str:
    return endpoint.hostname or address.replace(".", "-").replace(":", "-")


def _addresses(name: str, type_: str, addresses: Iterable[str]) -> Answer:
    records = [_address_record(name, address) for address in dict.fromkeys(addresses)]
    return Answer(records=tuple(_few([record for record in records if record.type == type_])))


def _address_record(name: str, address: str) -> Record:
    return Record(name, "AAAA" if ":" in address else "A", address)


def _of(name: str, asked: str, type_: str, values: Iterable[str]) -> Answer:
    return Answer(records=tuple(Record(name, type_, value) for value in values)) if asked == type_ else _EMPTY


def _few(found: list[T]) -> list[T]:
    """All, or as many as an answer may have, chosen anew each time."""
    return found if len(found) <= MOST_RECORDS else rng.source().sample(found, MOST_RECORDS)


def _reversed(name: str) -> str | None:
    """The address that a name below arpa is about."""
    labels = name.split(".")
    try:
        if name.endswith(".in-addr.arpa") and len(labels) == 6:
            return str(IPv4Address(".".join(labels[3::-1])))
        if name.endswith(".ip6.arpa") and len(labels) == 34 and all(len(label) == 1 for label in labels[:32]):
            return str(IPv6Address(int("".join(labels[31::-1]), 16)))
    except ValueError:
        return None
    return None
