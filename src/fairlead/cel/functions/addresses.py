"""IP addresses, networks and URLs (library/ip.go, cidr.go, urls.go). IPv4 in IPv6 and zones are refused, as there."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import SplitResult, parse_qs, urlsplit

from fairlead.cel.errors import CelError
from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload, functions, methods
from fairlead.cel.types import BOOL, INT, STRING, list_of, map_of, opaque
from fairlead.cel.values import Opaque

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_LONGEST: Final = 100
_LONGEST_URL: Final = 8192
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_BAD_URL: Final = re.compile(r"[\x00-\x20\x7f]|%(?![0-9a-fA-F]{2})")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ip(Opaque):
    value: _Address
    type_name = "net.IP"

    def key(self) -> _Address:
        return self.value


@dataclass(frozen=True, slots=True)
class Cidr(Opaque):
    """A network, with the address by which it was written."""

    address: _Address
    network: _Network
    type_name = "net.CIDR"

    def key(self) -> tuple[_Address, int]:
        return self.address, self.network.prefixlen


@dataclass(frozen=True, slots=True)
class Url(Opaque):
    text: str
    parts: SplitResult
    type_name = "kubernetes.URL"

    def key(self) -> str:
        return self.text


IP, CIDR, URL = opaque(Ip), opaque(Cidr), opaque(Url)


def overloads() -> Iterator[Overload]:
    yield from _of_addresses()
    yield from _of_networks()
    yield from _of_urls()


def _of_addresses() -> Iterator[Overload]:
    yield from functions(
        ("ip", [STRING], IP, _ip),
        ("isIP", [STRING], BOOL, _tells(_ip)),
        ("ip.isCanonical", [STRING], BOOL, lambda text: str(_ip(text).value) == text),
        cost=costs.target,
    )
    yield from functions(("string", [IP], STRING, lambda ip: str(ip.value)))
    yield from methods(
        IP,
        ("family", [], INT, lambda ip: ip.value.version),
        ("isUnspecified", [], BOOL, lambda ip: ip.value.is_unspecified),
        ("isLoopback", [], BOOL, lambda ip: ip.value.is_loopback),
        ("isLinkLocalMulticast", [], BOOL, _is_link_local_multicast),
        ("isLinkLocalUnicast", [], BOOL, lambda ip: ip.value.is_link_local),
        ("isGlobalUnicast", [], BOOL, _is_global_unicast),
    )


def _ip(text: str) -> Ip:
    try:
        if len(text) > _LONGEST or "%" in text:
            raise ValueError
        value = ipaddress.ip_address(text)
    except ValueError:
        raise CelError(f'IP Address "{text[:_LONGEST]}" parse error during conversion from string') from None
    if isinstance(value, ipaddress.IPv6Address) and value.ipv4_mapped is not None:
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return Ip(value)


def _tells(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether a text can be read so."""

    def can_be_read(text: str) -> bool:
        try:
            parse(text)
        except CelError:
            return False
        return True

    return can_be_read


def _is_link_local_multicast(ip: Ip) -> bool:
    value = ip.value
    if isinstance(value, ipaddress.IPv4Address):
        return value in ipaddress.IPv4Network("224.0.0.0/24")
    return value.packed[0] == 0xFF and value.packed[1] & 0x0F == 0x02


def _is_global_unicast(ip: Ip) -> bool:
    """As Go says it: anything but what has another use, private addresses too."""
    value = ip.value
    if value == ipaddress.IPv4Address("255.255.255.255"):
        return False
    return not (value.is_unspecified or value.is_loopback or value.is_multicast or value.is_link_local)


def _of_networks() -> Iterator[Overload]:
    yield from functions(
        ("cidr", [STRING], CIDR, _cidr),
        ("isCIDR", [STRING], BOOL, _tells(_cidr)),
        cost=costs.target,
    )
    yield from functions(("string", [CIDR], STRING, lambda cidr: f"{cidr.address}/{cidr.network.prefixlen}"))
    yield from methods(
        CIDR,
        ("containsIP", [IP], BOOL, lambda cidr, ip: ip.value in cidr.network),
        ("containsIP", [STRING], BOOL, lambda cidr, text: _ip(text).value in cidr.network),
        ("containsCIDR", [CIDR], BOOL, _contains),
        ("containsCIDR", [STRING], BOOL, lambda cidr, text: _contains(cidr, _cidr(text))),
        ("ip", [], IP, lambda cidr: Ip(cidr.address)),
        ("masked", [], CIDR, lambda cidr: Cidr(cidr.network.network_address, cidr.network)),
        ("prefixLength", [], INT, lambda cidr: cidr.network.prefixlen),
    )


def _cidr(text: str) -> Cidr:
    address, _, length = text.partition("/")
    try:
        if len(text) > _LONGEST or not length.isascii() or not length.isdigit() or str(int(length)) != length:
            raise ValueError
        return Cidr(_ip(address).value, ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise CelError(f'network address parse error during conversion from string: "{text[:_LONGEST]}"') from None


def _contains(outer: Cidr, inner: Cidr) -> bool:
    a, b = outer.network, inner.network
    if a.version != b.version:
        return False
    return b.prefixlen >= a.prefixlen and b.network_address in a


def _of_urls() -> Iterator[Overload]:
    yield from functions(
        ("url", [STRING], URL, read_url),
        ("isURL", [STRING], BOOL, _tells(read_url)),
        cost=costs.target,
    )
    yield from methods(
        URL,
        ("getScheme", [], STRING, lambda url: url.parts.scheme),
        ("getHost", [], STRING, lambda url: url.parts.netloc.rpartition("@")[2]),
        ("getHostname", [], STRING, _hostname),
        ("getPort", [], STRING, _port),
        ("getEscapedPath", [], STRING, lambda url: url.parts.path),
        ("getQuery", [], map_of(STRING, list_of(STRING)), lambda url: parse_qs(url.parts.query, True)),
    )


def read_url(text: str) -> Url:
    """An absolute URL, or an absolute path."""
    is_path = text.startswith("/")
    try:
        if len(text) > _LONGEST_URL or _BAD_URL.search(text) or not (is_path or _SCHEME.match(text)):
            raise ValueError
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise CelError(f'URL parse error during conversion from string: parse "{text[:_LONGEST]}"') from None
    return Url(text, parts)


def _hostname(url: Url) -> str:
    host = url.parts.netloc.rpartition("@")[2]
    return host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]


def _port(url: Url) -> str:
    host = url.parts.netloc.rpartition("@")[2].rpartition("]")[2]
    return host.partition(":")[2]
