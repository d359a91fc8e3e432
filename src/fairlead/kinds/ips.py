"""Addresses and networks in API fields: what is one, what is one but should be written otherwise.

Go's parsers accept a little more than Python's (leading zeros) and less (zones), and the texts say which of these is
wrong. Sources: k8s.io/apimachinery/pkg/util/validation/ip.go and `ValidateEndpointIP` (1.36, where
StrictIPCIDRValidation is on). Values that an object already had stay valid.
"""

from __future__ import annotations

import re
from collections.abc import Set
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_interface,
)
from typing import Final, TypeAlias

from fairlead.api.fields import Errors
from fairlead.caches import bounded_cache
from fairlead.golang.numbers import known_int
from fairlead.golang.quoting import go_quote

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

IPV4, IPV6 = "IPv4", "IPv6"

#: An IPv4 address as it should be written, as nearly all are: nothing is wrong with it.
_PLAIN: Final = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.(?!\Z)|\Z)){4}")
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9])0+(?=[0-9])")
#: A group of an IPv6 address has at most four digits.
_LONG_GROUPS: Final = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9a-fA-F]{4})")


@bounded_cache(maxsize=4096)
def parse_ip(text: str) -> Address | None:
    """`ParseIPSloppy`: an IPv4-mapped IPv6 address counts as IPv4."""
    if "%" in text or not text.isascii():
        return None
    try:
        address = ip_address(_without_leading_zeros(text))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def parse_network(text: str) -> tuple[Address, Network] | None:
    """`ParseCIDRSloppy`: the address that was written and the network it is in."""
    host, slash, length = text.partition("/")
    address = parse_ip(host)
    bits = known_int(length)
    if not slash or address is None or bits is None or not length.isdecimal():
        return None
    if ":" in host and isinstance(address, IPv4Address):
        if bits < 96:  # more than the addresses that stand for IPv4's
            address = IPv6Address(_without_leading_zeros(host))
        else:
            bits -= 96
    try:
        interface = ip_interface(f"{address}/{bits}")
    except ValueError:
        return None
    return address, interface.network


def family_of(text: str) -> str:
    return IPV6 if isinstance(parse_ip(text), IPv6Address) else IPV4


def validate_ip(text: str, path: str, errors: Errors, existing: Set[str] = frozenset()) -> None:
    if text not in existing and (fault := _fault_of_ip(text)):
        errors.invalid(path, text, fault)


def _fault_of_ip(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return ""
    if parse_ip(text) is None:
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    if _has_leading_zeros(text):
        return "must not have leading 0s"
    return "must not be an IPv4-mapped IPv6 address" if _is_mapped(text) else ""


def ip_address_name(name: str) -> list[str]:
    """The rule for names that are addresses: there is one spelling of each."""
    if fault := _fault_of_ip(name):
        return [fault]
    address = parse_ip(name)
    return [] if str(address) == name else [f'must be in canonical form ("{address}")']


def validate_cidr(text: str, path: str, errors: Errors, existing: Set[str] = frozenset()) -> None:
    if text in existing:
        return
    found = parse_network(text)
    host, _, length = text.partition("/")
    if found is None:
        errors.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
    elif _has_leading_zeros(host) or (len(length) > 1 and length[0] == "0"):
        errors.invalid(path, text, "must not have leading 0s in IP or prefix length")
    elif _is_mapped(host):
        errors.invalid(path, text, "must not have an IPv4-mapped IPv6 address")
    elif found[0] != found[1].network_address:
        errors.invalid(path, text, "must not have bits set beyond the prefix length")


def validate_canonical_cidr(text: str, path: str, errors: Errors) -> None:
    """For fields that are younger than the rules (`IsValidCIDR`): there is one spelling of each."""
    found = Errors()
    validate_cidr(text, path, found)
    errors.extend(found)
    parsed = parse_network(text)
    if not found and parsed is not None and str(parsed[1]) != text:
        errors.invalid(path, text, f'must be in canonical form ("{parsed[1]}")')


def validate_endpoint_ip(text: str, path: str, errors: Errors) -> None:
    """An address that traffic can be sent to."""
    address = parse_ip(text)
    if address is None:
        errors.invalid(path, text, "must be a valid IP address")
        return
    if address.is_unspecified:
        errors.invalid(path, text, f"may not be unspecified ({text})")
    if address.is_loopback:
        errors.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        errors.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if _is_link_local_multicast(address):
        errors.invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def ip_warnings(text: str, path: str) -> list[str]:
    """For fields that tolerate unusual forms."""
    if _PLAIN.fullmatch(text):
        return []
    address = parse_ip(text)
    if address is None:
        return []
    if _has_leading_zeros(text) or _is_mapped(text):
        return [f'{path}: non-standard IP address {go_quote(text)} is invalid: use "{address}"']
    if isinstance(address, IPv6Address) and str(address) != text:
        return [f'{path}: IPv6 address {go_quote(text)} should be in RFC 5952 canonical format ("{address}")']
    return []


def cidr_warnings(text: str, path: str) -> list[str]:
    found = parse_network(text)
    if found is None:
        return []
    address, network = found
    host, _, length = text.partition("/")
    warnings = []
    if address != network.network_address:
        warnings.append(
            f"{path}: CIDR value {go_quote(text)} is ambiguous in this context "
            f'(should be "{network}" or "{address}/{network.max_prefixlen}"?)'
        )
    if _has_leading_zeros(host) or _is_mapped(host) or (len(length) > 1 and length[0] == "0"):
        warnings.append(f'{path}: non-standard CIDR value {go_quote(text)} is invalid: use "{network}"')
    if not warnings and isinstance(network, IPv6Network) and str(network) != text:
        warnings.append(
            f'{path}: IPv6 CIDR value {go_quote(text)} should be in RFC 5952 canonical format ("{network}")'
        )
    return warnings


def _without_leading_zeros(text: str) -> str:
    head, colon, last = text.rpartition(":")
    last = (_LEADING_ZEROS if "." in last else _LONG_GROUPS).sub("", last)
    return f"{_LONG_GROUPS.sub('', head)}{colon}{last}"


def _has_leading_zeros(text: str) -> bool:
    return _without_leading_zeros(text) != text


def _is_mapped(text: str) -> bool:
    return ":" in text and isinstance(parse_ip(text), IPv4Address)


_MULTICAST_4: Final = IPv4Network("224.0.0.0/24")
_MULTICAST_6: Final = re.compile("ff.2:")


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in _MULTICAST_4
    return _MULTICAST_6.match(address.exploded) is not None
