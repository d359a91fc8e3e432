"""ServiceCIDRs and IPAddresses: from which networks Services have their addresses, and who has which.

Sources: pkg/apis/networking/validation, pkg/api/servicecidr (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network
from typing import Any

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.ips import Address, Network, parse_network, validate_canonical_cidr
from fairlead.kinds.others import ReportedStrategy
from fairlead.kinds.rules import IMMUTABLE, validate_unchanged
from fairlead.kinds.strategy import NOT_OF_STATUS, Strategy


def networks_of(cidrs: Iterable[str] | None) -> tuple[Network, ...]:
    """What a ServiceCIDR names."""
    found = (parse_network(cidr) for cidr in cidrs or ())
    return tuple(network for _, network in filter(None, found))


def gives(network: Network, address: Address) -> bool:
    """Whether Services may have this address of the network: all but its own, and its broadcast address."""
    if address not in network or address == network.network_address:
        return False
    return not (isinstance(network, IPv4Network) and address == network.broadcast_address)


class ServiceCIDRStrategy(ReportedStrategy):
    kept_by_status = NOT_OF_STATUS

    def validate(self, obj: Obj, errors: Errors) -> None:
        _validate_cidrs(_cidrs(obj), errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """A network stays; one of the other family may be added."""
        cidrs, before = _cidrs(obj), _cidrs(old)
        is_joined = len(before) == 1 and len(cidrs) == 2
        if len(before) != len(cidrs) and not is_joined:
            errors.invalid("spec.cidrs", cidrs, IMMUTABLE)
            return
        for index, (cidr, was) in enumerate(zip(cidrs, before, strict=False)):
            if cidr != was:
                errors.invalid(f"spec.cidrs[{index}]", cidr, IMMUTABLE)
        if is_joined:
            _validate_cidrs(cidrs, errors)


def _cidrs(obj: Obj) -> Sequence[str]:
    found: Sequence[str] = (obj.get("spec") or {}).get("cidrs") or []
    return found


def _validate_cidrs(cidrs: Sequence[str], errors: Errors) -> None:
    path = "spec.cidrs"
    if not cidrs:
        errors.required(path, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        errors.invalid(path, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    for index, cidr in enumerate(cidrs):
        validate_canonical_cidr(cidr, f"{path}[{index}]", errors)
    families = [network.version for network in networks_of(cidrs)]
    if len(families) > len(set(families)):
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.invalid(path, cidrs, text)


class IPAddressStrategy(Strategy):
    def validate(self, obj: Obj, errors: Errors) -> None:
        parent: dict[str, Any] | None = (obj.get("spec") or {}).get("parentRef")
        path = "spec.parentRef"
        if parent is None:
            errors.required(path)
            return
        for fault in names.dns1123_subdomain(group) if (group := parent.get("group")) else ():
            errors.invalid(f"{path}.group", group, fault)
        for field in ("resource", "name", "namespace"):
            value = parent.get(field) or ""
            if not value and field != "namespace":
                errors.required(f"{path}.{field}")
            for fault in names.path_segment_name(value) if value else ():
                errors.invalid(f"{path}.{field}", value, fault)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        parents = [(one.get("spec") or {}).get("parentRef") for one in (obj, old)]
        validate_unchanged(parents[0], parents[1], "spec.parentRef", errors)
